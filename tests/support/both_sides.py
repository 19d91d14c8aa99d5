"""Holds what a load test measured against what the server wrote down: each check has a name, and those that fail are told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_BUSY = 0.25
"""Seconds by which a busy machine may hold either side up."""
_WINDOW = 0.25


@dataclass(frozen=True, slots=True)
class Told:
    """One request as the client measured it: seconds after it was sent, and tokens."""

    number: int
    first: float
    pieces: tuple[float, ...]
    tokens: int


@dataclass(frozen=True, slots=True)
class Known:
    """The same request as the server knows it: when it came, and when each piece was sent."""

    number: int
    came: float
    pieces: tuple[float, ...]


def disagreements(told: Sequence[Told], known: Sequence[Known], schedule: Floats) -> set[str]:
    """The names of all checks that fail."""
    theirs = {each.number: each for each in known}
    found = set()
    if sorted(each.number for each in told) != sorted(each.number for each in known) or len(known) != len(schedule):
        found.add("count")
    pairs = [(each, theirs[each.number]) for each in told if each.number in theirs]
    late = np.asarray([one.first - (other.pieces[0] - other.came) for one, other in pairs])
    # Nobody sees a token before it is sent; nobody should see it long after.
    if late.min() < -0.001 or np.median(late) > _BUSY:
        found.add("first token")
    spans = np.asarray([np.ptp(one.pieces) - np.ptp(other.pieces) for one, other in pairs])
    if abs(np.median(spans)) > _BUSY / 5:
        found.add("gaps")
    if any((one.tokens, len(one.pieces)) != (len(other.pieces), len(other.pieces)) for one, other in pairs):
        found.add("tokens")
    return found | _arrivals(np.sort([each.came for each in known]), schedule)


def _arrivals(came: Floats, schedule: Floats) -> set[str]:
    """Arrivals against the schedule: how fast they came one after the other, and how unevenly."""
    found = set()
    lasted, meant = float(np.ptp(came)), float(np.ptp(schedule))
    if abs(lasted - meant) > _BUSY or len(came) < 0.99 * len(schedule):
        found.add("rate")
    begins = float(np.median(came) - np.median(schedule))
    if abs(dispersion(came - begins) - dispersion(schedule)) > 1:
        found.add("dispersion")
    return found


def dispersion(moments: Floats, window: float = _WINDOW) -> float:
    """Variance to mean of how many come in a window of time: 1 for a Poisson process, nothing for an even one."""
    counts = np.bincount(np.floor((moments - moments.min()) / window).astype(np.int64))
    return float(counts.var() / counts.mean())
