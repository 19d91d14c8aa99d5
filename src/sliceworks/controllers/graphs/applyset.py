"""ApplySets (KEP-3659): id and inventory of a parent, and the finalizer, labels and annotations written on an instance."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sliceworks.base import names as grammar
from sliceworks.base.errors import SliceworksError
from sliceworks.controllers.graphs import well_known
from sliceworks.graph.evaluation import Evaluation
from sliceworks.graph.model import EvaluationFailed, Excluded
from sliceworks.kube.resources import gvk_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sliceworks.controllers.graphs.completion import CompletedObjects
    from sliceworks.controllers.graphs.dynamic_controller import ServedGraph
    from sliceworks.controllers.graphs.object_cache import ObjectCache
    from sliceworks.graph.model import Graph, Node
    from sliceworks.kube.client import Client
    from sliceworks.kube.resources import Object


TOOLING = f"kro/{well_known.COMPATIBLE_WITH}"

_ANNOTATIONS = (well_known.TOOLING, well_known.GROUP_KINDS, well_known.NAMESPACES)


class InvalidInventory(SliceworksError):
    """The inventory on the parent is not trustworthy, so nothing may be deleted."""


def compute_id(parent: Mapping[str, Any]) -> str:
    """The id of an object's ApplySet."""
    metadata, gvk = parent["metadata"], gvk_of(parent)
    text = ".".join((metadata["name"], metadata.get("namespace", ""), gvk.kind, gvk.group))
    return f"applyset-{_digest(text)}-v1"


@dataclass(frozen=True, slots=True)
class Inventory:
    """The kinds (`Deployment.apps`) of an instance's objects, and their namespaces other than the instance's."""

    group_kinds: frozenset[str] = frozenset()
    namespaces: frozenset[str] = frozenset()

    def __or__(self, other: Inventory) -> Inventory:
        return Inventory(self.group_kinds | other.group_kinds, self.namespaces | other.namespaces)

    def covers(self, other: Inventory) -> bool:
        """Whether the other inventory is a subset."""
        return self.group_kinds >= other.group_kinds and self.namespaces >= other.namespaces

    def annotations(self, set_id: str) -> dict[str, str]:
        """The annotations on the parent with this ApplySet id."""
        kinds, namespaces = ",".join(sorted(self.group_kinds)), ",".join(sorted(self.namespaces))
        digest = f"sha256:{_digest(chr(0).join((set_id, kinds, namespaces)))}"
        return {
            well_known.TOOLING: TOOLING,
            well_known.GROUP_KINDS: kinds,
            well_known.NAMESPACES: namespaces,
            well_known.INVENTORY_HASH: digest,
        }


def group_kind(group: str, kind: str) -> str:
    """An inventory entry for a kind."""
    return f"{kind}.{group}" if group else kind


def split_group_kind(text: str) -> tuple[str, str]:
    """Group and kind of an inventory entry."""
    kind, _, group = text.partition(".")
    return group, kind


def is_parent(obj: Mapping[str, Any]) -> bool:
    """Whether an object has any label or annotation of an ApplySet parent."""
    metadata = obj["metadata"]
    annotations = metadata.get("annotations") or {}
    return well_known.SET_ID in (metadata.get("labels") or {}) or any(
        name in annotations for name in (*_ANNOTATIONS, well_known.INVENTORY_HASH)
    )


def read_inventory(obj: Mapping[str, Any]) -> Inventory:
    """The inventory on a parent. Raises InvalidInventory if it was modified."""
    metadata = obj["metadata"]
    annotations: dict[str, str] = metadata.get("annotations") or {}
    expected, actual_id = compute_id(obj), (metadata.get("labels") or {}).get(well_known.SET_ID, "")
    if actual_id != expected:
        raise InvalidInventory(f'invalid {well_known.SET_ID} label: got "{actual_id}", want "{expected}"')
    if not annotations.get(well_known.TOOLING, "").startswith("kro/"):
        raise InvalidInventory(
            f'invalid {well_known.TOOLING} annotation: "{annotations.get(well_known.TOOLING, "")}" is not owned by kro'
        )
    for name in (well_known.GROUP_KINDS, well_known.NAMESPACES):
        if name not in annotations:
            raise InvalidInventory(f"missing required {name} annotation")
    inventory = _parse(annotations)
    expected_hash = inventory.annotations(expected)[well_known.INVENTORY_HASH]
    # Early kro versions do not write a hash.
    if (actual := annotations.get(well_known.INVENTORY_HASH)) is not None and actual != expected_hash:
        raise InvalidInventory(f'invalid {well_known.INVENTORY_HASH} annotation: got "{actual}", want "{expected_hash}"')
    return inventory


def _parse(annotations: Mapping[str, str]) -> Inventory:
    kinds = _entries(annotations[well_known.GROUP_KINDS])
    for entry in kinds:
        group, kind = split_group_kind(entry)
        if not kind or any(character.isspace() for character in kind) or (group and grammar.dns1123_subdomain_errors(group)):
            raise InvalidInventory(f'invalid {well_known.GROUP_KINDS} annotation: invalid kind "{entry}"')
    namespaces = _entries(annotations[well_known.NAMESPACES])
    for entry in namespaces:
        if grammar.dns1123_label_errors(entry):
            raise InvalidInventory(f'invalid {well_known.NAMESPACES} annotation: invalid namespace "{entry}"')
    return Inventory(frozenset(kinds), frozenset(namespaces))


def _entries(text: str) -> Iterable[str]:
    return [entry.strip() for entry in text.split(",")] if text else []


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")


class ApplySetParent:
    """The ApplySet parent: an instance with its finalizer, labels and inventory."""

    def __init__(self, client: Client, cache: ObjectCache, served: ServedGraph, graph: Graph, instance: Object) -> None:
        self.instance = instance
        self.set_id = compute_id(instance)
        self.inventory = Inventory()
        self._client, self._cache, self._served, self._graph = client, cache, served, graph
        self._completed: dict[str, str] = {}

    async def ensure(self) -> Object:
        """Write the finalizer, labels and inventory if any of them is missing; returns the updated instance."""
        metadata = self.instance["metadata"]
        annotations = metadata.get("annotations") or {}
        if well_known.COMPLETED in annotations:
            self._completed = {well_known.COMPLETED: annotations[well_known.COMPLETED]}
        has_finalizer = well_known.FINALIZER in (metadata.get("finalizers") or ())
        try:
            self.inventory = read_inventory(self.instance)
        except InvalidInventory:
            if not has_finalizer and is_parent(self.instance):
                raise
            self.inventory = Inventory(frozenset(self._expected_kinds()))
        labels = self._labels()
        is_managed = (
            has_finalizer and labels.items() <= (metadata.get("labels") or {}).items() and well_known.INVENTORY_HASH in annotations
        )
        if not is_managed:
            finalizers = {"finalizers": [well_known.FINALIZER]}
            await self._apply(well_known.LABELER, {"labels": labels, "annotations": self._annotations(), **finalizers})
        return self.instance

    async def extend_inventory(self, required: Inventory) -> None:
        """Add kinds and namespaces, before objects are created there."""
        if not self.inventory.covers(required):
            self.inventory |= required
            await self._write()

    async def set_inventory(self, inventory: Inventory, completed: CompletedObjects) -> None:
        """Replace the inventory and record completed objects."""
        if inventory != self.inventory or completed.changed:
            self.inventory = inventory
            self._completed = completed.annotations()
            completed.changed = False
            await self._write()

    async def _write(self) -> None:
        await self._apply(well_known.PARENT, {"labels": {well_known.SET_ID: self.set_id}, "annotations": self._annotations()})

    async def _apply(self, manager: str, metadata_patch: Object) -> None:
        metadata = self.instance["metadata"]
        identity = {name: metadata[name] for name in ("name", "namespace", "uid") if metadata.get(name)}
        patch = {
            "apiVersion": self.instance["apiVersion"],
            "kind": self.instance["kind"],
            "metadata": {**identity, **metadata_patch},
        }
        resource = self._served.resource
        response = await self._client.apply(patch, resource=resource, field_manager=manager, force=True)
        self.instance = self._cache.record_write(response).object

    def _annotations(self) -> dict[str, str]:
        return {**self.inventory.annotations(self.set_id), **self._completed}

    def _labels(self) -> dict[str, str]:
        return {**self._served.labels, well_known.SET_ID: self.set_id}

    def _expected_kinds(self) -> set[str]:
        """The kinds of the instance's resources that are not excluded."""
        evaluation = Evaluation(self._graph, self.instance)
        nodes = (node for node in self._graph.nodes if not node.type.is_external and not _is_excluded(evaluation, node))
        return {group_kind(node.kind.group, node.kind.kind) for node in nodes}


def _is_excluded(evaluation: Evaluation, node: Node) -> bool:
    try:
        return isinstance(evaluation.resolve(node), Excluded)
    except EvaluationFailed:
        return False
