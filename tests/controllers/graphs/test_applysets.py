"""The inventory that an instance keeps of its objects."""

from __future__ import annotations

from typing import Any

import pytest

from sliceworks.controllers.graphs import applyset, names
from sliceworks.controllers.graphs.applyset import BrokenInventory, Inventory

Object = dict[str, Any]


def parent(inventory: Inventory | None = None) -> Object:
    obj: Object = {"apiVersion": "kro.run/v1alpha1", "kind": "TestKind", "metadata": {"name": "corner", "namespace": "shops"}}
    if inventory is not None:
        of = applyset.set_id(obj)
        obj["metadata"] |= {"labels": {names.SET_ID: of}, "annotations": inventory.annotations(of)}
    return obj


def test_id_is_of_name_namespace_kind_and_group() -> None:
    found = applyset.set_id(parent())
    assert found == "applyset-mOWEKEGre5jmdlI85TDZyunpLgiiW8M1oVv9ShIFAIY-v1"
    other = parent()
    other["metadata"]["namespace"] = "elsewhere"
    assert applyset.set_id(other) != found


def test_inventory_survives_its_annotations() -> None:
    inventory = Inventory(frozenset({"ConfigMap", "Deployment.apps"}), frozenset({"b", "a"}))
    obj = parent(inventory)
    assert obj["metadata"]["annotations"][names.GROUP_KINDS] == "ConfigMap,Deployment.apps"
    assert obj["metadata"]["annotations"][names.NAMESPACES] == "a,b"
    assert applyset.read(obj) == inventory
    assert applyset.read(parent(Inventory())) == Inventory()


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        (names.GROUP_KINDS, "ConfigMap,Secret", names.INVENTORY_HASH),
        (names.GROUP_KINDS, "ConfigMap,", names.GROUP_KINDS),
        (names.GROUP_KINDS, None, "missing required"),
        (names.NAMESPACES, "NOT_ONE", names.NAMESPACES),
        (names.TOOLING, "other/v1", "not owned by kro"),
    ],
)
def test_what_somebody_changed_is_not_trusted(name: str, value: str | None, said: str) -> None:
    obj = parent(Inventory(frozenset({"ConfigMap"}), frozenset({"other"})))
    if value is None:
        del obj["metadata"]["annotations"][name]
    else:
        obj["metadata"]["annotations"][name] = value
    with pytest.raises(BrokenInventory, match=said.replace(".", r"\.")):
        applyset.read(obj)


def test_parent_of_an_early_kro_has_no_hash() -> None:
    obj = parent(Inventory(frozenset({"ConfigMap"})))
    del obj["metadata"]["annotations"][names.INVENTORY_HASH]
    assert applyset.read(obj) == Inventory(frozenset({"ConfigMap"}))
