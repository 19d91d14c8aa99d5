"""Progress of whole JobSets: all-or-nothing suspension and the JobSet condition."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.support.slice_snapshots import NOW, decided, jobset, kinds, leader, one, only, placement, pool, seconds_after_now

from sliceworks.controllers.slices.model import (
    Attempt,
    ConditionView,
    CreateNodePool,
    DeleteNodePool,
    ResumeJobSet,
    SetCondition,
    SuspendJobSet,
)

PENDING = ConditionView("False", "Provisioning", "0 of 1 slices are ready", seconds_after_now(-5))


def _half() -> list[Any]:
    return [leader(1, since=seconds_after_now(-2000)), jobset(replicas=2), pool(0, created=NOW - 2000)]


def test_incomplete_jobset_is_suspended_after_timeout() -> None:
    decision = decided(*_half())
    suspend = one(decision, SuspendJobSet)
    assert suspend.reason == "1 of 2 slices were not ready within 30m0s after the first one"
    assert suspend.until == NOW + 600
    assert not only(decision, CreateNodePool)


@pytest.mark.parametrize(
    ("things", "settings"),
    [
        ([leader(1, since=seconds_after_now(-1000)), jobset(replicas=2), pool(0)], {}),
        (_half(), {"time_limit": 0.0}),
        ([leader(1, since=seconds_after_now(-2000)), jobset(replicas=2, time_limit=0.0), pool(0)], {}),
        ([leader(1, since=seconds_after_now(-2000)), jobset(replicas=2, queued=True), pool(0)], {}),
        ([leader(0, since=seconds_after_now(-2000)), jobset()], {}),
    ],
    ids=["in time", "no limit", "no limit of its own", "of a queue", "nothing to release"],
)
def test_other_jobsets_are_not_suspended(things: list[Any], settings: dict[str, Any]) -> None:
    decision = decided(*things, settings=settings)
    assert not only(decision, SuspendJobSet)
    assert only(decision, CreateNodePool)


def test_time_limit_counts_from_the_first_ready_slice() -> None:
    """After a stockout of 40 minutes the first slice is ready: its siblings get the whole time limit."""
    things = [leader(1, since=seconds_after_now(-2400)), jobset(replicas=2, time_limit=600.0), first := pool(0)]
    decision = decided(*things, running_since={first.name: NOW - 1})
    assert not only(decision, SuspendJobSet)
    assert decision.requeue_time == NOW + 599
    assert only(decided(*things, running_since={first.name: NOW - 601}), SuspendJobSet)


def test_siblings_are_retried_at_once_after_the_first_slice_is_ready() -> None:
    tries = Attempt(12, NOW + 500, "Stockout")
    pending = [leader(1), jobset(replicas=2, attempts={"js-slice-1": tries}), first := pool(0)]
    assert only(decided(*pending, running_since={first.name: NOW - 1}), CreateNodePool)
    # A failure after that counts again.
    assert not only(decided(*pending, running_since={first.name: NOW - 1000}), CreateNodePool)


@pytest.mark.parametrize(
    ("more", "cause"),
    [
        ({"ended": "completed"}, "the JobSet has completed"),
        ({"suspended": True, "suspended_since": seconds_after_now(-5)}, "the JobSet is suspended"),
        ({}, "no node pools"),
    ],
)
def test_condition_is_false_after_the_pools_are_deleted(more: dict[str, Any], cause: str) -> None:
    ready = ConditionView("True", "Ready", "1 of 1 slices are ready", seconds_after_now(-5))
    condition = one(decided(jobset(condition=ready, **more)), SetCondition)
    assert (condition.status, condition.reason, condition.message) == ("False", "Released", f"0 slices are ready: {cause}")
    reported = ConditionView("False", condition.reason, condition.message, seconds_after_now(-5))
    assert not only(decided(jobset(condition=reported, **more)), SetCondition)


@pytest.mark.parametrize("more", [{"ended": "failed"}, {"suspended": True, "suspended_since": seconds_after_now(-5)}])
def test_condition_counts_no_slices_after_an_incomplete_set_is_deleted(more: dict[str, Any]) -> None:
    partial = ConditionView("False", "Stockout", "1 of 2 slices are ready: no machines left", seconds_after_now(-5))
    condition = one(decided(jobset(replicas=2, condition=partial, **more)), SetCondition)
    assert (condition.status, condition.reason) == ("False", "Released")
    assert condition.message.startswith("0 slices are ready: the JobSet ")
    # Why none was created stays.
    none = ConditionView("False", "Stockout", "0 of 2 slices are ready: no machines left", seconds_after_now(-5))
    assert not only(decided(jobset(replicas=2, condition=none, **more)), SetCondition)


def test_lost_pool_of_a_running_leader_is_counted() -> None:
    ready = ConditionView("True", "Ready", "2 of 2 slices are ready", seconds_after_now(-5))
    lost = placement(pool(1), "js", 1) | placement(pool(0), "js", 0)
    condition = one(decided(jobset(replicas=2, condition=ready), pool(0), placements=lost), SetCondition)
    assert (condition.status, condition.message) == ("False", "1 of 2 slices are ready")


def test_unused_pool_is_released_after_a_grace_period() -> None:
    """The leader found room elsewhere before its own pool was ready."""
    elsewhere = pool(0, "other")
    things = [jobset(), jobset("other"), own := pool(0), elsewhere]
    placed = placement(elsewhere, "js", 0)
    early = decided(*things, placements=placed, running_since={own.name: NOW - 100})
    assert not only(early, DeleteNodePool)
    assert early.requeue_time == NOW + 200
    late = decided(*things, placements=placed, running_since={own.name: NOW - 301})
    assert one(late, DeleteNodePool).reason == f"Job js-slice-0 runs on node pool {elsewhere.name}"
    waiting = decided(leader(1), *things, placements=placed, running_since={own.name: NOW - 301})
    assert own.name not in [action.name for action in only(waiting, DeleteNodePool)], "another Job can use it"


def test_suspended_jobset_releases_pools_and_resumes() -> None:
    held = jobset(suspended=True, suspended_since=seconds_after_now(-5), suspended_until=seconds_after_now(100))
    decision = decided(held, pool())
    assert one(decision, DeleteNodePool).reason == "not all slices of JobSet js were ready in time"
    assert not only(decision, ResumeJobSet)
    assert decision.requeue_time == NOW + 100
    assert one(decided(replace(held, suspended_until=seconds_after_now(-1))), ResumeJobSet).owner.name == "js"
    assert only(decided(replace(held, suspended=False)), ResumeJobSet)  # another client resumed it: the annotation is removed


def test_jobset_condition() -> None:
    condition = one(decided(leader(1), jobset(replicas=2), pool(0), pool(1, status="PROVISIONING")), SetCondition)
    assert (condition.status, condition.reason, condition.message) == ("False", "Provisioning", "1 of 2 slices are ready")
    ready = decided(jobset(replicas=2), pool(0), pool(1))
    assert (one(ready, SetCondition).status, one(ready, SetCondition).message) == ("True", "2 of 2 slices are ready")
    reported = jobset(replicas=2, condition=ConditionView("True", "Ready", "2 of 2 slices are ready", seconds_after_now(-5)))
    assert kinds(decided(reported, pool(0), pool(1))) == []


def test_swapped_jobs_need_two_slices() -> None:
    """The second Job's leader runs on the first one's slice: until the replacement exists, two Jobs need slices and one has it."""
    taken = pool(0)
    condition = one(decided(leader(0), jobset(replicas=2), taken, placements=placement(taken, "js", 1)), SetCondition)
    assert (condition.status, condition.reason, condition.message) == ("False", "Provisioning", "1 of 2 slices are ready")


def test_occupied_slice_counts_for_its_occupant() -> None:
    lent, coming = pool(0, "other"), pool(0, status="PROVISIONING")
    conditions = only(decided(jobset(replicas=2), jobset("other"), coming, lent, placements=placement(lent, "js", 1)), SetCondition)
    assert [(action.regarding.name, action.status, action.message) for action in conditions] == [
        ("js", "False", "1 of 2 slices are ready")
    ]


@pytest.mark.parametrize(
    ("things", "message"),
    [
        ([jobset(condition=PENDING)], "1 of 1 slices are ready"),
        ([leader(1), jobset(replicas=2, condition=PENDING), pool(1, status="PROVISIONING")], "2 of 2 slices are ready"),
    ],
    ids=["one Job", "another Job can use it"],
)
def test_idle_slice_of_a_leader_that_runs_elsewhere_counts_for_other_jobs_only(things: list[Any], message: str) -> None:
    elsewhere = replace(pool(0, "static"), is_managed=False)
    condition = one(decided(*things, pool(0), elsewhere, placements=placement(elsewhere, "js", 0)), SetCondition)
    assert (condition.status, condition.message) == ("True", message)
