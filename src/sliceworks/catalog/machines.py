"""Machine types: what one virtual machine has, and what is left of it for pods once it is a node."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from sliceworks.base import quantity

if TYPE_CHECKING:
    from collections.abc import Sequence

_GIB = 2**30
_EVICTION = 100 * 2**20
_STEPS_OF_MEMORY = ((4, "0.25"), (4, "0.20"), (8, "0.10"), (112, "0.06"), (None, "0.02"))
_STEPS_OF_CPU = ((1, "0.06"), (1, "0.01"), (2, "0.005"), (None, "0.0025"))


@dataclass(frozen=True, slots=True)
class Machine:
    """One machine type. What no source tells is None, never a guess."""

    name: str
    cpu: int
    memory: float  # GiB
    chips: int = 0  # TPU chips or GPUs that come with it
    disks: tuple[str, ...] = ()  # types of boot disk that GKE takes, the default first
    nics: int | None = None
    bandwidth: int | None = None  # Gbit/s, all of them together
    numa: int | None = None
    local_ssds: int = 0  # disks of 375 GiB that are always there
    arm: bool = False
    listed_cpu: int | None = None  # where the Compute API says more than a node has: threads against cores

    @property
    def family(self) -> str:
        """The series: `ct5p`, `a3`, `n2`."""
        return self.name.partition("-")[0]

    def capacity(self) -> dict[str, str]:
        """The CPUs and memory that a node of this type has in all."""
        return {"cpu": str(self.cpu), "memory": quantity.canonical(f"{_kib(self.memory)}Ki")}

    def allocatable(self) -> dict[str, str]:
        """The CPUs and memory that GKE leaves to pods: it keeps a share for the system that falls as the machine grows."""
        cpu = self.cpu - _reserved(Fraction(self.cpu), _STEPS_OF_CPU)
        memory = Fraction(self.memory) * _GIB - _reserved(Fraction(self.memory), _STEPS_OF_MEMORY) * _GIB - _EVICTION
        return {"cpu": f"{int(cpu * 1000)}m", "memory": quantity.canonical(f"{int(memory // 1024)}Ki")}


def _kib(gib: float) -> int:
    return int(Fraction(gib) * 2**20)


def _reserved(amount: Fraction, steps: Sequence[tuple[int | None, str]]) -> Fraction:
    """The sum of each step's share of its part of the amount."""
    kept = Fraction(0)
    for width, share in steps:
        part = amount if width is None else min(amount, Fraction(width))
        kept += part * Fraction(share)
        amount -= part
    return kept
