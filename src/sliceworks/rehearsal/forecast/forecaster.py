"""Forecasts: many trials from one snapshot, summarized for each job."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.base.conditions import is_condition_true
from sliceworks.base.errors import SliceworksError
from sliceworks.base.yaml_documents import Document
from sliceworks.rehearsal.forecast import arrivals, explanation, snapshot
from sliceworks.rehearsal.forecast.arrivals import Arrivals
from sliceworks.rehearsal.forecast.jobs import RUNNING, Job, finished_job_of, job_of
from sliceworks.rehearsal.forecast.run_time import History, interpolate
from sliceworks.rehearsal.forecast.trial import Trial
from sliceworks.twin.controllers.kueue.kueue_api import FINISHED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from datetime import datetime

    from sliceworks.kube.client import Client
    from sliceworks.rehearsal.forecast.snapshot import Snapshot
    from sliceworks.rehearsal.forecast.trial import JobProgress
    from sliceworks.twin.controllers.kueue.core.model import WorkloadKey

    RunTimes = Callable[[Job], float | None]
    TrialEvent = Callable[[Trial, RunTimes], None]

LOW, HIGH = 0.05, 0.95
_TARGET_JOB_RUNS, _MIN_RUNS, _MAX_RUNS = 40_000, 20, 200
STARTS = "starts"


@dataclass(frozen=True, slots=True)
class Range:
    """Seconds from the snapshot: median and 90 % interval."""

    low: float
    median: float
    high: float


@dataclass(frozen=True, slots=True)
class JobForecast:
    """Start and end of a job, or why they are unknown or never happen."""

    job: Job
    verdict: str
    starts: Range | None
    ends: Range | None
    source: str
    reason: str = ""
    preempted: float = 0.0
    """Share of trials in which the job is preempted."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """Forecasts relative to the time of the snapshot, and their assumptions."""

    taken: datetime
    runs: int
    seed: int
    expectations: list[JobForecast]
    assumptions: list[str]


@dataclass(slots=True)
class Forecaster:
    """Runs trials from a snapshot: its unfinished jobs, and the history of finished ones."""

    snapshot: Snapshot
    assume: float | None = None
    include_arrivals: bool = True
    """Whether new jobs arrive as in the past."""
    jobs: dict[WorkloadKey, Job] = field(default_factory=dict)
    history: History = field(init=False)
    arrivals: Arrivals = field(init=False)

    def __post_init__(self) -> None:
        past, taken = [], self.snapshot.taken
        for workload in self.snapshot.list("Workload"):
            if not is_condition_true(workload, FINISHED):
                job = job_of(workload, taken)
                self.jobs[job.key] = job
            elif (ended := finished_job_of(workload, taken)) is not None:
                past.append(ended)
        self.history = History(past, self.assume)
        known = [*(item.job for item in past), *self.jobs.values()]
        self.arrivals = Arrivals.from_jobs(known) if self.include_arrivals else Arrivals()

    def forecast(
        self,
        selected: Sequence[Job],
        *,
        extra_jobs: Iterable[Job] = (),
        events: Iterable[TrialEvent] = (),
        runs: int | None = None,
        seed: int = 0,
        on_progress: Callable[[int, int], None] = lambda _done, _all: None,
    ) -> Forecast:
        """Run trials. `extra_jobs` are added to the snapshot's; `events` are those of a what-if."""
        jobs, events = [*self.jobs.values(), *extra_jobs], list(events)
        size = len(jobs) + sum(map(len, self.arrivals.days)) // 2
        count = runs or min(max(_TARGET_JOB_RUNS // (size + 1), _MIN_RUNS), _MAX_RUNS)
        keys = [job.key for job in selected]
        outcomes: dict[WorkloadKey, list[JobProgress]] = {key: [] for key in keys}
        trial, awaited = Trial(), keys
        for number in range(count):
            trial = self._run(jobs, events, awaited, f"{seed}/{number}")
            for key in keys:
                if (track := trial.progress.get(key)) is not None:
                    outcomes[key].append(track)
            on_progress(number + 1, count)
            if number == 0:
                # A job that never starts in the first trial is not waited for in the others.
                awaited = [key for key in keys if outcomes[key] and outcomes[key][0].started is not None]
                if not awaited:
                    count = 1
                    break
        expectations = [self._expectation(job, outcomes[job.key], trial) for job in selected]
        assumptions = explanation.list_assumptions(self.snapshot, jobs, self.history, self.arrivals)
        return Forecast(self.snapshot.taken, count, seed, expectations, assumptions)

    def _run(self, jobs: list[Job], events: list[TrialEvent], until: list[WorkloadKey], seed: str) -> Trial:
        def run_time_of(job: Job) -> float | None:
            spread = self.history.run_time(job).distribution
            if spread is None:
                return job.time_limit
            seconds = spread.quantile(_random_share(seed, job.key), job.elapsed)
            return seconds if job.time_limit is None else min(seconds, job.time_limit)

        trial = Trial(boot=self.history.boot)
        trial.load(self.snapshot)
        for job in jobs:
            trial.add(job, run_time_of(job))
        self.arrivals.schedule(trial, run_time_of, Random(seed))
        for event in events:
            event(trial, run_time_of)
        trial.run(until)
        return trial

    def _expectation(self, job: Job, tracks: list[JobProgress], last_trial: Trial) -> JobForecast:
        source = self.history.run_time(job).source
        started = [track.started for track in tracks if track.started is not None]
        ended = [track.ended for track in tracks if track.ended is not None]
        if len(started) * 2 <= len(tracks) or not tracks:
            verdict, reason = explanation.explain_blocked(job, last_trial)
            return JobForecast(job, verdict, None, None, source, reason)
        preempted_share = sum(track.preempted > 0 for track in tracks) / len(tracks)
        starts = Range(job.started, job.started, job.started) if job.state == RUNNING else summarize(started)
        ends = summarize(ended) if len(ended) * 2 > len(tracks) else None
        return JobForecast(job, STARTS, starts, ends, source, preempted=preempted_share)


def summarize(values: Sequence[float]) -> Range:
    """Median and 90 % interval of values."""
    ordered = sorted(values)
    return Range(_quantile(ordered, LOW), _quantile(ordered, 0.5), _quantile(ordered, HIGH))


def _quantile(ordered: Sequence[float], share: float) -> float:
    """Predictive quantile: wider than the sample quantile for few values."""
    return interpolate(ordered, share * (len(ordered) + 1) - 1)


def _random_share(seed: str, key: WorkloadKey) -> float:
    """Random number of a job in a trial, independent of other jobs, so that forecasts are comparable."""
    digest = blake2b(f"{seed}/{key[0]}/{key[1]}".encode(), digest_size=7).digest()
    return (int.from_bytes(digest) + 0.5) / 2**56


_QUICK_RUNS, _MIN_QUICK_RUNS, _QUICK_SECONDS = 20, 5, 2.0


async def forecast_job(client: Client, obj: dict[str, Any]) -> JobForecast | None:
    """Forecast of a JobSet or Job, submitted or not; None if it takes longer than 2 seconds."""
    start = clock.perf_counter()
    try:
        forecaster, job, extra_jobs = await _create_forecaster(client, obj)
    except SliceworksError:
        return None
    ready = clock.perf_counter()
    if ready - start > _QUICK_SECONDS / 2:
        return None
    forecaster.forecast([job], extra_jobs=extra_jobs, runs=1)
    runs = min(_QUICK_RUNS, int((_QUICK_SECONDS - (clock.perf_counter() - start)) / max(clock.perf_counter() - ready, 1e-3)))
    if runs < _MIN_QUICK_RUNS:
        return None
    [expectation] = forecaster.forecast([job], extra_jobs=extra_jobs, runs=runs).expectations
    return expectation


async def starts_at_once(client: Client, obj: dict[str, Any]) -> bool:
    """Whether Kueue admits a JobSet or Job in its next cycle, also by borrowing or preemption; False if that is unknown."""
    try:
        forecaster, job, extra_jobs = await _create_forecaster(client, obj, include_arrivals=False)
    except SliceworksError:
        return False
    [expectation] = forecaster.forecast([job], extra_jobs=extra_jobs, runs=1).expectations
    return expectation.starts is not None and expectation.starts.high < 1


async def _create_forecaster(
    client: Client, obj: dict[str, Any], *, include_arrivals: bool = True
) -> tuple[Forecaster, Job, list[Job]]:
    """A forecaster of the current state, the job in it, and the job as an addition if it is not submitted."""
    metadata, current = obj["metadata"], await snapshot.take(client)
    forecaster = Forecaster(current, include_arrivals=include_arrivals)
    for job in forecaster.jobs.values():
        if (job.key[0], job.name) == (metadata["namespace"], metadata["name"]):
            return forecaster, job, []
    job = arrivals.job_from_document(Document(obj, "the job", 1, {}), Path(), current)
    return forecaster, job, [job]
