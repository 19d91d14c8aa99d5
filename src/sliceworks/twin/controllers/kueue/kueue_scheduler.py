"""Kueue's scheduler: runs admission cycles and writes their decisions."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.base.conditions import find_condition, is_condition_true
from sliceworks.base.errors import ApiError
from sliceworks.twin.controllers.kueue import workload_status
from sliceworks.twin.controllers.kueue.cache import WATCHED_RESOURCES, Cache, checks_for
from sliceworks.twin.controllers.kueue.configuration import Configuration
from sliceworks.twin.controllers.kueue.core.model import format_quantity
from sliceworks.twin.controllers.kueue.core.preemption import HUMAN_READABLE_REASONS
from sliceworks.twin.controllers.kueue.kueue_api import (
    ADMISSION_NAME,
    ADMITTED,
    FINISHED,
    JOB_UID_LABEL,
    PREEMPTED,
    QUOTA_RESERVED,
    REQUEUED,
    WORKLOADS,
    Obj,
)
from sliceworks.twin.controllers.kueue.workload_writer import KueueWriter
from sliceworks.twin.controllers.runtime.controller import Change, Controller
from sliceworks.twin.controllers.runtime.resource_keys import CONFIG_MAPS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.twin.controllers.kueue.core.admission_cycle import Entry
    from sliceworks.twin.controllers.kueue.core.model import WorkloadInfo
    from sliceworks.twin.controllers.kueue.core.preemption import Target
    from sliceworks.twin.controllers.runtime.controller_context import ControllerContext

_CYCLE = "cycle"
_WAITING_FOR_PODS_READY = "waiting for all admitted workloads to be in PodsReady condition"


class Scheduler(Controller[str]):
    """Runs one cycle at a time while the queue manager has heads."""

    watches = WATCHED_RESOURCES | {CONFIG_MAPS}

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._cache = context.shared_index(Cache)
        self._queue_manager = self._cache.queue_manager
        self._writer = KueueWriter(context, ADMISSION_NAME)
        self._config = Configuration(context.get)
        self._readiness_changed = asyncio.Event()

    def observe(self, change: Change) -> None:
        if change.resource in (WORKLOADS, CONFIG_MAPS):
            self._readiness_changed.set()
        if self._queue_manager.has_heads():
            self.queue.add(_CYCLE)

    async def sync(self, key: str) -> None:
        while self._queue_manager.has_heads():
            result = self._queue_manager.schedule()
            # The cache counts admitted workloads at once, because other changes may arrive while their status is written.
            admitted = [entry for entry in result.entries if entry.admitted]
            for entry in admitted:
                entry.workload.reserved_at = clock.timestamp()
                self._cache.assumed.add(entry.workload.key)
            for entry in admitted:
                await self._wait_for_pods_ready(entry)
                await self._admit(entry)
            for entry in result.entries:
                for target in entry.preempted:
                    await self._preempt(entry, target)
                if not entry.admitted:
                    await self._set_pending(entry.workload, entry.message)
            for rejected in result.inadmissible:
                await self._set_pending(rejected.workload, rejected.message)

    async def _wait_for_pods_ready(self, entry: Entry) -> None:
        """With blockAdmission, wait until all admitted workloads are ready; blocks all other decisions too."""
        reported = False
        while (config := self._config.pods_ready) is not None and config.block_admission and self._has_unready_workload():
            self._readiness_changed.clear()
            if not reported:
                await self._writer.update_status(
                    entry.workload.key,
                    lambda obj: workload_status.unset_quota_reservation(obj, "Waiting", _WAITING_FOR_PODS_READY),
                )
            reported = True
            await self._readiness_changed.wait()

    def _has_unready_workload(self) -> bool:
        queues, ready = self._queue_manager.tree.cluster_queues.values(), self._cache.assumed | self._cache.pods_ready
        return any(not queue.workloads.keys() <= ready for queue in queues)

    async def _admit(self, entry: Entry) -> None:
        key = entry.workload.key
        admission = _build_admission(entry)
        before = self.context.get(WORKLOADS, *key)

        def reserve(obj: Obj) -> None:
            workload_status.set_quota_reservation(obj, admission)
            queue = self._cache.cluster_queues.get(admission["clusterQueue"])
            checks = {check["name"] for check in workload_status.check_states(obj)}
            if queue is not None and checks_for(queue, obj) <= checks:
                workload_status.sync_admitted_condition(obj)

        try:
            written = await self._writer.update_status(key, reserve)
        except ApiError:
            self._cache.assumed.discard(key)
            if before is not None:
                self._queue_manager.delete_workload(key)
                self._cache.requeue_workload(key, self.context.get(WORKLOADS, *key))
            raise
        if written is None or before is None:
            self._cache.assumed.discard(key)
            self._queue_manager.delete_workload(key)
            return
        await self._record_admission(written, entry)

    async def _record_admission(self, obj: Obj, entry: Entry) -> None:
        name = entry.queue.name
        message = f"Quota reserved in ClusterQueue {name}, wait time since queued was {_queued_seconds(obj):.0f}s"
        if considered := entry.assignment.flavors_considered():
            message = f"{message}; Flavors considered: {considered}"
        await self._writer.normal(obj, "QuotaReserved", message)
        if is_condition_true(obj, ADMITTED):
            message = f"Admitted by ClusterQueue {name}, wait time since reservation was 0s"
            await self._writer.normal(obj, "Admitted", message)

    async def _preempt(self, entry: Entry, target: Target) -> None:
        preemptor = self.context.get(WORKLOADS, *entry.workload.key)
        target_queue = self._queue_manager.tree.cluster_queues.get(target.workload.cluster_queue)
        labels = ((preemptor or {}).get("metadata") or {}).get("labels") or {}
        message = (
            f"Preempted to accommodate a workload (UID: {entry.workload.uid}, JobUID: {labels.get(JOB_UID_LABEL) or 'UNKNOWN'}) "
            f"due to {HUMAN_READABLE_REASONS[target.reason]}; preemptor path: {entry.queue.path}; "
            f"preemptee path: {target_queue.path if target_queue is not None else 'UNKNOWN'}"
        )

        def evict(obj: Obj) -> None:
            workload_status.set_condition(obj, PREEMPTED, True, target.reason, message, observed=False)
            workload_status.set_evicted(obj, PREEMPTED, message)

        written = await self._writer.update_status(target.workload.key, evict)
        if written is not None:
            await self._writer.normal(written, "EvictedDueToPreempted", message)
            await self._writer.normal(written, "Preempted", message)

    async def _set_pending(self, workload: WorkloadInfo, message: str) -> None:
        requests = [
            {"name": pod_set.name, "resources": _format_requests(pod_set.requests)} if pod_set.requests else {"name": pod_set.name}
            for pod_set in workload.pod_sets
        ]

        def change(obj: Obj) -> bool:
            if is_condition_true(obj, QUOTA_RESERVED) or is_condition_true(obj, FINISHED):
                return False
            workload_status.unset_quota_reservation(obj, "Pending", message)
            obj["status"]["resourceRequests"] = requests
            return True

        written = await self._writer.update_status(workload.key, change)
        if written is not None:
            await self._writer.warning(written, "Pending", message)


def _build_admission(entry: Entry) -> Obj:
    assignments = []
    for assigned in entry.assignment.pod_sets:
        pod_set = assigned.pod_set
        assignment: Obj = {"name": pod_set.name, "count": pod_set.count}
        if assigned.flavors:
            requests = {**pod_set.requests, "pods": pod_set.count}
            assignment["flavors"] = {resource: flavor.flavor for resource, flavor in sorted(assigned.flavors.items())}
            assignment["resourceUsage"] = _format_requests({name: requests[name] for name in assigned.flavors})
        assignments.append(assignment)
    return {"clusterQueue": entry.queue.name, "podSetAssignments": assignments}


def _format_requests(requests: Mapping[str, int]) -> dict[str, str]:
    return {name: format_quantity(name, amount) for name, amount in sorted(requests.items())}


def _queued_seconds(obj: Mapping[str, Any]) -> float:
    """The seconds since a Workload was queued or requeued."""
    requeued = find_condition(obj, REQUEUED)
    return clock.seconds_since(requeued["lastTransitionTime"] if requeued else obj["metadata"]["creationTimestamp"])
