"""Compares two runs: the change of each metric with its confidence interval.

The interval comes from a bootstrap over both runs. It resamples blocks of time instead of single rows, because latencies of
neighboring requests are correlated. A change is significant if its interval excludes zero and it is larger than a threshold.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sliceworks.loadtest.percentiles import Sample
from sliceworks.loadtest.request_table import RequestTable

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sliceworks.loadtest.percentiles import Floats

_RESAMPLES = 300
_MAX_SAMPLE_SIZE = 50_000
"""Maximum sample size of a run: leaves 500 values beyond p99."""
_BLOCKS = 40
_MIN_TAIL_SIZE = 10
"""Minimum number of values beyond a percentile for it to be compared."""
_METRICS = tuple((measure, quantile) for measure in ("ttft", "tpot", "e2e") for quantile in (50.0, 90.0, 99.0))


@dataclass(frozen=True, slots=True)
class Change:
    """A metric before and after; `low` and `high` bound the change with 95 % confidence.

    The change is relative, or a difference if the metric is a share.
    """

    metric: str
    before: float
    after: float
    low: float
    high: float
    threshold: float
    is_share: bool = False

    @property
    def relative(self) -> float:
        if self.is_share:
            return self.after - self.before
        return self.after / self.before - 1 if self.before else 0.0

    @property
    def verdict(self) -> str:
        """Whether the change is an improvement: lower is better for all metrics."""
        if self.low > 0 and self.relative > self.threshold:
            return "worse"
        return "better" if self.high < 0 and self.relative < -self.threshold else "same"


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """One run: its folder and its measurement window."""

    folder: Path
    begins: float
    ends: float


def compare(before: ComparedRun, after: ComparedRun, *, threshold: float = 0.05, seed: int = 0) -> list[Change]:
    """The change of every metric with enough values in both runs."""
    random = np.random.default_rng(seed)
    result = []
    with (
        RequestTable(before.folder, before.begins, before.ends) as before_table,
        RequestTable(after.folder, after.begins, after.ends) as after_table,
    ):
        for measure, quantile in _METRICS:
            values = [table.measure(measure)[1] for table in (before_table, after_table)]
            if all(len(item) * (100 - quantile) / 100 >= _MIN_TAIL_SIZE for item in values):
                result.append(_change(f"{measure} p{quantile:g}", values, quantile, threshold, random))
        errors = [(~table.good).astype(np.float64) for table in (before_table, after_table)]
    if all(len(error) for error in errors):
        result.append(_difference("errors", errors, threshold, random))
    return result


def _change(name: str, values: list[Floats], quantile: float, threshold: float, random: np.random.Generator) -> Change:
    estimates = [
        _bootstrap(_thin_out(sample, random), random, lambda resampled: Sample(resampled).at([quantile])[0]) for sample in values
    ]
    low, high = np.quantile(estimates[1] / np.maximum(estimates[0], 1e-12) - 1, [0.025, 0.975])
    before, after = (Sample(sample).at([quantile])[0] for sample in values)
    return Change(name, before, after, float(low), float(high), threshold)


def _bootstrap(values: Floats, random: np.random.Generator, metric: Callable[[Floats], float]) -> Floats:
    """Bootstrap estimates of a metric: blocks of time are resampled with replacement."""
    count = min(_BLOCKS, len(values))
    blocks = np.array_split(values, count)
    draws = ([blocks[index] for index in random.integers(0, count, count)] for _ in range(_RESAMPLES))
    return np.asarray([metric(np.concatenate(blocks_drawn)) for blocks_drawn in draws])


def _difference(name: str, values: list[Floats], threshold: float, random: np.random.Generator) -> Change:
    """The change of the error rate, as a difference: a ratio is undefined when one of them is 0."""
    estimates = [_bootstrap(_thin_out(sample, random), random, lambda resampled: float(resampled.mean())) for sample in values]
    low, high = np.quantile(estimates[1] - estimates[0], [0.025, 0.975])
    before, after = (float(sample.mean()) for sample in values)
    return Change(name, before, after, float(low), float(high), min(threshold, 0.005), is_share=True)


def _thin_out(values: Floats, random: np.random.Generator) -> Floats:
    """An evenly thinned sample, in order."""
    return (
        values if len(values) <= _MAX_SAMPLE_SIZE else values[np.sort(random.choice(len(values), _MAX_SAMPLE_SIZE, replace=False))]
    )
