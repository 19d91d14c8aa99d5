"""Causes in the Workload: evicted, preempted, deactivated, admission checks pending. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from sliceworks.base.conditions import find_condition, is_condition_true
from sliceworks.catalog import labels
from sliceworks.training.diagnosis import cause_catalog, slice_causes
from sliceworks.training.diagnosis.model import field_reference
from sliceworks.training.status import owner_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.training.diagnosis.model import Cause, Evidence

Object = dict[str, Any]
_UID = re.compile(r"JobUID: ([0-9a-f-]{36})")
_PREEMPTION_REASONS = {
    "InClusterQueue": "because it has a higher priority",
    "InCohortReclamation": "to reclaim quota that its ClusterQueue had lent",
    "InCohortReclaimWhileBorrowing": "to reclaim quota that its ClusterQueue had lent",
    "InCohortFairSharing": "because its ClusterQueue had less than its fair share",
}


def preemptor_uid(workload: Object | None) -> str:
    """The UID of the job that preempted this one; Kueue writes it only into the message of a condition."""
    preempted = find_condition(workload, "Preempted")
    match = _UID.search(preempted.get("message", "")) if preempted.get("status") == "True" else None
    return match[1] if match else ""


def evicted(evidence: Evidence) -> Iterator[Cause]:
    """Kueue admitted the job before, then evicted or deactivated it."""
    workload = evidence.workload
    if workload is None:
        return
    if workload["spec"].get("active") is False:
        yield from _deactivated(evidence, workload)
        return
    condition = find_condition(workload, "Evicted")
    if condition.get("status") != "True":
        return
    reason, message = condition.get("reason", ""), condition.get("message", "")
    where = field_reference(workload, "status.conditions[Evicted]", "Workload")
    if reason == "Preempted":
        yield _preempted(evidence, workload)
    elif reason == "PodsReadyTimeout":
        yield cause_catalog.NOT_READY_IN_TIME.cause(
            f"Its pods were not ready in time.{_describe_dependent(evidence)}{_describe_requeue(workload)}", where, reported=message
        )
    elif reason == "AdmissionCheck":
        yield cause_catalog.CHECK_RETRY.cause(
            f"An admission check requested a retry.{_describe_requeue(workload)}", where, reported=_check_messages(workload)
        )
    elif reason not in ("ClusterQueueStopped", "LocalQueueStopped"):
        yield cause_catalog.EVICTED.cause(f"Kueue evicted it ({reason}).{_describe_requeue(workload)}", where, reported=message)


def _preempted(evidence: Evidence, workload: Object) -> Cause:
    condition, preemptor = find_condition(workload, "Preempted"), evidence.preemptor
    reason = _PREEMPTION_REASONS.get(condition.get("reason", ""), "")
    where = [field_reference(workload, "status.conditions[Preempted]", "Workload")]
    if preemptor is None:
        by = "another job"
    else:
        name = f"{preemptor['metadata']['namespace']}/{owner_name(preemptor)}"
        by = f"{name} (priority {preemptor['spec'].get('priority') or 0})"
        where.append(field_reference(preemptor, "spec.priority", "Workload"))
    own = workload["spec"].get("priority") or 0
    message = f"It was preempted by {by}{reason and f' {reason}'}; its own priority is {own}."
    return cause_catalog.PREEMPTED.cause(message, *where, reported=condition.get("message", ""))


def _deactivated(evidence: Evidence, workload: Object) -> Iterator[Cause]:
    condition = find_condition(workload, "Evicted")
    reason, message = condition.get("reason", ""), condition.get("message", "")
    active = field_reference(workload, "spec.active", "Workload")
    where = (active, field_reference(workload, "status.conditions[Evicted]", "Workload")) if condition else (active,)
    if reason == "DeactivatedDueToAdmissionCheck":
        yield cause_catalog.CHECK_REJECTED.cause(
            "An admission check rejected it.", *where, reported=f"{message} {_check_messages(workload)}"
        )
    elif reason == "DeactivatedDueToRequeuingLimitExceeded":
        count = ((workload.get("status") or {}).get("requeueState") or {}).get("count", 0)
        times = f" after {count} attempts" if count else ""
        yield cause_catalog.NOT_READY_IN_TIME.cause(
            f"Its pods were never ready in time, and Kueue deactivated it{times}.{_describe_dependent(evidence)}",
            *where,
            remedy=cause_catalog.DEACTIVATED.remedy,
            reported=message,
        )
    elif reason == "DeactivatedDueToMaximumExecutionTimeExceeded":
        yield cause_catalog.DEADLINE.cause(
            "It exceeded its maximum execution time, and Kueue deactivated it.", *where, reported=message
        )
    else:
        yield cause_catalog.DEACTIVATED.cause("Its Workload is not active: Kueue does not admit it.", *where, reported=message)


def not_resumed(evidence: Evidence) -> Cause:
    """Kueue admitted the job, but its JobSet is still suspended."""
    workload = evidence.workload
    assert workload is not None
    since = find_condition(workload, "Admitted").get("lastTransitionTime", "")
    warning = next((event for event in evidence.events_of("JobSet", evidence.name) if event.get("type") == "Warning"), {})
    return cause_catalog.NOT_RESUMED.cause(
        f"Kueue admitted it at {since}, but its JobSet is still suspended.",
        field_reference(workload, "status.conditions[Admitted]", "Workload"),
        field_reference(evidence.jobset, "spec.suspend"),
        reported=warning.get("message", ""),
    )


def stopping(evidence: Evidence) -> Cause:
    """The job still holds its quota, but is suspended and not admitted: its pods are being stopped."""
    workload = evidence.workload
    assert workload is not None
    condition = find_condition(workload, "Evicted") or find_condition(workload, "QuotaReserved")
    where = field_reference(workload, f"status.conditions[{condition.get('type', '')}]", "Workload")
    message = f"Kueue has not released its quota yet ({condition.get('reason', '')})."
    return cause_catalog.EVICTED.cause(message, where, reported=condition.get("message", ""))


def admission_checks(evidence: Evidence) -> Iterator[Cause]:
    """The job has quota, but admission checks are not ready."""
    workload = evidence.workload
    if workload is None or not is_condition_true(workload, "QuotaReserved") or is_condition_true(workload, "Admitted"):
        return
    for check in (workload.get("status") or {}).get("admissionChecks") or ():
        if check.get("state") == "Ready":
            continue
        admission_check = evidence.checks.get(check["name"])
        where = [field_reference(workload, f"status.admissionChecks[{check['name']}]", "Workload")]
        controller = ((admission_check or {}).get("spec") or {}).get("controllerName", "")
        if admission_check is not None:
            where.append(field_reference(admission_check, "spec.controllerName", "AdmissionCheck"))
        if controller == labels.SLICES_CHECK and check.get("state") == "Pending":
            yield slice_causes.before_admission(evidence, check.get("message", ""))
        kind = {"Rejected": cause_catalog.CHECK_REJECTED, "Retry": cause_catalog.CHECK_RETRY}.get(
            check.get("state", ""), cause_catalog.CHECK_PENDING
        )
        by = f" (controller {controller})" if controller else ""
        state = {"Rejected": "rejected it", "Retry": "requested a retry"}.get(check.get("state", ""), "is pending")
        yield kind.cause(f"The admission check {check['name']}{by} {state}.", *where, reported=check.get("message", ""))


def _check_messages(workload: Object) -> str:
    checks = (workload.get("status") or {}).get("admissionChecks") or ()
    return "; ".join(f"{check['name']}: {check['message']}" for check in checks if check.get("message"))


def _describe_dependent(evidence: Evidence) -> str:
    """A sentence about replicated jobs that start after others, which Kueue counts from the admission."""
    dependent = [job["name"] for job in evidence.jobset["spec"]["replicatedJobs"] if job.get("dependsOn")]
    return f" Kueue also counts {', '.join(dependent)}, which cannot start before other replicated jobs." if dependent else ""


def _describe_requeue(workload: Object) -> str:
    state = (workload.get("status") or {}).get("requeueState") or {}
    if not state:
        return ""
    when = f" not before {state['requeueAt']}" if state.get("requeueAt") else ""
    times = "once" if state.get("count", 1) == 1 else f"{state['count']} times"
    return f" It was evicted {times}; Kueue requeues it{when}."
