"""An accelerator as plain data for programs and pages, and as a drawing for terminals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.catalog import availability, prices, tpus
from sliceworks.catalog.gpus import GpuShape
from sliceworks.catalog.tpus import CUBE, Slice

if TYPE_CHECKING:
    from sliceworks.catalog.lookup import Accelerator
    from sliceworks.catalog.machine_types import Machine

SHOWN_CAPACITIES = ("on-demand", "spot", "flex-start")


def describe(accelerator: Accelerator, region: str | None = None) -> dict[str, Any]:
    """Everything known about an accelerator, with prices of `region` or of a region that has them. Unknown values are None."""
    region = availability.region_of(region) if region else prices.region_for(accelerator)
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
        "topologies": list_topologies(accelerator),
        "machine": _machine(accelerator.machine),
        "resource": accelerator.resource,
        "nodeLabels": accelerator.node_labels(),
        "taints": accelerator.node_taints(),
        "placementPolicy": accelerator.placement.policy("NAME") if accelerator.placement else None,
        "resourcePolicy": accelerator.placement.resource() if accelerator.placement else None,
        "zones": {"documented": availability.zones_of(accelerator, "documented"), "visible": availability.zones_of(accelerator)},
        "prices": [_price(accelerator, region, capacity) for capacity in SHOWN_CAPACITIES],
    }


def list_topologies(accelerator: Accelerator) -> list[str]:
    """Every topology of the same type name, the default one first."""
    if not isinstance(accelerator, Slice):
        return []
    return [tpus.format_topology(axes) for axes in accelerator.generation.topologies(accelerator.chips)]


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
    price = prices.get_price(accelerator, region, capacity)
    known: dict[str, Any] = {"usdPerHour": None, "source": None, "date": None}
    if price is not None:
        is_range = price.low != price.high
        usd = {"usdPerHour": None, "usdPerHourBetween": _range(price)} if is_range else {"usdPerHour": round(price.usd, 4)}
        known = {**known, **usd, "source": price.source.title, "date": price.source.date}
    return {"capacity": capacity, "region": region, **known}


def _range(price: prices.Price) -> list[float]:
    return [round(price.low, 4), round(price.high, 4)]


_CHIP = "■"
_MAX_COLUMNS = 16
_HOST_SIDE = 2  # chips of a host form a 2x2 or 2x4 grid


def draw(accelerator: Accelerator) -> list[str]:
    """The lines of a drawing, with a legend below."""
    if isinstance(accelerator, GpuShape):
        count = "one GPU" if accelerator.chips == 1 else f"{accelerator.chips} GPUs"
        return [*_grid(1, 1, 1, accelerator.chips), f"The box is a host with {count}."]
    return _flat(accelerator) if len(accelerator.axes) == 2 else _solid(accelerator)


def _flat(slice_: Slice) -> list[str]:
    rows, columns = slice_.axes
    high = min(rows, _HOST_SIDE)
    wide = slice_.chips_per_host // high
    lines = _grid(rows // high, columns // wide, high, wide)
    count = f"{high}x{wide} chips" if slice_.chips_per_host > 1 else "one chip"
    return [*lines, f"{_each(slice_)} box is a host with {count}.{_torus(slice_)}"]


def _grid(rows: int, columns: int, high: int, wide: int) -> list[str]:
    """A grid of boxes with chips in them."""
    edge = "─" * (2 * wide + 1)
    inside = "│" + f" {' '.join(_CHIP * wide)} │" * columns
    between = "├" + "┼".join([edge] * columns) + "┤"
    lines = ["┌" + "┬".join([edge] * columns) + "┐"]
    for row in range(rows):
        lines += ([between] if row else []) + [inside] * high
    return [*lines, "└" + "┴".join([edge] * columns) + "┘"]


def _solid(slice_: Slice) -> list[str]:
    """One block per host, or per 4x4x4 cube for large slices."""
    a, b, c = slice_.axes
    if slice_.chips == 1:
        return [*_box(1, 1, 1), "The block is a host with one chip."]
    if c <= _MAX_COLUMNS:
        lines, block = _box(a // _HOST_SIDE, b // _HOST_SIDE, c), "host with 2x2x1 chips"
    else:
        lines, block = _box(a // CUBE, b // CUBE, c // CUBE), "cube of 4x4x4 chips on 16 hosts"
    axes = f"A {a} chips deep, B {b} high, C {c} wide."
    return [*lines, axes, f"{_each(slice_)} block is a {block}.{_torus(slice_)}"]


def _box(deep: int, high: int, wide: int) -> list[str]:
    """A cuboid of blocks seen from the front, top and right; a long row is cut in the middle."""
    cells = ["___"] * wide if wide <= _MAX_COLUMNS else [*["___"] * 8, " … ", *["___"] * 7]
    lines = [" " * (deep + 1) + " ".join("___" if cell == "___" else "   " for cell in cells)]
    for row in range(deep):
        side = ("|/" * high)[: min(2 * row + 1, 2 * high)]
        lines.append(" " * (deep - row) + "/" + "/".join(cells) + "/" + side)
    for row in range(high):
        side = ("/|" * deep)[: min(2 * (high - 1 - row) + 1, 2 * deep)]
        lines.append(" |" + "|".join(cells) + "|" + side)
    return lines


def _each(slice_: Slice) -> str:
    return "Each" if slice_.multi_host else "The"


def _torus(slice_: Slice) -> str:
    return " Wraparound links make every axis a torus." if slice_.torus else ""
