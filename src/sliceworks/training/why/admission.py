"""Causes in a JobSet's Workload: Kueue sent it back, gave it up, or an admission check has not said yes. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from sliceworks.base.conditions import condition, is_true
from sliceworks.catalog import labels
from sliceworks.training.why import capacity, kinds
from sliceworks.training.why.answer import seen
from sliceworks.training.why.evidence import owner

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.training.why.answer import Cause
    from sliceworks.training.why.evidence import Evidence

Object = dict[str, Any]
_UID = re.compile(r"JobUID: ([0-9a-f-]{36})")
_WHY = {
    "InClusterQueue": "because it has a higher priority",
    "InCohortReclamation": "because that queue took back what it had lent",
    "InCohortReclaimWhileBorrowing": "because that queue took back what it had lent",
    "InCohortFairSharing": "because that queue had less than its fair share",
}


def preemptor_uid(workload: Object | None) -> str:
    """The uid of the job that took its place; Kueue writes it nowhere but in the words of a condition."""
    told = condition(workload, "Preempted")
    found = _UID.search(told.get("message", "")) if told.get("status") == "True" else None
    return found[1] if found else ""


def sent_back(evidence: Evidence) -> Iterator[Cause]:
    """Kueue ran it before, and took it out again, or gave it up."""
    workload = evidence.workload
    if workload is None:
        return
    if workload["spec"].get("active") is False:
        yield from _given_up(workload)
        return
    told = condition(workload, "Evicted")
    if told.get("status") != "True":
        return
    reason, where = told.get("reason", ""), seen(workload, "status.conditions[Evicted]", "Workload")
    if reason == "Preempted":
        yield _preempted(evidence, workload)
    elif reason == "PodsReadyTimeout":
        yield kinds.NOT_READY_IN_TIME.cause(
            f"Its pods were not ready in time.{_again(workload)}", where, said=told.get("message", "")
        )
    elif reason == "AdmissionCheck":
        yield kinds.CHECK_RETRY.cause(
            f"An admission check took its yes back.{_again(workload)}", where, said=_checks_said(workload)
        )
    elif reason not in ("ClusterQueueStopped", "LocalQueueStopped"):
        yield kinds.EVICTED.cause(f"Kueue evicted it ({reason}).{_again(workload)}", where, said=told.get("message", ""))


def _preempted(evidence: Evidence, workload: Object) -> Cause:
    told, by = condition(workload, "Preempted"), evidence.preemptor
    why = _WHY.get(told.get("reason", ""), "")
    where = [seen(workload, "status.conditions[Preempted]", "Workload")]
    if by is None:
        who = "Another job took its place"
    else:
        who = f"{by['metadata']['namespace']}/{owner(by)} took its place (priority {by['spec'].get('priority') or 0})"
        where.append(seen(by, "spec.priority", "Workload"))
    own = workload["spec"].get("priority") or 0
    return kinds.PREEMPTED.cause(
        f"{who} {why}; its own priority is {own}.".replace("  ", " "), *where, said=told.get("message", "")
    )


def _given_up(workload: Object) -> Iterator[Cause]:
    told = condition(workload, "Evicted")
    reason, message = told.get("reason", ""), told.get("message", "")
    active = seen(workload, "spec.active", "Workload")
    where = (active, seen(workload, "status.conditions[Evicted]", "Workload")) if told else (active,)
    if reason == "DeactivatedDueToAdmissionCheck":
        yield kinds.CHECK_REJECTED.cause(
            "An admission check said no, for good.", *where, said=f"{message} {_checks_said(workload)}"
        )
    elif reason == "DeactivatedDueToRequeuingLimitExceeded":
        count = ((workload.get("status") or {}).get("requeueState") or {}).get("count", 0)
        times = f" after {count} tries" if count else ""
        yield kinds.NOT_READY_IN_TIME.cause(
            f"Its pods were never ready in time, and Kueue gave it up{times}.",
            *where,
            remedy=kinds.DEACTIVATED.remedy,
            said=message,
        )
    elif reason == "DeactivatedDueToMaximumExecutionTimeExceeded":
        yield kinds.DEADLINE.cause("It ran longer than Kueue lets it run, and was given up.", *where, said=message)
    else:
        yield kinds.DEACTIVATED.cause("Its Workload is switched off: Kueue leaves it alone.", *where, said=message)


def checks(evidence: Evidence) -> Iterator[Cause]:
    """It has quota, and somebody has still to say yes."""
    workload = evidence.workload
    if workload is None or not is_true(workload, "QuotaReserved") or is_true(workload, "Admitted"):
        return
    for check in (workload.get("status") or {}).get("admissionChecks") or ():
        if check.get("state") == "Ready":
            continue
        told = evidence.checks.get(check["name"])
        where = [seen(workload, f"status.admissionChecks[{check['name']}]", "Workload")]
        controller = ((told or {}).get("spec") or {}).get("controllerName", "")
        if told is not None:
            where.append(seen(told, "spec.controllerName", "AdmissionCheck"))
        if controller == labels.SLICES_CHECK and check.get("state") == "Pending":
            yield capacity.before_admission(evidence, check.get("message", ""))
        kind = {"Rejected": kinds.CHECK_REJECTED, "Retry": kinds.CHECK_RETRY}.get(check.get("state", ""), kinds.CHECK_PENDING)
        who = f", which {controller} answers" if controller else ""
        words = {"Rejected": "has said no", "Retry": "asks for another try"}.get(check.get("state", ""), "has not said yes")
        yield kind.cause(f"The admission check {check['name']}{who}, {words}.", *where, said=check.get("message", ""))


def _checks_said(workload: Object) -> str:
    checks = (workload.get("status") or {}).get("admissionChecks") or ()
    return "; ".join(f"{each['name']}: {each['message']}" for each in checks if each.get("message"))


def _again(workload: Object) -> str:
    state = (workload.get("status") or {}).get("requeueState") or {}
    if not state:
        return ""
    when = f" not before {state['requeueAt']}" if state.get("requeueAt") else " again"
    times = "once" if state.get("count", 1) == 1 else f"{state['count']} times"
    return f" It was sent back {times} and is tried{when}."
