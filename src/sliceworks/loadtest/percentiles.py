"""Exact percentiles of large samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


def rank(percentile: float, count: int) -> int:
    """The zero-based rank of a percentile in a sorted sample."""
    return min(max(int(np.ceil(percentile / 100 * count - 1e-9)) - 1, 0), count - 1)


@dataclass(frozen=True, slots=True)
class Sample:
    """Values of one metric."""

    values: Floats

    @property
    def count(self) -> int:
        return len(self.values)

    @property
    def mean(self) -> float:
        return float(self.values.mean())

    @property
    def min(self) -> float:
        return float(self.values.min())

    @property
    def max(self) -> float:
        return float(self.values.max())

    def at(self, percentiles: Sequence[float]) -> list[float]:
        """Percentiles as measured values, without interpolation."""
        ranks = [rank(percentile, self.count) for percentile in percentiles]
        # Partial sort: sorting everything takes ten times as long.
        ordered = np.partition(self.values, sorted(set(ranks)))
        return [float(ordered[item]) for item in ranks]


@dataclass(frozen=True, slots=True)
class CountedSample(Sample):
    """Distinct values in order, with their counts."""

    counts: NDArray[np.int64]

    @property
    def count(self) -> int:
        return int(self.counts.sum())

    @property
    def mean(self) -> float:
        return float((self.values * self.counts).sum() / self.counts.sum())

    def at(self, percentiles: Sequence[float]) -> list[float]:
        """Percentiles as measured values, without interpolation."""
        cumulative = np.cumsum(self.counts)
        indices = np.searchsorted(cumulative, [rank(percentile, int(cumulative[-1])) for percentile in percentiles], side="right")
        return [float(self.values[index]) for index in indices]

    @classmethod
    def combine(cls, samples: Sequence[Self]) -> Self:
        """Merge samples."""
        values, positions = np.unique(np.concatenate([item.values for item in samples]), return_inverse=True)
        counts = np.bincount(positions, np.concatenate([sample.counts for sample in samples]), len(values))
        return cls(values, counts.astype(np.int64))
