"""The controller of JobSets: makes their Jobs, counts them, restarts or ends the whole."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from sliceworks.base import clock
from sliceworks.base.errors import ApiError, BadRequest, NotFound
from sliceworks.kube.resources import controller_of
from sliceworks.twin.controllers.loop import Change, Controller
from sliceworks.twin.workloads.jobset import children, failure, gates, keys, progress
from sliceworks.twin.workloads.jobset.children import Child, Children
from sliceworks.twin.workloads.jobset.keys import JOBS, JOBSETS, SERVICES, Obj, replicas, replicated_jobs
from sliceworks.twin.workloads.jobset.kin import Kin
from sliceworks.twin.workloads.jobset.report import WARNING, Event, Report
from sliceworks.twin.workloads.jobset.telling import MANAGER, USER, Teller

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable
    from typing import Any

    from sliceworks.twin.controllers.world import World

Name = tuple[str, str]
_OWNED = b'"kind":"JobSet"'
_AT_ONCE = 50


class JobSets(Controller[Name]):
    """Keeps in mind what matters of every child Job, so that a pass decodes nothing but the JobSet."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._kin: dict[str, Kin] = {}
        self._teller = Teller(world)

    def observe(self, change: Change) -> None:
        if change.resource == JOBSETS:
            self.queue.add((change.namespace, change.name))
            return
        if change.resource not in {JOBS, SERVICES} or _OWNED not in change.entry.data:
            return
        obj = change.obj
        owner = controller_of(obj)
        if owner is None or (owner["apiVersion"], owner["kind"]) != (keys.API_VERSION, keys.KIND):
            return
        if change.resource == JOBS:
            self._remember(change, owner["uid"], obj)
        self.queue.add((change.namespace, owner["name"]))

    def _remember(self, change: Change, owner: str, job: Obj) -> None:
        kin = self._kin.setdefault(owner, Kin())
        if change.type != "DELETED":
            kin.take(children.read(job))
            return
        kin.drop(change.name)
        if not kin.jobs:
            del self._kin[owner]

    async def sync(self, key: Name) -> None:
        # 1. What is there.
        jobset = self.world.get(JOBSETS, *key)
        if jobset is None or "deletionTimestamp" in jobset["metadata"]:
            return
        if jobset["spec"].get("managedBy", keys.CONTROLLER) != keys.CONTROLLER:
            return
        restart_job = gates.restart_job(self.world.get)
        report = Report(jobset)
        kin = self._kin.get(jobset["metadata"]["uid"]) or Kin()
        found = _sorted(jobset, kin.look(), restart_job=restart_job)
        # 2. How it stands.
        counts = progress.counts(jobset, found, restart_job=restart_job)
        report.count(progress.listed(counts))
        # 3. What is over is cleaned up, what is not goes on.
        if report.finished_at:
            await self._clean_up(jobset, found, report)
        else:
            await self._advance(jobset, found, counts, report, restart_job=restart_job)
        # 4. Say so.
        if report.changed:
            await self._write(jobset, report)
        if kin.go_on():
            self.queue.add(key)

    async def _advance(self, jobset: Obj, found: Children, counts: progress.Counts, report: Report, *, restart_job: bool) -> None:
        await self._delete_jobs(jobset, found.previous)
        suspended = bool(jobset["spec"].get("suspend"))
        if not suspended and progress.all_ready(jobset, counts):
            report.restarted("JobsReady", "all jobs are ready")
        if found.failed:
            failure.react(jobset, found.failed, report, restart_job=restart_job)
            return
        if found.successful and progress.succeeded(jobset, found.successful):
            report.complete()
            return
        await self._ensure_service(jobset)
        await self._create_missing(jobset, found, counts, report, restart_job=restart_job)
        if suspended:
            await self._suspend(jobset, found.active)
            report.suspend()
        else:
            await self._resume(jobset, found.active, counts, report)

    async def _clean_up(self, jobset: Obj, found: Children, report: Report) -> None:
        await self._delete_jobs(jobset, found.active)
        seconds = jobset["spec"].get("ttlSecondsAfterFinished")
        if seconds is None:
            return
        metadata = jobset["metadata"]
        left = (datetime.fromisoformat(report.finished_at) + timedelta(seconds=seconds) - clock.now()).total_seconds()
        if left > 0:
            self.queue.add_after((metadata["namespace"], metadata["name"]), left)
            return
        report.changed = False
        await self._delete(_path(jobset))

    async def _delete_jobs(self, jobset: Obj, jobs: Iterable[Child]) -> None:
        namespace = jobset["metadata"]["namespace"]
        await _together(self._delete(f"/apis/batch/v1/namespaces/{namespace}/jobs/{job.name}") for job in jobs if not job.deleting)

    async def _delete(self, path: str) -> None:
        body = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Foreground"}
        try:
            await self.world.send(USER, "DELETE", path, body)
        except NotFound:
            return

    async def _ensure_service(self, jobset: Obj) -> None:
        """A headless Service, so that pods find each other by their hostnames."""
        network, namespace, name = jobset["spec"]["network"], jobset["metadata"]["namespace"], keys.subdomain(jobset)
        if not network.get("enableDNSHostnames") or self.world.get(SERVICES, namespace, name) is not None:
            return
        service = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": name, "namespace": namespace, "ownerReferences": [children.owner(jobset)]},
            "spec": {
                "clusterIP": "None",
                "selector": {keys.NAME: jobset["metadata"]["name"]},
                "publishNotReadyAddresses": network.get("publishNotReadyAddresses", True),
            },
        }
        try:
            await self.world.send(USER, "POST", f"/api/v1/namespaces/{namespace}/services", service, fieldManager=MANAGER)
        except ApiError as error:
            await self._teller.tell(jobset, Event(WARNING, "HeadlessServiceCreationFailed", error.message))
            raise

    async def _create_missing(
        self, jobset: Obj, found: Children, counts: progress.Counts, report: Report, *, restart_job: bool
    ) -> None:
        ordered = not jobset["spec"].get("suspend") and progress.in_order(jobset)
        for job in replicated_jobs(jobset):
            if not progress.may_start(jobset, job, counts) or (ordered and progress.all_started(job, counts)):
                continue
            await self._create(jobset, job, found, restart_job=restart_job)
            if ordered:
                report.start_up(done=False)
                return
        if ordered:
            report.start_up(done=True)

    async def _create(self, jobset: Obj, job: Obj, found: Children, *, restart_job: bool) -> None:
        strategy = (jobset["spec"].get("failurePolicy") or {}).get("restartStrategy")
        if strategy == "BlockingRecreate" and found.previous:
            return
        metadata, there = jobset["metadata"], found.names()
        attempts = failure.own_restarts(jobset, job["name"]) if restart_job else None
        wanted = [
            children.job_for(jobset, job, index, own_attempt=attempts[index] if attempts else None)
            for index in range(replicas(job))
            if keys.job_name(metadata["name"], job["name"], index) not in there
        ]
        problems: list[str] = []
        await _together(self._post_job(each, problems) for each in wanted)
        if problems:
            await self._teller.tell(jobset, Event(WARNING, "JobCreationFailed", "\n".join(problems)))
            raise BadRequest("; ".join(problems))

    async def _post_job(self, job: Obj, problems: list[str]) -> None:
        metadata = job["metadata"]
        try:
            await self.world.send(
                USER, "POST", f"/apis/batch/v1/namespaces/{metadata['namespace']}/jobs", job, fieldManager=MANAGER
            )
        except ApiError as error:
            problems.append(f'job "{metadata["name"]}" creation failed with error: {error.message}')

    async def _suspend(self, jobset: Obj, jobs: list[Child]) -> None:
        for child in jobs:
            if child.suspended:
                continue
            job = self._job(jobset, child)
            job["spec"]["suspend"] = True
            await self._put_job(job)

    async def _resume(self, jobset: Obj, jobs: list[Child], counts: progress.Counts, report: Report) -> None:
        ordered = progress.in_order(jobset)
        for job in replicated_jobs(jobset):
            if not progress.may_start(jobset, job, counts) or (ordered and progress.all_started(job, counts)):
                continue
            for child in jobs:
                if child.suspended and child.replicated_job == job["name"]:
                    await self._resume_job(self._job(jobset, child), job["template"]["spec"]["template"])
            if ordered:
                report.start_up(done=False)
                return
        report.resume()

    async def _resume_job(self, job: Obj, template: Obj) -> None:
        """Let a Job run, with what the JobSet's template may have got while it was suspended."""
        if "startTime" in (job.get("status") or {}):
            del job["status"]["startTime"]  # a Job's template may change only as long as it has not started
            job = await self._put_job(job, "/status")
        pods = job["spec"]["template"]
        children.take_over(pods, template)
        job["spec"]["suspend"] = False
        await self._put_job(job)

    def _job(self, jobset: Obj, child: Child) -> Obj:
        job = self.world.get(JOBS, jobset["metadata"]["namespace"], child.name)
        if job is None:
            raise NotFound(f'jobs.batch "{child.name}" not found')
        return {**job, "apiVersion": "batch/v1", "kind": "Job"}

    async def _put_job(self, job: Obj, below: str = "") -> Obj:
        metadata = job["metadata"]
        path = f"/apis/batch/v1/namespaces/{metadata['namespace']}/jobs/{metadata['name']}{below}"
        return await self.world.send(USER, "PUT", path, job, fieldManager=MANAGER)

    async def _write(self, jobset: Obj, report: Report) -> None:
        jobset["status"] = report.written()
        written = await self.world.send(USER, "PUT", f"{_path(jobset)}/status", jobset, fieldManager=MANAGER)
        for event in report.events:
            await self._teller.tell(written, event)


def _sorted(jobset: Obj, jobs: list[Child], *, restart_job: bool) -> Children:
    """The Jobs of this run by how they stand, and those of earlier ones."""
    found, restarts = Children(), jobset["status"]["restarts"]
    own: dict[str, list[int]] = {}
    kinds = {"": found.active, children.COMPLETE: found.successful, children.FAILED: found.failed}
    for child in jobs:
        if child.attempt is None:
            raise BadRequest(f"invalid value for label {keys.RESTART_ATTEMPT}, must be integer")
        outdated = child.attempt < restarts
        if restart_job and not outdated and child.has_own_attempt:
            name = child.replicated_job
            targets = own.setdefault(name, failure.own_restarts(jobset, name))
            if child.own_attempt is None or child.index is None or child.index >= len(targets):
                raise BadRequest(f"job {child.name} has no place in replicated job {name}")
            outdated = child.own_attempt < targets[child.index]
        (found.previous if outdated else kinds[child.finished]).append(child)
    return found


def _path(jobset: Obj) -> str:
    metadata = jobset["metadata"]
    return f"/apis/{keys.API_VERSION}/namespaces/{metadata['namespace']}/jobsets/{metadata['name']}"


async def _together(work: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Do some things at the same time, not too many at once."""
    left = list(work)
    while left:
        batch, left = left[:_AT_ONCE], left[_AT_ONCE:]
        await asyncio.gather(*batch)
