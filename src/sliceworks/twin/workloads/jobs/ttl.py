"""Deletes Jobs some time after they have ended, where they say so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.base.errors import NotFound
from sliceworks.twin.controllers.loop import Change, Controller
from sliceworks.twin.controllers.world import controller_user
from sliceworks.twin.workloads.jobs.backoff import moment
from sliceworks.twin.workloads.jobs.controller import JOBS

if TYPE_CHECKING:
    from collections.abc import Mapping

_USER = controller_user("ttl-after-finished-controller")


class FinishedJobs(Controller[tuple[str, str]]):
    """Follows the Jobs that have ended and are to go."""

    workers = 5
    watches = frozenset({JOBS})

    def observe(self, change: Change) -> None:
        if change.type != "DELETED" and due(change.obj) is not None:
            self.queue.add((change.namespace, change.name))

    async def sync(self, key: tuple[str, str]) -> None:
        job = self.world.get(JOBS, *key)
        left = due(job) if job is not None else None
        if job is None or left is None:
            return
        if left > 0:
            self.queue.add_after(key, left)
            return
        body = {"propagationPolicy": "Foreground", "preconditions": {"uid": job["metadata"]["uid"]}}
        try:
            await self.world.send(_USER, "DELETE", f"/apis/batch/v1/namespaces/{key[0]}/jobs/{key[1]}", body)
        except NotFound:
            return


def due(job: Mapping[str, Any]) -> float | None:
    """Seconds until a Job is to be deleted; None when it is not."""
    allowed = job["spec"].get("ttlSecondsAfterFinished")
    if allowed is None or job["metadata"].get("deletionTimestamp"):
        return None
    for condition in (job.get("status") or {}).get("conditions") or ():
        if condition.get("type") in ("Complete", "Failed") and condition.get("status") == "True":
            ended = moment(condition["lastTransitionTime"])
            return float(allowed) - (clock.now() - ended).total_seconds()
    return None
