"""JobSets as a whole: all slices or none, and what their condition says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.support.slice_pictures import (
    NOW,
    decided,
    jobset,
    kinds,
    leader,
    moment,
    one,
    only,
    pool,
    seat,
)

from sliceworks.controllers.slices.views import Told
from sliceworks.controllers.slices.world import Create, Delete, Hold, Resume, Tell


def _half() -> list[Any]:
    return [leader(1, since=moment(-2000)), jobset(replicas=2), pool(0)]


def test_half_a_jobset_is_held_after_its_time() -> None:
    decision = decided(*_half())
    hold = one(decision, Hold)
    assert hold.why == "1 of 2 slices could not be had within 30m0s"
    assert hold.until == NOW + 600
    assert not only(decision, Create)


@pytest.mark.parametrize(
    ("things", "settings"),
    [
        ([leader(1, since=moment(-1000)), jobset(replicas=2), pool(0)], {}),
        (_half(), {"time_limit": 0.0}),
        ([leader(1, since=moment(-2000)), jobset(replicas=2, time_limit=0.0), pool(0)], {}),
        ([leader(1, since=moment(-2000)), jobset(replicas=2, queued=True), pool(0)], {}),
        ([leader(0, since=moment(-2000)), jobset()], {}),
    ],
    ids=["in time", "no limit", "no limit of its own", "of a queue", "nothing to give back"],
)
def test_others_are_not(things: list[Any], settings: dict[str, Any]) -> None:
    decision = decided(*things, settings=settings)
    assert not only(decision, Hold)
    assert only(decision, Create)


def test_a_held_jobset_gives_back_and_goes_on_later() -> None:
    held = jobset(suspended=True, suspended_since=moment(-5), held_until=moment(100))
    decision = decided(held, pool())
    assert one(decision, Delete).why == "not all slices of JobSet js could be had in time"
    assert not only(decision, Resume)
    assert decision.wake == NOW + 100
    assert one(decided(replace(held, held_until=moment(-1))), Resume).owner.name == "js"
    assert only(decided(replace(held, suspended=False)), Resume)  # somebody else let it go on: the mark goes


def test_a_jobset_says_how_far_it_is() -> None:
    tell = one(decided(leader(1), jobset(replicas=2), pool(0), pool(1, status="PROVISIONING")), Tell)
    assert (tell.status, tell.reason, tell.message) == ("False", "Provisioning", "1 of 2 slices are ready")
    ready = decided(jobset(replicas=2), pool(0), pool(1))
    assert (one(ready, Tell).status, one(ready, Tell).message) == ("True", "2 of 2 slices are ready")
    said = jobset(replicas=2, told=Told("True", "Ready", "2 of 2 slices are ready", moment(-5)))
    assert kinds(decided(said, pool(0), pool(1))) == []


def test_one_on_the_slice_of_another_counts_as_one_that_wants_its_own() -> None:
    """The second Job's leader went to the first one's slice: until the exchange is made, two want slices and one is there."""
    taken = pool(0)
    tell = one(decided(leader(0), jobset(replicas=2), taken, seats=seat(taken, "js", 1)), Tell)
    assert (tell.status, tell.reason, tell.message) == ("False", "Provisioning", "1 of 2 slices are ready")


def test_a_slice_of_another_jobset_counts_for_the_one_that_is_on_it() -> None:
    lent, coming = pool(0, "other"), pool(0, status="PROVISIONING")
    tells = only(decided(jobset(replicas=2), jobset("other"), coming, lent, seats=seat(lent, "js", 1)), Tell)
    assert [(each.about.name, each.status, each.message) for each in tells] == [("js", "False", "1 of 2 slices are ready")]
