"""The CronJob controller: makes Jobs when they are due, and forgets the oldest."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import orjson

from sliceworks.base import clock
from sliceworks.base.conditions import is_true
from sliceworks.base.errors import AlreadyExists, ApiError, NotFound
from sliceworks.kube.event_folding import reference
from sliceworks.kube.resources import controller_of, owner_reference
from sliceworks.twin.controllers.events import Recorder
from sliceworks.twin.controllers.loop import Change, Controller
from sliceworks.twin.controllers.world import controller_user
from sliceworks.twin.workloads.cronjobs import schedule
from sliceworks.twin.workloads.dependents import JOBS, Dependents
from sliceworks.twin.workloads.jobs.backoff import moment
from sliceworks.twin.workloads.jobs.conditions import is_finished

if TYPE_CHECKING:
    from datetime import datetime

    from sliceworks.twin.controllers.world import World
    from sliceworks.twin.workloads.jobs.state import Obj

CRON_JOBS = "batch/cronjobs"
_SCHEDULED = "batch.kubernetes.io/cronjob-scheduled-timestamp"
Key = tuple[str, str]


class CronJobs(Controller[Key]):
    """Looks at a CronJob when it or one of its Jobs changes, and when it is due."""

    workers = 5
    watches = frozenset({CRON_JOBS, JOBS})

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._dependents = world.shared(Dependents)
        self._user = controller_user("cronjob-controller")
        self._recorder = Recorder(world, self._user, "cronjob-controller")

    def observe(self, change: Change) -> None:
        if change.resource == CRON_JOBS:
            if change.type != "DELETED":
                self.queue.add((change.namespace, change.name))
            return
        owner = controller_of(change.obj)
        if owner is not None and owner["kind"] == "CronJob":
            self.queue.add((change.namespace, owner["name"]))

    async def sync(self, key: Key) -> None:
        found = self.world.get(CRON_JOBS, *key)
        if found is None:
            return
        before = orjson.dumps(found.get("status") or {}, option=orjson.OPT_SORT_KEYS)
        places = self._dependents.owned_by(JOBS, found["metadata"]["uid"])
        jobs = [job for place in places if (job := self.world.get(JOBS, *place)) is not None]
        status: Obj = found.setdefault("status", {})
        await self._forget(found, jobs)
        await self._look(found, jobs)
        again = None
        if not found["metadata"].get("deletionTimestamp") and not found["spec"].get("suspend"):
            again = await self._start(found, clock.now())
        if not status.get("active"):
            status.pop("active", None)
        if orjson.dumps(status, option=orjson.OPT_SORT_KEYS) != before:
            await self.world.send(self._user, "PUT", f"/apis/batch/v1/namespaces/{key[0]}/cronjobs/{key[1]}/status", found)
        if again is not None:
            self.queue.add_after(key, again)

    async def _look(self, found: Obj, jobs: list[Obj]) -> None:
        """Bring the list of Jobs that run up to date."""
        status, there = found["status"], {job["metadata"]["uid"] for job in jobs}
        running = {each["uid"] for each in status.get("active") or ()}
        for job in jobs:
            uid, name = job["metadata"]["uid"], job["metadata"]["name"]
            if not is_finished(job):
                if uid not in running:
                    words = f"Saw a job that the controller did not create or forgot: {name}"
                    await self._recorder.warning(found, "UnexpectedJob", words)
                continue
            good = is_true(job, "Complete")
            if uid in running:
                _drop(status, uid)
                words = f"Saw completed job: {name}, condition: {'Complete' if good else 'Failed'}"
                await self._recorder.normal(found, "SawCompletedJob", words)
            ended = job["status"].get("completionTime", "")
            if good and ended > status.get("lastSuccessfulTime", ""):
                status["lastSuccessfulTime"] = ended
        for each in list(status.get("active") or ()):
            if each["uid"] not in there and self.world.get(JOBS, each["namespace"], each["name"]) is None:
                _drop(status, each["uid"])
                await self._recorder.normal(found, "MissingJob", f"Active job went missing: {each['name']}")

    async def _start(self, found: Obj, now: datetime) -> float | None:
        """Make the Job that is due, if any; seconds until the next may be."""
        spec, status = found["spec"], found["status"]
        plan = schedule.parse(spec["schedule"], spec.get("timeZone") or "")
        since = moment(status.get("lastScheduleTime") or found["metadata"]["creationTimestamp"])
        deadline = spec.get("startingDeadlineSeconds")
        if deadline is not None:
            since = max(since, now - timedelta(seconds=deadline))
        due = schedule.due(plan, since, now)
        if due.at is None:
            return due.again
        if due.many:
            words = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
            await self._recorder.warning(found, "TooManyMissedTimes", words)
        name, active = f"{found['metadata']['name']}-{int(due.at.timestamp()) // 60}", status.get("active") or []
        if any(each["name"] == name for each in active) or status.get("lastScheduleTime") == clock.rfc3339(due.at):
            return due.again
        policy = spec.get("concurrencyPolicy")
        if policy == "Forbid" and active:
            words = "Not starting job because prior execution is running and concurrency policy is Forbid"
            await self._recorder.normal(found, "JobAlreadyActive", words)
            return due.again
        if policy == "Replace":
            for each in list(active):
                await self._delete(found, each["name"], each["uid"])
        await self._create(found, name, due.at)
        return due.again

    async def _create(self, found: Obj, name: str, at: datetime) -> None:
        spec, metadata = found["spec"], found["metadata"]
        template = spec["jobTemplate"]
        own = template.get("metadata") or {}
        place = schedule.parse(spec["schedule"], spec.get("timeZone") or "").zone
        local = at.astimezone(place).isoformat(timespec="seconds").replace("+00:00", "Z")
        job = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                "name": name,
                "labels": own.get("labels") or {},
                "annotations": {**(own.get("annotations") or {}), _SCHEDULED: local},
                "ownerReferences": [owner_reference(found)],
            },
            "spec": template["spec"],
        }
        try:
            made = await self.world.send(self._user, "POST", f"/apis/batch/v1/namespaces/{metadata['namespace']}/jobs", job)
        except AlreadyExists:
            there = self.world.get(JOBS, metadata["namespace"], name)
            owner = controller_of(there) if there else None
            if there is None or owner is None or owner["uid"] != metadata["uid"]:
                return
            made = there
        except ApiError as error:
            await self._recorder.warning(found, "FailedCreate", f"Error creating job: {error.message}")
            raise
        else:
            await self._recorder.normal(found, "SuccessfulCreate", f"Created job {name}")
        status = found["status"]
        status["active"] = [*(status.get("active") or ()), reference({**made, "apiVersion": "batch/v1", "kind": "Job"})]
        status["lastScheduleTime"] = clock.rfc3339(at)

    async def _forget(self, found: Obj, jobs: list[Obj]) -> None:
        """Delete the oldest Jobs that have ended, beyond as many as are to be kept of each kind."""
        for kind, limit in (("Complete", "successfulJobsHistoryLimit"), ("Failed", "failedJobsHistoryLimit")):
            most = found["spec"].get(limit)
            ended = [job for job in jobs if is_true(job, kind)]
            ended.sort(key=lambda job: (job["status"].get("startTime", "~"), job["metadata"]["name"]))
            for job in ended[: max(0, len(ended) - most) if most is not None else 0]:
                await self._delete(found, job["metadata"]["name"], job["metadata"]["uid"])
                jobs.remove(job)

    async def _delete(self, found: Obj, name: str, uid: str) -> None:
        path = f"/apis/batch/v1/namespaces/{found['metadata']['namespace']}/jobs/{name}"
        try:
            await self.world.send(self._user, "DELETE", path, {"propagationPolicy": "Background"})
        except NotFound:
            pass
        else:
            await self._recorder.normal(found, "SuccessfulDelete", f"Deleted job {name}")
        _drop(found["status"], uid)


def _drop(status: Obj, uid: str) -> None:
    status["active"] = [each for each in status.get("active") or () if each["uid"] != uid]
