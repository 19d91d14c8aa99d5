"""CPU machine types: families with their sizes, and GiB of memory to each vCPU."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from sliceworks.catalog.machines import Machine

_PD = ("pd-standard", "pd-balanced", "pd-ssd")
_PD_BALANCED = ("pd-balanced", "pd-ssd", "hyperdisk-balanced")
_HYPERDISK = ("hyperdisk-balanced",)


class _Series(NamedTuple):
    prefix: str
    gib_per_cpu: float
    sizes: tuple[int, ...]
    disks: tuple[str, ...] = _PD


_SERIES = (
    _Series("n1-standard", 3.75, (1, 2, 4, 8, 16, 32, 64, 96)),
    _Series("n1-highmem", 6.5, (2, 4, 8, 16, 32, 64, 96)),
    _Series("n1-highcpu", 0.9, (2, 4, 8, 16, 32, 64, 96)),
    _Series("e2-standard", 4, (2, 4, 8, 16, 32)),
    _Series("e2-highmem", 8, (2, 4, 8, 16)),
    _Series("e2-highcpu", 1, (2, 4, 8, 16, 32)),
    _Series("n2-standard", 4, (2, 4, 8, 16, 32, 48, 64, 80, 96, 128)),
    _Series("n2-highmem", 8, (2, 4, 8, 16, 32, 48, 64, 80, 96)),
    _Series("n2-highcpu", 1, (2, 4, 8, 16, 32, 48, 64, 80, 96)),
    _Series("n2d-standard", 4, (2, 4, 8, 16, 32, 48, 64, 80, 96, 128, 224)),
    _Series("c2-standard", 4, (4, 8, 16, 30, 60)),
    _Series("c3-standard", 4, (4, 8, 22, 44, 88, 176), _PD_BALANCED),
    _Series("c4-standard", 3.75, (2, 4, 8, 16, 32, 48, 96, 192), _HYPERDISK),
    _Series("n4-standard", 4, (2, 4, 8, 16, 32, 48, 64, 80), _HYPERDISK),
)
# Outside every rule: shared cores, which GKE counts and bills as one, and the largest.
_SINGLES = (
    Machine("e2-micro", 1, 1, disks=_PD, listed_cpu=2),
    Machine("e2-small", 1, 2, disks=_PD, listed_cpu=2),
    Machine("e2-medium", 1, 4, disks=_PD, listed_cpu=2),
    Machine("n2-highmem-128", 128, 864, disks=_PD),
    Machine("m1-megamem-96", 96, 1433.6, disks=_PD),
)


@lru_cache(maxsize=1)
def machines() -> dict[str, Machine]:
    """Every CPU machine type by name."""
    regular = (
        Machine(f"{series.prefix}-{size}", size, size * series.gib_per_cpu, disks=series.disks)
        for series in _SERIES
        for size in series.sizes
    )
    return {machine.name: machine for machine in (*regular, *_SINGLES)}
