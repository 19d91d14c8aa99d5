"""List prices as dated data: what an hour costs, who says so, and since when. What no source tells is None."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sliceworks.catalog import data, rates, zones
from sliceworks.catalog.gpus import GpuShape
from sliceworks.catalog.tpus import GENERATIONS, Slice

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sliceworks.catalog.machines import Machine

HOME_REGION = "us-central1"
"""Where prices are known best."""


@dataclass(frozen=True, slots=True)
class Price:
    """USD an hour. Spot prices change from day to day: what is known of some is only a range."""

    low: float
    high: float
    region: str
    capacity: str
    source: data.Source

    @property
    def usd(self) -> float:
        """One number to reckon with: the upper end, so that a bill is no surprise."""
        return self.high

    def times(self, count: int) -> Price:
        """The price of so many."""
        return Price(self.low * count, self.high * count, self.region, self.capacity, self.source)

    def __str__(self) -> str:
        return f"{self.high:,.2f}" if self.low == self.high else f"{self.low:,.2f}–{self.high:,.2f}"


def price(thing: Slice | GpuShape | Machine, place: str, capacity: str = "on-demand") -> Price | None:
    """What it costs an hour in a region (or the region of a zone); None when that is unknown.

    A reservation is billed as if on demand. A bare TPU machine is priced by its chips.
    """
    region = zones.region_of(place)
    asked = "on-demand" if capacity == "reservation" else capacity
    if isinstance(thing, Slice):
        return _of_chips(thing.generation.name, thing.chips, region, asked)
    if isinstance(thing, GpuShape):
        return _of_gpus(thing, region, asked)
    generation = next((each for each in GENERATIONS if thing in each.machines), None)
    if generation is not None:
        return _of_chips(generation.name, thing.chips, region, asked)
    return _of_machine(thing, region, asked)


def note(thing: Slice | GpuShape) -> str:
    """What else there is to say about buying it."""
    return str(data.load("prices")["machines"]["notes"].get(thing.machine.name, ""))


def region_for(thing: Slice | GpuShape) -> str:
    """A region to quote where none was asked for: the best known, or else the first with a price."""
    priced = (HOME_REGION, *(zones.region_of(zone) for zone in zones.of(thing)))
    return next((region for region in priced if price(thing, region)), HOME_REGION)


def _of_chips(generation: str, chips: int, region: str, capacity: str) -> Price | None:
    entry: Any = data.load("prices")["tpu"][generation].get(capacity)
    if entry is None:
        return None
    found = _in_region(entry if isinstance(entry, list) else [entry], region, capacity)
    return found.times(chips) if found else None


def _of_gpus(shape: GpuShape, region: str, capacity: str) -> Price | None:
    machine = _of_machine(shape.machine, region, capacity)
    if not shape.attached or machine is None:
        return machine
    rows = data.load("prices")["attached"][shape.gpu.name] if capacity == "on-demand" else []
    found = _in_region(rows, region, capacity)
    gpu = found.usd if found else rates.of_attached(shape.gpu.name, region, capacity)
    usd = machine.usd + gpu * shape.chips if gpu else 0.0
    return Price(usd, usd, region, capacity, machine.source) if gpu else None


def _of_machine(machine: Machine, region: str, capacity: str) -> Price | None:
    table = data.load("prices")["machines"]
    entry: Any = table.get(capacity, {}).get(machine.name) if region == table["region"] else None
    if entry is None:
        offered = capacity != "on-demand" or machine.name not in table["notes"]
        usd = rates.of_machine(machine, region, capacity) if offered else None
        return Price(usd, usd, region, capacity, rates.source()) if usd else None
    usd, key = (entry["usd"], entry["source"]) if isinstance(entry, dict) else (entry, table["source"])
    return Price(usd, usd, region, capacity, data.source(key))


def _in_region(rows: Sequence[dict[str, Any]], region: str, capacity: str) -> Price | None:
    for row in rows:
        if "regions" not in row or region in row["regions"].split():
            low, high = (row["usd"], row["usd"]) if "usd" in row else (row["low"], row["high"])
            return Price(low, high, region, capacity, data.source(row["source"]))
    return None
