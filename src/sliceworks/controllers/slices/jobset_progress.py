"""Progress of whole JobSets: all-or-nothing suspension, the JobSet condition, and Kueue's admission check."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from sliceworks.base import duration
from sliceworks.catalog import labels
from sliceworks.controllers.slices import well_known
from sliceworks.controllers.slices.model import Decision, ResumeJobSet, SetAdmissionCheck, SetCondition, SuspendJobSet
from sliceworks.controllers.slices.slice_requests import has_pending_check, stem_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sliceworks.controllers.slices.model import CheckState, JobSetView, Problem, Snapshot, WorkloadView
    from sliceworks.controllers.slices.provisioner import SliceState
    from sliceworks.controllers.slices.settings import Settings
    from sliceworks.controllers.slices.slice_requests import SliceRequest
    from sliceworks.kube.resources import Key


@dataclass(slots=True)
class SliceCount:
    """The Jobs of one JobSet that have or need a slice, those that run on one, and free slices by replicated Job."""

    jobs: set[Key] = field(default_factory=set)
    placed: set[Key] = field(default_factory=set)
    free: Counter[str] = field(default_factory=Counter)

    @property
    def ready(self) -> int:
        """The number of Jobs with a slice: a leader that is not placed can use any free slice of its replicated Job."""
        unplaced = Counter(stem_of(job.name) for job in self.jobs - self.placed)
        return len(self.placed) + (unplaced & self.free).total()


def provisioning_timeout(jobset: JobSetView, settings: Settings) -> float:
    """Seconds between the first and the last ready slice of a JobSet; 0 means no timeout. An invalid annotation is ignored here."""
    return jobset.time_limit if isinstance(jobset.time_limit, float) else settings.time_limit


def suspend_late(pending: Mapping[Key, list[SliceRequest]], snapshot: Snapshot, settings: Settings, decision: Decision) -> set[Key]:
    """Suspend JobSets with some but not all slices after the timeout (all or nothing); returns their names."""
    held_since = _held_since(snapshot) if pending else {}
    suspended: set[Key] = set()
    for ref, requests in pending.items():
        jobset = requests[0].jobset
        timeout = provisioning_timeout(jobset, settings)
        # Kueue manages queued JobSets; their admission check has the same timeout.
        if not timeout or jobset.queued or ref not in held_since:
            continue
        deadline = held_since[ref] + timeout
        if deadline > snapshot.now:
            decision.requeue_at(deadline)
            continue
        suspended.add(ref)
        reason = (
            f"{len(requests)} of {len(jobset.jobs)} slices were not ready within {duration.render(timeout)} after the first one"
        )
        decision.actions.append(SuspendJobSet(jobset.subject, snapshot.now + settings.retry_cap, reason))
    return suspended


def _held_since(snapshot: Snapshot) -> dict[Key, float]:
    """When the first of the slices that each JobSet holds became ready."""
    held: dict[Key, float] = {}
    for pool in snapshot.pools.values():
        if pool.is_managed and pool.is_running:
            since = snapshot.running_since.get(pool.name, pool.created)
            held[pool.jobset] = min(held.get(pool.jobset, since), since)
    return held


def resume_due(snapshot: Snapshot, decision: Decision) -> None:
    """Resume JobSets whose suspension has expired, and clean up those that another client has resumed."""
    for jobset in snapshot.jobsets.values():
        if jobset.suspended_until is None or jobset.ended or jobset.deleting:
            continue
        until = jobset.suspended_until.timestamp()
        if jobset.suspended and until > snapshot.now:
            decision.requeue_at(until)
        else:
            decision.actions.append(ResumeJobSet(jobset.subject))


def jobset_condition(jobset: JobSetView, states: list[SliceState], slices: SliceCount) -> SetCondition | None:
    """The JobSet's condition, or None if it is up to date."""
    pending = [state for state in states if state.state != "ready"]
    total = max(len(states), len(slices.jobs))
    if not total or jobset.ended or jobset.deleting:
        return None
    worst = next((state for state in pending if state.just_failed), None) or next(
        (state for state in pending if state.problem), None
    )
    problem = worst.problem if worst is not None else None
    message = f"{slices.ready} of {total} slices are ready"
    previous = jobset.condition
    is_incomplete = slices.ready < total
    reason = "Ready" if not is_incomplete else problem.reason if problem is not None else "Provisioning"
    status: Literal["True", "False"] = "False" if is_incomplete else "True"
    is_same = (previous.status, previous.reason) == (status, reason)
    if is_same and previous.message.partition(": ")[0] == message and not (worst and worst.just_failed):
        return None  # keep the details of the last failure
    if problem is not None:
        message += f": {problem.message}"
    return SetCondition(
        jobset.subject,
        well_known.JOBSET_CONDITION,
        status,
        reason,
        message,
        urgent=not is_same,
        since=previous.since if previous.status == status else None,
    )


def count_slices(requests: Iterable[SliceRequest], snapshot: Snapshot) -> dict[Key, SliceCount]:
    """The slices of each JobSet: its own that no other JobSet occupies, and those of others that its Jobs occupy."""
    counts: dict[Key, SliceCount] = {}
    for request in requests:
        counts.setdefault(request.jobset.ref, SliceCount()).jobs.add(request.job)
    for pool in snapshot.pools.values():
        if pool.is_managed and snapshot.occupant(pool) is None:
            count = counts.setdefault(pool.jobset, SliceCount())
            count.jobs.update([pool.job] if pool.job.name else ())
            count.free[stem_of(pool.job.name)] += pool.is_running and pool.name not in snapshot.occupants
    for job, placement in snapshot.placements.items():
        occupied = snapshot.pools.get(placement.pool)
        jobset = snapshot.jobsets.get(placement.jobset)
        # A JobSet without own slices only counts if a condition says otherwise.
        if (occupied is not None and occupied.is_managed) or (jobset is not None and jobset.condition.status):
            count = counts.setdefault(placement.jobset, SliceCount())
            count.jobs.add(job)
            count.placed.update([job] if occupied is not None and occupied.is_running else ())
    return counts


def released_condition(jobset: JobSetView, slices: SliceCount | None) -> SetCondition | None:
    """The condition of a JobSet whose slices were deleted; None if it has slices, or does not claim to."""
    status, reported = jobset.condition.status, jobset.condition.message
    is_over = bool(jobset.ended) or jobset.suspended
    has_claim = status == "True" or (status == "False" and is_over and not reported.startswith("0 "))
    if not has_claim or (slices is not None and slices.ready):
        return None
    cause = f"the JobSet has {jobset.ended}" if jobset.ended else "the JobSet is suspended" if jobset.suspended else "no node pools"
    return SetCondition(jobset.subject, well_known.JOBSET_CONDITION, "False", labels.RELEASED, f"0 slices are ready: {cause}")


def update_checks(
    requests: Iterable[SliceRequest],
    slice_states: Mapping[Key, list[SliceState]],
    snapshot: Snapshot,
    settings: Settings,
    decision: Decision,
) -> None:
    """Update the admission checks of all pending Workloads. `slice_states` are by JobSet.

    A ready Workload's pods get a node selector for its own pools, so that no other Workload can occupy them.
    """
    podsets: dict[Key, dict[str, None]] = {}
    for request in requests:
        if request.workload is not None:
            podsets.setdefault(request.jobset.ref, {})[request.podset] = None
    for check in snapshot.inactive_checks:
        decision.actions.append(
            SetCondition(
                check, "Active", "True", "Active", "the slices controller creates node pools for Workloads with this check"
            )
        )
    for workload in snapshot.workloads:
        if not has_pending_check(workload, snapshot):
            continue
        state, message = _check_state(workload, slice_states.get(workload.jobset) or [], snapshot, settings, decision)
        for name, (before, previous) in workload.checks.items():
            if name in snapshot.checks and before == "Pending" and (before, previous) != (state, message):
                podset_names = tuple(podsets.get(workload.jobset, ())) if state == "Ready" else ()
                selector, urgent, event = _pool_selector(workload.jobset), state != "Pending", state in ("Retry", "Rejected")
                decision.actions.append(
                    SetAdmissionCheck(workload.subject, name, state, message, podset_names, selector, urgent=urgent, event=event)
                )


def report_cloud_error(cloud_error: Problem, snapshot: Snapshot, decision: Decision) -> None:
    """Report to pending Workloads that node pools cannot be listed."""
    for workload in snapshot.workloads:
        if has_pending_check(workload, snapshot):
            for name, (before, message) in workload.checks.items():
                if name in snapshot.checks and before == "Pending" and message != cloud_error.message:
                    decision.actions.append(SetAdmissionCheck(workload.subject, name, "Pending", cloud_error.message, event=True))


def _pool_selector(jobset: Key) -> dict[str, str]:
    """The node labels of a JobSet's node pools."""
    return {well_known.POOL_JOBSET_NAME: jobset.name, well_known.POOL_JOBSET_NAMESPACE: jobset.namespace}


def _check_state(
    workload: WorkloadView, states: list[SliceState], snapshot: Snapshot, settings: Settings, decision: Decision
) -> tuple[CheckState, str]:
    ready = sum(state.state == "ready" for state in states)
    if ready == len(states):
        return "Ready", f"{ready} slices are ready" if states else "no slices needed"
    permanent = next((state.problem for state in states if state.permanent and state.problem is not None), None)
    if permanent is not None:
        return "Rejected", permanent.message
    message = f"{ready} of {len(states)} slices are ready"
    problem = next((state.problem for state in states if state.problem is not None), None)
    if problem is not None:
        message += f": {problem.message}"
    jobset = snapshot.jobsets[workload.jobset]
    timeout = provisioning_timeout(jobset, settings)
    if timeout and workload.reserved_since is not None:
        deadline = workload.reserved_since.timestamp() + timeout
        if deadline <= snapshot.now:
            return "Retry", f"{message}; timed out after {duration.render(timeout)}"
        decision.requeue_at(deadline)
    return "Pending", message
