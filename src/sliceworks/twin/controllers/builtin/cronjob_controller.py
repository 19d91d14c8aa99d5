"""The CronJob controller: creates Jobs on schedule and deletes old ones."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import orjson

from sliceworks.base import clock, cron_schedule
from sliceworks.base.conditions import is_condition_true
from sliceworks.base.errors import AlreadyExists, ApiError
from sliceworks.kube.events import object_reference
from sliceworks.kube.resources import controller_of, owner_reference
from sliceworks.twin.controllers.builtin.job_status import is_job_finished
from sliceworks.twin.controllers.builtin.pod_control import parse_time
from sliceworks.twin.controllers.runtime.api_writer import ApiWriter
from sliceworks.twin.controllers.runtime.controller import Change, Controller
from sliceworks.twin.controllers.runtime.controller_context import NamespacedName, ObjectKey, controller_user
from sliceworks.twin.controllers.runtime.object_index import OwnerIndex
from sliceworks.twin.controllers.runtime.recorder import Recorder
from sliceworks.twin.controllers.runtime.resource_keys import CRON_JOBS, JOBS

if TYPE_CHECKING:
    from datetime import datetime, tzinfo

    from sliceworks.kube.resources import Object
    from sliceworks.twin.controllers.runtime.controller_context import ControllerContext

_MAX_DEADLINE_SECONDS = 10 * 365 * 86400
_SCHEDULED = "batch.kubernetes.io/cronjob-scheduled-timestamp"


class CronJobController(Controller[NamespacedName]):
    """Creates the Jobs of CronJobs on schedule, tracks active ones and deletes old ones."""

    workers = 5
    watches = frozenset({CRON_JOBS, JOBS})

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._owners = context.shared_index(OwnerIndex)
        user = controller_user("cronjob-controller")
        self._writer, self._recorder = ApiWriter(context, user), Recorder(context, user, "cronjob-controller")

    def observe(self, change: Change) -> None:
        if change.resource == CRON_JOBS:
            if change.type != "DELETED":
                self.queue.add((change.namespace, change.name))
            return
        owner = controller_of(change.obj)
        if owner is not None and owner["kind"] == "CronJob":
            self.queue.add((change.namespace, owner["name"]))

    async def sync(self, key: NamespacedName) -> None:
        cron_job = self.context.get(CRON_JOBS, *key)
        if cron_job is None:
            return
        before = orjson.dumps(cron_job.get("status") or {}, option=orjson.OPT_SORT_KEYS)
        keys = self._owners.owned_by(JOBS, cron_job["metadata"]["uid"])
        jobs = [job for job_key in keys if (job := self.context.get(JOBS, *job_key)) is not None]
        status: Object = cron_job.setdefault("status", {})
        await self._delete_old(cron_job, jobs)
        await self._update_active(cron_job, jobs)
        requeue_after = None
        if not cron_job["metadata"].get("deletionTimestamp") and not cron_job["spec"].get("suspend"):
            requeue_after = await self._create_due(cron_job, clock.now())
        if not status.get("active"):
            status.pop("active", None)
        if orjson.dumps(status, option=orjson.OPT_SORT_KEYS) != before:
            await self._writer.update_status(CRON_JOBS, cron_job)
        if requeue_after is not None:
            self.queue.add_after(key, requeue_after)

    async def _update_active(self, cron_job: Object, jobs: list[Object]) -> None:
        """Update status.active and status.lastSuccessfulTime."""
        status, uids = cron_job["status"], {job["metadata"]["uid"] for job in jobs}
        active = {reference["uid"] for reference in status.get("active") or ()}
        for job in jobs:
            uid, name = job["metadata"]["uid"], job["metadata"]["name"]
            if not is_job_finished(job):
                if uid not in active:
                    message = f"Saw a job that the controller did not create or forgot: {name}"
                    await self._recorder.warning(cron_job, "UnexpectedJob", message)
                continue
            complete = is_condition_true(job, "Complete")
            if uid in active:
                _remove_active(status, uid)
                message = f"Saw completed job: {name}, condition: {'Complete' if complete else 'Failed'}"
                await self._recorder.normal(cron_job, "SawCompletedJob", message)
            completion_time = job["status"].get("completionTime", "")
            if complete and completion_time > status.get("lastSuccessfulTime", ""):
                status["lastSuccessfulTime"] = completion_time
        for job in list(status.get("active") or ()):
            if job["uid"] not in uids and self.context.get(JOBS, job["namespace"], job["name"]) is None:
                _remove_active(status, job["uid"])
                await self._recorder.normal(cron_job, "MissingJob", f"Active job went missing: {job['name']}")

    async def _create_due(self, cron_job: Object, now: datetime) -> float | None:
        """Create the Job that is due, if any; returns the seconds until the next one."""
        spec, status = cron_job["spec"], cron_job["status"]
        schedule = cron_schedule.parse(spec["schedule"], spec.get("timeZone") or "")
        since = parse_time(status.get("lastScheduleTime") or cron_job["metadata"]["creationTimestamp"])
        deadline = spec.get("startingDeadlineSeconds")
        if deadline is not None:
            since = max(since, now - timedelta(seconds=min(deadline, _MAX_DEADLINE_SECONDS)))
        due = cron_schedule.find_due(schedule, since, now)
        if due.at is None:
            return due.requeue_after
        if due.too_many_missed:
            message = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
            await self._recorder.warning(cron_job, "TooManyMissedTimes", message)
        name, active = f"{cron_job['metadata']['name']}-{int(due.at.timestamp()) // 60}", status.get("active") or []
        if any(job["name"] == name for job in active) or status.get("lastScheduleTime") == clock.rfc3339(due.at):
            return due.requeue_after
        policy = spec.get("concurrencyPolicy")
        if policy == "Forbid" and active:
            message = "Not starting job because prior execution is running and concurrency policy is Forbid"
            await self._recorder.normal(cron_job, "JobAlreadyActive", message)
            return due.requeue_after
        if policy == "Replace":
            for job in list(active):
                await self._delete_job(cron_job, job["name"], job["uid"])
        await self._create_job(cron_job, name, due.at, schedule.zone)
        return due.requeue_after

    async def _create_job(self, cron_job: Object, name: str, at: datetime, zone: tzinfo) -> None:
        spec, metadata = cron_job["spec"], cron_job["metadata"]
        template = spec["jobTemplate"]
        template_metadata = template.get("metadata") or {}
        scheduled = at.astimezone(zone).isoformat(timespec="seconds").replace("+00:00", "Z")
        job = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                "name": name,
                "labels": template_metadata.get("labels") or {},
                "annotations": {**(template_metadata.get("annotations") or {}), _SCHEDULED: scheduled},
                "ownerReferences": [owner_reference(cron_job)],
            },
            "spec": template["spec"],
        }
        try:
            created = (await self._writer.create(JOBS, metadata["namespace"], job)).object()
        except AlreadyExists:
            existing = self.context.get(JOBS, metadata["namespace"], name)
            owner = controller_of(existing) if existing else None
            if existing is None or owner is None or owner["uid"] != metadata["uid"]:
                return
            created = existing
        except ApiError as error:
            await self._recorder.warning(cron_job, "FailedCreate", f"Error creating job: {error.message}")
            raise
        else:
            await self._recorder.normal(cron_job, "SuccessfulCreate", f"Created job {name}")
        status = cron_job["status"]
        status["active"] = [*(status.get("active") or ()), object_reference({**created, "apiVersion": "batch/v1", "kind": "Job"})]
        status["lastScheduleTime"] = clock.rfc3339(at)

    async def _delete_old(self, cron_job: Object, jobs: list[Object]) -> None:
        """Delete the oldest finished Jobs beyond the history limits."""
        for kind, limit in (("Complete", "successfulJobsHistoryLimit"), ("Failed", "failedJobsHistoryLimit")):
            kept = cron_job["spec"].get(limit)
            finished = [job for job in jobs if is_condition_true(job, kind)]
            finished.sort(key=lambda job: (job["status"].get("startTime", "~"), job["metadata"]["name"]))
            for job in finished[: max(0, len(finished) - kept) if kept is not None else 0]:
                await self._delete_job(cron_job, job["metadata"]["name"], job["metadata"]["uid"])
                jobs.remove(job)

    async def _delete_job(self, cron_job: Object, name: str, uid: str) -> None:
        key = ObjectKey(JOBS, cron_job["metadata"]["namespace"], name)
        if await self._writer.delete_if_exists(key, {"propagationPolicy": "Background"}):
            await self._recorder.normal(cron_job, "SuccessfulDelete", f"Deleted job {name}")
        _remove_active(cron_job["status"], uid)


def _remove_active(status: Object, uid: str) -> None:
    status["active"] = [reference for reference in status.get("active") or () if reference["uid"] != uid]
