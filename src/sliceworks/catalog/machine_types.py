"""Machine types: resources, what GKE leaves allocatable on a node, and the CPU machine families."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from sliceworks.base import quantity

if TYPE_CHECKING:
    from collections.abc import Sequence

_GIB = 2**30
_EVICTION = 100 * 2**20
_MEMORY_RESERVATION = ((4, "0.25"), (4, "0.20"), (8, "0.10"), (112, "0.06"), (None, "0.02"))
_CPU_RESERVATION = ((1, "0.06"), (1, "0.01"), (2, "0.005"), (None, "0.0025"))


@dataclass(frozen=True, slots=True)
class Machine:
    """One machine type. Values without a source are None."""

    name: str
    cpu: int
    memory: float  # GiB
    chips: int = 0  # built-in TPU chips or GPUs
    disks: tuple[str, ...] = ()  # boot disk types that GKE accepts, the default first
    nics: int | None = None
    bandwidth: int | None = None  # Gbit/s in total
    numa: int | None = None
    local_ssds: int = 0  # built-in disks of 375 GiB
    arm: bool = False
    listed_cpu: int | None = None  # what the Compute API reports, if it differs from the node: threads, not cores

    @property
    def family(self) -> str:
        """The series: `ct5p`, `a3`, `n2`."""
        return self.name.partition("-")[0]

    def capacity(self) -> dict[str, str]:
        """CPU and memory capacity of a node of this type."""
        return {"cpu": str(self.cpu), "memory": quantity.canonical(f"{_kib(self.memory)}Ki")}

    def allocatable(self) -> dict[str, str]:
        """CPU and memory that GKE leaves to pods, after its tiered reservation."""
        cpu = self.cpu - _reserved(Fraction(self.cpu), _CPU_RESERVATION)
        memory = Fraction(self.memory) * _GIB - _reserved(Fraction(self.memory), _MEMORY_RESERVATION) * _GIB - _EVICTION
        return {"cpu": f"{int(cpu * 1000)}m", "memory": quantity.canonical(f"{int(memory // 1024)}Ki")}


def allocatable_disk(gib: int) -> float:
    """Bytes of a boot disk that GKE leaves to pods, after its reservation and the eviction threshold of a tenth."""
    reserved = min(0.5 * gib, 6 + 0.35 * gib, 100)
    return (0.9 * gib - reserved) * _GIB


def _kib(gib: float) -> int:
    return int(Fraction(gib) * 2**20)


def _reserved(amount: Fraction, tiers: Sequence[tuple[int | None, str]]) -> Fraction:
    """The sum of each tier's fraction of its part of the amount."""
    reserved = Fraction(0)
    for width, share in tiers:
        part = amount if width is None else min(amount, Fraction(width))
        reserved += part * Fraction(share)
        amount -= part
    return reserved


PD_BALANCED = ("pd-balanced", "pd-ssd")
PD = ("pd-standard", *PD_BALANCED)
HYPERDISK = ("hyperdisk-balanced",)
PD_AND_HYPERDISK = (*PD_BALANCED, *HYPERDISK)


class _Series(NamedTuple):
    prefix: str
    gib_per_cpu: float
    sizes: tuple[int, ...]
    disks: tuple[str, ...] = PD


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
    _Series("c3-standard", 4, (4, 8, 22, 44, 88, 176), PD_AND_HYPERDISK),
    _Series("c4-standard", 3.75, (2, 4, 8, 16, 32, 48, 96, 192), HYPERDISK),
    _Series("n4-standard", 4, (2, 4, 8, 16, 32, 48, 64, 80), HYPERDISK),
)

# Outside the series: shared-core types, which GKE counts and bills as one vCPU, and the largest types.
_OTHERS = (
    Machine("e2-micro", 1, 1, disks=PD, listed_cpu=2),
    Machine("e2-small", 1, 2, disks=PD, listed_cpu=2),
    Machine("e2-medium", 1, 4, disks=PD, listed_cpu=2),
    Machine("n2-highmem-128", 128, 864, disks=PD),
    Machine("m1-megamem-96", 96, 1433.6, disks=PD),
)


@lru_cache(maxsize=1)
def cpu_machines() -> dict[str, Machine]:
    """Every CPU machine type by name."""
    regular = (
        Machine(f"{series.prefix}-{size}", size, size * series.gib_per_cpu, disks=series.disks)
        for series in _SERIES
        for size in series.sizes
    )
    return {machine.name: machine for machine in (*regular, *_OTHERS)}
