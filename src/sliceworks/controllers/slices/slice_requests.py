"""Slice requests: of unschedulable leaders, of Workloads with a pending admission check, and replacements for occupied pools."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from sliceworks.controllers.slices import node_pool_requirements, object_views, well_known
from sliceworks.controllers.slices.model import NO_CONDITION, Problem
from sliceworks.controllers.slices.node_pool import job_key, pool_name
from sliceworks.kube.resources import Key

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sliceworks.controllers.slices.model import (
        ConditionView,
        Decision,
        JobSetView,
        Leader,
        NodePool,
        ObjectReference,
        ReplicatedJobView,
        Snapshot,
        WorkloadView,
    )
    from sliceworks.controllers.slices.node_pool_requirements import NodePoolRequirements
    from sliceworks.controllers.slices.settings import Settings


Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class SliceRequest:
    """A Job that needs a slice. `regarding` gets its events and conditions: the leader, or the Workload if there is no pod yet."""

    job: Key
    kind: str
    key: str
    jobset: JobSetView
    requirements: NodePoolRequirements | Problem
    since: float
    regarding: ObjectReference
    condition: ConditionView = NO_CONDITION
    workload: WorkloadView | None = None
    podset: str = ""  # of the Workload


def list_requests(snapshot: Snapshot, settings: Settings) -> list[SliceRequest]:
    """All slice requests, grouped by JobSet; the JobSet that has waited longest comes first."""
    by_job: dict[Key, SliceRequest] = {}
    for leader in snapshot.leaders.values():
        request = _leader_request(leader, snapshot)
        if request is not None:
            by_job[request.job] = request
    for workload in snapshot.workloads:
        for request in _workload_requests(workload, snapshot, settings):
            by_job.setdefault(request.job, request)
    first: dict[Key, float] = {}
    for request in by_job.values():
        ref = request.jobset.ref
        first[ref] = min(first.get(ref, request.since), request.since)
    return sorted(by_job.values(), key=lambda request: (first[request.jobset.ref], request.jobset.ref, request.job))


def has_pending_check(workload: WorkloadView, snapshot: Snapshot) -> bool:
    """Whether a Workload has reserved quota, and all its checks of this controller are Pending or Ready."""
    states = [state for name, (state, _) in workload.checks.items() if name in snapshot.checks]
    return workload.active and bool(states) and all(state in ("Pending", "Ready") for state in states)


def _leader_request(leader: Leader, snapshot: Snapshot) -> SliceRequest | None:
    jobset = snapshot.jobsets.get(leader.jobset)
    # Without an active JobSet the pool would be garbage-collected immediately.
    if jobset is None or jobset.ended or jobset.deleting or jobset.suspended:
        return None
    template = jobset.templates.get(leader.template)
    requirements = jobset.time_limit if isinstance(jobset.time_limit, Problem) else leader.requirements
    if not isinstance(requirements, Problem):
        requirements = node_pool_requirements.for_job(requirements, template.pods if template is not None else 1)
    key = leader.job_key or job_key(leader.job)
    return SliceRequest(
        leader.job, leader.job_kind, key, jobset, requirements, leader.since.timestamp(), leader.subject, leader.condition
    )


def _workload_requests(workload: WorkloadView, snapshot: Snapshot, settings: Settings) -> Iterator[SliceRequest]:
    jobset = snapshot.jobsets.get(workload.jobset)
    if jobset is None or jobset.ended or jobset.deleting or not has_pending_check(workload, snapshot):
        return
    since = workload.reserved_since.timestamp() if workload.reserved_since is not None else snapshot.now
    for template in jobset.templates.values():
        flavor = _flavor(workload, template.name, snapshot)
        for index in range(template.replicas):
            job = Key(jobset.ref.namespace, f"{jobset.ref.name}-{template.name}-{index}")
            labels = {
                well_known.JOBSET_NAME: jobset.ref.name,
                well_known.REPLICATED_JOB: template.name,
                well_known.JOB_INDEX: str(index),
                well_known.JOB_KEY: job_key(job),
            }
            requirements = _planned(template, flavor, labels, settings)
            if requirements is not None and isinstance(jobset.time_limit, Problem):
                requirements = jobset.time_limit
            if requirements is not None:
                regarding = workload.subject
                yield SliceRequest(
                    job, "Job", job_key(job), jobset, requirements, since, regarding, workload=workload, podset=template.name
                )


def _planned(
    template: ReplicatedJobView, flavor: Object, labels: dict[str, str], settings: Settings
) -> NodePoolRequirements | Problem | None:
    requirements = object_views.planned_requirements(template, flavor, labels, settings)
    return (
        node_pool_requirements.for_job(requirements, template.pods)
        if requirements is not None and not isinstance(requirements, Problem)
        else requirements
    )


def _flavor(workload: WorkloadView, podset: str, snapshot: Snapshot) -> Object:
    """The node labels and tolerations of all flavors of a pod set."""
    labels: Object = {}
    tolerations: list[Object] = []
    for name in workload.flavors.get(podset, ()):
        spec = snapshot.flavors.get(name) or {}
        labels |= spec.get("nodeLabels") or {}
        tolerations += spec.get("tolerations") or ()
    return {"nodeLabels": labels, "tolerations": tolerations}


REPLACEMENT_GRACE = 15.0  # seconds in which the scheduler places a leader on its own pool if that is free


@dataclass(slots=True)
class _Group:
    """The Jobs of one replicated Job, which can use each other's pools."""

    waiting: list[SliceRequest] = field(default_factory=list)
    pools: list[NodePool] = field(default_factory=list)


def replacement_requests(requests: Iterable[SliceRequest], snapshot: Snapshot, decision: Decision) -> Iterator[SliceRequest]:
    """Requests of Jobs whose own pool is occupied by another Job of the same replicated Job."""
    groups: dict[tuple[Key, str], _Group] = {}
    for request in requests:
        if request.workload is None and not isinstance(request.requirements, Problem):
            groups.setdefault((request.jobset.ref, stem_of(request.job.name)), _Group()).waiting.append(request)
    for pool in snapshot.pools.values() if groups else ():
        is_free = pool.is_managed and snapshot.occupant(pool) is None
        group = groups.get((pool.jobset, stem_of(pool.job.name))) if is_free else None
        if group is not None:
            group.pools.append(pool)
    for (_, stem), group in groups.items():
        yield from _group_requests(stem, group, snapshot, decision)


def _group_requests(stem: str, group: _Group, snapshot: Snapshot, decision: Decision) -> Iterator[SliceRequest]:
    jobset, by_job = group.waiting[0].jobset, {pool.job: pool for pool in group.pools}
    waiting = {request.job for request in group.waiting}
    missing = [request for request in group.waiting if (pool := by_job.get(request.job)) is not None and pool.is_running]
    if not missing:
        return
    past_grace = sum(_is_past_grace(by_job[request.job], snapshot, decision) for request in missing)
    others = [job for name in _jobs(jobset.jobs, stem) if (job := Key(jobset.ref.namespace, name)) not in waiting]
    # Of the pools that have just become ready, some may still be free: those beyond the number of placed Jobs.
    placed = sum(job in snapshot.known_jobs for job in others)
    free = max(sum(pool.is_running for pool in group.pools) - placed, 0)
    lacking = max(past_grace, len(missing) - free)
    being_created = sum(_is_being_created(job, by_job.get(job), jobset.ref, snapshot) for job in others)
    without_pool = (job for job in others if _lacks_pool(by_job.get(job)) and not _is_requested(job, jobset.ref, snapshot))
    for request, job in zip(missing[: max(lacking - being_created, 0)], without_pool, strict=False):
        yield replace(request, job=job, key=job_key(job))


def _lacks_pool(pool: NodePool | None) -> bool:
    """Whether a scheduled Job does not have a usable pool."""
    return pool is None or pool.is_broken


def _is_past_grace(pool: NodePool, snapshot: Snapshot, decision: Decision) -> bool:
    """Whether a pool has been running so long that its own leader would be on it if it were free."""
    until = snapshot.running_since.get(pool.name, snapshot.now) + REPLACEMENT_GRACE
    if until > snapshot.now:
        decision.requeue_at(until)
    return until <= snapshot.now


def _is_being_created(job: Key, pool: NodePool | None, jobset: Key, snapshot: Snapshot) -> bool:
    """Whether the pool of a scheduled Job is being created."""
    return pool.status == "PROVISIONING" if pool is not None else _is_requested(job, jobset, snapshot)


def _is_requested(job: Key, jobset: Key, snapshot: Snapshot) -> bool:
    return snapshot.pending_operations.get(pool_name(jobset.name, job_key(job))) == "create"


def stem_of(job: str) -> str:
    """A Job's name without its index."""
    return job.rpartition("-")[0]


def _jobs(names: Iterable[str], stem: str) -> list[str]:
    """The Jobs of one replicated Job, by index."""
    return sorted((name for name in names if stem_of(name) == stem), key=lambda name: int(name.rpartition("-")[2]))
