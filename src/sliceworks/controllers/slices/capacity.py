"""Where and how a slice may be had, in order: zones, reservations, spot and on-demand machines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from sliceworks.base.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sliceworks.controllers.slices.asks import Ask
    from sliceworks.controllers.slices.settings import Settings

Kind = Literal["on-demand", "spot", "reservation"]


@dataclass(frozen=True, slots=True)
class Capacity:
    """One kind of capacity; `reservation` is a name, or a name with the project that shares it."""

    kind: Kind = "on-demand"
    reservation: str = ""

    def __str__(self) -> str:
        return f"reservation {self.reservation}" if self.kind == "reservation" else self.kind


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way to have a slice."""

    zone: str
    capacity: Capacity

    def __str__(self) -> str:
        return f"{self.capacity} in {self.zone}"


ON_DEMAND = Capacity()
SPOT = Capacity("spot")


def reservation(name: str, project: str = "") -> Capacity:
    """A reservation, of this project or shared by another."""
    return Capacity("reservation", f"projects/{project}/reservations/{name}" if project else name)


def parse(text: str) -> tuple[Capacity, ...]:
    """An ordered list as people write it: `reservation=NAME, spot, on-demand`. UsageError names what is none of these."""
    found = []
    for part in (piece.strip() for piece in text.split(",")):
        if not part:
            continue
        kind, _, name = part.partition("=")
        if kind == "spot" and not name:
            found.append(SPOT)
        elif kind == "on-demand" and not name:
            found.append(ON_DEMAND)
        elif kind == "reservation" and name:
            found.append(Capacity("reservation", name))
        else:
            raise UsageError(f"{part!r} is no kind of capacity", hint="on-demand, spot or reservation=NAME")
    return tuple(found)


def candidates(ask: Ask, settings: Settings) -> tuple[Candidate, ...]:
    """Every way to have what is asked for, best first: all zones of one kind of capacity, then those of the next."""
    zones = ask.zones or settings.zones
    return tuple(Candidate(zone, capacity) for capacity in _kinds(ask, settings) for zone in zones)


def _kinds(ask: Ask, settings: Settings) -> Iterable[Capacity]:
    if settings.force_on_demand:
        return (ON_DEMAND,)
    # A pod that selects nodes by their capacity could not run on any other.
    if ask.reservation:
        return (Capacity("reservation", ask.reservation),)
    if ask.spot:
        return (SPOT,)
    return ask.capacity or settings.capacity
