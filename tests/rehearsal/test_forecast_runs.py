"""Runs of a forecast: skipped scheduling attempts change nothing, runs are reproducible, and quota is never exceeded."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.queue_states import State

from sliceworks.base import clock
from sliceworks.base.errors import Forbidden, SliceworksError
from sliceworks.rehearsal.forecast import snapshot, trial
from sliceworks.rehearsal.forecast.arrivals import DAY, Arrivals
from sliceworks.rehearsal.forecast.forecaster import Forecaster

if TYPE_CHECKING:
    from sliceworks.rehearsal.forecast.trial import Trial

_POLICIES: tuple[dict[str, Any], ...] = (
    {},
    {"preemption": {"withinClusterQueue": "LowerPriority"}},
    {"preemption": {"withinClusterQueue": "LowerOrNewerEqualPriority"}},
    {"queueingStrategy": "StrictFIFO"},
    {"cohortName": "all", "preemption": {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Any"}},
)


def many_jobs(seed: int) -> State:
    """Many jobs of two sizes in two queues, with one or two flavors."""
    random = Random(seed)
    state = State(32)
    state.put("ResourceFlavor", "other", spec={})
    for name in ("all", "second"):
        flavors = {"v4": random.choice((16, 32))} | ({"other": 16} if random.random() < 0.5 else {})
        state.queue(name, flavors, **random.choice(_POLICIES))
    state.put("LocalQueue", "two", namespace="team", spec={"clusterQueue": "second"})
    for number in range(80):
        state.job(
            f"job-{number}",
            random.choice((8, 24)),
            came=-float(random.randrange(1000)),
            priority=random.choice((0, 10, 100)),
            queue=random.choice(("queue", "two")),
            estimate=random.choice((60, 600, 3600)),
            keeps=random.random() < 0.5,
        )
    return state


def outcomes(state: State) -> dict[Any, Any]:
    outlook = Forecaster(state.snapshot())
    course = run(outlook)
    return {key: (track.started, track.ended, track.preempted) for key, track in course.progress.items()}


def run(outlook: Forecaster) -> Trial:
    return outlook._run(list(outlook.jobs.values()), [], [], "0/0")


@pytest.mark.parametrize("seed", range(12))
def test_skipped_attempts_change_nothing(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    spared = outcomes(many_jobs(seed))
    # Without it, no job is skipped.
    monkeypatch.setattr(trial, "skip_hopeless", lambda _brain: None)
    assert outcomes(many_jobs(seed)) == spared
    assert any(started is not None for started, _, _ in spared.values())


def test_arrivals_follow_history() -> None:
    state = State(16)
    for number in range(60):
        received = -(number % 3) * DAY - 3600 - number
        state.job(f"past-{number}", 4, came=received, started=received + 1, ended=received + 601)
    state.job("waits", 16, came=-3.5 * DAY, estimate=60)
    outlook = Forecaster(state.snapshot())
    assert [len(day) for day in outlook.arrivals.days] == [20, 20, 20]
    course = run(outlook)
    later = [track.job for track in course.progress.values() if track.job.arrived > 0]
    assert len(later) == 60
    assert all(DAY - 3700 <= job.arrived % DAY <= DAY - 3600 for job in later)
    assert {track.ended is not None for track in course.progress.values()} == {True}
    assert len(run(Forecaster(state.snapshot(), include_arrivals=False)).progress) == 1


def test_short_history_predicts_no_arrivals() -> None:
    state = State(16)
    state.past("a", *[600.0] * 10)
    assert Arrivals.from_jobs(list(Forecaster(state.snapshot()).jobs.values())).days == ()
    assert Arrivals.from_jobs([]).days == ()


def test_missing_permission_names_the_required_one() -> None:
    class Closed:
        async def list_all(self, resource: Any) -> None:
            raise Forbidden(f"{resource.plural} is forbidden")

    with pytest.raises(SliceworksError, match="a forecast requires permission to list namespaces of all teams") as caught:
        clock.run(snapshot.take(Closed()))  # type: ignore[arg-type]
    assert "--snapshot FILE" in caught.value.hint
