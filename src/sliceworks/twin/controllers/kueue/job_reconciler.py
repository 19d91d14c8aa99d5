"""The job reconciler: creates the Workload of a job, starts the job when it is admitted, stops it when it is evicted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.base.conditions import find_condition, is_condition_true
from sliceworks.twin.controllers.kueue import kueue_api, workload_status
from sliceworks.twin.controllers.kueue.base_webhook import has_queued_owner
from sliceworks.twin.controllers.kueue.cache import Cache, JobKey, owner_of
from sliceworks.twin.controllers.kueue.configuration import Configuration
from sliceworks.twin.controllers.kueue.integrations import JobIntegration, JobSetIntegration, pods_ready_condition
from sliceworks.twin.controllers.kueue.job_adapter import SuspendableJobAdapter
from sliceworks.twin.controllers.kueue.kueue_api import (
    ADMITTED,
    EVICTED,
    FINISHED,
    PODS_READY,
    QUOTA_RESERVED,
    RESOURCE_IN_USE_FINALIZER,
    WORKLOADS,
    Obj,
    queue_name,
)
from sliceworks.twin.controllers.kueue.pod_group import PodGroupIndex, group_name_of
from sliceworks.twin.controllers.kueue.pod_integration import PodAdapter, PodGroupAdapter, PodGroupIntegration, PodIntegration
from sliceworks.twin.controllers.kueue.workload_writer import WorkloadWriter, workload_key
from sliceworks.twin.controllers.runtime.controller import Change, Controller
from sliceworks.twin.controllers.runtime.resource_keys import JOBS, JOBSETS, PODS

if TYPE_CHECKING:
    from sliceworks.twin.controllers.kueue.job_adapter import JobAdapter
    from sliceworks.twin.controllers.runtime.controller_context import ControllerContext

_QUEUE_LABEL = kueue_api.QUEUE_LABEL.encode()
_KINDS = {JOBS: "Job", JOBSETS: "JobSet"}


class JobReconciler(Controller[JobKey]):
    """Reconciles the jobs of all integrations. A reconcile changes a Workload at most once: the change triggers the next one."""

    watches = frozenset({JOBS, JOBSETS, PODS, WORKLOADS})

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._cache = context.shared_index(Cache)
        context.shared_index(PodGroupIndex)
        self._config = Configuration(context.get)
        adapters: tuple[JobAdapter, ...] = (
            SuspendableJobAdapter(context, JobIntegration()),
            SuspendableJobAdapter(context, JobSetIntegration()),
            PodAdapter(context, PodIntegration()),
            PodGroupAdapter(context, PodGroupIntegration()),
        )
        self._adapters = {adapter.integration.name: adapter for adapter in adapters}
        self._workload_writers = {
            name: WorkloadWriter(context, adapter.integration, adapter.writer) for name, adapter in self._adapters.items()
        }

    def observe(self, change: Change) -> None:
        if change.resource == PODS:
            if _is_managed(change.obj["metadata"]):
                group = group_name_of(change.obj)
                self.queue.add(("PodGroup", change.namespace, group) if group else ("Pod", change.namespace, change.name))
            return
        kind = _KINDS.get(change.resource)
        if kind is not None:
            key = (kind, change.namespace, change.name)
            if _QUEUE_LABEL in change.entry.data or key in self._cache.workloads_by_owner:
                self.queue.add(key)
            return
        owner = owner_of(change.obj)
        if owner is not None and owner[0] in self._adapters:
            self.queue.add(owner)

    async def sync(self, key: JobKey) -> None:
        # 1. Read the job and its Workloads; release the Workloads of a deleted job.
        adapter = self._adapters[key[0]]
        job = adapter.integration.load(self.context, *key[1:])
        keys = self._cache.workloads_by_owner.get(key, ())
        workloads = [workload for name in keys if (workload := self.context.get(WORKLOADS, *name)) is not None]
        if job is None or adapter.integration.is_deleting(job):
            for workload in workloads:
                await adapter.writer.remove_finalizer(WORKLOADS, workload, RESOURCE_IN_USE_FINALIZER)
            if job is not None:
                await adapter.finalize(job)
            return
        if not adapter.integration.is_queued(job):
            return
        # A gated pod has no queued owner: the webhook gates no other pods.
        if adapter.integration.resource != PODS and has_queued_owner(self.context.get, key[1], job):
            return
        # 2. Ensure that the job has one matching Workload.
        matching = await self._ensure_one_workload(adapter, key, job, workloads)
        if matching is None or await adapter.reconcile_workload(job, matching):
            return
        # 3. Finish the Workload of a finished job.
        if await self._sync_finished(adapter, job, matching):
            return
        # 4. Report reclaimable pods and readiness.
        if await self._sync_reclaimable_pods(adapter, job, matching) or await self._sync_pods_ready(adapter, job, matching):
            return
        # 5. Stop or start the job.
        if is_condition_true(matching, EVICTED):
            await self._stop_evicted(adapter, key, job, matching)
        elif adapter.integration.is_suspended(job):
            await self._sync_suspended(adapter, job, matching)
        elif not is_condition_true(matching, ADMITTED):
            await adapter.stop(job, matching, "NotAdmitted", "Not admitted by cluster queue")

    async def _ensure_one_workload(self, adapter: JobAdapter, key: JobKey, job: Obj, workloads: list[Obj]) -> Obj | None:
        """The Workload that matches the job; None when it was just created, updated or deleted."""
        integration, workload_writer = adapter.integration, self._workload_writers[key[0]]
        pod_sets = integration.pod_sets(job)
        match = next((workload for workload in workloads if integration.matches(job, pod_sets, workload)), None)
        others = [workload for workload in workloads if workload is not match]
        is_finished, is_suspended = integration.finished(job) is not None, integration.is_suspended(job)
        if match is None and not is_finished:
            if others and is_suspended and not is_condition_true(others[0], QUOTA_RESERVED):
                if await adapter.prepare_workload(job):
                    await workload_writer.update(job, integration.pod_sets(job), others[0])
                return None
            if not is_suspended:
                message = "Missing Workload; unable to restore pod templates"
                if others:
                    message = "No matching Workload; restoring pod templates according to existent Workload"
                await adapter.stop(job, others[0] if others else None, "NoMatchingWorkload", message)
        for workload in others:
            await workload_writer.delete_workload(job, workload)
        if others:
            self.queue.add(key)
            return None
        if match is None:
            current = integration.load(self.context, *key[1:])
            if is_finished:
                await adapter.finalize(job)
            elif current is not None and not integration.is_active(current) and await adapter.prepare_workload(current):
                await workload_writer.create(current, integration.pod_sets(current))
            return None
        return None if await workload_writer.update_priority(job, match) else match

    async def _sync_finished(self, adapter: JobAdapter, job: Obj, workload: Obj) -> bool:
        metadata, writer = workload["metadata"], adapter.writer
        message = f"Workload '{metadata['namespace']}/{metadata['name']}' is declared finished"
        if is_condition_true(workload, FINISHED):
            await adapter.finalize(job)
            if RESOURCE_IN_USE_FINALIZER in (metadata.get("finalizers") or ()):
                await writer.normal(job, "FinishedWorkload", message)
                await writer.remove_finalizer(WORKLOADS, workload, RESOURCE_IN_USE_FINALIZER)
            return True
        if metadata.get("deletionTimestamp"):
            await adapter.stop(job, workload, "WorkloadDeleted", "Workload is deleted")
            await writer.remove_finalizer(WORKLOADS, workload, RESOURCE_IN_USE_FINALIZER)
            return True
        finished = adapter.integration.finished(job)
        if finished is None:
            return False
        reason = "Succeeded" if finished[0] else "Failed"
        await writer.update_status(workload_key(workload), lambda obj: workload_status.set_finished(obj, reason, finished[1]))
        await writer.normal(job, "FinishedWorkload", message)
        return True

    async def _sync_reclaimable_pods(self, adapter: JobAdapter, job: Obj, workload: Obj) -> bool:
        reclaimable = adapter.integration.reclaimable_pods(job)
        if reclaimable == ((workload.get("status") or {}).get("reclaimablePods") or []):
            return False

        def change(obj: Obj) -> None:
            obj.setdefault("status", {})["reclaimablePods"] = reclaimable

        return await adapter.writer.update_status(workload_key(workload), change) is not None

    async def _sync_pods_ready(self, adapter: JobAdapter, job: Obj, workload: Obj) -> bool:
        if self._config.pods_ready is None:
            return False
        status, reason, message = pods_ready_condition(workload, adapter.integration.are_pods_ready(job))
        old = find_condition(workload, PODS_READY)
        if old and (old["status"] == "True", old["reason"], old["message"]) == (status, reason, message):
            return False
        written = await adapter.writer.update_status(
            workload_key(workload), lambda obj: workload_status.set_condition(obj, PODS_READY, status, reason, message)
        )
        return written is not None

    async def _stop_evicted(self, adapter: JobAdapter, key: JobKey, job: Obj, workload: Obj) -> None:
        """Stop the job, and release the quota once none of its pods is active."""
        evicted = find_condition(workload, EVICTED)
        reason, message = evicted["reason"], evicted["message"]
        await adapter.stop(job, workload, f"WorkloadEvictedDueTo{reason}", message)
        current = adapter.integration.load(self.context, *key[1:])
        if not is_condition_true(workload, QUOTA_RESERVED) or current is None or adapter.integration.is_active(current):
            return

        def release(obj: Obj) -> None:
            workload_status.set_requeued(obj, reason, message, reason in ("Preempted", "NodeFailures"))
            workload_status.unset_quota_reservation(obj, "Pending", message)

        await adapter.writer.update_status(workload_key(workload), release)

    async def _sync_suspended(self, adapter: JobAdapter, job: Obj, workload: Obj) -> None:
        if is_condition_true(workload, ADMITTED):
            await adapter.start(job, workload)
            return
        if is_condition_true(workload, QUOTA_RESERVED):
            await adapter.report_checks(job, workload)
        if workload["spec"].get("queueName") != queue_name(job):
            workload["spec"]["queueName"] = queue_name(job)
            await adapter.writer.update(WORKLOADS, workload)


def _is_managed(metadata: Obj) -> bool:
    """Whether Kueue manages a pod, or did and has not removed its finalizer."""
    return kueue_api.MANAGED in (metadata.get("labels") or ()) or kueue_api.MANAGED in (metadata.get("finalizers") or ())
