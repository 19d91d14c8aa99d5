"""Forecasts at random times of a synthetic month, compared with what happened and with two simple methods."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from random import Random
from statistics import median
from typing import TYPE_CHECKING

from bench.harness.job_trace import CHIPS, DAY, PRIORITIES, TraceJob, generate, simulate, snapshot_at

from sliceworks.base import duration
from sliceworks.rehearsal.forecast.forecaster import Forecaster
from sliceworks.rehearsal.forecast.jobs import RUNNING, Job

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.rehearsal.forecast.snapshot import Snapshot

_FIRST_DAY, _LAST_DAY = 8, 27
"""Forecasts are made between these days: earlier there is no history, later jobs do not end within the month."""
_RECENT_JOBS, _MIN_WAIT = 20, 300.0
_ASSUMED_RUN_SECONDS = 2 * 3600.0
"""Run time of the first jobs of a project, if they have no estimate."""


@dataclass(frozen=True, slots=True)
class Case:
    """One forecast of one job, in seconds after the forecast: the truth, our forecast with its range, and the simple methods."""

    actual_start: float
    start: float
    start_low: float
    start_high: float
    work_ahead: float
    recent_waits: float
    actual_end: float
    end: float
    end_low: float
    end_high: float


@dataclass(slots=True)
class Backtest:
    """All forecasts of a backtest."""

    cases: list[Case] = field(default_factory=list)

    def error(self, method: str) -> float:
        """The median error of the start by one method, in seconds."""
        starts: dict[str, Callable[[Case], float]] = {
            "ours": lambda case: case.start,
            "work_ahead": lambda case: case.work_ahead,
            "recent_waits": lambda case: case.recent_waits,
        }
        return median(abs(starts[method](case) - case.actual_start) for case in self.cases)

    def coverage(self) -> float:
        """The share of starts within their range."""
        return sum(case.start_low - 1 <= case.actual_start <= case.start_high + 1 for case in self.cases) / len(self.cases)

    def end_coverage(self) -> float:
        """The share of ends within their range."""
        return sum(case.end_low - 1 <= case.actual_end <= case.end_high + 1 for case in self.cases) / len(self.cases)


def run(months: int, forecasts: int, trials: int) -> Backtest:
    """Forecast pending jobs of some months, each at a random time of its wait."""
    result = Backtest()
    for seed in range(months):
        jobs, random = simulate(seed), Random(seed)
        pending = [job for job in jobs if _FIRST_DAY * DAY < job.submitted < _LAST_DAY * DAY and job.wait > _MIN_WAIT]
        for job in random.sample(pending, min(forecasts, len(pending))):
            now = random.uniform(job.submitted, job.periods[0][0])
            result.cases.append(_forecast(jobs, job, now, trials))
    return result


def _forecast(jobs: list[TraceJob], actual: TraceJob, now: float, trials: int) -> Case:
    forecaster = Forecaster(snapshot_at(jobs, now), _ASSUMED_RUN_SECONDS, include_arrivals=True)
    [job] = [job for job in forecaster.jobs.values() if (job.key[0], job.name) == (actual.team, actual.name)]
    [forecast] = forecaster.forecast([job], runs=trials).expectations
    if forecast.starts is None or forecast.ends is None:
        raise RuntimeError(f"{job.name}: {forecast.verdict}, {forecast.reason}")
    start, end = forecast.starts, forecast.ends
    return Case(
        actual.periods[0][0] - now,
        start.median,
        start.low,
        start.high,
        _work_ahead(forecaster, job),
        _recent_wait(jobs, now, job),
        actual.ended - now,
        end.median,
        end.low,
        end.high,
    )


def _work_ahead(forecaster: Forecaster, job: Job) -> float:
    """Chip seconds of all jobs ahead, divided by the chips; run times are the forecaster's medians."""

    def left(other: Job) -> float:
        distribution = forecaster.history.run_time(other).distribution
        return max(distribution.quantile(0.5) - other.elapsed, 0.0) if distribution else 0.0

    def is_ahead(other: Job) -> bool:
        return other.state == RUNNING or (-other.item.priority, other.arrived) < (-job.item.priority, job.arrived)

    return sum(left(other) * _chips(other) for other in forecaster.jobs.values() if other is not job and is_ahead(other)) / CHIPS


def _chips(job: Job) -> int:
    return sum(sum(pods.requests.values()) for pods in job.item.pod_sets)


def _recent_wait(jobs: list[TraceJob], now: float, job: Job) -> float:
    """The median wait of the last started jobs of the same priority, minus the wait of this job so far."""
    started = sorted(
        (other for other in jobs if other.periods and other.periods[0][0] <= now), key=lambda other: other.periods[0][0]
    )
    waits = [other.wait for other in started if PRIORITIES[other.priority] == job.item.priority][-_RECENT_JOBS:]
    return max((median(waits) if waits else 0.0) + job.arrived, 0.0)


def summary(result: Backtest) -> list[str]:
    """The results as sentences."""
    cases, human = result.cases, duration.human
    bias = median(case.start - case.actual_start for case in cases)
    width = median(case.start_high - case.start_low for case in cases)
    end_error = median(abs(case.end - case.actual_end) for case in cases)
    work_ahead, recent_waits = human(result.error("work_ahead")), human(result.error("recent_waits"))
    return [
        f"{len(cases):,} forecasts; median remaining wait {human(median(case.actual_start for case in cases))}",
        f"start: median error {human(result.error('ours'))}, median bias {human(abs(bias))} {'late' if bias > 0 else 'early'}",
        f"simple methods: median error {work_ahead} by work ahead, {recent_waits} by recent waits",
        f"start: {result.coverage():.0%} within the 90 % range, whose median width is {human(width)}",
        f"end: median error {human(end_error)}, {result.end_coverage():.0%} within the range",
    ]


def full_queue(pending: int) -> Snapshot:
    """A snapshot with `pending` jobs, submitted over three days, and a week of history."""
    now, jobs = 10 * DAY, simulate(0, days=10)
    traces = (job for seed in itertools.count(1) for job in generate(seed))
    queued = list(itertools.islice(traces, pending))
    for number, job in enumerate(queued):
        job.name, job.submitted, job.estimate = f"{job.name}-{number}", now - 3 * DAY * number / pending, job.run_seconds
    return snapshot_at([*(job for job in jobs if job.ended <= now), *queued], now)
