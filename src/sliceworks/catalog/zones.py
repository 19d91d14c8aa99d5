"""Where accelerators can be had: zones as dated data. A zone that is not here is unknown, not impossible."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from sliceworks.catalog import data
from sliceworks.catalog.tpus import Slice

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.catalog.finding import Accelerator

Known = Literal["documented", "visible", "flex-start"]


def region_of(zone: str) -> str:
    """The region of a zone; a region is its own."""
    return "-".join(zone.split("-")[:2])


def of(accelerator: Accelerator, known: Known = "visible") -> tuple[str, ...]:
    """The zones that have it: those the API shows, only those documented, or those where it can be started flexibly."""
    table = data.load("zones")
    if isinstance(accelerator, Slice):
        entry = table["tpu"][accelerator.generation.name]
        found = set(_zones(entry.get(known, {})))
        return tuple(sorted(found | set(_zones(entry["documented"])) if known == "visible" else found))
    return tuple(sorted(_zones(_of_gpu(accelerator.gpu.name, accelerator.machine.name)))) if known == "visible" else ()


def _of_gpu(gpu: str, machine: str) -> Mapping[str, str]:
    """By the GPU where it is attached, else by the machine's series."""
    table: Mapping[str, Mapping[str, str]] = data.load("zones")["gpu"]
    prefixes = (key for key in table if machine == key or machine.startswith(f"{key}-"))
    return table.get(gpu) or table.get(next(prefixes, ""), {})


def _zones(regions: Mapping[str, str]) -> list[str]:
    return [f"{region}-{letter}" for region, letters in regions.items() for letter in letters.split()]
