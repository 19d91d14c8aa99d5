"""The `runtime` variable of resource graphs, with which authors compute conditions: newCondition and condition."""

from __future__ import annotations

from typing import Any

from sliceworks.cel.libraries.functions import Function, opaque
from sliceworks.cel.types import PACKAGE

RUNTIME = "kro.run.Runtime"
CONDITION = f"{PACKAGE}.Condition"
FIELDS = ("type", "status", "reason", "message")
STATUSES = ("True", "False", "Unknown")
VALUE = opaque(RUNTIME, "")
"""What the variable is bound to when an expression runs."""


def new_condition(_: dict[str, Any], given: dict[str, Any]) -> dict[str, str]:
    for name in FIELDS:
        if name in given and not isinstance(given[name], str):
            raise ValueError(f"runtime.newCondition: {name} must be a string")
    if not given.get("type"):
        raise ValueError("runtime.newCondition: type must not be empty")
    if given.get("status") not in STATUSES:
        raise ValueError(f"runtime.newCondition: status must be one of True, False, Unknown, not {given.get('status')!r}")
    return {name: given.get(name, "") for name in FIELDS}


def condition(_: dict[str, Any], owner: dict[str, Any], wanted: str) -> dict[str, str]:
    status = owner.get("status") or {}
    conditions = status.get("conditions") or [] if isinstance(status, dict) else []
    found = next((one for one in conditions if isinstance(one, dict) and one.get("type") == wanted), {})
    return {name: found[name] if isinstance(found.get(name), str) else "" for name in FIELDS}


FUNCTIONS = [
    Function("newCondition", f"{RUNTIME}.newCondition(map<string, string>)", CONDITION, new_condition),
    Function("condition", f"{RUNTIME}.condition(dyn, string)", CONDITION, condition),
]
