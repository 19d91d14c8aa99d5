"""The arrival times of a test are computed in advance, equal on all workers, and divided among them without overlap."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.load_tests import spec

from sliceworks.base.errors import InvalidDocument
from sliceworks.loadtest.load_plan import SECOND, Schedule, schedule_arrivals


def planned(*stages: dict[str, Any], seed: int = 1, trace: Any = None) -> Schedule:
    expected = {"prompts": {"trace": "x"}} if trace is not None else {}
    return schedule_arrivals(spec(stages=list(stages), **expected).stages, seed, trace)


def test_constant_rate_is_even() -> None:
    result = planned({"constant": 4, "for": "2s"})
    assert result.due_times.tolist() == [SECOND // 4 * n for n in range(8)]
    assert result.duration == 2


def test_poisson_has_its_mean_and_its_dispersion() -> None:
    result = planned({"poisson": 500, "for": "100s"})
    counts = np.bincount(result.due_times // SECOND, minlength=100)
    assert abs(counts.mean() - 500) < 4 * (500 / 100) ** 0.5
    # The variance of Poisson counts is their mean; that of even ones would be 0.
    assert 0.6 < counts.var() / counts.mean() < 1.5
    gaps = np.diff(result.due_times) / SECOND
    assert abs(np.median(gaps) - np.log(2) / 500) < 0.05 / 500


def test_ramp_reaches_its_rates() -> None:
    due_times = planned({"ramp": {"first": 10, "last": 110}, "for": "20s"}).due_times / SECOND
    assert len(due_times) == 1200
    assert np.all(np.diff(due_times) > 0)
    assert abs((due_times < 1).sum() - 12) <= 1
    assert abs((due_times >= 19).sum() - 108) <= 2


def test_decreasing_ramp_ends_in_time() -> None:
    due_times = planned({"ramp": {"first": 50, "last": 1}, "for": "10s"}).due_times / SECOND
    assert len(due_times) == 255
    assert due_times[-1] < 10
    assert np.all(np.diff(due_times) > 0)


def test_stages_and_steps_follow_each_other() -> None:
    result = planned({"constant": 10, "for": "1s"}, {"steps": {"rates": [5, 20], "arrivals": "constant"}, "for": "2s"})
    assert [(phase.name, phase.begins, phase.ends) for phase in result.phases] == [
        ("constant 10/s", 0, 1),
        ("step 5/s", 1, 3),
        ("step 20/s", 3, 5),
    ]
    assert np.bincount(result.of_phase).tolist() == [10, 10, 40]
    assert result.due_times[10] == SECOND


def test_replay_keeps_the_gaps_at_its_speed() -> None:
    result = planned({"replay": 2}, trace=np.asarray([5.0, 6.0, 6.5, 9.0]))
    assert (result.due_times / SECOND).tolist() == [0, 0.5, 0.75, 2]
    assert result.duration == pytest.approx(2 * 4 / 3)
    assert len(planned({"replay": 1, "for": "1200ms"}, trace=np.asarray([5.0, 6.0, 6.5])).due_times) == 2


STAGES = st.one_of(
    st.builds(lambda rate, seconds: {"constant": rate, "for": seconds}, st.floats(0.5, 50), st.floats(0.1, 5)),
    st.builds(lambda rate, seconds: {"poisson": rate, "for": seconds}, st.floats(0.5, 50), st.floats(0.1, 5)),
    st.builds(lambda first, last: {"ramp": {"first": first, "last": last}, "for": "2s"}, st.floats(0.5, 50), st.floats(0.5, 50)),
    st.builds(lambda speed: {"replay": speed}, st.floats(0.1, 10)),
)


@given(
    stages=st.lists(STAGES, min_size=1, max_size=4),
    trace=st.lists(st.floats(0, 60), min_size=1, max_size=40),
    at_once=st.booleans(),
)
def test_every_request_is_due_inside_its_phase(stages: list[dict[str, Any]], trace: list[float], at_once: bool) -> None:
    result = planned(*stages, trace=np.zeros(3) if at_once else np.sort(np.asarray(trace)))
    for phase in result.phases:
        due_times = result.due_times[result.of_phase == phase.number] / SECOND
        counted = np.searchsorted(result.due_times / SECOND, [phase.begins, phase.ends])
        assert counted[1] - counted[0] == len(due_times)
        assert phase.ends > phase.begins


def test_users_have_no_arrival_times() -> None:
    result = planned({"users": 7, "for": "3s"})
    assert len(result.due_times) == 0
    assert sum(result.users(result.phases[0], worker, 3) for worker in range(3)) == 7


@given(seed=st.integers(0, 2**32), workers=st.integers(1, 9), rate=st.floats(0.1, 300))
def test_each_request_belongs_to_one_worker(seed: int, workers: int, rate: float) -> None:
    result = planned({"poisson": rate, "for": "3s"}, seed=seed)
    numbers = [number for worker in range(workers) for number, _, _ in result.requests(worker, workers)]
    assert sorted(numbers) == list(range(len(result.due_times)))
    assert np.all(np.diff(result.due_times) >= 0)
    assert not len(result.due_times) or 0 <= result.due_times[0] <= result.due_times[-1] < 3 * SECOND
    again = planned({"poisson": rate, "for": "3s"}, seed=seed)
    assert np.array_equal(again.due_times, result.due_times)


def test_absurd_rates_are_rejected() -> None:
    with pytest.raises(InvalidDocument, match="too many"):
        planned({"constant": 1_000_000, "for": "1h"})
    with pytest.raises(InvalidDocument, match="no requests"):
        planned({"replay": 1}, trace=np.empty(0))
