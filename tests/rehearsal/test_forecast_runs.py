"""Runs of a forecast: tries that are spared change nothing, days come again, and nobody has more than there is."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.queue_states import State

from sliceworks.base import clock
from sliceworks.base.errors import Forbidden, SliceworksError
from sliceworks.rehearsal.forecast import hopes, snapshot
from sliceworks.rehearsal.forecast.arrivals import DAY, Arrivals
from sliceworks.rehearsal.forecast.outlook import Outlook

if TYPE_CHECKING:
    from sliceworks.rehearsal.forecast.course import Course

_POLICIES: tuple[dict[str, Any], ...] = (
    {},
    {"preemption": {"withinClusterQueue": "LowerPriority"}},
    {"preemption": {"withinClusterQueue": "LowerOrNewerEqualPriority"}},
    {"queueingStrategy": "StrictFIFO"},
    {"cohortName": "all", "preemption": {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Any"}},
)


def crowd(seed: int) -> State:
    """Many jobs of two sizes in two queues, of one or two flavors."""
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


def fates(state: State) -> dict[Any, Any]:
    outlook = Outlook(state.snapshot())
    course = run(outlook)
    return {key: (track.started, track.ended, track.preempted) for key, track in course.tracks.items()}


def run(outlook: Outlook) -> Course:
    return outlook._run(list(outlook.jobs.values()), [], [], "0/0")


@pytest.mark.parametrize("seed", range(12))
def test_tries_that_are_spared_change_nothing(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    spared = fates(crowd(seed))
    # Without it, nobody is left out.
    monkeypatch.setattr(hopes, "spare", lambda _brain: None)
    assert fates(crowd(seed)) == spared
    assert any(started is not None for started, _, _ in spared.values())


def test_days_like_those_before_come_again() -> None:
    state = State(16)
    for number in range(60):
        came = -(number % 3) * DAY - 3600 - number
        state.job(f"past-{number}", 4, came=came, began=came + 1, ended=came + 601)
    state.job("waits", 16, came=-3.5 * DAY, estimate=60)
    outlook = Outlook(state.snapshot())
    assert [len(day) for day in outlook.arrivals.days] == [20, 20, 20]
    course = run(outlook)
    later = [track.job for track in course.tracks.values() if track.job.came > 0]
    assert len(later) == 60
    assert all(DAY - 3700 <= job.came % DAY <= DAY - 3600 for job in later)
    assert {track.ended is not None for track in course.tracks.values()} == {True}
    assert len(run(Outlook(state.snapshot(), coming=False)).tracks) == 1


def test_a_little_history_says_nothing_of_what_will_come() -> None:
    state = State(16)
    state.past("a", *[600.0] * 10)
    assert Arrivals.of(list(Outlook(state.snapshot()).jobs.values())).days == ()
    assert Arrivals.of([]).days == ()


def test_who_may_not_read_the_queues_is_told_what_to_ask_for() -> None:
    class Closed:
        async def list_all(self, resource: Any) -> None:
            raise Forbidden(f"{resource.plural} is forbidden")

    with pytest.raises(SliceworksError, match="a forecast reads namespaces of all teams, and you may not") as caught:
        clock.run(snapshot.take(Closed()))  # type: ignore[arg-type]
    assert "--snapshot FILE" in caught.value.hint
