"""The controllers of ClusterQueues, LocalQueues, ResourceFlavors and AdmissionChecks: status and finalizers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.base.conditions import is_condition_true
from sliceworks.twin.apiserver.codec import deep_copy
from sliceworks.twin.controllers.kueue import workload_status
from sliceworks.twin.controllers.kueue.cache import WATCHED_RESOURCES, Cache, checks_of, flavors_of, is_stopped, spec_of
from sliceworks.twin.controllers.kueue.core.model import format_quantity
from sliceworks.twin.controllers.kueue.kueue_api import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    LOCAL_QUEUES,
    RESOURCE_FLAVORS,
    RESOURCE_IN_USE_FINALIZER,
    WORKLOAD_CONTROLLER_NAME,
    WORKLOADS,
    Obj,
)
from sliceworks.twin.controllers.kueue.workload_writer import KueueWriter
from sliceworks.twin.controllers.runtime.controller import Change, Controller
from sliceworks.twin.controllers.runtime.controller_context import ObjectKey

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sliceworks.twin.controllers.kueue.core.model import ClusterQueue, WorkloadInfo, WorkloadKey
    from sliceworks.twin.controllers.kueue.core.quota_tree import FlavorResource, FlavorResourceQuantities
    from sliceworks.twin.controllers.runtime.controller_context import ControllerContext

_INACTIVE = "Can't submit new workloads to clusterQueue"


class QueueReconciler(Controller[ObjectKey]):
    """One controller for all four kinds: writes the status of queues and removes the finalizers of unused objects."""

    watches = WATCHED_RESOURCES

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._cache = context.shared_index(Cache)
        self._queue_manager = self._cache.queue_manager
        self._writer = KueueWriter(context, WORKLOAD_CONTROLLER_NAME)

    def observe(self, change: Change) -> None:
        resource = change.resource
        if resource == WORKLOADS:
            self._enqueue_queues_of(change)
            return
        if resource not in (CLUSTER_QUEUES, LOCAL_QUEUES, RESOURCE_FLAVORS, ADMISSION_CHECKS):
            return
        self.queue.add(ObjectKey(resource, change.namespace, change.name))
        if resource == CLUSTER_QUEUES:
            for key, cluster_queue in self._queue_manager.local_queues.items():
                if cluster_queue == change.name:
                    self.queue.add(ObjectKey(LOCAL_QUEUES, *key))
            for flavor in flavors_of(change.obj):
                self.queue.add(ObjectKey(RESOURCE_FLAVORS, "", flavor))
            for check in checks_of(change.obj):
                self.queue.add(ObjectKey(ADMISSION_CHECKS, "", check))
        elif resource in (RESOURCE_FLAVORS, ADMISSION_CHECKS):
            for name in self._cache.cluster_queues:
                self.queue.add(ObjectKey(CLUSTER_QUEUES, "", name))

    def _enqueue_queues_of(self, change: Change) -> None:
        local_queue = (change.namespace, change.obj["spec"].get("queueName") or "")
        if local_queue in self._cache.local_queues:
            self.queue.add(ObjectKey(LOCAL_QUEUES, *local_queue))
        admission = (change.obj.get("status") or {}).get("admission") or {}
        for name in {self._queue_manager.local_queues.get(local_queue), admission.get("clusterQueue")}:
            if name in self._cache.cluster_queues:
                self.queue.add(ObjectKey(CLUSTER_QUEUES, "", name or ""))

    async def sync(self, key: ObjectKey) -> None:
        resource, namespace, name = key
        obj = self.context.get(resource, namespace, name)
        if obj is None:
            return
        if resource == LOCAL_QUEUES:
            await self._sync_local_queue(obj, (namespace, name))
        elif resource == CLUSTER_QUEUES:
            await self._sync_cluster_queue(obj, name)
        else:
            await self._sync_finalizer(obj, resource)

    async def _sync_finalizer(self, obj: Obj, resource: str) -> None:
        """Keep a flavor or check while a ClusterQueue references it."""
        name = obj["metadata"]["name"]
        if not obj["metadata"].get("deletionTimestamp"):
            await self._add_finalizer(resource, obj)
            return
        referenced = flavors_of if resource == RESOURCE_FLAVORS else checks_of
        if not any(name in referenced(queue) for queue in self._cache.cluster_queues.values()):
            await self._writer.remove_finalizer(resource, obj, RESOURCE_IN_USE_FINALIZER)

    async def _add_finalizer(self, resource: str, obj: Obj) -> bool:
        """Returns whether the finalizer was missing."""
        finalizers = obj["metadata"].setdefault("finalizers", [])
        if RESOURCE_IN_USE_FINALIZER in finalizers:
            return False
        finalizers.append(RESOURCE_IN_USE_FINALIZER)
        await self._writer.update(resource, obj)
        return True

    async def _sync_cluster_queue(self, obj: Obj, name: str) -> None:
        queue = self._queue_manager.tree.cluster_queues.get(name)
        if queue is None:
            return
        if obj["metadata"].get("deletionTimestamp"):
            if not queue.workloads:
                await self._writer.remove_finalizer(CLUSTER_QUEUES, obj, RESOURCE_IN_USE_FINALIZER)
            return
        if await self._add_finalizer(CLUSTER_QUEUES, obj):
            return
        before, status = deep_copy(obj.get("status")), obj.setdefault("status", {})
        admitted = [workload for workload in queue.workloads.values() if workload.key in self._cache.admitted]
        reason, message = self._cache.inactive_reason(name) or ("Ready", "Can admit new workloads")
        workload_status.set_condition(obj, "Active", reason == "Ready", reason, message)
        status["flavorsReservation"] = _flavor_usage(queue, queue.usage, obj, with_borrowed=True)
        status["flavorsUsage"] = _flavor_usage(queue, _total_usage(admitted), obj, with_borrowed=True)
        status["reservingWorkloads"] = len(queue.workloads)
        status["admittedWorkloads"] = len(admitted)
        status["pendingWorkloads"] = len(self._queue_manager.pending[name])
        if status != before:
            await self._writer.update(CLUSTER_QUEUES, obj, "status")

    async def _sync_local_queue(self, obj: Obj, key: WorkloadKey) -> None:
        before, status = deep_copy(obj.get("status")), obj.setdefault("status", {})
        name = spec_of(obj).get("clusterQueue") or ""
        queue, cluster_queue = self._queue_manager.tree.cluster_queues.get(name), self._cache.cluster_queues.get(name)
        workload_status.set_condition(obj, "Active", *_local_queue_condition(obj, cluster_queue))
        keys = self._cache.workloads_by_queue.get(key, set())
        workloads = [workload for name in keys if (workload := self._queue_manager.workloads.get(name))]
        reserving = [workload for workload in workloads if self._queue_manager.has_quota(workload)]
        admitted = [workload for workload in reserving if workload.key in self._cache.admitted]
        status["pendingWorkloads"] = 0 if is_stopped(obj) else len(workloads) - len(reserving)
        status["reservingWorkloads"], status["admittedWorkloads"] = len(reserving), len(admitted)
        if queue is not None and cluster_queue is not None:
            status["flavorsReservation"] = _flavor_usage(queue, _total_usage(reserving), cluster_queue, with_borrowed=False)
            status["flavorsUsage"] = _flavor_usage(queue, _total_usage(admitted), cluster_queue, with_borrowed=False)
        if status != before:
            await self._writer.update(LOCAL_QUEUES, obj, "status")


def _local_queue_condition(obj: Obj, cluster_queue: Obj | None) -> tuple[bool, str, str]:
    if is_stopped(obj):
        return False, "Stopped", "LocalQueue is stopped"
    if cluster_queue is None:
        return False, "ClusterQueueDoesNotExist", _INACTIVE
    if not is_condition_true(cluster_queue, "Active"):
        return False, "ClusterQueueIsInactive", _INACTIVE
    return True, "Ready", "Can submit new workloads to localQueue"


def _total_usage(workloads: Iterable[WorkloadInfo]) -> FlavorResourceQuantities:
    total: FlavorResourceQuantities = {}
    for workload in workloads:
        for flavor_resource, amount in workload.usage.items():
            total[flavor_resource] = total.get(flavor_resource, 0) + amount
    return total


def _flavor_usage(queue: ClusterQueue, usage: FlavorResourceQuantities, obj: Obj, *, with_borrowed: bool) -> list[Obj]:
    """The usage of each flavor and resource, in the order of the ClusterQueue's flavors."""
    return [
        {
            "name": flavor["name"],
            "resources": [
                _resource_usage(queue, (flavor["name"], resource), usage, with_borrowed=with_borrowed)
                for resource in sorted(group["coveredResources"])
            ],
        }
        for group in spec_of(obj).get("resourceGroups") or ()
        for flavor in group["flavors"]
    ]


def _resource_usage(
    queue: ClusterQueue, flavor_resource: FlavorResource, usage: FlavorResourceQuantities, *, with_borrowed: bool
) -> Obj:
    resource, used = flavor_resource[1], usage.get(flavor_resource, 0)
    entry: Obj = {"name": resource, "total": format_quantity(resource, used)}
    if with_borrowed:
        quota = queue.quotas.get(flavor_resource)
        borrowed = used - quota.nominal if quota is not None and queue.parent is not None else 0
        entry["borrowed"] = format_quantity(resource, max(0, borrowed))
    return entry
