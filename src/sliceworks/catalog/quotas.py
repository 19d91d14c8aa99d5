"""Quotas of Compute Engine: which of them a machine counts against, and how much."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sliceworks.catalog.gpus import Gpu
    from sliceworks.catalog.machines import Machine

_TPUS = {
    "ct4p": "TPU_PODSLICE_V4",
    "ct5lp": "TPU_LITE_PODSLICE_V5",
    "ct5p": "TPU_PODSLICE_V5P",
    "ct6e": "TPU_V6E",
    "tpu7x": "TPU_7X",
}
_SHARED_CPUS = frozenset({"e2", "n1"})
"""Series that count as plain CPUS; the others have quotas of their own."""


def amounts(machine: Machine, gpu: Gpu | None = None, gpus: int = 0, *, spot: bool = False) -> dict[str, float]:
    """What one machine counts, by the name of the quota: its chips where they are TPUs, else its CPUs and its GPUs."""
    if machine.family in _TPUS:
        name = _TPUS[machine.family]
        return {f"{name}_PREEMPTIBLE" if spot else name: float(machine.chips)}
    cpus = "CPUS" if machine.family in _SHARED_CPUS else f"{machine.family.upper()}_CPUS"
    found = {cpus: float(machine.listed_cpu or machine.cpu)}
    if gpu is not None and gpus:
        found[f"{gpu.label.upper().replace('-', '_').replace('_TESLA', '')}_GPUS"] = float(gpus)
    return {f"PREEMPTIBLE_{name}": amount for name, amount in found.items()} if spot else found
