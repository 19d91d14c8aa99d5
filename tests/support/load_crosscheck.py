"""Compares the results of a load test with the records of the server; returns the names of the checks that fail."""

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
class ClientRecord:
    """One request as the client measured it: seconds since it was sent, and tokens."""

    number: int
    first: float
    chunks: tuple[float, ...]
    tokens: int


@dataclass(frozen=True, slots=True)
class ServerRecord:
    """The same request as the server recorded it: its arrival, and when each chunk was sent."""

    number: int
    came: float
    chunks: tuple[float, ...]


def disagreements(told: Sequence[ClientRecord], known: Sequence[ServerRecord], schedule: Floats) -> set[str]:
    """The names of all checks that fail."""
    theirs = {item.number: item for item in known}
    result = set()
    if sorted(item.number for item in told) != sorted(item.number for item in known) or len(known) != len(schedule):
        result.add("count")
    pairs = [(item, theirs[item.number]) for item in told if item.number in theirs]
    late = np.asarray([one.first - (other.chunks[0] - other.came) for one, other in pairs])
    # A client cannot receive a token before it is sent, and should not receive it much later.
    if late.min() < -0.001 or np.median(late) > _BUSY:
        result.add("first token")
    spans = np.asarray([np.ptp(one.chunks) - np.ptp(other.chunks) for one, other in pairs])
    if abs(np.median(spans)) > _BUSY / 5:
        result.add("gaps")
    if any((one.tokens, len(one.chunks)) != (len(other.chunks), len(other.chunks)) for one, other in pairs):
        result.add("tokens")
    return result | _arrivals(np.sort([item.came for item in known]), schedule)


def _arrivals(came: Floats, schedule: Floats) -> set[str]:
    """Compare arrivals with the schedule: their rate and their dispersion."""
    result = set()
    duration, meant = float(np.ptp(came)), float(np.ptp(schedule))
    if abs(duration - meant) > _BUSY or len(came) < 0.99 * len(schedule):
        result.add("rate")
    begins = float(np.median(came) - np.median(schedule))
    if abs(dispersion(came - begins) - dispersion(schedule)) > 1:
        result.add("dispersion")
    return result


def dispersion(moments: Floats, window: float = _WINDOW) -> float:
    """Variance-to-mean ratio of arrivals per window: 1 for a Poisson process, 0 for an even one."""
    counts = np.bincount(np.floor((moments - moments.min()) / window).astype(np.int64))
    return float(counts.var() / counts.mean())
