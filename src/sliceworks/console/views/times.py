"""Moments and ages, as pages show them. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from sliceworks.base import duration

if TYPE_CHECKING:
    from sliceworks.console.nodes import Node

from sliceworks.console.nodes import el


def age(moment: str, now: datetime) -> str:
    """How long ago, as kubectl says it; a dash where that is not known."""
    if not moment:
        return "–"
    return duration.human(max((now - datetime.fromisoformat(moment)).total_seconds(), 0))


def ago(moment: str, now: datetime) -> Node:
    """The same with the moment itself for whoever points at it."""
    return el("time", age(moment, now), datetime=moment, title=moment) if moment else "–"


def between(first: str, last: str, now: datetime) -> str:
    """How long something took, or takes so far where it has no end yet."""
    if not first:
        return "–"
    end = datetime.fromisoformat(last) if last else now
    return duration.human(max((end - datetime.fromisoformat(first)).total_seconds(), 0))


def dollars(usd: float | None) -> str:
    """USD as people read it."""
    if usd is None:
        return "unknown"
    return f"${usd:,.0f}" if usd >= 100 else f"${usd:,.2f}"
