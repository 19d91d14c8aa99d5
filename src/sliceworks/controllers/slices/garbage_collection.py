"""Decides which node pools to delete: the JobSet was deleted, completed, suspended, or no longer has the Job.

A pool that another JobSet occupies counts as that JobSet's pool.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sliceworks.controllers.slices.model import Decision, DeleteNodePool, ObjectReference, Problem
from sliceworks.controllers.slices.slice_requests import REPLACEMENT_GRACE, has_pending_check

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sliceworks.controllers.slices.model import JobSetView, NodePool, Snapshot
    from sliceworks.controllers.slices.settings import Settings
    from sliceworks.controllers.slices.slice_requests import SliceRequest
    from sliceworks.kube.resources import Key


class DeletionReason(NamedTuple):
    """Why and when a pool can be deleted."""

    reason: str
    at: float


def delete_unused(requests: Iterable[SliceRequest], snapshot: Snapshot, settings: Settings, decision: Decision) -> set[str]:
    """Delete unused pools; returns their names."""
    requested = {request.requirements.digest for request in requests if not isinstance(request.requirements, Problem)}
    has_moving = _has_moving_leader(snapshot)
    reserved_jobsets = {workload.jobset for workload in snapshot.workloads if has_pending_check(workload, snapshot)}
    deleted: set[str] = set()
    active_jobs = {ref: jobset.jobs for ref, jobset in snapshot.jobsets.items() if _is_active(jobset)}
    for pool in snapshot.pools.values():
        # Fast path: most of thousands of pools are in use.
        is_needed = pool.job.name in active_jobs.get(pool.jobset, ()) and snapshot.occupant(pool) is None
        if is_needed and not _is_abandoned(pool, snapshot):
            continue
        if (
            not pool.is_managed
            or not pool.jobset.name
            or pool.status == "STOPPING"
            or snapshot.pending_operations.get(pool.name) == "delete"
        ):
            continue
        user, job = _user_of(pool, snapshot)
        jobset = snapshot.jobsets.get(user)
        if is_needed:
            deletion: DeletionReason | None = _abandoned_reason(pool, snapshot, settings)
        else:
            # The scheduler may already have placed a leader on this pool, whose pod the deletion would end.
            grace = REPLACEMENT_GRACE if pool.is_running and (has_moving or pool.digest in requested) else 0.0
            deletion = _deletion_reason(pool, job, user, jobset, settings, reserved=user in reserved_jobsets, grace=grace)
        if deletion is None:
            continue
        deletion_time = max(deletion.at, pool.created + settings.node_min_lifespan)
        if deletion_time > snapshot.now:
            decision.requeue_at(deletion_time)
            continue
        deleted.add(pool.name)
        regarding = jobset.subject if jobset is not None else deleted_jobset(user)
        decision.actions.append(DeleteNodePool(pool.name, deletion.reason, regarding, cancel=pool.status == "PROVISIONING"))
    return deleted


def _has_moving_leader(snapshot: Snapshot) -> bool:
    """Whether a leader is no longer unschedulable, and the node pool that it runs on is not known yet."""
    for job, ref in snapshot.known_jobs.items():
        if job not in snapshot.leaders and job not in snapshot.placements:
            jobset = snapshot.jobsets.get(ref)
            if jobset is not None and _is_active(jobset) and job.name in jobset.jobs:
                return True
    return False


def _is_abandoned(pool: NodePool, snapshot: Snapshot) -> bool:
    """Whether a ready pool is empty because the leader of its Job runs elsewhere, and no Job of the JobSet waits for a slice."""
    placement = snapshot.placements.get(pool.job)
    return (
        placement is not None
        and placement.pool != pool.name
        and pool.is_managed
        and pool.is_running
        and pool.name not in snapshot.occupants
        and pool.jobset not in snapshot.waiting_jobsets
    )


def _abandoned_reason(pool: NodePool, snapshot: Snapshot, settings: Settings) -> DeletionReason:
    since = snapshot.running_since.get(pool.name, snapshot.now)
    elsewhere = snapshot.placements[pool.job].pool
    return DeletionReason(f"Job {pool.job.name} runs on node pool {elsewhere}", since + settings.unused_grace)


def _is_active(jobset: JobSetView) -> bool:
    """Whether a JobSet is active, so that its pools stay."""
    return not (jobset.deleting or jobset.ended or jobset.drained or jobset.suspended)


def _user_of(pool: NodePool, snapshot: Snapshot) -> tuple[Key, str]:
    """The JobSet that uses a pool (its occupant, or else its owner), and the name of the Job."""
    occupant = snapshot.occupant(pool)
    return (pool.jobset, pool.job.name) if occupant is None else (snapshot.placements[occupant].jobset, occupant.name)


def _deletion_reason(
    pool: NodePool, job: str, user: Key, jobset: JobSetView | None, settings: Settings, *, reserved: bool, grace: float
) -> DeletionReason | None:
    name = user.name
    if jobset is None or jobset.deleting:
        return DeletionReason(f"JobSet {name} no longer exists", 0.0)
    if jobset.ended:
        ended = jobset.ended_at.timestamp() if jobset.ended_at is not None else 0.0
        return DeletionReason(f"JobSet {name} has {jobset.ended}", ended + max(settings.deletion_delay, grace))
    if jobset.drained:
        return DeletionReason(f"JobSet {name} is drained", 0.0)
    if jobset.suspended_until is not None and jobset.suspended:
        return DeletionReason(f"not all slices of JobSet {name} were ready in time", 0.0)
    if jobset.suspended and not reserved:
        since = jobset.suspended_since.timestamp() if jobset.suspended_since is not None else 0.0
        return DeletionReason(f"JobSet {name} is suspended", max(since, pool.created) + settings.suspended_grace)
    if job and job not in jobset.jobs and not reserved:
        return DeletionReason(f"JobSet {name} no longer has the Job {job}", 0.0)
    return None


def deleted_jobset(ref: Key) -> ObjectReference:
    """A reference to a deleted JobSet, for the events of its pools."""
    return ObjectReference("jobset.x-k8s.io/v1alpha2", "JobSet", ref.namespace, ref.name)
