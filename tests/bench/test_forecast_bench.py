"""The forecast benchmark prints its results in the common format, and its generated month is consistent. Nothing is timed here."""

from __future__ import annotations

import math

import orjson
import pytest
from bench.harness.backtest import Backtest, Case, full_queue
from bench.harness.job_trace import CHIPS, DAY, TraceJob, simulate, snapshot_at
from tests.support import bench_script

from sliceworks.rehearsal.forecast.forecaster import Forecaster


@pytest.fixture(scope="module")
def jobs() -> list[TraceJob]:
    return simulate(3, days=10)


def test_results_have_the_common_format() -> None:
    done = bench_script.run("forecast", "--tiny")
    results = orjson.loads(done.stdout.splitlines()[-1])
    assert list(results) == ["start_error", "coverage", "duration"]
    assert all(result["ratio"] is not None for result in results.values())
    assert "within the 90 % range" in done.stderr


def test_month_completes_within_capacity(jobs: list[TraceJob]) -> None:
    assert all(math.isfinite(job.ended) for job in jobs)
    changes = sorted(
        (time, chips) for job in jobs for start, end in job.periods for time, chips in ((start, job.chips), (end, -job.chips))
    )
    used = peak = 0
    for _, chips in changes:
        used += chips
        peak = max(peak, used)
    assert used == 0
    assert CHIPS * 0.9 < peak <= CHIPS


def test_snapshot_has_only_past_data(jobs: list[TraceJob]) -> None:
    now = 5 * DAY
    forecaster = Forecaster(snapshot_at(jobs, now))
    trace = {job.name: job for job in jobs}
    assert {job.name for job in forecaster.jobs.values()} == {job.name for job in jobs if job.submitted <= now < job.ended}
    for job in forecaster.jobs.values():
        running = any(start <= now < end for start, end in trace[job.name].periods)
        assert (job.state == "running") == running
    assert forecaster.arrivals.days
    assert len(forecaster.arrivals.days) <= 7


def test_errors_and_coverage_are_counted() -> None:
    result = Backtest([Case(100, 90, 50, 110, 200, 0, 300, 300, 250, 350), Case(100, 150, 120, 300, 100, 0, 500, 400, 300, 450)])
    assert (result.error("ours"), result.error("work_ahead"), result.error("recent_waits")) == (30, 50, 100)
    assert (result.coverage(), result.end_coverage()) == (0.5, 0.5)


def test_full_queue_has_as_many_pending_jobs_as_requested() -> None:
    forecaster = Forecaster(full_queue(9_000))
    assert sum(job.state == "queued" for job in forecaster.jobs.values()) == 9_000
