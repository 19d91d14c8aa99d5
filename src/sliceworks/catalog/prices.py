"""On-demand and spot prices per hour as dated data, with their source; None where no source gives one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from sliceworks.catalog import availability, data
from sliceworks.catalog.gpus import GpuShape
from sliceworks.catalog.tpus import GENERATIONS, Slice

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sliceworks.catalog.machine_types import Machine


def machine_rate(machine: Machine, region: str, capacity: str) -> float | None:
    """USD per hour of a machine type and its built-in GPUs; None if a part is unknown."""
    share = _rates("shares", machine.name.rpartition("-")[0], capacity).get(region)
    if share is not None:
        return share[0] * machine.chips
    parts = _rates("parts", machine.family, capacity).get(region)
    if parts is None:
        return None
    cpu, *memory = parts
    billed = data.load("rates")["billed"].get(machine.name, machine.cpu)
    usd = billed * cpu + sum(machine.memory * rate for rate in memory)
    if not machine.chips:
        return float(usd)
    gpu = _rates("gpus", machine.family, capacity).get(region)
    return usd + machine.chips * gpu[0] if gpu else None


def attached_gpu_rate(gpu: str, region: str, capacity: str) -> float | None:
    """USD per hour of one attached GPU."""
    rate = _rates("attached", gpu, capacity).get(region)
    return rate[0] if rate else None


def rate_source() -> data.Source:
    """The source of the rates."""
    return data.source(data.load("rates")["source"])


@lru_cache(maxsize=64)
def _rates(section: str, name: str, capacity: str) -> dict[str, tuple[float, ...]]:
    """Rates by region. The file maps each rate to its regions, since many regions share one."""
    rows = data.load("rates")[section].get(name, {}).get(capacity, {})
    return {region: tuple(map(float, str(key).split())) for key, regions in rows.items() for region in regions.split()}


HOME_REGION = "us-central1"
"""The region with the most complete prices."""


@dataclass(frozen=True, slots=True)
class Price:
    """USD per hour. Spot prices change daily; some are known only as a range."""

    low: float
    high: float
    region: str
    capacity: str
    source: data.Source

    @property
    def usd(self) -> float:
        """The upper bound, used for estimates."""
        return self.high

    def times(self, count: int) -> Price:
        """The price of `count` units."""
        return Price(self.low * count, self.high * count, self.region, self.capacity, self.source)

    def __str__(self) -> str:
        return f"{self.high:,.2f}" if self.low == self.high else f"{self.low:,.2f}–{self.high:,.2f}"


def get_price(item: Slice | GpuShape | Machine, location: str, capacity: str = "on-demand") -> Price | None:
    """The price per hour in a region or zone; None if unknown.

    Reservations are billed at the on-demand price. A TPU machine is priced by its chips.
    """
    region = availability.region_of(location)
    billed = "on-demand" if capacity == "reservation" else capacity
    if isinstance(item, Slice):
        return _chips_price(item.generation.name, item.chips, region, billed)
    if isinstance(item, GpuShape):
        return _gpu_price(item, region, billed)
    generation = next((generation for generation in GENERATIONS if item in generation.machines), None)
    if generation is not None:
        return _chips_price(generation.name, item.chips, region, billed)
    return _machine_price(item, region, billed)


def note(accelerator: Slice | GpuShape) -> str:
    """A remark on how the accelerator is sold, or an empty string."""
    return str(data.load("prices")["machines"]["notes"].get(accelerator.machine.name, ""))


def region_for(accelerator: Slice | GpuShape) -> str:
    """The region to quote if the user names none: the home region, or else the first with a price."""
    priced = (HOME_REGION, *(availability.region_of(zone) for zone in availability.zones_of(accelerator)))
    return next((region for region in priced if get_price(accelerator, region)), HOME_REGION)


def _chips_price(generation: str, chips: int, region: str, capacity: str) -> Price | None:
    entry: Any = data.load("prices")["tpu"][generation].get(capacity)
    if entry is None:
        return None
    price = _in_region(entry if isinstance(entry, list) else [entry], region, capacity)
    return price.times(chips) if price else None


def _gpu_price(shape: GpuShape, region: str, capacity: str) -> Price | None:
    machine = _machine_price(shape.machine, region, capacity)
    if not shape.attached or machine is None:
        return machine
    rows = data.load("prices")["attached"][shape.gpu.name] if capacity == "on-demand" else []
    price = _in_region(rows, region, capacity)
    gpu = price.usd if price else attached_gpu_rate(shape.gpu.name, region, capacity)
    usd = machine.usd + gpu * shape.chips if gpu else 0.0
    return Price(usd, usd, region, capacity, machine.source) if gpu else None


def _machine_price(machine: Machine, region: str, capacity: str) -> Price | None:
    table = data.load("prices")["machines"]
    entry: Any = table.get(capacity, {}).get(machine.name) if region == table["region"] else None
    if entry is None:
        offered = capacity != "on-demand" or machine.name not in table["notes"]
        usd = machine_rate(machine, region, capacity) if offered else None
        return Price(usd, usd, region, capacity, rate_source()) if usd else None
    usd, key = (entry["usd"], entry["source"]) if isinstance(entry, dict) else (entry, table["source"])
    return Price(usd, usd, region, capacity, data.source(key))


def _in_region(rows: Sequence[dict[str, Any]], region: str, capacity: str) -> Price | None:
    for row in rows:
        if "regions" not in row or region in row["regions"].split():
            low, high = (row["usd"], row["usd"]) if "usd" in row else (row["low"], row["high"])
            return Price(low, high, region, capacity, data.source(row["source"]))
    return None
