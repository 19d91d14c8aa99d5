"""How long something may take: a spread of run times, from which a share can be asked for. Pure."""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

USUAL = math.log(2) / NormalDist().inv_cdf(0.95)
"""How far run times scatter when nothing tells: nine in ten lie between half and twice of what is expected."""
_PRIOR = 4
"""The weight of that against what was seen: as much as so many runs."""
_MANY, _ENOUGH = 30, 5
_NORMAL = NormalDist()
_ALMOST = 1 - 1e-6


@dataclass(frozen=True, slots=True)
class Spread:
    """Logarithms of seconds: their middle, how far they scatter, and, where there are many, each of them, in order."""

    middle: float
    width: float
    seen: tuple[float, ...] = ()

    def at(self, share: float, beyond: float = 0.0) -> float:
        """The run time that so large a share stays below, of those that take longer than `beyond`."""
        least = math.log(beyond) if beyond > 0 else -math.inf
        if self.seen:
            first = bisect_right(self.seen, least)
            if len(self.seen) - first >= _ENOUGH:
                return math.exp(_between(self.seen[first:], share))
        return max(math.exp(self._normal(share, least)), beyond)

    def _normal(self, share: float, least: float) -> float:
        below = _NORMAL.cdf((least - self.middle) / self.width)
        if below >= _ALMOST:
            # It has outlasted everything known: it will go on for a time like that which it has taken, more or less.
            return least + self.width * abs(_NORMAL.inv_cdf((1 + min(share, _ALMOST)) / 2))
        wanted = below + min(max(share, 1 - _ALMOST), _ALMOST) * (1 - below)
        return self.middle + self.width * _NORMAL.inv_cdf(min(wanted, 1 - 1e-12))

    def times(self, factor: float) -> Spread:
        """The same, so many times longer."""
        more = math.log(factor)
        return Spread(self.middle + more, self.width, tuple(one + more for one in self.seen))


def around(seconds: float) -> Spread:
    """An expectation that nothing is known about."""
    return Spread(math.log(max(seconds, 1.0)), USUAL)


def of_runs(seconds: Sequence[float]) -> Spread:
    """The spread of run times that were seen, at least one; the fewer, the more is left open."""
    logs = sorted(math.log(max(one, 1.0)) for one in seconds)
    middle = math.fsum(logs) / len(logs)
    return Spread(middle, _width(logs, middle), tuple(logs) if len(logs) >= _MANY else ())


def of_ratios(ratios: Sequence[float]) -> Spread:
    """The spread of how far expectations were off: with few of them, the expectation itself is trusted more."""
    logs = sorted(math.log(max(one, 1e-3)) for one in ratios)
    middle = math.fsum(logs) / (len(logs) + _PRIOR / 2)
    return Spread(middle, _width(logs, middle), tuple(logs) if len(logs) >= _MANY else ())


def _width(logs: Sequence[float], middle: float) -> float:
    squares = math.fsum((one - middle) ** 2 for one in logs) + _PRIOR * USUAL**2
    # The middle itself is known the less exactly, the fewer there are.
    return math.sqrt(squares / (len(logs) - 1 + _PRIOR) * (1 + 1 / max(len(logs), 1)))


def _between(ordered: Sequence[float], share: float) -> float:
    """A value at a share of an ordered list, between its neighbours; each one stands for an equal part."""
    place = min(max(share * len(ordered) - 0.5, 0.0), len(ordered) - 1.0)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)
