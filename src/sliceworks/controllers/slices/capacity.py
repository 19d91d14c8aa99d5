"""Capacity types (reservation, spot, on-demand) and the ordered candidates (zone and capacity) for a slice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from sliceworks.base.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sliceworks.controllers.slices.node_pool_requirements import NodePoolRequirements
    from sliceworks.controllers.slices.settings import Settings

CapacityType = Literal["on-demand", "spot", "reservation"]


@dataclass(frozen=True, slots=True)
class Capacity:
    """A capacity type; `reservation` is a name, or the path of a shared reservation."""

    kind: CapacityType = "on-demand"
    reservation: str = ""

    def __str__(self) -> str:
        return f"reservation {self.reservation}" if self.kind == "reservation" else self.kind


@dataclass(frozen=True, slots=True)
class Candidate:
    """A zone and capacity in which a slice can be created."""

    zone: str
    capacity: Capacity

    def __str__(self) -> str:
        return f"{self.capacity} in {self.zone}"


ON_DEMAND = Capacity()
SPOT = Capacity("spot")


def reservation(name: str, project: str = "") -> Capacity:
    """A reservation of this project, or shared by another one."""
    return Capacity("reservation", f"projects/{project}/reservations/{name}" if project else name)


def parse(text: str) -> tuple[Capacity, ...]:
    """Parse an ordered list such as `reservation=NAME, spot, on-demand`. Raises UsageError."""
    capacities = []
    for part in (piece.strip() for piece in text.split(",")):
        if not part:
            continue
        kind, _, name = part.partition("=")
        if kind == "spot" and not name:
            capacities.append(SPOT)
        elif kind == "on-demand" and not name:
            capacities.append(ON_DEMAND)
        elif kind == "reservation" and name:
            capacities.append(Capacity("reservation", name))
        else:
            raise UsageError(f"unknown capacity type {part!r}", hint="use on-demand, spot or reservation=NAME")
    return tuple(capacities)


def candidates(requirements: NodePoolRequirements, settings: Settings) -> tuple[Candidate, ...]:
    """All candidates, best first: every zone of the first capacity type, then those of the next."""
    zones = requirements.zones or settings.zones
    return tuple(Candidate(zone, capacity) for capacity in _capacities(requirements, settings) for zone in zones)


def _capacities(requirements: NodePoolRequirements, settings: Settings) -> Iterable[Capacity]:
    if settings.force_on_demand:
        return (ON_DEMAND,)
    # A pod that selects nodes by their capacity cannot run on other nodes.
    if requirements.reservation:
        return (Capacity("reservation", requirements.reservation),)
    if requirements.spot:
        return (SPOT,)
    return requirements.capacity or settings.capacity
