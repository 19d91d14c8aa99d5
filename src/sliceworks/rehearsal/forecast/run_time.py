"""Run time distributions of jobs, from finished jobs of the same kind or from their own estimate. Pure."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass
from statistics import NormalDist, median
from typing import TYPE_CHECKING

from sliceworks.base import duration

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from sliceworks.rehearsal.forecast.jobs import FinishedJob, Job, Kind

DEFAULT_STDDEV = math.log(2) / NormalDist().inv_cdf(0.95)
"""Default standard deviation: 90 % of run times are between half and twice the estimate."""

_PRIOR_WEIGHT = 4
"""Weight of the default, in number of runs."""

_FULL_SAMPLE, _MIN_REMAINING = 30, 5
_NORMAL = NormalDist()
_ALMOST_ONE = 1 - 1e-6


@dataclass(frozen=True, slots=True)
class RunTimeDistribution:
    """Mean and standard deviation of log seconds, and the sorted sample if it is large."""

    mean: float
    stddev: float
    sample: tuple[float, ...] = ()

    def quantile(self, share: float, beyond: float = 0.0) -> float:
        """Quantile `share` of run times longer than `beyond`."""
        log_elapsed = math.log(beyond) if beyond > 0 else -math.inf
        if self.sample:
            first = bisect_right(self.sample, log_elapsed)
            if len(self.sample) - first >= _MIN_REMAINING:
                remaining = self.sample[first:]
                return math.exp(interpolate(remaining, share * len(remaining) - 0.5))
        return max(math.exp(self._normal(share, log_elapsed)), beyond)

    def _normal(self, share: float, log_elapsed: float) -> float:
        share_below = _NORMAL.cdf((log_elapsed - self.mean) / self.stddev)
        if share_below >= _ALMOST_ONE:
            # Longer than all known runs: extrapolate from the elapsed time.
            return log_elapsed + self.stddev * abs(_NORMAL.inv_cdf((1 + min(share, _ALMOST_ONE)) / 2))
        target = share_below + min(max(share, 1 - _ALMOST_ONE), _ALMOST_ONE) * (1 - share_below)
        return self.mean + self.stddev * _NORMAL.inv_cdf(min(target, 1 - 1e-12))

    def scale(self, factor: float) -> RunTimeDistribution:
        """The distribution scaled by a factor."""
        log_factor = math.log(factor)
        return RunTimeDistribution(self.mean + log_factor, self.stddev, tuple(item + log_factor for item in self.sample))


def from_estimate(seconds: float) -> RunTimeDistribution:
    """Distribution around an unverified estimate."""
    return RunTimeDistribution(math.log(max(seconds, 1.0)), DEFAULT_STDDEV)


def from_runs(seconds: Sequence[float]) -> RunTimeDistribution:
    """Distribution of observed run times (at least one); wider for small samples."""
    logs = sorted(math.log(max(second, 1.0)) for second in seconds)
    mean = math.fsum(logs) / len(logs)
    return RunTimeDistribution(mean, _stddev(logs, mean), tuple(logs) if len(logs) >= _FULL_SAMPLE else ())


def from_ratios(ratios: Sequence[float]) -> RunTimeDistribution:
    """Distribution of actual/estimated ratios; small samples are pulled towards 1."""
    logs = sorted(math.log(max(item, 1e-3)) for item in ratios)
    mean = math.fsum(logs) / (len(logs) + _PRIOR_WEIGHT / 2)
    return RunTimeDistribution(mean, _stddev(logs, mean), tuple(logs) if len(logs) >= _FULL_SAMPLE else ())


def _stddev(logs: Sequence[float], mean: float) -> float:
    squares = math.fsum((log - mean) ** 2 for log in logs) + _PRIOR_WEIGHT * DEFAULT_STDDEV**2
    # The mean is less certain for small samples.
    return math.sqrt(squares / (len(logs) - 1 + _PRIOR_WEIGHT) * (1 + 1 / max(len(logs), 1)))


def interpolate(ordered: Sequence[float], position: float) -> float:
    """The value at a position between two values of a sorted list; the first or the last one outside of it."""
    position = min(max(position, 0.0), len(ordered) - 1.0)
    low = int(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


_MIN_SAMPLE = 3

_LEVELS: tuple[tuple[str, Callable[[Kind], Hashable]], ...] = (
    ("runs called {stem}-… of this size", lambda kind: (kind.namespace, kind.stem, kind.size)),
    ("runs called {stem}-…", lambda kind: (kind.namespace, kind.stem)),
    ("runs of these images and this size", lambda kind: (kind.namespace, kind.images, kind.size)),
)
"""Similarity levels, closest first; only jobs of the same namespace count."""

_NAME_LEVELS = 2
"""Number of levels that compare names."""


@dataclass(frozen=True, slots=True)
class RunTime:
    """Distribution of a job's run time and its source; None if unknown."""

    distribution: RunTimeDistribution | None
    source: str


class History:
    """Run times of finished jobs. `assume` is the run time of jobs without data."""

    def __init__(self, past: Sequence[FinishedJob], assume: float | None = None) -> None:
        self._assume = assume
        self._runs: list[dict[Hashable, list[float]]] = [defaultdict(list) for _ in _LEVELS]
        self._ratios: dict[str, list[float]] = defaultdict(list)
        self._known: dict[object, RunTime] = {}
        for item in past:
            for runs, (_, key) in zip(self._runs, _LEVELS, strict=True):
                runs[key(item.kind)].append(item.seconds)
            if item.estimate:
                self._ratios[item.kind.namespace].append(item.seconds / item.estimate)
                self._ratios[""].append(item.seconds / item.estimate)
        startup_times = [job.startup_seconds for job in past if job.startup_seconds is not None]
        self.boot = max(0.0, median(startup_times)) if startup_times else 0.0
        """Median seconds from admission to ready pods."""

    def run_time(self, job: Job) -> RunTime:
        """The run time of a job, cached by kind and estimate."""
        key = (job.kind, job.estimate)
        if key not in self._known:
            self._known[key] = self._estimate_run_time(job)
        return self._known[key]

    def _estimate_run_time(self, job: Job) -> RunTime:
        candidates = [item for item in (self._from_similar_jobs(job), self._from_estimate(job)) if item is not None]
        if candidates:
            return min(candidates, key=lambda candidate: candidate.distribution.stddev if candidate.distribution else 0.0)
        if self._assume is not None:
            return RunTime(from_estimate(self._assume), f"assumed {duration.human(self._assume)}")
        return RunTime(None, "unknown")

    def _from_similar_jobs(self, job: Job) -> RunTime | None:
        # An estimate for this job is better than similar jobs with other names.
        for runs, (description, key) in zip(self._runs, _LEVELS[:_NAME_LEVELS] if job.estimate else _LEVELS, strict=False):
            seconds = runs.get(key(job.kind), ())
            if len(seconds) >= _MIN_SAMPLE:
                return RunTime(from_runs(seconds), f"{len(seconds)} {description.format(stem=job.kind.stem)}")
        return None

    def _from_estimate(self, job: Job) -> RunTime | None:
        if job.estimate is None:
            return None
        source = f"estimate {duration.human(job.estimate)}"
        for namespace, whose in ((job.kind.namespace, "this team's"), ("", "all")):
            ratios = self._ratios.get(namespace, ())
            if len(ratios) >= _MIN_SAMPLE:
                return RunTime(from_ratios(ratios).scale(job.estimate), f"{source}, as right as {len(ratios)} of {whose} were")
        return RunTime(from_estimate(job.estimate + self.boot), source)
