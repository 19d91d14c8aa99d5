"""The Workload controller: admission checks, eviction, timeouts, deactivation, and why a Workload is inadmissible."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.base.conditions import find_condition, is_condition_true
from sliceworks.twin.controllers.kueue import workload_status
from sliceworks.twin.controllers.kueue.cache import Cache, checks_for, is_stopped, spec_of
from sliceworks.twin.controllers.kueue.configuration import Configuration
from sliceworks.twin.controllers.kueue.kueue_api import (
    ADMISSION_CHECKS,
    ADMITTED,
    CLUSTER_QUEUES,
    DEACTIVATION_TARGET,
    EVICTED,
    FINISHED,
    LOCAL_QUEUES,
    QUOTA_RESERVED,
    REQUEUED,
    RESOURCE_FLAVORS,
    RESOURCE_IN_USE_FINALIZER,
    WORKLOAD_CONTROLLER_NAME,
    WORKLOADS,
    Obj,
)
from sliceworks.twin.controllers.kueue.workload_status import (
    check_retry_time,
    execution_time_left,
    pods_ready_timeout,
)
from sliceworks.twin.controllers.kueue.workload_writer import KueueWriter
from sliceworks.twin.controllers.runtime.controller import Change, Controller

if TYPE_CHECKING:
    from sliceworks.twin.controllers.kueue.core.model import WorkloadKey
    from sliceworks.twin.controllers.runtime.controller_context import ControllerContext

_REACTIVATED = {"Deactivated": ("Reactivated", "The workload was reactivated")}
_BACKOFF_REASONS = ("PodsReadyTimeout", "AdmissionCheck")
_RESTARTED = {
    "LocalQueueStopped": ("LocalQueueRestarted", "The LocalQueue was restarted after being stopped"),
    "ClusterQueueStopped": ("ClusterQueueRestarted", "The ClusterQueue was restarted after being stopped"),
}


class WorkloadReconciler(Controller[tuple[str, str]]):
    """A reconcile changes a Workload at most once: the change triggers the next one."""

    watches = frozenset({WORKLOADS, LOCAL_QUEUES, CLUSTER_QUEUES, ADMISSION_CHECKS, RESOURCE_FLAVORS})

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._cache = context.shared_index(Cache)
        self._writer = KueueWriter(context, WORKLOAD_CONTROLLER_NAME)
        self._config = Configuration(context.get)
        self._observed: dict[str, Any] = {}

    def observe(self, change: Change) -> None:
        if change.resource == WORKLOADS:
            self.queue.add((change.namespace, change.name))
        elif change.resource == LOCAL_QUEUES:
            self._enqueue_workloads(change, [(change.namespace, change.name)])
        else:
            self._enqueue_workloads(change, list(self._cache.queue_manager.local_queues))

    def _enqueue_workloads(self, change: Change, local_queues: list[WorkloadKey]) -> None:
        """Reconcile the Workloads of these queues if the changed object's spec or the set of active ClusterQueues changed."""
        active = {name: queue.active for name, queue in self._cache.queue_manager.tree.cluster_queues.items()}
        key = f"{change.resource}/{change.namespace}/{change.name}"
        state = (change.type == "DELETED", change.obj.get("spec"), change.obj["metadata"].get("deletionTimestamp"), active)
        if self._observed.get(key) == state:
            return
        self._observed[key] = state
        for local_queue in local_queues:
            for workload in self._cache.workloads_by_queue.get(local_queue, ()):
                self.queue.add(workload)

    async def sync(self, key: tuple[str, str]) -> None:
        obj = self.context.get(WORKLOADS, *key)
        if obj is None:
            return
        metadata = obj["metadata"]
        if not metadata.get("ownerReferences") and metadata.get("deletionTimestamp"):
            await self._writer.remove_finalizer(WORKLOADS, obj, RESOURCE_IN_USE_FINALIZER)
            return
        if is_condition_true(obj, FINISHED) or await self._sync_retry_time(key, obj):
            return
        changed = await (self._sync_active(key, obj) if workload_status.is_active(obj) else self._sync_inactive(key, obj))
        if (
            changed
            or await self._sync_restarted_queue(key, obj)
            or await self._sync_checks(key, obj)
            or await self._sync_admitted(key, obj)
        ):
            return
        if is_condition_true(obj, QUOTA_RESERVED):
            await self._sync_reserved(key, obj)
        elif workload_status.is_active(obj):
            await self._sync_without_quota(key, obj)

    async def _sync_retry_time(self, key: WorkloadKey, obj: Obj) -> bool:
        """Delay the requeue until the latest time that an admission check asks for."""
        retry_time = check_retry_time(obj)
        if ((obj.get("status") or {}).get("requeueState") or {}).get("requeueAt", "") >= retry_time:
            return False

        def change(obj: Obj) -> None:
            obj["status"].setdefault("requeueState", {})["requeueAt"] = retry_time

        await self._writer.update_status(key, change)
        return True

    async def _sync_active(self, key: WorkloadKey, obj: Obj) -> bool:
        if is_condition_true(obj, DEACTIVATION_TARGET):
            obj["spec"]["active"] = False
            await self._writer.update(WORKLOADS, obj)
            return True
        requeue_at = ((obj.get("status") or {}).get("requeueState") or {}).get("requeueAt")
        if requeue_at and (remaining := clock.seconds_until(requeue_at)) > 0:
            self.queue.add_after(key, remaining)
            return True
        requeued = find_condition(obj, REQUEUED)
        reason = requeued["reason"] if requeued.get("status") == "False" else ""

        def change(obj: Obj) -> None:
            (obj["status"].get("requeueState") or {}).pop("requeueAt", None)
            if reason in _BACKOFF_REASONS:
                workload_status.set_requeued(obj, "BackoffFinished", "The workload backoff was finished", True)
            elif reason in _REACTIVATED:
                workload_status.set_requeued(obj, *_REACTIVATED[reason], True)

        is_backoff_over = bool(requeue_at) and not is_condition_true(obj, QUOTA_RESERVED)
        if is_backoff_over or reason in (*_BACKOFF_REASONS, *_REACTIVATED):
            return await self._writer.update_status(key, change) is not None
        return False

    async def _sync_inactive(self, key: WorkloadKey, obj: Obj) -> bool:
        target = find_condition(obj, DEACTIVATION_TARGET)
        evicted, had_quota = is_condition_true(obj, EVICTED), bool((obj.get("status") or {}).get("admission"))
        message, cause = "The workload is deactivated", ""
        if target:
            message, cause = f"{message} due to {target['message']}", target["reason"]

        def evict(obj: Obj) -> None:
            status = obj.setdefault("status", {})
            if target:
                workload_status.remove_condition(obj, DEACTIVATION_TARGET)
            status.pop("requeueState", None)
            if not evicted:
                workload_status.set_evicted(obj, "Deactivated", message, cause)

        if evicted and "requeueState" not in (obj.get("status") or {}):
            return False
        written = await self._writer.update_status(key, evict)
        if written is not None and had_quota and not evicted:
            await self._writer.normal(written, "EvictedDueToDeactivated" + (f"DueTo{cause}" if cause else ""), message)
        return written is not None

    async def _sync_restarted_queue(self, key: WorkloadKey, obj: Obj) -> bool:
        """Requeue a Workload whose stopped queue was restarted."""
        requeued = find_condition(obj, REQUEUED)
        if requeued.get("status") != "False" or requeued["reason"] not in _RESTARTED:
            return False
        local_queue, cluster_queue = self._queues_of(key, obj)
        queue = local_queue if requeued["reason"] == "LocalQueueStopped" else cluster_queue
        if queue is None or is_stopped(queue):
            return False
        reason, message = _RESTARTED[requeued["reason"]]
        await self._writer.update_status(key, lambda obj: workload_status.set_requeued(obj, reason, message, True))
        return True

    def _queues_of(self, key: WorkloadKey, obj: Obj) -> tuple[Obj | None, Obj | None]:
        local_queue = self._cache.local_queues.get((key[0], obj["spec"].get("queueName") or ""))
        if local_queue is None:
            return None, None
        return local_queue, self._cache.cluster_queues.get(spec_of(local_queue).get("clusterQueue") or "")

    async def _sync_checks(self, key: WorkloadKey, obj: Obj) -> bool:
        local_queue, cluster_queue = self._queues_of(key, obj)
        if cluster_queue is None or local_queue is None or is_stopped(local_queue):
            return False
        names = checks_for(cluster_queue, obj)
        states = {check["name"]: check for check in workload_status.check_states(obj)}
        if names == set(states):
            return False
        now = clock.timestamp()
        checks = [
            states.get(name) or {"name": name, "state": "Pending", "lastTransitionTime": now, "message": ""}
            for name in sorted(names)
        ]

        def change(obj: Obj) -> None:
            obj.setdefault("status", {})["admissionChecks"] = checks
            if not checks:
                del obj["status"]["admissionChecks"]

        return await self._writer.update_status(key, change) is not None

    async def _sync_admitted(self, key: WorkloadKey, obj: Obj) -> bool:
        if is_condition_true(obj, ADMITTED):
            return False
        written = await self._writer.update_status(key, workload_status.sync_admitted_condition)
        if written is None or not is_condition_true(written, ADMITTED):
            return written is not None
        reserved_at = find_condition(written, QUOTA_RESERVED)["lastTransitionTime"]
        name = written["status"]["admission"]["clusterQueue"]
        message = f"Admitted by ClusterQueue {name}, wait time since reservation was {clock.seconds_since(reserved_at):.0f}s"
        await self._writer.normal(written, "Admitted", message)
        return True

    async def _sync_reserved(self, key: WorkloadKey, obj: Obj) -> None:
        if await self._evict_on_failed_checks(key, obj) or await self._sync_stopped_queue(key, obj):
            return
        timeouts = [await self._sync_pods_ready_timeout(key, obj), await self._sync_execution_time(key, obj)]
        if any(timeouts):
            self.queue.add_after(key, min(filter(None, timeouts)))

    async def _evict_on_failed_checks(self, key: WorkloadKey, obj: Obj) -> bool:
        if is_condition_true(obj, EVICTED) or not workload_status.has_check_in_state(obj, "Retry", "Rejected"):
            return False
        rejected = [check for check in workload_status.check_states(obj) if check["state"] == "Rejected"]
        if not rejected:
            await self._evict(key, "AdmissionCheck", "At least one admission check is false")
            return True
        message = f"Admission check(s): {','.join(check['name'] for check in rejected)}, were rejected"
        written = await self._set_deactivation_target(key, "AdmissionCheck", message)
        if written is not None:
            name, message = rejected[0]["name"], rejected[0].get("message", "")
            warning = f"Deactivating workload because AdmissionCheck for {name} was Rejected: {message}"
            await self._writer.warning(written, "AdmissionCheckRejected", warning)
        return True

    async def _set_deactivation_target(self, key: WorkloadKey, reason: str, message: str) -> Obj | None:
        return await self._writer.update_status(
            key, lambda obj: workload_status.set_condition(obj, DEACTIVATION_TARGET, True, reason, message)
        )

    async def _evict(self, key: WorkloadKey, reason: str, message: str, cause: str = "", requeue_state: Obj | None = None) -> None:
        def evict(obj: Obj) -> None:
            if requeue_state is not None:
                obj["status"]["requeueState"] = requeue_state
            workload_status.set_evicted(obj, reason, message, cause)

        written = await self._writer.update_status(key, evict)
        if written is not None:
            await self._writer.normal(written, f"EvictedDueTo{reason}", message)

    async def _sync_stopped_queue(self, key: WorkloadKey, obj: Obj) -> bool:
        """HoldAndDrain evicts admitted Workloads; any stop policy releases reservations without admission."""
        local_queue, cluster_queue = self._queues_of(key, obj)
        admitted = is_condition_true(obj, ADMITTED)
        for kind, name, queue in (
            ("LocalQueue", obj["spec"].get("queueName") or "", local_queue),
            ("ClusterQueue", obj["status"]["admission"]["clusterQueue"], cluster_queue),
        ):
            policy = spec_of(queue or {}).get("stopPolicy") or "None"
            if admitted:
                if policy == "HoldAndDrain" and not is_condition_true(obj, EVICTED):
                    await self._evict(key, f"{kind}Stopped", f"The {kind} is stopped")
                    return True
            elif queue is None or queue["metadata"].get("deletionTimestamp"):
                return await self._set_inadmissible(key, f"{kind} {name} is terminating or missing")
            elif policy != "None":
                return await self._set_inadmissible(key, f"{kind} {name} is stopped")
        return False

    async def _set_inadmissible(self, key: WorkloadKey, message: str) -> bool:
        written = await self._writer.update_status(
            key, lambda obj: workload_status.unset_quota_reservation(obj, "Inadmissible", message)
        )
        return written is not None

    async def _sync_pods_ready_timeout(self, key: WorkloadKey, obj: Obj) -> float:
        """Evict or deactivate a Workload that exceeded its PodsReady timeout; returns the seconds left, or 0 without a timeout."""
        config = self._config.pods_ready
        timeout = pods_ready_timeout(obj, config) if config is not None else None
        if config is None or timeout is None:
            return 0
        cause, remaining = timeout
        if remaining > 0:
            return remaining
        count = ((obj["status"].get("requeueState") or {}).get("count") or 0) + 1
        if config.backoff_limit_count is not None and count > config.backoff_limit_count:
            message = "exceeding the maximum number of re-queuing retries"
            await self._set_deactivation_target(key, "RequeuingLimitExceeded", message)
            return 0
        backoff = min(config.backoff_base_seconds * 2 ** (count - 1), config.backoff_max_seconds)
        requeue_state = {"count": count, "requeueAt": clock.rfc3339(clock.now() + timedelta(seconds=backoff))}
        message = f"Exceeded the PodsReady timeout {key[0]}/{key[1]}"
        await self._evict(key, "PodsReadyTimeout", message, cause, requeue_state)
        return 0

    async def _sync_execution_time(self, key: WorkloadKey, obj: Obj) -> float:
        """Deactivate a Workload that exceeded its maximum execution time; returns the seconds left, or 0 without a maximum."""
        remaining = execution_time_left(obj)
        if remaining is None or remaining > 0:
            return remaining or 0

        def change(obj: Obj) -> None:
            workload_status.set_condition(
                obj, DEACTIVATION_TARGET, True, "MaximumExecutionTimeExceeded", "exceeding the maximum execution time"
            )
            obj["status"].pop("accumulatedPastExecutionTimeSeconds", None)

        if not is_condition_true(obj, DEACTIVATION_TARGET):
            written = await self._writer.update_status(key, change)
            if written is not None:
                message = f"The maximum execution time ({obj['spec']['maximumExecutionTimeSeconds']}s) exceeded"
                await self._writer.warning(written, "MaximumExecutionTimeExceeded", message)
        return 0

    async def _sync_without_quota(self, key: WorkloadKey, obj: Obj) -> None:
        """Report why a Workload without an active queue is inadmissible."""
        local_queue, cluster_queue = self._queues_of(key, obj)
        name = obj["spec"].get("queueName") or ""
        message = ""
        if local_queue is None:
            message = f"LocalQueue {name} doesn't exist"
        elif is_stopped(local_queue):
            message = f"LocalQueue {name} is inactive"
        elif cluster_queue is None:
            message = f"ClusterQueue {spec_of(local_queue).get('clusterQueue') or ''} doesn't exist"
        elif self._cache.inactive_reason(cluster_queue["metadata"]["name"]) is not None:
            message = f"ClusterQueue {cluster_queue['metadata']['name']} is inactive"
        if message:
            await self._set_inadmissible(key, message)
