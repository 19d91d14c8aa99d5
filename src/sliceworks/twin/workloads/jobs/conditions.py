"""The conditions of a Job. Pure."""

from __future__ import annotations

from typing import Any

from sliceworks.base.conditions import is_true

Obj = dict[str, Any]


def is_finished(job: Obj) -> bool:
    """Whether a Job has come to its end."""
    return is_true(job, "Complete") or is_true(job, "Failed")


def condition(kind: str, status: str, reason: str, message: str, now: str) -> Obj:
    """A condition that has just come about."""
    times = {"lastProbeTime": now, "lastTransitionTime": now}
    return {"type": kind, "status": status, **times, "reason": reason, "message": message}


def ensure(conditions: list[Obj], wanted: Obj) -> bool:
    """Bring a condition into the list; False when nothing changes. One that would only say no is not added."""
    found = next((each for each in conditions if each.get("type") == wanted["type"]), None)
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
