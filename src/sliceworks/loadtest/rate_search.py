"""Searches for the highest request rate that meets the objectives. Pure: the caller runs the probes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True)
class Probe:
    """A rate that was tried. An invalid run never meets the objectives."""

    rate: float
    passed: bool
    valid: bool = True
    note: str = ""
    folder: str = ""


@dataclass(slots=True)
class Search:
    """Chooses the next rate to try, from `first` up to `max_rate`."""

    first: float = 1.0
    max_rate: float = 100_000.0
    precision: float = 0.05
    min_rate: float = 0.0
    """Rates below it are not tried: a probe would send too few requests."""
    probes: list[Probe] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not 0 < self.first <= self.max_rate:
            raise ValueError(f"the first rate {self.first:g} is not between 0 and {self.max_rate:g}")

    @property
    def passed(self) -> float:
        """The highest rate that met the objectives, or 0."""
        return max((probe.rate for probe in self.probes if probe.passed and probe.rate < self.failed), default=0.0)

    @property
    def failed(self) -> float:
        """The lowest rate that missed them."""
        return min((probe.rate for probe in self.probes if not probe.passed), default=float("inf"))

    def rates(self) -> Iterator[float]:
        """Yield rates to try; add a probe for each before requesting the next."""
        rate = self.first
        while True:
            yield rate
            passed, failed = self.passed, self.failed
            if failed == float("inf"):
                if passed >= self.max_rate:
                    return
                rate = min(passed * 2, self.max_rate)
            elif not passed:
                if failed / 2 < max(self.first / 64, self.min_rate):
                    return
                rate = failed / 2
            elif failed / passed <= 1 + self.precision:
                return
            else:
                rate = (passed * failed) ** 0.5

    def add(self, probe: Probe) -> None:
        """Add the result of a rate."""
        self.probes.append(probe)
