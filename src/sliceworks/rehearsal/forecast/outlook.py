"""A forecast: many runs from one snapshot, and what they have in common for each job."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b
from random import Random
from typing import TYPE_CHECKING

from sliceworks.rehearsal.forecast import assumptions, hindrances
from sliceworks.rehearsal.forecast.arrivals import Arrivals
from sliceworks.rehearsal.forecast.course import Course
from sliceworks.rehearsal.forecast.history import History
from sliceworks.rehearsal.forecast.jobs import RUNNING, Job, job_of, past_of
from sliceworks.twin.workloads.kueue import conditions
from sliceworks.twin.workloads.kueue.keys import FINISHED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from datetime import datetime

    from sliceworks.rehearsal.forecast.course import Track
    from sliceworks.rehearsal.forecast.snapshot import Snapshot
    from sliceworks.twin.workloads.kueue.core.model import Key

    Lasts = Callable[[Job], float | None]
    Happens = Callable[[Course, Lasts], None]

LOW, HIGH = 0.05, 0.95
_WORK, _FEWEST, _MOST = 40_000, 20, 200
STARTS = "starts"


@dataclass(frozen=True, slots=True)
class Range:
    """Seconds from the snapshot on: the median, and where nine runs in ten lie."""

    low: float
    median: float
    high: float


@dataclass(frozen=True, slots=True)
class Expectation:
    """One job: when it starts and ends, or why that cannot be told, or never happens."""

    job: Job
    verdict: str
    starts: Range | None
    ends: Range | None
    source: str
    reason: str = ""
    preempted: float = 0.0
    """The share of runs in which it is stopped to make room for others."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """What is expected, counted from when, and what was assumed."""

    taken: datetime
    runs: int
    seed: int
    expectations: list[Expectation]
    assumptions: list[str]


@dataclass(slots=True)
class Outlook:
    """A snapshot, understood: the work that goes on or waits, and the work that has ended."""

    snapshot: Snapshot
    assume: float | None = None
    coming: bool = True
    """Whether work goes on coming as it did."""
    jobs: dict[Key, Job] = field(default_factory=dict)
    history: History = field(init=False)
    arrivals: Arrivals = field(init=False)

    def __post_init__(self) -> None:
        past, taken = [], self.snapshot.taken
        for workload in self.snapshot.of("Workload"):
            if not conditions.true(workload, FINISHED):
                job = job_of(workload, taken)
                self.jobs[job.key] = job
            elif (ended := past_of(workload, taken)) is not None:
                past.append(ended)
        self.history = History(past, self.assume)
        seen = [*(each.job for each in past), *self.jobs.values()]
        self.arrivals = Arrivals.of(seen) if self.coming else Arrivals()

    def forecast(
        self,
        wanted: Sequence[Job],
        *,
        more: Iterable[Job] = (),
        happens: Iterable[Happens] = (),
        runs: int | None = None,
        seed: int = 0,
        step: Callable[[int, int], None] = lambda _done, _all: None,
    ) -> Forecast:
        """Run it forward. `more` are jobs beside those of the snapshot; `happens` changes things on the way."""
        jobs = [*self.jobs.values(), *more]
        size = len(jobs) + sum(map(len, self.arrivals.days)) // 2
        count = runs or min(max(_WORK // (size + 1), _FEWEST), _MOST)
        keys = [job.key for job in wanted]
        fates: dict[Key, list[Track]] = {key: [] for key in keys}
        course, awaited = Course(), keys
        for number in range(count):
            course = self._run(jobs, list(happens), awaited, f"{seed}/{number}")
            for key in keys:
                if (track := course.tracks.get(key)) is not None:
                    fates[key].append(track)
            step(number + 1, count)
            if number == 0:
                # One that does not start however long one waits need not be waited for again and again.
                awaited = [key for key in keys if fates[key] and fates[key][0].started is not None]
                if not awaited:
                    count = 1
                    break
        found = [self._expectation(job, fates[job.key], course) for job in wanted]
        told = assumptions.told(self.snapshot, jobs, self.history, self.arrivals)
        return Forecast(self.snapshot.taken, count, seed, found, told)

    def _run(self, jobs: list[Job], happens: list[Happens], wanted: list[Key], seed: str) -> Course:
        def lasts(job: Job) -> float | None:
            spread = self.history.of(job).spread
            if spread is None:
                return job.longest
            seconds = spread.at(_chance(seed, job.key), job.elapsed)
            return seconds if job.longest is None else min(seconds, job.longest)

        course = Course(boot=self.history.boot)
        course.learn(self.snapshot)
        for job in jobs:
            course.add(job, lasts(job))
        self.arrivals.come(course, lasts, Random(seed))
        for act in happens:
            act(course, lasts)
        course.run(wanted)
        return course

    def _expectation(self, job: Job, tracks: list[Track], last: Course) -> Expectation:
        source = self.history.of(job).source
        started = [track.started for track in tracks if track.started is not None]
        ended = [track.ended for track in tracks if track.ended is not None]
        if len(started) * 2 <= len(tracks) or not tracks:
            verdict, reason = hindrances.of(job, last)
            return Expectation(job, verdict, None, None, source, reason)
        stopped = sum(track.preempted > 0 for track in tracks) / len(tracks)
        starts = Range(job.began, job.began, job.began) if job.state == RUNNING else spanned(started)
        ends = spanned(ended) if len(ended) * 2 > len(tracks) else None
        return Expectation(job, STARTS, starts, ends, source, preempted=stopped)


def spanned(values: Sequence[float]) -> Range:
    """The middle of some values, and where nine in ten of them lie."""
    ordered = sorted(values)
    return Range(_at(ordered, LOW), _at(ordered, 0.5), _at(ordered, HIGH))


def _at(ordered: Sequence[float], share: float) -> float:
    """Where one more value would lie below with that chance: with few values, that is further out than among themselves."""
    place = min(max(share * (len(ordered) + 1) - 1, 0.0), len(ordered) - 1.0)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def _chance(seed: str, key: Key) -> float:
    """A number from 0 to 1 that is this job's in this run, whatever else happens: so that forecasts can be compared."""
    digest = blake2b(f"{seed}/{key[0]}/{key[1]}".encode(), digest_size=7).digest()
    return (int.from_bytes(digest) + 0.5) / 2**56
