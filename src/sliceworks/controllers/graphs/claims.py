"""The mark we leave on an instance: finalizer, labels, and the inventory of its objects, always written before they are made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.controllers.graphs import applyset, names
from sliceworks.controllers.graphs.applyset import BrokenInventory, Inventory, group_kind
from sliceworks.graph.errors import EvaluationFailed
from sliceworks.graph.evaluate import Evaluation
from sliceworks.graph.model import Excluded

if TYPE_CHECKING:
    from sliceworks.controllers.graphs.completed import Completed
    from sliceworks.controllers.graphs.served import Served
    from sliceworks.controllers.graphs.views import View
    from sliceworks.graph.model import Graph, Node
    from sliceworks.kube.client import Client
    from sliceworks.kube.resources import Object


class Claim:
    """One instance and what we have written on it."""

    def __init__(self, client: Client, view: View, served: Served, graph: Graph, instance: Object) -> None:
        self.instance = instance
        self.set_id = applyset.set_id(instance)
        self.inventory = Inventory()
        self._client, self._view, self._served, self._graph = client, view, served, graph
        self._kept: dict[str, str] = {}

    async def ensure(self) -> Object:
        """Put the mark in place if anything of it is missing; returns the instance as it is then."""
        metadata = self.instance["metadata"]
        annotations = metadata.get("annotations") or {}
        if names.COMPLETED in annotations:
            self._kept = {names.COMPLETED: annotations[names.COMPLETED]}
        held = names.FINALIZER in (metadata.get("finalizers") or ())
        try:
            self.inventory = applyset.read(self.instance)
        except BrokenInventory:
            if not held and applyset.is_parent(self.instance):
                raise
            self.inventory = Inventory(frozenset(self._expected()))
        wanted = self._labels()
        marked = held and wanted.items() <= (metadata.get("labels") or {}).items() and names.INVENTORY_HASH in annotations
        if not marked:
            finalizers = {"finalizers": [names.FINALIZER]}
            await self._apply(names.LABELLER, {"labels": wanted, "annotations": self._annotations(), **finalizers})
        return self.instance

    async def declare(self, needed: Inventory) -> None:
        """Objects of these kinds, in these namespaces, are about to be made."""
        if not self.inventory.covers(needed):
            self.inventory |= needed
            await self._write()

    async def settle(self, inventory: Inventory, completed: Completed) -> None:
        """This is what there is."""
        if inventory != self.inventory or completed.changed:
            self.inventory = inventory
            self._kept = completed.annotations()
            completed.changed = False
            await self._write()

    async def _write(self) -> None:
        await self._apply(names.PARENT, {"labels": {names.SET_ID: self.set_id}, "annotations": self._annotations()})

    async def _apply(self, manager: str, marks: Object) -> None:
        metadata = self.instance["metadata"]
        place = {name: metadata[name] for name in ("name", "namespace", "uid") if metadata.get(name)}
        patch = {"apiVersion": self.instance["apiVersion"], "kind": self.instance["kind"], "metadata": {**place, **marks}}
        resource = self._served.resource
        answer = await self._client.apply(patch, resource=resource, field_manager=manager, force=True)
        self.instance = self._view.wrote(answer).object

    def _annotations(self) -> dict[str, str]:
        return {**self.inventory.annotations(self.set_id), **self._kept}

    def _labels(self) -> dict[str, str]:
        return {**self._served.labels, names.SET_ID: self.set_id}

    def _expected(self) -> set[str]:
        """The kinds that the instance will have objects of, as far as that can be told now."""
        evaluation = Evaluation(self._graph, self.instance)
        wanted = (node for node in self._graph.nodes if not node.role.is_external and not _left_out(evaluation, node))
        return {group_kind(node.kind.group, node.kind.kind) for node in wanted}


def _left_out(evaluation: Evaluation, node: Node) -> bool:
    try:
        return isinstance(evaluation.resolve(node), Excluded)
    except EvaluationFailed:
        return False
