"""ApplySet inventories of instances."""

from __future__ import annotations

from typing import Any

import pytest

from sliceworks.controllers.graphs import applyset, well_known
from sliceworks.controllers.graphs.applyset import InvalidInventory, Inventory

Object = dict[str, Any]


def parent(inventory: Inventory | None = None) -> Object:
    obj: Object = {"apiVersion": "kro.run/v1alpha1", "kind": "TestKind", "metadata": {"name": "corner", "namespace": "shops"}}
    if inventory is not None:
        of = applyset.compute_id(obj)
        obj["metadata"] |= {"labels": {well_known.SET_ID: of}, "annotations": inventory.annotations(of)}
    return obj


def test_id_depends_on_name_namespace_kind_and_group() -> None:
    result = applyset.compute_id(parent())
    assert result == "applyset-mOWEKEGre5jmdlI85TDZyunpLgiiW8M1oVv9ShIFAIY-v1"
    other = parent()
    other["metadata"]["namespace"] = "elsewhere"
    assert applyset.compute_id(other) != result


def test_inventory_round_trip() -> None:
    inventory = Inventory(frozenset({"ConfigMap", "Deployment.apps"}), frozenset({"b", "a"}))
    obj = parent(inventory)
    assert obj["metadata"]["annotations"][well_known.GROUP_KINDS] == "ConfigMap,Deployment.apps"
    assert obj["metadata"]["annotations"][well_known.NAMESPACES] == "a,b"
    assert applyset.read_inventory(obj) == inventory
    assert applyset.read_inventory(parent(Inventory())) == Inventory()


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        (well_known.GROUP_KINDS, "ConfigMap,Secret", well_known.INVENTORY_HASH),
        (well_known.GROUP_KINDS, "ConfigMap,", well_known.GROUP_KINDS),
        (well_known.GROUP_KINDS, None, "missing required"),
        (well_known.NAMESPACES, "NOT_ONE", well_known.NAMESPACES),
        (well_known.TOOLING, "other/v1", "not owned by kro"),
    ],
)
def test_tampered_inventory_is_rejected(name: str, value: str | None, expected: str) -> None:
    obj = parent(Inventory(frozenset({"ConfigMap"}), frozenset({"other"})))
    if value is None:
        del obj["metadata"]["annotations"][name]
    else:
        obj["metadata"]["annotations"][name] = value
    with pytest.raises(InvalidInventory, match=expected.replace(".", r"\.")):
        applyset.read_inventory(obj)


def test_parent_of_early_kro_has_no_hash() -> None:
    obj = parent(Inventory(frozenset({"ConfigMap"})))
    del obj["metadata"]["annotations"][well_known.INVENTORY_HASH]
    assert applyset.read_inventory(obj) == Inventory(frozenset({"ConfigMap"}))
