"""The JobSet controller: creates, counts, restarts and deletes child Jobs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from sliceworks.base import clock
from sliceworks.base.errors import ApiError, BadRequest, NotFound
from sliceworks.kube.resources import controller_of
from sliceworks.twin.controllers.jobset import child_jobs, jobset_api, jobset_policy
from sliceworks.twin.controllers.jobset.child_jobs import ChildJob, ChildJobCache, ChildJobs
from sliceworks.twin.controllers.jobset.jobset_api import Obj, replicas, replicated_jobs
from sliceworks.twin.controllers.jobset.jobset_status import FIELD_MANAGER, USER, WARNING, EventParams, JobSetRecorder, StatusUpdate
from sliceworks.twin.controllers.runtime.api_writer import ApiWriter
from sliceworks.twin.controllers.runtime.controller import Change, Controller
from sliceworks.twin.controllers.runtime.controller_context import NamespacedName, ObjectKey, object_key
from sliceworks.twin.controllers.runtime.resource_keys import JOBS, JOBSETS, SERVICES

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable, Iterator
    from typing import Any

    from sliceworks.twin.controllers.jobset.jobset_policy import ReplicatedJobStatuses
    from sliceworks.twin.controllers.runtime.controller_context import ControllerContext

_OWNED_BY_JOBSET = b'"kind":"JobSet"'
_MAX_PARALLELISM = 50
_FOREGROUND = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Foreground"}


class JobSetReconciler(Controller[NamespacedName]):
    """Caches the child Jobs of every JobSet, so that a reconcile decodes only the JobSet itself."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._child_jobs: dict[str, ChildJobCache] = {}
        self._writer = ApiWriter(context, USER, fieldManager=FIELD_MANAGER)
        self._recorder = JobSetRecorder(context)

    def observe(self, change: Change) -> None:
        if change.resource == JOBSETS:
            self.queue.add((change.namespace, change.name))
            return
        if change.resource not in {JOBS, SERVICES} or _OWNED_BY_JOBSET not in change.entry.data:
            return
        obj = change.obj
        owner = controller_of(obj)
        if owner is None or (owner["apiVersion"], owner["kind"]) != (jobset_api.API_VERSION, jobset_api.KIND):
            return
        if change.resource == JOBS:
            self._update_child_job(change, owner["uid"], obj)
        self.queue.add((change.namespace, owner["name"]))

    def _update_child_job(self, change: Change, owner: str, job: Obj) -> None:
        cache = self._child_jobs.setdefault(owner, ChildJobCache())
        if change.type != "DELETED":
            cache.put(child_jobs.parse_child_job(job))
            return
        cache.delete(change.name)
        if not cache.jobs:
            del self._child_jobs[owner]

    async def sync(self, key: NamespacedName) -> None:
        # 1. Read the JobSet and its child Jobs.
        jobset = self.context.get(JOBSETS, *key)
        if jobset is None or "deletionTimestamp" in jobset["metadata"]:
            return
        if jobset["spec"].get("managedBy", jobset_api.CONTROLLER_NAME) != jobset_api.CONTROLLER_NAME:
            return
        restart_job = jobset_api.is_restart_job_enabled(self.context.get)
        update = StatusUpdate(jobset)
        cache = self._child_jobs.get(jobset["metadata"]["uid"]) or ChildJobCache()
        children = _group_child_jobs(jobset, cache.snapshot(), restart_job=restart_job)
        # 2. Compute the status of each replicated Job.
        statuses = jobset_policy.calculate_statuses(jobset, children, restart_job=restart_job)
        update.set_replicated_job_statuses(jobset_policy.sorted_statuses(statuses))
        # 3. Clean up a finished JobSet, or apply its policies.
        if update.finished_at:
            await self._clean_up(jobset, children, update)
        else:
            await self._reconcile_active(jobset, children, statuses, update, restart_job=restart_job)
        # 4. Write the status.
        if update.changed:
            await self._write_status(jobset, update)
        if cache.release_finished():
            self.queue.add(key)

    async def _reconcile_active(
        self, jobset: Obj, children: ChildJobs, statuses: ReplicatedJobStatuses, update: StatusUpdate, *, restart_job: bool
    ) -> None:
        await self._delete_jobs(jobset, children.previous)
        suspended = bool(jobset["spec"].get("suspend"))
        if not suspended and jobset_policy.are_all_ready(jobset, statuses):
            update.end_restart("JobsReady", "all jobs are ready")
        if children.failed:
            jobset_policy.execute_failure_policy(jobset, children.failed, update, restart_job=restart_job)
            return
        if children.successful and jobset_policy.is_success_policy_met(jobset, children.successful):
            update.complete()
            return
        await self._ensure_service(jobset)
        await self._create_missing(jobset, children, statuses, update, restart_job=restart_job)
        if suspended:
            await self._suspend(jobset, children.active)
            update.suspend()
        else:
            await self._resume(jobset, children.active, statuses, update)

    async def _clean_up(self, jobset: Obj, children: ChildJobs, update: StatusUpdate) -> None:
        """Delete active Jobs, and the JobSet itself once its TTL has expired."""
        await self._delete_jobs(jobset, children.active)
        ttl = jobset["spec"].get("ttlSecondsAfterFinished")
        if ttl is None:
            return
        metadata = jobset["metadata"]
        remaining = clock.seconds_until(update.finished_at) + ttl
        if remaining > 0:
            self.queue.add_after((metadata["namespace"], metadata["name"]), remaining)
            return
        update.changed = False
        await self._writer.delete_if_exists(object_key(JOBSETS, jobset), _FOREGROUND)

    async def _delete_jobs(self, jobset: Obj, jobs: Iterable[ChildJob]) -> None:
        keys = (ObjectKey(JOBS, jobset["metadata"]["namespace"], job.name) for job in jobs if not job.deleting)
        await _gather(self._writer.delete_if_exists(key, _FOREGROUND) for key in keys)

    async def _ensure_service(self, jobset: Obj) -> None:
        """Create the headless Service that resolves the pods' hostnames."""
        network, namespace, name = jobset["spec"]["network"], jobset["metadata"]["namespace"], jobset_api.subdomain(jobset)
        if not network.get("enableDNSHostnames") or self.context.get(SERVICES, namespace, name) is not None:
            return
        service = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": name, "namespace": namespace, "ownerReferences": [child_jobs.jobset_owner_reference(jobset)]},
            "spec": {
                "clusterIP": "None",
                "selector": {jobset_api.NAME_LABEL: jobset["metadata"]["name"]},
                "publishNotReadyAddresses": network.get("publishNotReadyAddresses", True),
            },
        }
        try:
            await self._writer.create(SERVICES, namespace, service)
        except ApiError as error:
            await self._recorder.event(jobset, EventParams(WARNING, "HeadlessServiceCreationFailed", error.message))
            raise

    async def _create_missing(
        self, jobset: Obj, children: ChildJobs, statuses: ReplicatedJobStatuses, update: StatusUpdate, *, restart_job: bool
    ) -> None:
        in_order = not jobset["spec"].get("suspend") and jobset_policy.has_in_order_startup(jobset)
        for replicated_job in _startable_jobs(jobset, statuses, in_order=in_order):
            await self._create_jobs(jobset, replicated_job, children, restart_job=restart_job)
            if in_order:
                update.set_startup_policy(completed=False)
                return
        if in_order:
            update.set_startup_policy(completed=True)

    async def _create_jobs(self, jobset: Obj, replicated_job: Obj, children: ChildJobs, *, restart_job: bool) -> None:
        strategy = (jobset["spec"].get("failurePolicy") or {}).get("restartStrategy")
        if strategy == "BlockingRecreate" and children.previous:
            return
        metadata, existing = jobset["metadata"], children.names()
        attempts = jobset_policy.individual_restarts(jobset, replicated_job["name"]) if restart_job else None
        jobs = [
            child_jobs.construct_job(jobset, replicated_job, index, job_restart_attempt=attempts[index] if attempts else None)
            for index in range(replicas(replicated_job))
            if jobset_api.job_name(metadata["name"], replicated_job["name"], index) not in existing
        ]
        errors: list[str] = []
        await _gather(self._create_job(job, errors) for job in jobs)
        if errors:
            await self._recorder.event(jobset, EventParams(WARNING, "JobCreationFailed", "\n".join(errors)))
            raise BadRequest("; ".join(errors))

    async def _create_job(self, job: Obj, errors: list[str]) -> None:
        metadata = job["metadata"]
        try:
            await self._writer.create(JOBS, metadata["namespace"], job)
        except ApiError as error:
            errors.append(f'job "{metadata["name"]}" creation failed with error: {error.message}')

    async def _suspend(self, jobset: Obj, children: list[ChildJob]) -> None:
        for child in children:
            if not child.suspended:
                job = self._get_job(jobset, child)
                job["spec"]["suspend"] = True
                await self._writer.update(JOBS, job)

    async def _resume(self, jobset: Obj, children: list[ChildJob], statuses: ReplicatedJobStatuses, update: StatusUpdate) -> None:
        in_order = jobset_policy.has_in_order_startup(jobset)
        for replicated_job in _startable_jobs(jobset, statuses, in_order=in_order):
            for child in children:
                if child.suspended and child.replicated_job == replicated_job["name"]:
                    await self._resume_job(self._get_job(jobset, child), replicated_job["template"]["spec"]["template"])
            if in_order:
                update.set_startup_policy(completed=False)
                return
        update.resume()

    async def _resume_job(self, job: Obj, template: Obj) -> None:
        """Resume a Job with the changes that the JobSet's template got while it was suspended."""
        # The pod template of a Job is mutable only while its status has no start time.
        if "startTime" in (job.get("status") or {}):
            del job["status"]["startTime"]
            job = (await self._writer.update(JOBS, job, "status")).object()
        child_jobs.merge_pod_template(job["spec"]["template"], template)
        job["spec"]["suspend"] = False
        await self._writer.update(JOBS, job)

    def _get_job(self, jobset: Obj, child: ChildJob) -> Obj:
        job = self.context.get(JOBS, jobset["metadata"]["namespace"], child.name)
        if job is None:
            raise NotFound(f'jobs.batch "{child.name}" not found')
        return {**job, "apiVersion": "batch/v1", "kind": "Job"}

    async def _write_status(self, jobset: Obj, update: StatusUpdate) -> None:
        jobset["status"] = update.to_dict()
        written = (await self._writer.update(JOBSETS, jobset, "status")).object()
        for event in update.events:
            await self._recorder.event(written, event)


def _startable_jobs(jobset: Obj, statuses: ReplicatedJobStatuses, *, in_order: bool) -> Iterator[Obj]:
    """The replicated Jobs whose dependencies are met; with in-order startup, those that are not started yet."""
    for replicated_job in replicated_jobs(jobset):
        started = in_order and jobset_policy.are_all_started(replicated_job, statuses)
        if not started and jobset_policy.are_dependencies_met(jobset, replicated_job, statuses):
            yield replicated_job


def _group_child_jobs(jobset: Obj, jobs: list[ChildJob], *, restart_job: bool) -> ChildJobs:
    """The Jobs of the current restart attempt by state, and those of previous attempts."""
    children, restarts = ChildJobs(), jobset["status"]["restarts"]
    job_restarts: dict[str, list[int]] = {}
    by_state = {"": children.active, child_jobs.COMPLETE: children.successful, child_jobs.FAILED: children.failed}
    for child in jobs:
        if child.restart_attempt is None:
            raise BadRequest(f"invalid value for label {jobset_api.RESTART_ATTEMPT}, must be integer")
        outdated = child.restart_attempt < restarts
        if restart_job and not outdated and child.has_job_restart_attempt:
            name = child.replicated_job
            attempts = job_restarts.setdefault(name, jobset_policy.individual_restarts(jobset, name))
            if child.job_restart_attempt is None or child.index is None or child.index >= len(attempts):
                raise BadRequest(f"job {child.name}: invalid job index or restart attempt for replicated job {name}")
            outdated = child.job_restart_attempt < attempts[child.index]
        (children.previous if outdated else by_state[child.finished]).append(child)
    return children


async def _gather(requests: Iterable[Coroutine[Any, Any, object]]) -> None:
    """Run requests concurrently, in batches."""
    remaining = list(requests)
    while remaining:
        batch, remaining = remaining[:_MAX_PARALLELISM], remaining[_MAX_PARALLELISM:]
        await asyncio.gather(*batch)
