"""Percentiles of many values, exact, in time that grows no faster than their number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, Self

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


def rank(percentile: float, count: int) -> int:
    """Which of so many values in order, counted from 0, is the one that so many per cent of them do not exceed."""
    return min(max(int(np.ceil(percentile / 100 * count - 1e-9)) - 1, 0), count - 1)


class Sample(Protocol):
    """Values of one measure."""

    @property
    def count(self) -> int: ...
    @property
    def mean(self) -> float: ...
    @property
    def least(self) -> float: ...
    @property
    def most(self) -> float: ...
    def at(self, percentiles: Sequence[float]) -> list[float]: ...


@dataclass(frozen=True, slots=True)
class Values:
    """One after the other."""

    values: Floats

    @property
    def count(self) -> int:
        return len(self.values)

    @property
    def mean(self) -> float:
        return float(self.values.mean())

    @property
    def least(self) -> float:
        return float(self.values.min())

    @property
    def most(self) -> float:
        return float(self.values.max())

    def at(self, percentiles: Sequence[float]) -> list[float]:
        """Values that were really measured, never something between two."""
        ranks = [rank(each, self.count) for each in percentiles]
        # All others stay where they are: putting everything in order would take ten times as long.
        ordered = np.partition(self.values, sorted(set(ranks)))
        return [float(ordered[each]) for each in ranks]


@dataclass(frozen=True, slots=True)
class Counted:
    """Different values in order, and how often there was each."""

    values: Floats
    counts: NDArray[np.int64]

    @property
    def count(self) -> int:
        return int(self.counts.sum())

    @property
    def mean(self) -> float:
        return float((self.values * self.counts).sum() / self.counts.sum())

    @property
    def least(self) -> float:
        return float(self.values[0])

    @property
    def most(self) -> float:
        return float(self.values[-1])

    def at(self, percentiles: Sequence[float]) -> list[float]:
        """As above."""
        beyond = np.cumsum(self.counts)
        places = np.searchsorted(beyond, [rank(each, int(beyond[-1])) for each in percentiles], side="right")
        return [float(self.values[each]) for each in places]

    @classmethod
    def together(cls, some: Sequence[Self]) -> Self:
        """All of them as one."""
        values, where = np.unique(np.concatenate([each.values for each in some]), return_inverse=True)
        counts = np.bincount(where, np.concatenate([each.counts for each in some]), len(values))
        return cls(values, counts.astype(np.int64))
