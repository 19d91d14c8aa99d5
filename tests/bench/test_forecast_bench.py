"""The benchmark of forecasts says what it found in the agreed form, and a month is what it says it is. Nothing is timed here."""

from __future__ import annotations

import math

import orjson
import pytest
from bench.measure.backtest import Backtest, Case
from bench.measure.months import CHIPS, DAY, Planned, month, state
from tests.support import benches

from sliceworks.rehearsal.forecast.outlook import Outlook


@pytest.fixture(scope="module")
def jobs() -> list[Planned]:
    return month(3, days=10)


def test_it_runs_and_ends_with_json() -> None:
    done = benches.run("forecast", "--tiny")
    found = orjson.loads(done.stdout.splitlines()[-1])
    assert list(found) == ["start", "covered", "size"]
    assert all(each["ratio"] is not None for each in found.values())
    assert "within the 90 % range" in done.stderr


def test_all_jobs_of_a_month_end_and_never_more_run_than_there_are_chips(jobs: list[Planned]) -> None:
    assert all(math.isfinite(job.ended) for job in jobs)
    edges = sorted(
        (moment, change) for job in jobs for begin, end in job.periods for moment, change in ((begin, job.chips), (end, -job.chips))
    )
    used = most = 0
    for _, change in edges:
        used += change
        most = max(most, used)
    assert used == 0
    assert CHIPS * 0.9 < most <= CHIPS


def test_a_snapshot_shows_what_can_be_known_at_its_moment(jobs: list[Planned]) -> None:
    now = 5 * DAY
    outlook = Outlook(state(jobs, now))
    truth = {job.name: job for job in jobs}
    assert {job.name for job in outlook.jobs.values()} == {job.name for job in jobs if job.came <= now < job.ended}
    for job in outlook.jobs.values():
        running = any(begin <= now < end for begin, end in truth[job.name].periods)
        assert (job.state == "running") == running
    assert outlook.arrivals.days
    assert len(outlook.arrivals.days) <= 7


def test_errors_and_coverage_are_counted() -> None:
    found = Backtest([Case(100, 90, 50, 110, 200, 0, 300, 300, 250, 350), Case(100, 150, 120, 300, 100, 0, 500, 400, 300, 450)])
    assert (found.error("ours"), found.error("ahead"), found.error("late")) == (30, 50, 100)
    assert (found.covered(), found.ends_covered()) == (0.5, 0.5)
