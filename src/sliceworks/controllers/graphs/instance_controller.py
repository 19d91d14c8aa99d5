"""Reconciles instances; the numbered steps of one reconcile.

1. Read it from the cache; forget a deleted instance.
2. Stop if nothing has changed since the last reconcile.
3. Continue a deletion, in reverse apply order.
4. Mark it as managed: finalizer, labels and the inventory of expected kinds, in one write.
5. Stop if reconciliation is suspended.
6. Reconcile the resources: resolve and apply, level by level.
7. Prune orphans, once all desired objects are known.
8. Shrink the inventory to the existing objects, and record completed ones.
9. Write the status, if it changed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sliceworks.base import clock
from sliceworks.base.errors import SliceworksError
from sliceworks.controllers.graphs import applyset, instance_status, object_deletion, readiness_causes, well_known
from sliceworks.controllers.graphs.applier import Applier, LastAppliedByKey
from sliceworks.controllers.graphs.applyset import ApplySetParent
from sliceworks.controllers.graphs.completion import CompletedObjects
from sliceworks.controllers.graphs.instance_status import NodePhase, NodeState
from sliceworks.controllers.graphs.object_cache import Owner
from sliceworks.controllers.graphs.object_deletion import InstanceDeletion
from sliceworks.controllers.graphs.readiness_causes import ReadinessCauses
from sliceworks.controllers.graphs.resource_reconciler import ResourceReconciler, read_external
from sliceworks.graph.evaluation import Evaluation
from sliceworks.kube.controller import Done, Failed, Pending

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.controllers.graphs.conditions import ConditionSet
    from sliceworks.controllers.graphs.context import Context
    from sliceworks.controllers.graphs.dynamic_controller import ServedGraph
    from sliceworks.controllers.graphs.object_cache import CachedObject, ObjectCache
    from sliceworks.controllers.graphs.options import Options
    from sliceworks.graph.model import Graph
    from sliceworks.kube.controller import Outcome
    from sliceworks.kube.resources import Key, Object

_LARGE_INSTANCE, _DELETION_POLL = 100, 10.0
_SUSPENDED = frozenset({"suspended", "disabled"})


class ReconcileError(SliceworksError):
    """A temporary failure, which the status reports; the instance is retried."""


def _never(_: CachedObject) -> bool:
    return False


@dataclass(slots=True)
class _InstanceState:
    """What is remembered of an instance between reconciles, to skip work. It is safe to lose."""

    last_applied: LastAppliedByKey = field(default_factory=dict)
    fingerprint: tuple[object, ...] = ()
    duration: float = 0.0
    finished: float = 0.0
    is_current: Callable[[CachedObject], bool] = _never
    """Whether the instance and its objects are still as the last reconcile saw them."""

    def wait(self) -> float:
        """Seconds to wait: a large instance, whose objects change one by one, is reconciled at most half of the time."""
        return self.duration - (clock.loop_time() - self.finished) if len(self.last_applied) > _LARGE_INSTANCE else 0.0


class InstanceReconciler:
    """Reconciles the instances of one kind with the current graph."""

    def __init__(self, context: Context, served: ServedGraph, cache: ObjectCache) -> None:
        self.served = served
        self._context, self._cache = context, cache
        self._options: Options = context.options
        self._states: dict[Key, _InstanceState] = {}
        self._causes = ReadinessCauses(context.client)

    async def reconcile(self, key: Key) -> Outcome:
        """Reconcile one instance."""
        # 1. Read it from the cache.
        record = self._cache.get(key.name, key.namespace)
        if record is None:
            self._forget(key)
            return Done()
        # 2. Stop if nothing has changed.
        state = self._states.setdefault(key, _InstanceState())
        if state.fingerprint and state.fingerprint == self._fingerprint(key, record):
            return Done()
        if (wait := state.wait()) > 0:
            return Pending("reconciled recently", wait)
        state.fingerprint = ()
        instance, started = record.object, clock.loop_time()
        # 3. Deletion uses the inventory and does not need a graph.
        if record.deleting:
            return await self._delete(key, instance)
        outcome = await self._reconcile_graph(key, state, instance)
        state.finished = clock.loop_time()
        state.duration = state.finished - started
        fresh = self._cache.get(key.name, key.namespace)
        # Changes during this reconcile have already requeued the key, and must not be skipped then.
        if fresh is not None and not isinstance(outcome, Pending) and state.is_current(fresh):
            state.fingerprint = self._fingerprint(key, fresh)
        state.is_current = _never  # it keeps the whole reconcile in memory
        return outcome

    def invalidate(self, key: Key) -> None:
        """Discard the remembered state, so that the next reconcile skips nothing."""
        if (state := self._states.get(key)) is not None:
            state.fingerprint = ()
            state.last_applied.clear()

    async def _reconcile_graph(self, key: Key, state: _InstanceState, instance: Object) -> Outcome:
        graph = self.served.graph
        conditions = instance_status.conditions_of(instance)
        if graph is None:
            conditions.false(instance_status.RESOLVED, "ResolutionFailed", "latest issued graph revision not available")
            await self._write_status(instance, conditions, instance_status.ERROR, _projected(instance))
            return Done()
        # 4. Mark it as managed before any object is created.
        parent = ApplySetParent(self._context.client, self._cache, self.served, graph, instance)
        instance = await self._ensure_managed(parent, conditions)
        # 5. Stop if suspended.
        annotations = instance["metadata"].get("annotations") or {}
        if annotations.get(well_known.RECONCILE, "").lower() in _SUSPENDED:
            instance_status.mark_suspended(conditions)
            await self._write_status(instance, conditions, instance_status.ACTIVE, _projected(instance))
            return Done()
        # 6. Reconcile the resources.
        evaluation = Evaluation(graph, instance, max_collection_size=self._options.max_collection_size)
        completed = CompletedObjects(instance)
        resources = self._resource_reconciler(parent, evaluation, completed, state.last_applied)
        state.is_current = lambda fresh: resources.is_current and _same_desired_state(fresh.object, parent.instance)
        await resources.run(graph.nodes)
        self._context.external_references.set(self._owner(key), resources.external_references)
        # 7. Prune orphans.
        complete = resources.states.is_resolved and await self._prune(parent, resources, graph)
        # 8. Shrink the inventory, and record completed objects.
        await parent.set_inventory(resources.inventory if complete else parent.inventory, completed)
        await resources.remove_completion_finalizers(self._context.client)
        # 9. Write the status.
        instance_status.mark_resources(conditions, resources.states)
        return await self._report(parent.instance, conditions, resources, evaluation)

    async def _ensure_managed(self, parent: ApplySetParent, conditions: ConditionSet) -> Object:
        try:
            instance = await parent.ensure()
        except SliceworksError as error:
            conditions.false(instance_status.MANAGED, "ManagementFailed", f"finalizer/labeling failed: {error}")
            await self._write_status(parent.instance, conditions, instance_status.ERROR, _projected(parent.instance))
            raise ReconcileError(str(error)) from error
        instance_status.mark_managed(conditions)
        instance_status.mark_resolved(conditions)
        return instance

    def _resource_reconciler(
        self, parent: ApplySetParent, evaluation: Evaluation, completed: CompletedObjects, last_applied: LastAppliedByKey
    ) -> ResourceReconciler:
        adopt = (parent.instance["metadata"].get("annotations") or {}).get(well_known.ADOPT) == "true"
        return ResourceReconciler(
            parent.instance,
            evaluation,
            caches=self.served.caches,
            applier=Applier(self._context.client, parent.set_id, adopt, last_applied),
            completed=completed,
            extend_inventory=parent.extend_inventory,
            causes=self._causes,
            max_concurrent=self._options.max_concurrent_applies,
        )

    async def _prune(self, parent: ApplySetParent, resources: ResourceReconciler, graph: Graph) -> bool:
        try:
            return await object_deletion.prune(self._context, parent.set_id, parent.inventory, resources.kept, graph)
        except SliceworksError as error:
            resources.states.nodes[""] = NodeState(NodePhase.FAILED, f"prune failed: {error}")
            return False

    async def _report(
        self, instance: Object, conditions: ConditionSet, resources: ResourceReconciler, evaluation: Evaluation
    ) -> Outcome:
        projection = evaluation.status()
        for failure in projection.failures:
            self._context.warn(instance, "StatusFailed", str(failure))
        await self._write_status(instance, conditions, resources.states.state, projection.values, evaluation)
        failed = resources.states.first(NodePhase.FAILED)
        if failed is None:
            return Pending("waiting for pods", readiness_causes.POLL) if resources.polls else Done()
        if resources.states.permanent:
            return Failed(failed.message)
        raise ReconcileError(failed.message)

    async def _write_status(
        self, instance: Object, conditions: ConditionSet, state: str, projected: Object, evaluation: Evaluation | None = None
    ) -> None:
        status = instance_status.build_status(conditions, state, projected)
        graph = self.served.graph
        if graph is not None and graph.conditions and evaluation is not None:
            authored = evaluation.conditions(conditions.items)
            status["conditions"] = instance_status.merge_conditions(instance, authored)
            if authored.failures:
                status["state"] = instance_status.ERROR
        before = instance.get("status") or {}
        if status == before:
            return
        response = await self._context.client.replace(
            {**instance, "status": status},
            resource=self.served.resource,
            subresource="status",
        )
        self._cache.record_write(response)
        self._context.report_status(instance, before, status)

    async def _delete(self, key: Key, instance: Object) -> Outcome:
        if well_known.FINALIZER not in (instance["metadata"].get("finalizers") or ()):
            return Done()
        conditions = instance_status.conditions_of(instance)
        deletion = InstanceDeletion(self._context, self.served.resource, instance)
        try:
            deleted = await deletion.step()
        except SliceworksError as error:
            cause = "validate deletion inventory: " if isinstance(error, applyset.InvalidInventory) else ""
            instance_status.mark_deleting(conditions, f"deletion blocked: {cause}{error}")
            await self._write_status(instance, conditions, instance_status.DELETING, _projected(instance))
            raise ReconcileError(str(error)) from error
        if deleted:
            self._forget(key)
            return Done()
        instance_status.mark_deleting(conditions, deletion.message)
        await self._write_status(instance, conditions, instance_status.DELETING, _projected(instance))
        return Pending(deletion.message, _DELETION_POLL)  # for objects of kinds that are no longer watched

    def _forget(self, key: Key) -> None:
        self._states.pop(key, None)
        self._context.external_references.set(self._owner(key), {})

    def _owner(self, key: Key) -> Owner:
        resource = self.served.resource
        return Owner(resource.group, resource.kind, key.namespace, key.name)

    def _fingerprint(self, key: Key, record: CachedObject) -> tuple[object, ...]:
        """The versions of everything that a reconcile depends on."""
        set_id = applyset.compute_id(_identity(self.served, key))
        members = (member for cache in self.served.child_caches for member in cache.members(set_id))
        external = (item.version for item in self._external_objects(key))
        return (self.served, record.version, *((member.uid, member.version) for member in members), *external)

    def _external_objects(self, key: Key) -> list[CachedObject]:
        objects: list[CachedObject] = []
        for node, (_, lookup) in self._context.external_references.of(self._owner(key)).items():
            if node in self.served.caches:
                objects += read_external(self.served.caches[node], lookup)
        return objects


def _same_desired_state(old: Object, new: Object) -> bool:
    """Whether two versions of an instance have the same desired state."""
    fields = ("uid", "generation", "labels", "annotations", "deletionTimestamp")
    return all(old["metadata"].get(name) == new["metadata"].get(name) for name in fields)


def _identity(served: ServedGraph, key: Key) -> Object:
    resource = served.resource
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": key.name, "namespace": key.namespace}}


def _projected(instance: Object) -> Object:
    """The projected fields of the previous status."""
    before: Object = instance.get("status") or {}
    return {name: value for name, value in before.items() if name not in ("conditions", "state")}
