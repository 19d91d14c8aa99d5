"""The status of a Workload: its conditions, what they say, and how they change together."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.twin.workloads.kueue.keys import ADMITTED, EVICTED, FINISHED, PREEMPTED, REQUEUED, RESERVED, Obj

if TYPE_CHECKING:
    from collections.abc import Mapping

_LONGEST = 32 * 1024
_NO_RESERVATION = "The workload has no reservation"


def find(obj: Mapping[str, Any], kind: str) -> Obj | None:
    for one in (obj.get("status") or {}).get("conditions") or ():
        if one["type"] == kind:
            found: Obj = one
            return found
    return None


def true(obj: Mapping[str, Any], kind: str) -> bool:
    found = find(obj, kind)
    return found is not None and found["status"] == "True"


def pod_sets_of(workload: Mapping[str, Any]) -> list[Obj]:
    """The pods of a Workload; one that is made has some, but they can be taken away."""
    return workload["spec"].get("podSets") or []


def active(obj: Mapping[str, Any]) -> bool:
    return bool(obj["spec"].get("active", True))


def put(obj: Obj, kind: str, status: bool, reason: str, message: str, *, observed: bool = True) -> bool:
    """Set a condition; tells whether that changed anything."""
    conditions: list[Obj] = obj.setdefault("status", {}).setdefault("conditions", [])
    new: Obj = {"type": kind, "status": "True" if status else "False"}
    if observed:
        new["observedGeneration"] = obj["metadata"].get("generation", 0)
    new |= {"lastTransitionTime": clock.timestamp(), "reason": reason, "message": _cut(message)}
    for position, old in enumerate(conditions):
        if old["type"] == kind:
            if old["status"] == new["status"]:
                new["lastTransitionTime"] = old["lastTransitionTime"]
            if not observed and "observedGeneration" in old:
                new["observedGeneration"] = old["observedGeneration"]
            conditions[position] = new
            return new != old
    conditions.append(new)
    return True


def _cut(message: str) -> str:
    return message if len(message) <= _LONGEST else message[: _LONGEST - 3] + "..."


def drop(obj: Obj, kind: str) -> None:
    status = obj["status"]
    status["conditions"] = [one for one in status["conditions"] if one["type"] != kind]


def checks_ready(obj: Mapping[str, Any]) -> bool:
    return all(one["state"] == "Ready" for one in (obj.get("status") or {}).get("admissionChecks") or ())


def has_check(obj: Mapping[str, Any], *states: str) -> bool:
    return any(one["state"] in states for one in (obj.get("status") or {}).get("admissionChecks") or ())


def reserve(obj: Obj, admission: Obj) -> None:
    """Quota is reserved: what happened before is over."""
    obj.setdefault("status", {})["admission"] = admission
    put(obj, RESERVED, True, RESERVED, f"Quota reserved in ClusterQueue {admission['clusterQueue']}")
    for kind in (EVICTED, PREEMPTED):
        old = find(obj, kind)
        if old is not None and old["status"] == "True":
            put(obj, kind, False, RESERVED, f"Previously: {old['message']}")
    obj["status"].pop("resourceRequests", None)


def unreserve(obj: Obj, reason: str, message: str) -> bool:
    """It has no quota, or no longer."""
    changed = put(obj, RESERVED, False, reason, message)
    changed = obj["status"].pop("admission", None) is not None or changed
    return sync_admitted(obj) or changed


def sync_admitted(obj: Obj) -> bool:
    """Say whether it is admitted: with a reservation and all checks ready."""
    reserved, ready, was = true(obj, RESERVED), checks_ready(obj), true(obj, ADMITTED)
    if was == (reserved and ready):
        return False
    if not was:
        return put(obj, ADMITTED, True, "Admitted", "The workload is admitted")
    _count_time(obj)
    if true(obj, FINISHED):
        return put(obj, ADMITTED, False, FINISHED, "Workload has finished")
    if not reserved and not ready:
        text = f"{_NO_RESERVATION} and not all checks ready"
        return put(obj, ADMITTED, False, "NoReservationUnsatisfiedChecks", text)
    if not reserved:
        return put(obj, ADMITTED, False, "NoReservation", _NO_RESERVATION)
    return put(obj, ADMITTED, False, "UnsatisfiedChecks", "The workload has not all checks ready")


def _count_time(obj: Obj) -> None:
    since = datetime.fromisoformat((find(obj, ADMITTED) or {})["lastTransitionTime"])
    status = obj["status"]
    seconds = int((clock.now() - since).total_seconds())
    status["accumulatedPastExecutionTimeSeconds"] = status.get("accumulatedPastExecutionTimeSeconds", 0) + seconds


def evict(obj: Obj, reason: str, message: str, cause: str = "") -> None:
    """It has to stop; its checks start again."""
    full = f"{reason}DueTo{cause}" if reason == "Deactivated" and cause else reason
    put(obj, EVICTED, True, full, message)
    status = obj["status"]
    for position, check in enumerate(status.get("admissionChecks") or ()):
        if check["state"] != "Pending":
            status["admissionChecks"][position] = _reset(check)
    evictions: list[Obj] = status.setdefault("schedulingStats", {}).setdefault("evictions", [])
    for one in evictions:
        if (one["reason"], one.get("underlyingCause", "")) == (reason, cause):
            one["count"] += 1
            return
    evictions.append({"reason": reason, "underlyingCause": cause, "count": 1})


def _reset(check: Obj) -> Obj:
    text = f"Reset to Pending after eviction. Previously: {check['state']}"
    new: Obj = {"name": check["name"], "state": "Pending", "lastTransitionTime": clock.timestamp(), "message": text}
    if "requeueAfterSeconds" in check:
        new["requeueAfterSeconds"] = check["requeueAfterSeconds"]
    if check["state"] == "Retry":
        new["retryCount"] = check.get("retryCount", 0) + 1
    return new


def finish(obj: Obj, reason: str, message: str) -> None:
    """The job has ended."""
    put(obj, FINISHED, True, reason, message)
    unreserve(obj, FINISHED, "Workload has finished")


def requeued(obj: Obj, reason: str, message: str, status: bool) -> bool:
    return put(obj, REQUEUED, status, reason, message)
