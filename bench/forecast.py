"""Forecasts of job starts compared with two simple methods, in a synthetic month of jobs; and the time of a large forecast.

    python bench/forecast.py [backtest] [duration] [--quick | --large] [--json-only]

Without a name both run. Progress goes to stderr. The last line on stdout is JSON: `{"start_error": {"ratio": 1.8, "goal": 1}, …}`.
The simple methods are the work ahead (chip seconds of all jobs ahead, divided by the chips) and recent waits (the median wait of
the last twenty jobs of the same priority); the ratio is relative to the better one. If the baseline is a limit, the ratio is limit
divided by measured value.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.harness.command import Profiles, Script
from bench.harness.metric import Metric, limit

from sliceworks.base import progress

if TYPE_CHECKING:
    from argparse import Namespace

SECONDS_LIMIT = 20.0
MIN_COVERAGE = 0.8
"""The smallest acceptable share of starts within their 90 % range."""
_PENDING = 2_000


@dataclass(frozen=True, slots=True)
class Sizes:
    """Months, forecasts per month and trials per forecast; pending jobs and trials of the large forecast."""

    months: int = 3
    forecasts: int = 40
    trials: int = 40
    pending: int = _PENDING
    large_trials: int | None = None
    """None: as many as `train forecast` runs."""


FULL = Sizes()
QUICK = Sizes(months=1, forecasts=30, trials=20)
TINY = Sizes(months=1, forecasts=2, trials=3, pending=50, large_trials=2)
LARGE = replace(TINY, pending=10 * _PENDING, large_trials=None)
NORMAL = replace(TINY, pending=_PENDING, large_trials=None)


def backtest(sizes: Sizes) -> list[Metric]:
    """Forecasts at random times of some months."""
    from bench.harness.backtest import run, summary

    result = run(sizes.months, sizes.forecasts, sizes.trials)
    for line in summary(result):
        progress.say(f"backtest: {line}")
    ours, work_ahead, recent_waits = (result.error(method) for method in ("ours", "work_ahead", "recent_waits"))
    return [
        limit("start_error", "s, median error of the start, best simple method", min(work_ahead, recent_waits), ours),
        Metric("coverage", "share of starts within their range", 1, baseline=[MIN_COVERAGE], values=[result.coverage()]),
    ]


def duration(sizes: Sizes) -> list[Metric]:
    """A forecast of many pending jobs, as the command computes it."""
    from bench.harness.backtest import full_queue

    from sliceworks.rehearsal.forecast.forecaster import Forecaster

    snapshot = full_queue(sizes.pending)
    started = time.perf_counter()
    forecaster = Forecaster(snapshot)
    pending = [job for job in forecaster.jobs.values() if job.state == "queued"]
    done = forecaster.forecast(pending, runs=sizes.large_trials)
    seconds = time.perf_counter() - started
    progress.say(f"duration: {len(done.expectations):,} pending jobs, {done.runs} trials in {seconds:.1f} s")
    return [limit("duration", "s, 2,000 pending jobs", SECONDS_LIMIT, seconds * _PENDING / sizes.pending, amount=1)]


BENCHMARKS = {"backtest": backtest, "duration": duration}


def measure(sizes: Sizes, options: Namespace) -> list[Metric]:
    """Run the named benchmarks at this size."""
    return [metric for name in options.benchmarks for metric in BENCHMARKS[name](sizes)]


SCRIPT = Script(
    "forecast",
    "Forecasts compared with what happened and with simple methods, and the time of a large forecast.",
    Profiles(FULL, QUICK, TINY, LARGE, NORMAL),
    measure,
    ("limit or peer", "ours"),
    benchmarks=BENCHMARKS,
)

if __name__ == "__main__":
    SCRIPT.main()
