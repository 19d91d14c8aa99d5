"""Forecasts at moments of a synthetic month, what two simple peers say, and what then happened."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from statistics import median
from typing import TYPE_CHECKING

from bench.measure.months import CHIPS, DAY, Planned, month, planned, state

from sliceworks.base import duration
from sliceworks.rehearsal.forecast.jobs import RUNNING, Job
from sliceworks.rehearsal.forecast.outlook import Outlook

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.rehearsal.forecast.outlook import Expectation
    from sliceworks.rehearsal.forecast.snapshot import Snapshot

_FIRST, _LAST = 8, 27
"""Days of the month between which forecasts are made: before, there is no history, and after, no end."""
_LATE, _WAITED = 20, 300.0
_ASSUMED = 2 * 3600.0
"""What is taken for the run time of the first jobs of a project, if they have no estimate."""


@dataclass(frozen=True, slots=True)
class Case:
    """One forecast of one job: seconds from the moment on."""

    starts: float
    ours: float
    low: float
    high: float
    ahead: float
    late: float
    ends: float
    end: float
    end_low: float
    end_high: float


@dataclass(slots=True)
class Backtest:
    """All of them."""

    cases: list[Case] = field(default_factory=list)

    def error(self, whose: str) -> float:
        """The median of how far off a start was said to be."""
        said: dict[str, Callable[[Case], float]] = {
            "ours": lambda case: case.ours,
            "ahead": lambda case: case.ahead,
            "late": lambda case: case.late,
        }
        return median(abs(said[whose](case) - case.starts) for case in self.cases)

    def covered(self) -> float:
        """The share of starts within their range."""
        return sum(case.low - 1 <= case.starts <= case.high + 1 for case in self.cases) / len(self.cases)

    def ends_covered(self) -> float:
        return sum(case.end_low - 1 <= case.ends <= case.end_high + 1 for case in self.cases) / len(self.cases)


def held_against(months: int, moments: int, runs: int, *, coming: bool = True) -> Backtest:
    """Make forecasts in some months, each for one of the jobs that had to wait, at a moment while it waits."""
    found = Backtest()
    for seed in range(months):
        jobs, random = month(seed), Random(seed)
        waited = [job for job in jobs if _FIRST * DAY < job.came < _LAST * DAY and job.periods[0][0] - job.came > _WAITED]
        for job in random.sample(waited, min(moments, len(waited))):
            now = random.uniform(job.came, job.periods[0][0])
            found.cases.append(_forecast(jobs, job, now, runs, coming=coming))
    return found


def _forecast(jobs: list[Planned], real: Planned, now: float, runs: int, *, coming: bool) -> Case:
    outlook = Outlook(state(jobs, now), _ASSUMED, coming=coming)
    [job] = [job for job in outlook.jobs.values() if (job.key[0], job.name) == (real.team, real.name)]
    [found] = outlook.forecast([job], runs=runs).expectations
    if found.starts is None or found.ends is None:
        raise RuntimeError(f"{job.name}: {found.verdict}, {found.reason}")
    return _case(found, real.periods[0][0] - now, real.ended - now, _ahead(outlook, job), _recent(jobs, now)(job))


def _case(each: Expectation, starts: float, ends: float, ahead: float, late: float) -> Case:
    assert each.starts is not None
    assert each.ends is not None
    first, last = each.starts, each.ends
    return Case(starts, first.median, first.low, first.high, ahead, late, ends, last.median, last.low, last.high)


def _ahead(outlook: Outlook, job: Job) -> float:
    """Chip seconds of all that is ahead, divided by the chips. Run times are the medians that the forecast knows."""

    def left(other: Job) -> float:
        spread = outlook.history.of(other).spread
        return max(spread.at(0.5) - other.elapsed, 0.0) if spread else 0.0

    def before(other: Job) -> bool:
        return other.state == RUNNING or (-other.item.priority, other.came) < (-job.item.priority, job.came)

    return sum(left(other) * _chips(other) for other in outlook.jobs.values() if other is not job and before(other)) / CHIPS


def _chips(job: Job) -> int:
    return sum(sum(pods.requests.values()) for pods in job.item.pod_sets)


def _recent(jobs: list[Planned], now: float) -> Callable[[Job], float]:
    """The median wait of the last jobs of a priority that have started, less what this one has waited."""
    started = sorted((job for job in jobs if job.periods and job.periods[0][0] <= now), key=lambda job: job.periods[0][0])
    ranks = {250: "low", 500: "medium", 750: "high"}

    def wait(job: Job) -> float:
        waits = [each.periods[0][0] - each.came for each in started if each.priority == ranks[job.item.priority]][-_LATE:]
        return max((median(waits) if waits else 0.0) + job.came, 0.0)

    return wait


def summary(found: Backtest) -> list[str]:
    """What came out, in words."""
    cases, human = found.cases, duration.human
    off = median(case.ours - case.starts for case in cases)
    wide = median(case.high - case.low for case in cases)
    ends = median(abs(case.end - case.ends) for case in cases)
    return [
        f"{len(cases):,} forecasts; the median wait that was left was {human(median(case.starts for case in cases))}",
        f"start: off by {human(found.error('ours'))} in the median, {'late' if off > 0 else 'early'} by {human(abs(off))}",
        f"peers: work ahead by capacity is off by {human(found.error('ahead'))}, waits as of late by {human(found.error('late'))}",
        f"start: {found.covered():.0%} within the 90 % range, which is {human(wide)} wide in the median",
        f"end: off by {human(ends)} in the median, {found.ends_covered():.0%} within the range",
    ]


def crowded(queued: int) -> Snapshot:
    """A queue with so many jobs in it, that have come in three days, and a week of history behind it."""
    now, jobs = 10 * DAY, month(0, days=10)
    waiting = [job for seed in range(1, 9) for job in planned(seed)][:queued]
    for number, job in enumerate(waiting):
        job.name, job.came, job.estimate = f"{job.name}-{number}", now - 3 * DAY * number / queued, job.lasts
    return state([*(job for job in jobs if job.ended <= now), *waiting], now)
