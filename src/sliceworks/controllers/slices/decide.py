"""Computes every action from one snapshot. Pure and level-based.

The actions depend only on the snapshot, not on earlier reconciles, so a restarted controller continues where the last one stopped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.controllers.slices import jobset_progress, slice_requests, well_known
from sliceworks.controllers.slices.garbage_collection import delete_unused
from sliceworks.controllers.slices.model import CreateNodePool, Decision, DeleteNodePool, SetCondition
from sliceworks.controllers.slices.provisioner import Provisioner, SliceState
from sliceworks.controllers.slices.slice_requests import list_requests

if TYPE_CHECKING:
    from sliceworks.controllers.slices.model import Action, Snapshot
    from sliceworks.controllers.slices.settings import Settings
    from sliceworks.controllers.slices.slice_requests import SliceRequest
    from sliceworks.kube.resources import Key


def decide(snapshot: Snapshot, settings: Settings) -> Decision:
    """The actions for a snapshot, and the time of the next reconcile."""
    decision = Decision()
    requests = list_requests(snapshot, settings)
    if snapshot.cloud_error is not None:
        _report_cloud_error(requests, snapshot, decision)
        return decision
    # 1. Delete unused node pools.
    deleting = delete_unused(requests, snapshot, settings, decision)
    provisioner = Provisioner(snapshot, settings, decision, deleting)
    # 2. Suspend JobSets that did not get all their slices in time.
    pending: dict[Key, list[SliceRequest]] = {}
    for request in requests:
        pool = provisioner.pool_of(request)
        if request.workload is None and (pool is None or not pool.is_running):
            pending.setdefault(request.jobset.ref, []).append(request)
    suspended = jobset_progress.suspend_late(pending, snapshot, settings, decision)
    jobset_progress.resume_due(snapshot, decision)
    # 3. Take the next step for every slice request.
    slice_states: dict[Key, list[SliceState]] = {}
    for request in requests:
        if request.jobset.ref not in suspended:
            slice_states.setdefault(request.jobset.ref, []).append(provisioner.step(request))
    for request in slice_requests.replacement_requests(
        [request for request in requests if request.jobset.ref not in suspended], snapshot, decision
    ):
        slice_states[request.jobset.ref].append(provisioner.step(request))
    provisioner.record_attempts()
    # 4. Report progress.
    jobset_progress.update_checks(requests, slice_states, snapshot, settings, decision)
    _report_progress(requests, slice_states, snapshot, decision)
    decision.actions.sort(key=_urgency)
    return decision


def _urgency(action: Action) -> int:
    """Deletions come first, because they free capacity, then creations, then reports."""
    return 0 if isinstance(action, DeleteNodePool) else 1 if isinstance(action, CreateNodePool) else 2


def _report_progress(
    requests: list[SliceRequest], slice_states: dict[Key, list[SliceState]], snapshot: Snapshot, decision: Decision
) -> None:
    counts = jobset_progress.count_slices(requests, snapshot)
    for view in snapshot.jobsets.values():
        released = jobset_progress.released_condition(view, counts.get(view.ref))
        if released is not None and not view.deleting:
            decision.actions.append(released)
    for ref, slices in counts.items():
        jobset = snapshot.jobsets.get(ref)
        if jobset is None or jobset.suspended or (jobset.condition.status == "True" and not slices.ready):
            continue
        condition = jobset_progress.jobset_condition(jobset, slice_states.get(ref, []), slices)
        if condition is not None:
            decision.actions.append(condition)


def _report_cloud_error(requests: list[SliceRequest], snapshot: Snapshot, decision: Decision) -> None:
    """Report that node pools cannot be listed: conditions on pods and JobSets, and an event per pod. Nothing else is done."""
    cloud_error = snapshot.cloud_error
    assert cloud_error is not None
    actions, problem = decision.actions, (cloud_error.reason, cloud_error.message)
    for request in requests:
        if request.workload is None and (request.condition.reason, request.condition.message) != problem:
            since, is_new = request.condition.since, request.condition.reason != cloud_error.reason
            actions.append(SetCondition(request.regarding, well_known.POD_CONDITION, "False", *problem, event=is_new, since=since))
    for jobset in {request.jobset.ref: request.jobset for request in requests if request.workload is None}.values():
        if (jobset.condition.reason, jobset.condition.message) != problem:
            since = jobset.condition.since if jobset.condition.status == "False" else None
            actions.append(SetCondition(jobset.subject, well_known.JOBSET_CONDITION, "False", *problem, since=since))
    jobset_progress.report_cloud_error(cloud_error, snapshot, decision)
