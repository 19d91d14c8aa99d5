"""Reconciles the resources of one instance level by level: resolve, apply, observe.

Resources of one level do not depend on each other, so they are resolved and applied concurrently. The next level uses the
responses of the applies, so a graph of any depth takes one reconcile if its objects are ready immediately.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from sliceworks.base.errors import Conflict, SliceworksError
from sliceworks.controllers.graphs import applier, well_known
from sliceworks.controllers.graphs.applier import ResourceTerminating
from sliceworks.controllers.graphs.applyset import Inventory, group_kind
from sliceworks.controllers.graphs.completion import is_complete, remove_completion_finalizer, without_completion_finalizer
from sliceworks.controllers.graphs.instance_status import READY, SKIPPED, NodePhase, NodeState, NodeStates
from sliceworks.controllers.graphs.readiness_causes import condition_cause
from sliceworks.graph.model import DataPending, Desired, EvaluationFailed, Excluded, Lookup, NodeType
from sliceworks.kube.selectors import from_label_selector

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from sliceworks.controllers.graphs.applier import Applier
    from sliceworks.controllers.graphs.completion import CompletedObjects
    from sliceworks.controllers.graphs.object_cache import CachedObject, ObjectCache
    from sliceworks.controllers.graphs.readiness_causes import ReadinessCauses
    from sliceworks.graph.evaluation import Evaluation
    from sliceworks.graph.model import Node
    from sliceworks.kube.client import Client
    from sliceworks.kube.resources import Object, Resource


class ResourceReconciler:
    """One reconcile of the resources of an instance. `run` sets the states, the inventory, and the uids of the objects to keep."""

    def __init__(
        self,
        instance: Object,
        evaluation: Evaluation,
        *,
        caches: dict[str, ObjectCache],
        applier: Applier,
        completed: CompletedObjects,
        extend_inventory: Callable[[Inventory], Awaitable[None]],
        causes: ReadinessCauses,
        max_concurrent: int,
    ) -> None:
        self.polls = False
        """Whether the causes of objects that are not ready must be read again."""
        self.states = NodeStates()
        self.kept: set[str] = set()
        self.inventory = Inventory()
        self.external_references: dict[str, tuple[Resource, Lookup]] = {}
        self._applied: list[tuple[ObjectCache, CachedObject]] = []
        self._external: list[tuple[ObjectCache, Lookup, list[CachedObject]]] = []
        self._finalized: list[tuple[ObjectCache, CachedObject]] = []
        self._namespace: str = instance["metadata"].get("namespace", "")
        self._labels = well_known.child_labels(instance, applier.set_id)
        self._evaluation, self._caches, self._applier = evaluation, caches, applier
        self._completed, self._extend_inventory, self._causes = completed, extend_inventory, causes
        self._semaphore = asyncio.Semaphore(max_concurrent)

    async def run(self, nodes: Sequence[Node]) -> None:
        """Reconcile all levels."""
        for level in group_by_level(nodes):
            resolved = [(node, objects) for node in level if (objects := self._resolve(node)) is not None]
            if not resolved:
                continue
            await self._extend_inventory(self._add_to_inventory(resolved))
            await asyncio.gather(*(self._apply_all(node, objects) for node, objects in resolved))

    async def remove_completion_finalizers(self, client: Client) -> None:
        """Remove the completion finalizers of completed and deleted objects, after their completion was recorded."""
        for cache, record in self._finalized:
            with suppress(Conflict):  # another client changed the object, which requeues the instance
                await remove_completion_finalizer(client, cache, record)

    @property
    def is_current(self) -> bool:
        """Whether the caches still have the objects that this reconcile saw. One that was being deleted may be gone by now."""
        if self.states.first(NodePhase.TERMINATING):
            return False
        is_unchanged = all(
            (now := cache.get(record.name, record.namespace)) is not None and now.version == record.version
            for cache, record in self._applied
        )
        return is_unchanged and all(
            [(now.uid, now.version) for now in read_external(cache, lookup)] == [(before.uid, before.version) for before in seen]
            for cache, lookup, seen in self._external
        )

    def _resolve(self, node: Node) -> list[Object] | None:
        """The objects of a node to apply, or None if there is nothing to apply now."""
        try:
            outcome = self._evaluation.resolve(node)
        except EvaluationFailed as error:
            self.states.nodes[node.id] = NodeState(NodePhase.FAILED, _with_hint(error), permanent=True)
            return None
        match outcome:
            case DataPending():
                self.states.nodes[node.id] = NodeState(NodePhase.UNRESOLVED, f'node "{node.id}": {outcome.reason}')
            case Excluded():
                self.states.nodes[node.id] = SKIPPED
            case Lookup():
                self._read_external(node, outcome)
            case Desired():
                size = len(outcome.objects)
                is_collection = node.type is NodeType.COLLECTION
                return [
                    well_known.label_object(obj, node, self._labels, (index, size) if is_collection else None)
                    for index, obj in enumerate(outcome.objects)
                ]
        return None

    def _add_to_inventory(self, resolved: list[tuple[Node, list[Object]]]) -> Inventory:
        """Add kinds and namespaces to the inventory, which is written before objects are created: a crash leaves no orphans."""
        kinds = frozenset(group_kind(node.kind.group, node.kind.kind) for node, objects in resolved if objects)
        namespaces = {obj["metadata"].get("namespace", "") for node, objects in resolved if node.kind.namespaced for obj in objects}
        self.inventory |= Inventory(kinds, frozenset(namespaces - {self._namespace, ""}))
        return self.inventory

    async def _apply_all(self, node: Node, objects: list[Object]) -> None:
        results = await asyncio.gather(*(self._apply(node, obj) for obj in objects), return_exceptions=True)
        failures = [result for result in results if isinstance(result, BaseException)]
        applied = [result for result in results if not isinstance(result, BaseException)]
        if not failures:
            self._observe(node, applied)
            await self._add_cause(node, applied)
            return
        state = self.states.nodes[node.id] = _failure_state(node, failures)
        if state.phase is NodePhase.FAILED:
            # An object that could not be updated still exists; status and dependents use its current state.
            failed = [obj for obj, result in zip(objects, results, strict=True) if isinstance(result, BaseException)]
            existing = [record.object for obj in failed if (record := self._existing(node, obj)) is not None]
            self._evaluation.observe(node.id, applied + existing)

    async def _add_cause(self, node: Node, objects: list[Object]) -> None:
        """Add to the state of a node that is not ready why its objects are not."""
        state = self.states.nodes[node.id]
        if state.phase is not NodePhase.NOT_READY:
            return
        self.polls = self.polls or self._causes.polls(node)
        if cause := await self._causes.find(node, objects):
            self.states.nodes[node.id] = replace(state, message=f"{state.message}: {cause}")

    def _existing(self, node: Node, desired: Object) -> CachedObject | None:
        """The existing object, if it belongs to this instance."""
        record = self._caches[node.id].get(desired["metadata"]["name"], desired["metadata"].get("namespace", ""))
        is_ours = record is not None and not record.deleting and applier.is_member(record, self._applier.set_id)
        return record if is_ours else None

    async def _apply(self, node: Node, desired: Object) -> Object:
        """Apply an object; returns it as stored, or as it was when it completed."""
        cache = self._caches[node.id]
        live = cache.get(desired["metadata"]["name"], desired["metadata"].get("namespace", ""))
        if live is not None and live.deleting and applier.is_member(live, self._applier.set_id):
            self._finalized.append((cache, live))
            self.kept.add(live.uid)  # its completion is recorded before it is pruned
        keep = node.lifecycle.on_complete == "keep"
        if keep and (completed := self._find_completed(desired, live)) is not None:
            desired = without_completion_finalizer(desired)
            if live is None or live.deleting:
                return completed
        async with self._semaphore:
            record = await self._applier.apply(cache, node, desired)
        self.kept.add(record.uid)
        self._applied.append((cache, record))
        obj = record.object
        if keep and is_complete(obj):
            self._completed.add(desired, obj)
            self._finalized.append((cache, record))
        return obj

    def _find_completed(self, desired: Object, live: CachedObject | None) -> Object | None:
        """The object as it was when it completed, if it did."""
        if live is not None and live.deleting and applier.matches_desired(live, desired) and is_complete(obj := live.object):
            self._completed.add(desired, obj)
        return self._completed.find(desired)

    def _read_external(self, node: Node, lookup: Lookup) -> None:
        cache = self._caches[node.id]
        self.external_references[node.id] = (cache.resource, lookup)
        records = read_external(cache, lookup)
        self._external.append((cache, lookup, records))
        if lookup.selector is None and not records:
            self.states.nodes[node.id] = NodeState(NodePhase.NOT_READY, f'waiting for external reference "{node.id}": not found')
            return
        self._observe(node, objects := [record.object for record in records])
        state = self.states.nodes[node.id]
        if state.phase is NodePhase.NOT_READY and (cause := next(filter(None, map(condition_cause, objects)), "")):
            self.states.nodes[node.id] = replace(state, message=f"{state.message}: {cause}")

    def _observe(self, node: Node, objects: list[Object]) -> None:
        self._evaluation.observe(node.id, objects)
        try:
            pending = self._evaluation.readiness(node)
        except EvaluationFailed as error:
            self.states.nodes[node.id] = NodeState(NodePhase.FAILED, _with_hint(error), permanent=True)
            return
        if pending is None:
            self.states.nodes[node.id] = READY
        else:
            self.states.nodes[node.id] = NodeState(NodePhase.NOT_READY, f'waiting for node "{node.id}": {pending.reason}')


def read_external(cache: ObjectCache, lookup: Lookup) -> list[CachedObject]:
    """The objects of an external reference, sorted by namespace and name."""
    if lookup.selector is None:
        record = cache.get(lookup.name, lookup.namespace)
        return [] if record is None else [record]
    selector = from_label_selector(lookup.selector)
    records = [record for record in cache.all(lookup.namespace) if selector.matches(record.labels)]
    return sorted(records, key=lambda record: (record.namespace, record.name))


def _failure_state(node: Node, failures: list[BaseException]) -> NodeState:
    """The state of a node with failed applies. Unexpected exceptions are raised."""
    for failure in failures:
        if not isinstance(failure, SliceworksError):
            raise failure
    for failure in failures:
        if not isinstance(failure, ResourceTerminating):
            return NodeState(NodePhase.FAILED, f'node "{node.id}": {_with_hint(failure)}')
    return NodeState(NodePhase.TERMINATING, str(failures[0]))


def group_by_level(nodes: Sequence[Node]) -> list[list[Node]]:
    """The nodes by level: each directly after the last of its dependencies."""
    depths: dict[str, int] = {}
    levels: list[list[Node]] = []
    for node in nodes:  # dependencies come first
        depth = depths[node.id] = max((depths[name] + 1 for name in node.dependencies), default=0)
        if depth == len(levels):
            levels.append([])
        levels[depth].append(node)
    return levels


def _with_hint(error: BaseException | None) -> str:
    hint = getattr(error, "hint", "")
    return f"{error}; {hint}" if hint else str(error)
