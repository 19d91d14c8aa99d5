"""Requests to the cloud that are under way: what was asked for, and for whom."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from sliceworks.controllers.slices.world import Create, Delete


@dataclass(slots=True)
class Flight:
    """One request and its operation. `operation` is empty until the cloud has taken it; times are the loop's seconds.

    One that is `unsure` has ended without a word about what it did: only a LIST that began later can tell.
    """

    kind: Literal["create", "delete"]
    action: Create | Delete
    began: float
    operation: str = ""
    unsure: bool = False

    @property
    def name(self) -> str:
        return self.action.name


def poll_after(flights: list[Flight], now: float, *, waiting: bool) -> float:
    """Seconds until the pools are worth another LIST: often while operations are young, and while others wait for their end."""
    if not flights:
        return _IDLE
    age = now - max(flight.began for flight in flights)
    return min(max(age / 10, _EAGER if waiting else _CALM), _SLOWEST)


_EAGER, _CALM, _SLOWEST = 0.2, 1.0, 10.0
_IDLE = 60.0
