"""Zones that offer an accelerator, and the Compute Engine quotas that a machine uses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from sliceworks.catalog import data
from sliceworks.catalog.tpus import Slice

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.catalog.gpus import Gpu
    from sliceworks.catalog.lookup import Accelerator
    from sliceworks.catalog.machine_types import Machine

Listing = Literal["documented", "visible", "flex-start"]
"""Zones that the documentation lists, zones that the API shows as well, or zones with flex-start capacity."""


def region_of(zone: str) -> str:
    """The region of a zone; a region is returned unchanged."""
    return "-".join(zone.split("-")[:2])


def zones_of(accelerator: Accelerator, listing: Listing = "visible") -> tuple[str, ...]:
    """The zones that offer the accelerator, sorted."""
    table = data.load("zones")
    if isinstance(accelerator, Slice):
        entry = table["tpu"][accelerator.generation.name]
        zones = set(_zones(entry.get(listing, {})))
        return tuple(sorted(zones | set(_zones(entry["documented"])) if listing == "visible" else zones))
    return tuple(sorted(_zones(_gpu_zones(accelerator.gpu.name, accelerator.machine.name)))) if listing == "visible" else ()


def _gpu_zones(gpu: str, machine: str) -> Mapping[str, str]:
    """Looked up by the GPU where it is attached, else by the machine series."""
    table: Mapping[str, Mapping[str, str]] = data.load("zones")["gpu"]
    prefixes = (key for key in table if machine == key or machine.startswith(f"{key}-"))
    return table.get(gpu) or table.get(next(prefixes, ""), {})


def _zones(regions: Mapping[str, str]) -> list[str]:
    return [f"{region}-{letter}" for region, letters in regions.items() for letter in letters.split()]


def machine_families(zone: str) -> tuple[str, ...]:
    """The machine families of a zone that offers few of them; empty for other zones."""
    families: Mapping[str, str] = data.load("zones")["families"]
    return tuple(families.get(zone, "").split())


_TPU_QUOTAS = {
    "ct4p": "TPU_PODSLICE_V4",
    "ct5lp": "TPU_LITE_PODSLICE_V5",
    "ct5p": "TPU_PODSLICE_V5P",
    "ct6e": "TPU_V6E",
    "tpu7x": "TPU_7X",
}

_SHARED_CPUS = frozenset({"e2", "n1"})
"""Series that count against CPUS; each other series has its own quota."""


DEFAULT_DISK, DEFAULT_DISK_GIB = "pd-balanced", 100
"""The boot disk that GKE gives to a node."""
_DISK_QUOTAS = {"pd-standard": "DISKS_TOTAL_GB", "pd-balanced": "SSD_TOTAL_GB", "pd-ssd": "SSD_TOTAL_GB"}


def node_quota_usage(disk: str, gib: int, *, public_address: bool) -> dict[str, float]:
    """The quota that the boot disk and the public address of one node use, by quota metric."""
    disks = {_DISK_QUOTAS[disk]: float(gib)} if disk in _DISK_QUOTAS else {}
    return {**disks, **({"IN_USE_ADDRESSES": 1.0} if public_address else {})}


def quota_usage(machine: Machine, gpu: Gpu | None = None, gpus: int = 0, *, spot: bool = False) -> dict[str, float]:
    """The quota that one machine uses, by quota metric: its chips for TPUs, else its CPUs and GPUs."""
    if machine.family in _TPU_QUOTAS:
        name = _TPU_QUOTAS[machine.family]
        return {f"{name}_PREEMPTIBLE" if spot else name: float(machine.chips)}
    cpus = "CPUS" if machine.family in _SHARED_CPUS else f"{machine.family.upper()}_CPUS"
    usage = {cpus: float(machine.listed_cpu or machine.cpu)}
    if gpu is not None and gpus:
        usage[f"{gpu.label.upper().replace('-', '_').replace('_TESLA', '')}_GPUS"] = float(gpus)
    return {f"PREEMPTIBLE_{name}": amount for name, amount in usage.items()} if spot else usage
