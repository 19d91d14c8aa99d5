"""Conditions: what the status of an object says, each under its type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


def condition(obj: Mapping[str, Any] | None, kind: str) -> dict[str, Any]:
    """The condition of a type; empty where there is none."""
    for each in ((obj or {}).get("status") or {}).get("conditions") or ():
        if each.get("type") == kind:
            found: dict[str, Any] = each
            return found
    return {}


def is_true(obj: Mapping[str, Any] | None, kind: str) -> bool:
    """Whether an object says this of itself."""
    return condition(obj, kind).get("status") == "True"
