"""Every moment of a test is known before it begins, the same on all workers, and everybody's share is his alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.load_tests import spec

from sliceworks.base.errors import InvalidDocument
from sliceworks.loadtest.arrivals import SECOND, Schedule, schedule


def planned(*stages: dict[str, Any], seed: int = 1, trace: Any = None) -> Schedule:
    wanted = {"prompts": {"trace": "x"}} if trace is not None else {}
    return schedule(spec(stages=list(stages), **wanted).stages, seed, trace)


def test_constant_rate_is_even() -> None:
    found = planned({"constant": 4, "for": "2s"})
    assert found.moments.tolist() == [SECOND // 4 * n for n in range(8)]
    assert found.lasts == 2


def test_poisson_has_its_mean_and_its_dispersion() -> None:
    found = planned({"poisson": 500, "for": "100s"})
    counts = np.bincount(found.moments // SECOND, minlength=100)
    assert abs(counts.mean() - 500) < 4 * (500 / 100) ** 0.5
    # The variance of Poisson counts is their mean; that of even ones would be nothing.
    assert 0.6 < counts.var() / counts.mean() < 1.5
    gaps = np.diff(found.moments) / SECOND
    assert abs(np.median(gaps) - np.log(2) / 500) < 0.05 / 500


def test_ramp_reaches_its_rates() -> None:
    moments = planned({"ramp": {"first": 10, "last": 110}, "for": "20s"}).moments / SECOND
    assert len(moments) == 1200
    assert np.all(np.diff(moments) > 0)
    assert abs((moments < 1).sum() - 12) <= 1
    assert abs((moments >= 19).sum() - 108) <= 2


def test_falling_ramp_ends_in_time() -> None:
    moments = planned({"ramp": {"first": 50, "last": 1}, "for": "10s"}).moments / SECOND
    assert len(moments) == 255
    assert moments[-1] < 10
    assert np.all(np.diff(moments) > 0)


def test_stages_and_steps_follow_each_other() -> None:
    found = planned({"constant": 10, "for": "1s"}, {"steps": {"rates": [5, 20], "arrivals": "constant"}, "for": "2s"})
    assert [(phase.name, phase.begins, phase.ends) for phase in found.phases] == [
        ("constant 10/s", 0, 1),
        ("step 5/s", 1, 3),
        ("step 20/s", 3, 5),
    ]
    assert np.bincount(found.of_phase).tolist() == [10, 10, 40]
    assert found.moments[10] == SECOND


def test_replay_keeps_the_gaps_at_its_speed() -> None:
    found = planned({"replay": 2}, trace=np.asarray([5.0, 6.0, 6.5, 9.0]))
    assert (found.moments / SECOND).tolist() == [0, 0.5, 0.75, 2]
    assert found.lasts == 2
    assert len(planned({"replay": 1, "for": "1200ms"}, trace=np.asarray([5.0, 6.0, 6.5])).moments) == 2


def test_users_have_no_moments() -> None:
    found = planned({"users": 7, "for": "3s"})
    assert len(found.moments) == 0
    assert sum(found.users(found.phases[0], worker, 3) for worker in range(3)) == 7


@given(seed=st.integers(0, 2**32), workers=st.integers(1, 9), rate=st.floats(0.1, 300))
def test_each_request_is_somebodys_and_nobodys_twice(seed: int, workers: int, rate: float) -> None:
    found = planned({"poisson": rate, "for": "3s"}, seed=seed)
    shares = np.concatenate([found.share(worker, workers) for worker in range(workers)])
    assert sorted(shares.tolist()) == list(range(len(found.moments)))
    assert np.all(np.diff(found.moments) >= 0)
    assert not len(found.moments) or 0 <= found.moments[0] <= found.moments[-1] < 3 * SECOND
    again = planned({"poisson": rate, "for": "3s"}, seed=seed)
    assert np.array_equal(again.moments, found.moments)


def test_absurd_rates_are_refused() -> None:
    with pytest.raises(InvalidDocument, match="too many"):
        planned({"constant": 1_000_000, "for": "1h"})
    with pytest.raises(InvalidDocument, match="no requests"):
        planned({"replay": 1}, trace=np.empty(0))
