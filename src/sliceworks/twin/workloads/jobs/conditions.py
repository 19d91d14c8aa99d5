"""The conditions of a Job. Pure."""

from __future__ import annotations

from typing import Any

Obj = dict[str, Any]


def find(conditions: list[Obj], kind: str) -> Obj | None:
    """The condition of a type."""
    return next((each for each in conditions if each.get("type") == kind), None)


def is_true(conditions: list[Obj], kind: str) -> bool:
    """Whether the condition of a type is there and true."""
    found = find(conditions, kind)
    return found is not None and found.get("status") == "True"


def is_finished(job: Obj) -> bool:
    """Whether a Job has come to its end."""
    conditions = (job.get("status") or {}).get("conditions") or []
    return is_true(conditions, "Complete") or is_true(conditions, "Failed")


def condition(kind: str, status: str, reason: str, message: str, now: str) -> Obj:
    """A condition that has just come about."""
    times = {"lastProbeTime": now, "lastTransitionTime": now}
    return {"type": kind, "status": status, **times, "reason": reason, "message": message}


def ensure(conditions: list[Obj], wanted: Obj) -> bool:
    """Bring a condition into the list; False when nothing changes. One that would only say no is not added."""
    found = find(conditions, wanted["type"])
    if found is None:
        if wanted["status"] == "False":
            return False
        conditions.append(wanted)
        return True
    if all(found.get(name) == wanted[name] for name in ("status", "reason", "message")):
        return False
    found.clear()
    found.update(wanted)
    return True
