"""Status conditions: find one by type, test it, and set it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base import clock

if TYPE_CHECKING:
    from collections.abc import Mapping


def find_condition(obj: Mapping[str, Any] | None, kind: str) -> dict[str, Any]:
    """The condition of this type in an object's status; an empty dict if the object has none."""
    for condition in ((obj or {}).get("status") or {}).get("conditions") or ():
        if condition.get("type") == kind:
            match: dict[str, Any] = condition
            return match
    return {}


def is_condition_true(obj: Mapping[str, Any] | None, kind: str) -> bool:
    """Whether the object has this condition with status True."""
    return find_condition(obj, kind).get("status") == "True"


def find_true_condition(obj: Mapping[str, Any] | None, *kinds: str) -> dict[str, Any]:
    """The first condition of one of these types with status True; an empty dict if the object has none."""
    for condition in ((obj or {}).get("status") or {}).get("conditions") or ():
        if condition.get("type") in kinds and condition.get("status") == "True":
            match: dict[str, Any] = condition
            return match
    return {}


def set_condition(conditions: list[dict[str, Any]], condition: Mapping[str, Any]) -> bool:
    """Add a condition to a list or replace the one of its type; returns whether anything changed.

    While the status stays the same, the existing lastTransitionTime is kept, as apimachinery's `meta.SetStatusCondition` does. When
    it changes, lastTransitionTime is the one in `condition`, or now.
    """
    current = next((entry for entry in conditions if entry.get("type") == condition["type"]), None)
    if current is None:
        conditions.append({**condition, "lastTransitionTime": condition.get("lastTransitionTime") or clock.timestamp()})
        return True
    since = current.get("lastTransitionTime") if current.get("status") == condition["status"] else None
    updated = {**condition, "lastTransitionTime": since or condition.get("lastTransitionTime") or clock.timestamp()}
    if updated == current:
        return False
    conditions[conditions.index(current)] = updated
    return True
