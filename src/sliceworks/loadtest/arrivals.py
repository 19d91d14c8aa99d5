"""When each request of a test should leave: the whole schedule, known before the first one does.

Moments are whole nanoseconds from the beginning. The same stages and seed give the same schedule on every machine, so that each
worker works out its own share of it, and the report knows what was asked for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sliceworks.base.errors import InvalidDocument

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from sliceworks.specs.load_test import Stage

SECOND = 1_000_000_000
MOST = 200_000_000
"""More arrivals than this are a slip of the pen: the schedule alone would take gigabytes."""


@dataclass(frozen=True, slots=True)
class Phase:
    """A part of a test at one pace. A closed one has users in place of a rate."""

    number: int
    begins: float
    lasts: float
    name: str
    users: int = 0
    steady: bool = True
    """The load is the same from its beginning to its end."""

    @property
    def ends(self) -> float:
        return self.begins + self.lasts


@dataclass(frozen=True, slots=True)
class Schedule:
    """All phases, and the moments of all requests of the open ones, in order."""

    phases: tuple[Phase, ...]
    moments: NDArray[np.int64]
    of_phase: NDArray[np.uint16]

    @property
    def lasts(self) -> float:
        return max((phase.ends for phase in self.phases), default=0.0)

    def share(self, worker: int, workers: int) -> NDArray[np.int64]:
        """The numbers of the requests that a worker sends: every request is somebody's, and nobody's twice."""
        return np.arange(worker, len(self.moments), workers, dtype=np.int64)

    def users(self, phase: Phase, worker: int, workers: int) -> int:
        """How many of a closed phase's users a worker plays."""
        return phase.users // workers + (worker < phase.users % workers)


def schedule(stages: Sequence[Stage], seed: int, trace: NDArray[np.float64] | None = None) -> Schedule:
    """The schedule of a test; `trace` has the seconds at which a recorded load's requests came."""
    phases: list[Phase] = []
    moments: list[NDArray[np.int64]] = []
    numbers: list[NDArray[np.uint16]] = []
    begins = 0.0
    for index, stage in enumerate(stages):
        for name, lasts, found in _parts(stage, np.random.default_rng([seed, index]), trace):
            phase = Phase(len(phases), begins, lasts, name, stage.users or 0, stage.ramp is None and stage.replay is None)
            phases.append(phase)
            moments.append(np.round((found + begins) * SECOND).astype(np.int64))
            numbers.append(np.full(len(found), phase.number, dtype=np.uint16))
            begins = phase.ends
    return Schedule(tuple(phases), np.concatenate(moments), np.concatenate(numbers))


def _parts(
    stage: Stage, random: np.random.Generator, trace: NDArray[np.float64] | None
) -> Iterator[tuple[str, float, NDArray[np.float64]]]:
    """Name, length in seconds, and moments of each part of a stage."""
    lasts = stage.lasts or 0.0
    if stage.constant is not None:
        yield f"constant {stage.constant:g}/s", lasts, _constant(stage.constant, lasts)
    elif stage.poisson is not None:
        yield f"poisson {stage.poisson:g}/s", lasts, _poisson(stage.poisson, lasts, random)
    elif stage.ramp is not None:
        yield f"ramp {stage.ramp.first:g}…{stage.ramp.last:g}/s", lasts, _ramp(stage.ramp.first, stage.ramp.last, lasts)
    elif stage.steps is not None:
        for rate in stage.steps.rates:
            even = stage.steps.arrivals == "constant"
            yield f"step {rate:g}/s", lasts, _constant(rate, lasts) if even else _poisson(rate, lasts, random)
    elif stage.replay is not None:
        found = _replayed(trace, stage.replay, stage.lasts)
        yield f"replay ×{stage.replay:g}", stage.lasts or (float(found[-1]) if len(found) else 0.0), found
    else:
        yield f"{stage.users} users", lasts, np.empty(0)


def _constant(rate: float, lasts: float) -> NDArray[np.float64]:
    return np.arange(_sane(math.floor(rate * lasts + 1e-9))) / rate


def _poisson(rate: float, lasts: float, random: np.random.Generator) -> NDArray[np.float64]:
    expected = _sane(math.ceil(rate * lasts))
    drawn = random.exponential(1 / rate, expected + 10 * math.isqrt(expected) + 20).cumsum()
    while drawn[-1] < lasts:
        more = random.exponential(1 / rate, expected + 20).cumsum()
        drawn = np.concatenate([drawn, drawn[-1] + more])
    return np.asarray(drawn[: np.searchsorted(drawn, lasts)], dtype=np.float64)


def _ramp(first: float, last: float, lasts: float) -> NDArray[np.float64]:
    """Moment n is when the rate has added up to n: the root of a quadratic."""
    numbers = np.arange(_sane(math.floor((first + last) / 2 * lasts + 1e-9)), dtype=np.float64)
    growth = (last - first) / lasts
    if abs(growth) < 1e-12:
        return numbers / first
    # This form of the root loses no digits where the growth is small, and takes a rate that falls as well.
    roots = 2 * numbers / (first + np.sqrt(np.maximum(first * first + 2 * growth * numbers, 0.0)))
    return np.asarray(roots, dtype=np.float64)


def _replayed(trace: NDArray[np.float64] | None, speed: float, lasts: float | None) -> NDArray[np.float64]:
    if trace is None or not len(trace):
        raise InvalidDocument("the trace has no requests", hint="each line has a timestamp in milliseconds")
    moments = (trace - trace[0]) / speed
    return np.asarray(moments if lasts is None else moments[moments < lasts], dtype=np.float64)


def _sane(count: int) -> int:
    if count > MOST:
        raise InvalidDocument(f"{count:,} requests in one stage are too many", hint=f"up to {MOST:,} can be planned")
    return count
