"""What machine types cost by region: by their vCPUs, memory and GPUs, or by a GPU with its share of the machine."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from sliceworks.catalog import data

if TYPE_CHECKING:
    from sliceworks.catalog.machines import Machine


def of_machine(machine: Machine, region: str, capacity: str) -> float | None:
    """USD an hour of a machine type with the GPUs that come with it; None where a part of it is unknown."""
    share = _rates("shares", machine.name.rpartition("-")[0], capacity).get(region)
    if share is not None:
        return share[0] * machine.chips
    parts = _rates("parts", machine.family, capacity).get(region)
    if parts is None:
        return None
    cpu, *memory = parts
    billed = data.load("rates")["billed"].get(machine.name, machine.cpu)
    whole = billed * cpu + sum(machine.memory * each for each in memory)
    if not machine.chips:
        return float(whole)
    gpu = _rates("gpus", machine.family, capacity).get(region)
    return whole + machine.chips * gpu[0] if gpu else None


def of_attached(gpu: str, region: str, capacity: str) -> float | None:
    """USD an hour of one GPU that is attached to a machine."""
    found = _rates("attached", gpu, capacity).get(region)
    return found[0] if found else None


def source() -> data.Source:
    """Who says so."""
    return data.source(data.load("rates")["source"])


@lru_cache(maxsize=64)
def _rates(section: str, name: str, capacity: str) -> dict[str, tuple[float, ...]]:
    """By region. The file has it the other way round, which is shorter: many regions have one price."""
    rows = data.load("rates")[section].get(name, {}).get(capacity, {})
    return {region: tuple(map(float, str(key).split())) for key, regions in rows.items() for region in regions.split()}
