"""A load test that is ready to run: its arrival process as a schedule of all requests, its prompts and its target."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sliceworks.base.errors import InvalidDocument
from sliceworks.loadtest import prompts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from sliceworks.loadtest.prompts import Prompts
    from sliceworks.specs.load_test import LoadTestSpec, Stage

SECOND = 1_000_000_000
MAX_REQUESTS = 200_000_000
"""Maximum requests of a test: beyond it the schedule alone would take gigabytes."""

_BLOCK = 4_096
"""Size of the blocks in which the schedule becomes Python integers: all at once would take 40 bytes per request."""


@dataclass(frozen=True, slots=True)
class Phase:
    """A part of a test with one arrival process; a closed-loop phase has users instead of a rate. `ends` is exclusive."""

    number: int
    begins: float
    ends: float
    name: str
    users: int = 0
    steady: bool = True
    """Whether the load is constant."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """All phases, and the due times of all open-loop requests in order."""

    phases: tuple[Phase, ...]
    due_times: NDArray[np.int64]
    of_phase: NDArray[np.uint16]

    @property
    def duration(self) -> float:
        return max((phase.ends for phase in self.phases), default=0.0)

    def requests(self, worker: int, workers: int) -> Iterator[tuple[int, int, int]]:
        """Number, due time and phase of each request of a worker; each request belongs to exactly one worker."""
        for block in range(worker, len(self.due_times), _BLOCK * workers):
            part = slice(block, block + _BLOCK * workers, workers)
            numbers = range(len(self.due_times))[part]
            yield from zip(numbers, self.due_times[part].tolist(), self.of_phase[part].tolist(), strict=True)

    def users(self, phase: Phase, worker: int, workers: int) -> int:
        """The number of a closed-loop phase's users that a worker simulates."""
        return phase.users // workers + (worker < phase.users % workers)


def schedule_arrivals(stages: Sequence[Stage], seed: int, trace: NDArray[np.float64] | None = None) -> Schedule:
    """The schedule of a test; `trace` holds the arrival times of a recorded load, in seconds."""
    phases: list[Phase] = []
    due_times: list[NDArray[np.int64]] = []
    numbers: list[NDArray[np.uint16]] = []
    begins = 0
    for index, stage in enumerate(stages):
        for name, seconds, offsets in _parts(stage, np.random.default_rng([seed, index]), trace):
            # In whole nanoseconds, so that every request is due inside its own phase.
            ends = begins + max(round(seconds * SECOND), 1)
            steady = stage.ramp is None and stage.replay is None
            phases.append(Phase(len(phases), begins / SECOND, ends / SECOND, name, stage.users or 0, steady))
            due_times.append(np.minimum(np.round(offsets * SECOND).astype(np.int64) + begins, ends - 1))
            numbers.append(np.full(len(offsets), phases[-1].number, dtype=np.uint16))
            begins = ends
    return Schedule(tuple(phases), np.concatenate(due_times), np.concatenate(numbers))


def _parts(
    stage: Stage, random: np.random.Generator, trace: NDArray[np.float64] | None
) -> Iterator[tuple[str, float, NDArray[np.float64]]]:
    """Name, duration in seconds and due times of each part of a stage."""
    seconds = stage.seconds or 0.0
    if stage.constant is not None:
        yield f"constant {stage.constant:g}/s", seconds, _constant(stage.constant, seconds)
    elif stage.poisson is not None:
        yield f"poisson {stage.poisson:g}/s", seconds, _poisson(stage.poisson, seconds, random)
    elif stage.ramp is not None:
        yield f"ramp {stage.ramp.first:g}…{stage.ramp.last:g}/s", seconds, _ramp(stage.ramp.first, stage.ramp.last, seconds)
    elif stage.steps is not None:
        for rate in stage.steps.rates:
            even = stage.steps.arrivals == "constant"
            yield f"step {rate:g}/s", seconds, _constant(rate, seconds) if even else _poisson(rate, seconds, random)
    elif stage.replay is not None:
        due_times = _replayed(trace, stage.replay, stage.seconds)
        yield f"replay ×{stage.replay:g}", stage.seconds or _replay_duration(due_times), due_times
    else:
        yield f"{stage.users} users", seconds, np.empty(0)


def _constant(rate: float, seconds: float) -> NDArray[np.float64]:
    return np.arange(_check_count(math.floor(rate * seconds + 1e-9))) / rate


def _poisson(rate: float, seconds: float, random: np.random.Generator) -> NDArray[np.float64]:
    expected = _check_count(math.ceil(rate * seconds))
    drawn = random.exponential(1 / rate, expected + 10 * math.isqrt(expected) + 20).cumsum()
    while drawn[-1] < seconds:
        further = random.exponential(1 / rate, expected + 20).cumsum()
        drawn = np.concatenate([drawn, drawn[-1] + further])
    return np.asarray(drawn[: np.searchsorted(drawn, seconds)], dtype=np.float64)


def _ramp(first: float, last: float, seconds: float) -> NDArray[np.float64]:
    """Request n is due when the integral of the rate reaches n: the root of a quadratic."""
    numbers = np.arange(_check_count(math.floor((first + last) / 2 * seconds + 1e-9)), dtype=np.float64)
    growth = (last - first) / seconds
    if abs(growth) < 1e-12:
        return numbers / first
    # This form of the root is numerically stable for small slopes, and also holds for falling rates.
    roots = 2 * numbers / (first + np.sqrt(np.maximum(first * first + 2 * growth * numbers, 0.0)))
    return np.asarray(roots, dtype=np.float64)


def _replayed(trace: NDArray[np.float64] | None, speed: float, seconds: float | None) -> NDArray[np.float64]:
    if trace is None or not len(trace):
        raise InvalidDocument("the trace has no requests", hint="each line has a timestamp in milliseconds")
    due_times = (trace - trace[0]) / speed
    return np.asarray(due_times if seconds is None else due_times[due_times < seconds], dtype=np.float64)


def _replay_duration(due_times: NDArray[np.float64]) -> float:
    """Until one mean interval after the last request, as at a constant rate; a second if all requests are due at once."""
    last, count = float(due_times[-1]), len(due_times)
    return last * count / (count - 1) if last else 1.0


def _check_count(count: int) -> int:
    if count > MAX_REQUESTS:
        raise InvalidDocument(f"{count:,} requests in one stage are too many", hint=f"up to {MAX_REQUESTS:,} can be planned")
    return count


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that a worker needs. `repr` hides the key."""

    spec: LoadTestSpec
    schedule: Schedule
    prompts: Prompts
    url: str
    key: str = field(default="", repr=False)


def create(spec: LoadTestSpec, folder: Path, *, url: str = "", key: str | None = None, downloaded: bytes | None = None) -> Plan:
    """The plan of a document; `folder` holds its files, `downloaded` the prompts if they were downloaded."""
    prompt_set = prompts.load(spec.prompts, spec.seed, folder, downloaded)
    schedule = schedule_arrivals(spec.stages, spec.seed, prompt_set.due_times)
    if not len(schedule.due_times) and not any(phase.users for phase in schedule.phases):
        raise InvalidDocument("no request would be sent: the stages are too short for their rates")
    return Plan(spec, schedule, prompt_set, url or spec.target.url, read_key(spec, folder) if key is None else key)


def read_key(spec: LoadTestSpec, folder: Path) -> str:
    """The key that the document refers to."""
    secret = spec.target.key
    if secret is None:
        return ""
    if secret.env:
        if secret.env not in os.environ:
            raise InvalidDocument(f"environment variable {secret.env} with the key is not set", hint=f"export {secret.env}=…")
        return os.environ[secret.env]
    try:
        return (folder / Path(secret.file).expanduser()).read_text().strip()
    except OSError as error:
        raise InvalidDocument(f"cannot read the key: {error.strerror}", place=secret.file) from error
