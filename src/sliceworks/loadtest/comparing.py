"""Two runs side by side: how much each figure changed, and whether that is more than chance.

The interval comes from drawing anew from both runs' own rows, many times. A change counts when its whole interval lies on one side
of nothing, and when it is large enough to matter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sliceworks.loadtest.statistics import Table, Window, exact

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

_DRAWS = 300
_MOST = 50_000
"""Rows of a run that are drawn from: enough for a p99 with five hundred beyond it."""
_FIGURES: tuple[tuple[str, float | str], ...] = (
    ("ttft", 50.0),
    ("ttft", 99.0),
    ("tpot", 50.0),
    ("tpot", 99.0),
    ("e2e", 50.0),
    ("e2e", 99.0),
)


@dataclass(frozen=True, slots=True)
class Change:
    """A figure before and after; `low` and `high` bound the relative change with 95 % confidence."""

    figure: str
    before: float
    after: float
    low: float
    high: float
    matters: float

    @property
    def relative(self) -> float:
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
    """All figures that both runs have."""
    random = np.random.default_rng(seed)
    tables = [Table(side.folder, Window(side.begins, side.ends, np.empty(0))) for side in (before, after)]
    measures = [table.measures() for table in tables]
    found = []
    for measure, quantile in _FIGURES:
        values = [each[measure][1] for each in measures]
        if all(len(each) >= 20 for each in values):
            found.append(_change(f"{measure} p{quantile:g}", values, _percentile(float(quantile)), matters, random))
    errors = [(~table.good).astype(np.float64) for table in tables]
    if all(len(each) for each in errors):
        found.append(_difference("errors", errors, matters, random))
    return found


def _percentile(quantile: float) -> Callable[[NDArray[np.float64]], float]:
    return lambda values: exact(np.sort(values), quantile)


def _change(
    name: str,
    values: list[NDArray[np.float64]],
    figure: Callable[[NDArray[np.float64]], float],
    matters: float,
    random: np.random.Generator,
) -> Change:
    drawn = [_some(each, random) for each in values]
    ratios = np.asarray(
        [
            figure(random.choice(drawn[1], len(drawn[1]))) / max(figure(random.choice(drawn[0], len(drawn[0]))), 1e-12) - 1
            for _ in range(_DRAWS)
        ]
    )
    low, high = np.quantile(ratios, [0.025, 0.975])
    return Change(name, figure(values[0]), figure(values[1]), float(low), float(high), matters)


def _difference(name: str, values: list[NDArray[np.float64]], matters: float, random: np.random.Generator) -> Change:
    """Shares of errors: their difference counts, not their ratio, as one of them is often nothing."""
    drawn = [random.binomial(len(each), each.mean(), _DRAWS) / len(each) for each in values]
    low, high = np.quantile(drawn[1] - drawn[0], [0.025, 0.975])
    return Errors(name, float(values[0].mean()), float(values[1].mean()), float(low), float(high), min(matters, 0.005))


class Errors(Change):
    """A change of the share of errors, in points."""

    @property
    def relative(self) -> float:
        return self.after - self.before


def _some(values: NDArray[np.float64], random: np.random.Generator) -> NDArray[np.float64]:
    return values if len(values) <= _MOST else random.choice(values, _MOST, replace=False)
