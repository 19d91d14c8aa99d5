"""An accelerator as plain data: everything the catalogue knows about it, for programs and pages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.catalog import prices, topologies, zones
from sliceworks.catalog.tpus import Slice

if TYPE_CHECKING:
    from sliceworks.catalog.finding import Accelerator
    from sliceworks.catalog.machines import Machine

SHOWN_CAPACITIES = ("on-demand", "spot", "flex-start")


def describe(accelerator: Accelerator, region: str | None = None) -> dict[str, Any]:
    """All there is to know; prices in a region, or where they are best known. What is unknown is None."""
    region = zones.region_of(region) if region else prices.region_for(accelerator)
    return {
        "name": accelerator.type_name,
        "kind": accelerator.kind,
        "generation": accelerator.generation.name if isinstance(accelerator, Slice) else accelerator.gpu.name,
        "accelerator": accelerator.accelerator,
        "chips": accelerator.chips,
        "memoryGiB": accelerator.memory,
        "hosts": accelerator.hosts,
        "chipsPerHost": accelerator.chips_per_host,
        "topology": accelerator.topology or None,
        "topologies": others(accelerator),
        "machine": _machine(accelerator.machine),
        "resource": accelerator.resource,
        "nodeLabels": accelerator.node_labels(),
        "taints": accelerator.node_taints(),
        "placementPolicy": accelerator.placement.policy("NAME") if accelerator.placement else None,
        "resourcePolicy": accelerator.placement.resource() if accelerator.placement else None,
        "zones": {"documented": zones.of(accelerator, "documented"), "visible": zones.of(accelerator)},
        "prices": [_price(accelerator, region, capacity) for capacity in SHOWN_CAPACITIES],
    }


def others(accelerator: Accelerator) -> list[str]:
    """Every topology that the same type name may have, the usual one first."""
    if not isinstance(accelerator, Slice):
        return []
    return [topologies.render(axes) for axes in accelerator.generation.topologies(accelerator.chips)]


def _machine(machine: Machine) -> dict[str, Any]:
    return {
        "type": machine.name,
        "cpu": machine.cpu,
        "memoryGiB": machine.memory,
        "bootDisks": machine.disks,
        "localSsds": machine.local_ssds,
        "nics": machine.nics,
        "bandwidthGbps": machine.bandwidth,
        "allocatable": machine.allocatable(),
    }


def _price(accelerator: Accelerator, region: str, capacity: str) -> dict[str, Any]:
    found = prices.price(accelerator, region, capacity)
    known: dict[str, Any] = {"usdPerHour": None, "source": None, "date": None}
    if found is not None:
        usd = (
            {"usdPerHour": round(found.usd, 4)}
            if found.low == found.high
            else {"usdPerHour": None, "usdPerHourBetween": _between(found)}
        )
        known = {**known, **usd, "source": found.source.title, "date": found.source.date}
    return {"capacity": capacity, "region": region, **known}


def _between(price: prices.Price) -> list[float]:
    return [round(price.low, 4), round(price.high, 4)]
