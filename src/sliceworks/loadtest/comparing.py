"""Two runs side by side: how much each figure changed, and whether that is more than chance.

The interval comes from drawing anew from both runs' own rows, many times. What is drawn are stretches of time, not single rows: a
server that is slow now is slow a moment later too, and rows that are not free of each other must not count as if they were. A
change counts when its whole interval lies on one side of nothing, and when it is large enough to matter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sliceworks.loadtest.samples import Values
from sliceworks.loadtest.tables import Table

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_DRAWS = 300
_MOST = 50_000
"""Rows of a run that are drawn from: enough for a p99 with five hundred beyond it."""
_STRETCHES = 40
_BEYOND = 10
"""So many rows lie beyond a percentile, or it is one or two unlucky ones that are compared."""
_FIGURES = tuple((measure, quantile) for measure in ("ttft", "tpot", "e2e") for quantile in (50.0, 90.0, 99.0))


@dataclass(frozen=True, slots=True)
class Change:
    """A figure before and after; `low` and `high` bound the change with 95 % confidence.

    It is relative to before, or in points where the figure is a share itself.
    """

    figure: str
    before: float
    after: float
    low: float
    high: float
    matters: float
    points: bool = False

    @property
    def relative(self) -> float:
        if self.points:
            return self.after - self.before
        return self.after / self.before - 1 if self.before else 0.0

    @property
    def verdict(self) -> str:
        """Lower is better for all figures."""
        if self.low > 0 and self.relative > self.matters:
            return "worse"
        return "better" if self.high < 0 and self.relative < -self.matters else "same"


@dataclass(frozen=True, slots=True)
class Side:
    """One run: where it is, and which part of it counts."""

    folder: Path
    begins: float
    ends: float


def compare(before: Side, after: Side, *, matters: float = 0.05, seed: int = 0) -> list[Change]:
    """All figures of which both runs have enough."""
    random = np.random.default_rng(seed)
    found = []
    with Table(before.folder, before.begins, before.ends) as one, Table(after.folder, after.begins, after.ends) as other:
        for measure, quantile in _FIGURES:
            values = [table.measure(measure)[1] for table in (one, other)]
            if all(len(each) * (100 - quantile) / 100 >= _BEYOND for each in values):
                found.append(_change(f"{measure} p{quantile:g}", values, quantile, matters, random))
        errors = [(~table.good).astype(np.float64) for table in (one, other)]
    if all(len(each) for each in errors):
        found.append(_difference("errors", errors, matters, random))
    return found


def _change(name: str, values: list[Floats], quantile: float, matters: float, random: np.random.Generator) -> Change:
    drawn = [_drawn(_some(each, random), random, lambda some: Values(some).at([quantile])[0]) for each in values]
    low, high = np.quantile(drawn[1] / np.maximum(drawn[0], 1e-12) - 1, [0.025, 0.975])
    before, after = (Values(each).at([quantile])[0] for each in values)
    return Change(name, before, after, float(low), float(high), matters)


def _drawn(values: Floats, random: np.random.Generator, figure: Callable[[Floats], float]) -> Floats:
    """The figure, of as many stretches of a run as there are, drawn at random and some of them twice; many times."""
    count = min(_STRETCHES, len(values))
    stretches = np.array_split(values, count)
    draws = ([stretches[each] for each in random.integers(0, count, count)] for _ in range(_DRAWS))
    return np.asarray([figure(np.concatenate(some)) for some in draws])


def _difference(name: str, values: list[Floats], matters: float, random: np.random.Generator) -> Change:
    """Shares of errors: their difference counts, not their ratio, as one of them is often nothing."""
    drawn = [_drawn(_some(each, random), random, lambda some: float(some.mean())) for each in values]
    low, high = np.quantile(drawn[1] - drawn[0], [0.025, 0.975])
    before, after = (float(each.mean()) for each in values)
    return Change(name, before, after, float(low), float(high), min(matters, 0.005), points=True)


def _some(values: Floats, random: np.random.Generator) -> Floats:
    """Not too many of them, in their order."""
    return values if len(values) <= _MOST else values[np.sort(random.choice(len(values), _MOST, replace=False))]
