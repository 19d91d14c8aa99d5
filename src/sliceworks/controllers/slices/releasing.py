"""Which pools are no longer needed: their JobSet is gone, has ended, is suspended for long, or has no such Job any more.

A pool on which a Job of another JobSet sits is that one's, for as long as it sits there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sliceworks.controllers.slices.demands import waits_for_check
from sliceworks.controllers.slices.views import Subject
from sliceworks.controllers.slices.world import Decision, Delete

if TYPE_CHECKING:
    from sliceworks.controllers.slices.settings import Settings
    from sliceworks.controllers.slices.views import JobSetView, Pool, Ref
    from sliceworks.controllers.slices.world import World


class Release(NamedTuple):
    """Why a pool is not needed, and from when on."""

    why: str
    at: float


def release(world: World, settings: Settings, decision: Decision) -> set[str]:
    """Give back what is not needed; returns the pools that are going now."""
    kept = {workload.jobset for workload in world.workloads if waits_for_check(workload, world)}
    going: set[str] = set()
    steady = {ref: jobset.jobs for ref, jobset in world.jobsets.items() if _is_steady(jobset)}
    for pool in world.pools.values():
        # Most pools are in use, and there may be thousands of them.
        if pool.job.name in steady.get(pool.jobset, ()) and world.guest(pool) is None:
            continue
        if not pool.ours or not pool.jobset.name or pool.status == "STOPPING" or world.busy.get(pool.name) == "delete":
            continue
        user, job = _user(pool, world)
        jobset = world.jobsets.get(user)
        found = _verdict(pool, job, user, jobset, settings, reserved=user in kept)
        if found is None:
            continue
        due = max(found.at, pool.created + settings.node_min_lifespan)
        if due > world.now:
            decision.look_at(due)
            continue
        going.add(pool.name)
        about = jobset.subject if jobset is not None else gone_jobset(user)
        decision.actions.append(Delete(pool.name, found.why, about, cancel=pool.status == "PROVISIONING"))
    return going


def _is_steady(jobset: JobSetView) -> bool:
    """Whether a JobSet goes on, so that none of its Jobs gives anything back."""
    return not (jobset.deleting or jobset.ended or jobset.drained or jobset.suspended)


def _user(pool: Pool, world: World) -> tuple[Ref, str]:
    """Whose a pool is: the JobSet that sits on it, else the one it was made for; and the name of its Job."""
    guest = world.guest(pool)
    return (pool.jobset, pool.job.name) if guest is None else (world.seats[guest].jobset, guest.name)


def _verdict(pool: Pool, job: str, user: Ref, jobset: JobSetView | None, settings: Settings, *, reserved: bool) -> Release | None:
    name = user.name
    if jobset is None or jobset.deleting:
        return Release(f"JobSet {name} no longer exists", 0.0)
    if jobset.ended:
        ended = jobset.ended_at.timestamp() if jobset.ended_at is not None else 0.0
        return Release(f"JobSet {name} has {jobset.ended}", ended + settings.deletion_delay)
    if jobset.drained:
        return Release(f"JobSet {name} is drained", 0.0)
    if jobset.held_until is not None and jobset.suspended:
        return Release(f"not all slices of JobSet {name} could be had in time", 0.0)
    if jobset.suspended and not reserved:
        since = jobset.suspended_since.timestamp() if jobset.suspended_since is not None else 0.0
        return Release(f"JobSet {name} is suspended", max(since, pool.created) + settings.suspended_grace)
    if job and job not in jobset.jobs and not reserved:
        return Release(f"JobSet {name} has no Job {job} any more", 0.0)
    return None


def gone_jobset(ref: Ref) -> Subject:
    """Whom to tell about a pool whose JobSet is not there any more: the same name, for those who look for its events."""
    return Subject("jobset.x-k8s.io/v1alpha2", "JobSet", ref.namespace, ref.name)
