"""The highest rate at which objectives hold: doubled until they do not, then halved in between until the gap is small.

Pure: whoever calls it makes the probes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True)
class Probe:
    """A rate that was tried. A run that does not count cannot hold anything."""

    rate: float
    held: bool
    valid: bool = True
    note: str = ""
    folder: str = ""


@dataclass(slots=True)
class Search:
    """Which rate to try next. `first` is tried first; no rate above `most` is tried."""

    first: float = 1.0
    most: float = 100_000.0
    precision: float = 0.05
    probes: list[Probe] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not 0 < self.first <= self.most:
            raise ValueError(f"the first rate {self.first:g} is not between 0 and {self.most:g}")

    @property
    def held(self) -> float:
        """The highest rate that held; 0 when none did."""
        return max((probe.rate for probe in self.probes if probe.held and probe.rate < self.failed), default=0.0)

    @property
    def failed(self) -> float:
        """The lowest rate that did not hold."""
        return min((probe.rate for probe in self.probes if not probe.held), default=float("inf"))

    def rates(self) -> Iterator[float]:
        """One rate after the other; each must be added as a probe before the next is asked for."""
        rate = self.first
        while True:
            yield rate
            held, failed = self.held, self.failed
            if failed == float("inf"):
                if held >= self.most:
                    return
                rate = min(held * 2, self.most)
            elif not held:
                if failed <= self.first / 64:
                    return
                rate = failed / 2
            elif failed / held <= 1 + self.precision:
                return
            else:
                rate = (held * failed) ** 0.5

    def add(self, probe: Probe) -> None:
        """What came of a rate."""
        self.probes.append(probe)
