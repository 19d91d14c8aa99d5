"""What must hold for the status of controllers: counts that are never negative and add up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.schemas.field_errors import OMITTED, invalid, required
from sliceworks.schemas.rules.jobs import indexes_total
from sliceworks.schemas.rules.texts import Errors, none_negative

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.schemas.rules.shape import Json

_MORE = "cannot be greater than status.replicas"


def counts(*fields: str) -> Callable[[Json, Json], Errors]:
    """Counts that are never negative."""

    def check(new: Json, _old: Json) -> Errors:
        out: Errors = []
        none_negative(out, new.get("status") or {}, "status", *fields)
        return out

    return check


def replicas(*parts: str, ready: str = "cannot be greater than readyReplicas") -> Callable[[Json, Json], Errors]:
    """Counts of replicas: parts are never more than the whole, and the available ones are ready."""

    def check(new: Json, old: Json) -> Errors:
        out: Errors = []
        status: Json = new.get("status") or {}
        none_negative(out, status, "status", "observedGeneration", "replicas", *parts, "unavailableReplicas", "collisionCount")
        total = status.get("replicas") or 0
        for field in parts:
            if (status.get(field) or 0) > total:
                out.append(invalid(f"status.{field}", status.get(field) or 0, _MORE))
        available = status.get("availableReplicas") or 0
        if available > (status.get("readyReplicas") or 0):
            out.append(invalid("status.availableReplicas", available, ready))
        before = (old.get("status") or {}).get("collisionCount")
        if before is not None and (status.get("collisionCount") or 0) < before:
            out.append(invalid("status.collisionCount", status.get("collisionCount") or 0, "cannot be decremented"))
        return out

    return check


def job_status_errors(new: Json, old: Json) -> Errors:
    out: Errors = []
    status, before, spec = new.get("status") or {}, old.get("status") or {}, new.get("spec") or {}
    none_negative(out, status, "status", "active", "succeeded", "failed", "ready", "terminating")
    true, was_true = _true(status), _true(before)
    _conditions(out, true, was_true)
    complete, finished = "Complete" in true, bool({"Complete", "Failed"} & true)
    start, end = status.get("startTime"), status.get("completionTime")
    if end and not complete:
        out.append(invalid("status.completionTime", end, "cannot set completionTime when there is no Complete=True condition"))
    if complete and not end:
        out.append(required("status.completionTime", "completionTime is required for Complete jobs"))
    if start and end and end < start:
        out.append(invalid("status.completionTime", end, "must be equal to or after `startTime`"))
    if finished and not start and not (spec.get("suspend") and spec.get("completions") == 0):
        out.append(required("status.startTime", "startTime is required for finished job"))
    for field in ("active", "terminating"):
        if finished and (status.get(field) or 0) > 0:
            out.append(invalid(f"status.{field}", status[field], f"{field}>0 is invalid for finished job"))
    if (status.get("ready") or 0) > (status.get("active") or 0):
        out.append(invalid("status.ready", status["ready"], "cannot set more ready pods than active"))
    _indexes(out, status, spec)
    for field in ("failed", *(() if _is_elastic(spec) else ("succeeded",))):
        if (status.get(field) or 0) < (before.get(field) or 0) and not was_true:
            out.append(invalid(f"status.{field}", status.get(field) or 0, f"cannot decrease the {field} counter"))
    if before.get("completionTime") and end and end != before["completionTime"]:
        out.append(invalid("status.completionTime", end, "field is immutable"))
    resumes = "Suspended" in was_true and _is_false(status, "Suspended")
    if before.get("startTime") and start != before["startTime"] and not spec.get("suspend") and not resumes:
        out.append(required("status.startTime", "startTime cannot be removed for unsuspended job"))
    return out


def _true(status: Json) -> set[str]:
    return {found.get("type") or "" for found in status.get("conditions") or () if found.get("status") == "True"}


def _is_false(status: Json, kind: str) -> bool:
    return any(found.get("type") == kind and found.get("status") == "False" for found in status.get("conditions") or ())


def _is_elastic(spec: Json) -> bool:
    """Whether a Job may be made smaller, so that indexes that have succeeded are no longer part of it."""
    return bool(spec.get("completionMode") == "Indexed" and spec.get("completions") == spec.get("parallelism"))


def _conditions(out: Errors, true: set[str], was_true: set[str]) -> None:
    path = "status.conditions"
    for one, other in (
        ("Complete", "Failed"),
        ("Complete", "FailureTarget"),
        ("SuccessCriteriaMet", "Failed"),
        ("SuccessCriteriaMet", "FailureTarget"),
    ):
        if {one, other} <= true:
            out.append(invalid(path, OMITTED, f"cannot set {one}=True and {other}=true conditions"))
    for one, needed in (("Failed", "FailureTarget"), ("Complete", "SuccessCriteriaMet")):
        if one in true and needed not in true:
            out.append(invalid(path, OMITTED, f"cannot set {one}=True condition without the {needed}=true condition"))
    for kind in ("Failed", "Complete", "FailureTarget"):
        if kind in was_true and kind not in true:
            out.append(invalid(path, OMITTED, f"cannot disable the terminal {kind}=True condition"))
    if "SuccessCriteriaMet" in was_true and "SuccessCriteriaMet" not in true:
        out.append(invalid(path, OMITTED, "cannot disable the SuccessCriteriaMet=True condition"))


def _indexes(out: Errors, status: Json, spec: Json) -> None:
    completions = spec.get("completions")
    done, failed = status.get("completedIndexes") or "", status.get("failedIndexes")
    if done and spec.get("completionMode") != "Indexed":
        out.append(
            invalid("status.completedIndexes", done, "cannot set non-empty completedIndexes when non-indexed completion mode")
        )
    if failed is not None and spec.get("backoffLimitPerIndex") is None:
        out.append(invalid("status.failedIndexes", failed, "cannot set non-null failedIndexes when backoffLimitPerIndex is null"))
    if completions is None:
        return
    counted = {"completedIndexes": done}
    if failed is not None and spec.get("backoffLimitPerIndex") is not None:
        counted["failedIndexes"] = failed
    for field, text in counted.items():
        try:
            indexes_total(text, completions)
        except ValueError as error:
            out.append(invalid(f"status.{field}", text, f"error parsing {field}: {error}"))
