"""The status of a Workload: conditions and how they change together, and its timeouts."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock, conditions
from sliceworks.base.conditions import find_condition, is_condition_true
from sliceworks.twin.controllers.kueue.kueue_api import (
    ADMITTED,
    EVICTED,
    FINISHED,
    PODS_READY,
    PREEMPTED,
    QUOTA_RESERVED,
    REQUEUED,
    Obj,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.twin.controllers.kueue.configuration import WaitForPodsReady


_MAX_MESSAGE = 32 * 1024
_NO_RESERVATION = "The workload has no reservation"


def pod_sets_of(workload: Mapping[str, Any]) -> list[Obj]:
    """The pod sets of a Workload. A new Workload has some, but an update may remove them."""
    return workload["spec"].get("podSets") or []


def is_active(obj: Mapping[str, Any]) -> bool:
    return bool(obj["spec"].get("active", True))


def set_condition(obj: Obj, kind: str, status: bool, reason: str, message: str, *, observed: bool = True) -> bool:
    """Set a condition and its observedGeneration, unless `observed` is false; returns whether anything changed."""
    before = find_condition(obj, kind)
    new: Obj = {"type": kind, "status": "True" if status else "False"}
    if observed:
        new["observedGeneration"] = obj["metadata"].get("generation", 0)
    elif "observedGeneration" in before:
        new["observedGeneration"] = before["observedGeneration"]
    new |= {"lastTransitionTime": clock.timestamp(), "reason": reason, "message": _truncate(message)}
    return conditions.set_condition(obj.setdefault("status", {}).setdefault("conditions", []), new)


def _truncate(message: str) -> str:
    return message if len(message) <= _MAX_MESSAGE else message[: _MAX_MESSAGE - 3] + "..."


def remove_condition(obj: Obj, kind: str) -> None:
    status = obj["status"]
    status["conditions"] = [condition for condition in status["conditions"] if condition["type"] != kind]


def check_states(workload: Mapping[str, Any]) -> list[Obj]:
    """The states of a Workload's admission checks."""
    return (workload.get("status") or {}).get("admissionChecks") or []


def has_all_checks_ready(obj: Mapping[str, Any]) -> bool:
    return all(check["state"] == "Ready" for check in check_states(obj))


def has_check_in_state(obj: Mapping[str, Any], *states: str) -> bool:
    return any(check["state"] in states for check in check_states(obj))


def set_quota_reservation(obj: Obj, admission: Obj) -> None:
    """Set QuotaReserved and the admission, and reset the conditions of an earlier eviction."""
    obj.setdefault("status", {})["admission"] = admission
    set_condition(obj, QUOTA_RESERVED, True, QUOTA_RESERVED, f"Quota reserved in ClusterQueue {admission['clusterQueue']}")
    for kind in (EVICTED, PREEMPTED):
        if is_condition_true(obj, kind):
            set_condition(obj, kind, False, QUOTA_RESERVED, f"Previously: {find_condition(obj, kind)['message']}")
    obj["status"].pop("resourceRequests", None)


def unset_quota_reservation(obj: Obj, reason: str, message: str) -> bool:
    """Set QuotaReserved to false and remove the admission; returns whether anything changed."""
    changed = set_condition(obj, QUOTA_RESERVED, False, reason, message)
    changed = obj["status"].pop("admission", None) is not None or changed
    return sync_admitted_condition(obj) or changed


def sync_admitted_condition(obj: Obj) -> bool:
    """Set Admitted: true with a reservation and all checks ready. Returns whether it changed."""
    reserved, ready, admitted = is_condition_true(obj, QUOTA_RESERVED), has_all_checks_ready(obj), is_condition_true(obj, ADMITTED)
    if admitted == (reserved and ready):
        return False
    if not admitted:
        return set_condition(obj, ADMITTED, True, "Admitted", "The workload is admitted")
    _add_execution_time(obj)
    if is_condition_true(obj, FINISHED):
        return set_condition(obj, ADMITTED, False, FINISHED, "Workload has finished")
    if not reserved and not ready:
        message = f"{_NO_RESERVATION} and not all checks ready"
        return set_condition(obj, ADMITTED, False, "NoReservationUnsatisfiedChecks", message)
    if not reserved:
        return set_condition(obj, ADMITTED, False, "NoReservation", _NO_RESERVATION)
    return set_condition(obj, ADMITTED, False, "UnsatisfiedChecks", "The workload has not all checks ready")


def _add_execution_time(obj: Obj) -> None:
    status = obj["status"]
    seconds = int(clock.seconds_since(find_condition(obj, ADMITTED)["lastTransitionTime"]))
    status["accumulatedPastExecutionTimeSeconds"] = status.get("accumulatedPastExecutionTimeSeconds", 0) + seconds


def set_evicted(obj: Obj, reason: str, message: str, cause: str = "") -> None:
    """Set Evicted, reset the admission checks to Pending, and count the eviction."""
    full_reason = f"{reason}DueTo{cause}" if reason == "Deactivated" and cause else reason
    set_condition(obj, EVICTED, True, full_reason, message)
    status = obj["status"]
    for position, check in enumerate(status.get("admissionChecks") or ()):
        if check["state"] != "Pending":
            status["admissionChecks"][position] = _reset_check(check)
    evictions: list[Obj] = status.setdefault("schedulingStats", {}).setdefault("evictions", [])
    for eviction in evictions:
        if (eviction["reason"], eviction.get("underlyingCause", "")) == (reason, cause):
            eviction["count"] += 1
            return
    evictions.append({"reason": reason, "underlyingCause": cause, "count": 1})


def _reset_check(check: Obj) -> Obj:
    message = f"Reset to Pending after eviction. Previously: {check['state']}"
    new: Obj = {"name": check["name"], "state": "Pending", "lastTransitionTime": clock.timestamp(), "message": message}
    if "requeueAfterSeconds" in check:
        new["requeueAfterSeconds"] = check["requeueAfterSeconds"]
    if check["state"] == "Retry":
        new["retryCount"] = check.get("retryCount", 0) + 1
    return new


def set_finished(obj: Obj, reason: str, message: str) -> None:
    """Set Finished and release the quota."""
    set_condition(obj, FINISHED, True, reason, message)
    unset_quota_reservation(obj, FINISHED, "Workload has finished")


def set_requeued(obj: Obj, reason: str, message: str, status: bool) -> bool:
    return set_condition(obj, REQUEUED, status, reason, message)


def pods_ready_timeout(obj: Mapping[str, Any], config: WaitForPodsReady) -> tuple[str, float] | None:
    """The cause and the seconds left before an admitted Workload exceeds a timeout; None when no timeout runs."""
    admitted, ready = find_condition(obj, ADMITTED), find_condition(obj, PODS_READY)
    if is_condition_true(obj, EVICTED) or admitted.get("status") != "True" or ready.get("status") == "True":
        return None
    if ready.get("reason") != "WaitForRecovery":
        return "WaitForStart", config.timeout + clock.seconds_until(admitted["lastTransitionTime"])
    if config.recovery_timeout is None:
        return None
    return "WaitForRecovery", config.recovery_timeout + clock.seconds_until(ready["lastTransitionTime"])


def execution_time_left(obj: Mapping[str, Any]) -> float | None:
    """The seconds that an admitted Workload may still run; None without a limit."""
    maximum, admitted = obj["spec"].get("maximumExecutionTimeSeconds"), find_condition(obj, ADMITTED)
    if maximum is None or admitted.get("status") != "True":
        return None
    past = obj["status"].get("accumulatedPastExecutionTimeSeconds", 0)
    return float(maximum - past + clock.seconds_until(admitted["lastTransitionTime"]))


def check_retry_time(obj: Mapping[str, Any]) -> str:
    """The latest time to which an admission check delays the retry; empty when it is not in the future."""
    times = [
        datetime.fromisoformat(check["lastTransitionTime"]) + timedelta(seconds=check["requeueAfterSeconds"])
        for check in check_states(obj)
        if check["state"] == "Retry" and check.get("requeueAfterSeconds") is not None
    ]
    return clock.rfc3339(max(times)) if times and max(times) > clock.now() else ""
