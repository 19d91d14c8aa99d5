"""Exact percentiles of large samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, Self

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


def rank(percentile: float, count: int) -> int:
    """The zero-based rank of a percentile in a sorted sample."""
    return min(max(int(np.ceil(percentile / 100 * count - 1e-9)) - 1, 0), count - 1)


class Sample(Protocol):
    """Values of one metric."""

    @property
    def count(self) -> int: ...
    @property
    def mean(self) -> float: ...
    @property
    def min(self) -> float: ...
    @property
    def max(self) -> float: ...
    def at(self, percentiles: Sequence[float]) -> list[float]: ...


@dataclass(frozen=True, slots=True)
class ValueSample:
    """A sample of plain values."""

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
class CountedSample:
    """Distinct values in order, with their counts."""

    values: Floats
    counts: NDArray[np.int64]

    @property
    def count(self) -> int:
        return int(self.counts.sum())

    @property
    def mean(self) -> float:
        return float((self.values * self.counts).sum() / self.counts.sum())

    @property
    def min(self) -> float:
        return float(self.values[0])

    @property
    def max(self) -> float:
        return float(self.values[-1])

    def at(self, percentiles: Sequence[float]) -> list[float]:
        """Percentiles as measured values, without interpolation."""
        cumulative = np.cumsum(self.counts)
        indices = np.searchsorted(cumulative, [rank(percentile, int(cumulative[-1])) for percentile in percentiles], side="right")
        return [float(self.values[index]) for index in indices]

    @classmethod
    def combine(cls, samples: Sequence[Self]) -> Self:
        """Merges samples."""
        values, positions = np.unique(np.concatenate([item.values for item in samples]), return_inverse=True)
        counts = np.bincount(positions, np.concatenate([sample.counts for sample in samples]), len(values))
        return cls(values, counts.astype(np.int64))
