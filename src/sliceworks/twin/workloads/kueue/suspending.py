"""Jobs that have a field to suspend them: Jobs and JobSets."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from sliceworks.twin.workloads.kueue import conditions, keys, placing
from sliceworks.twin.workloads.kueue.acts import Acts

if TYPE_CHECKING:
    from sliceworks.twin.workloads.kueue.keys import Obj


class Suspending(Acts):
    """Starts and stops them by that field. What admission put into their templates is taken out again."""

    async def run(self, job: Obj, infos: list[Obj], message: str) -> None:
        for template, info in zip(self.kind.templates(job), infos, strict=True):
            placing.apply(template, info)
        self.kind.resize(job, [info["count"] for info in infos])
        job["spec"]["suspend"] = False
        await self._put(job)
        await self.hands.normal(job, "Started", message)

    async def stop(self, job: Obj, workload: Obj | None, reason: str, message: str) -> None:
        """A Job's templates can be changed once it has forgotten its start."""
        kind, stopping = self.kind, not self.kind.suspended(job)
        if not stopping and kind.name != "Job":
            return
        if stopping:
            job["spec"]["suspend"] = True
            if kind.name == "Job":
                job["metadata"].setdefault("annotations", {})[keys.STOPPING] = "true"
                job = await self._put(job)
        if kind.name == "Job" and (job.get("status") or {}).get("startTime"):
            del job["status"]["startTime"]
            job = await self._put(job, "status")
        before = copy.deepcopy(job)
        if workload is not None:
            pod_sets = conditions.pod_sets_of(workload)
            for template, pods in zip(kind.templates(job), pod_sets, strict=False):
                placing.restore(template, pods["template"], kind.kept_labels(template))
            if pod_sets:
                kind.resize(job, [pods["count"] for pods in pod_sets])
        (job["metadata"].get("annotations") or {}).pop(keys.STOPPING, None)
        if job != before or (stopping and kind.name != "Job"):
            job = await self._put(job)
        if stopping:
            await self.hands.normal(job, "Stopped", message)

    async def _put(self, job: Obj, below: str = "") -> Obj:
        return await self.world.send(keys.USER, "PUT", self.kind.path(job, below), job, fieldManager=keys.MANAGER)
