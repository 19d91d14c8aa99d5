"""What is decided from what is: each weakness of the Go provisioner, and what is done instead."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.support.slice_asks import TPU, read
from tests.support.slice_pictures import (
    ASK,
    NOW,
    SETTINGS,
    STOCKOUT,
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

from sliceworks.controllers.slices import words
from sliceworks.controllers.slices.capacity import ON_DEMAND, SPOT
from sliceworks.controllers.slices.steps import pause, spread
from sliceworks.controllers.slices.views import Attempt, Problem, Ref, Told
from sliceworks.controllers.slices.world import Create, Delete, Failure, Remember, Tell

JOB = Ref("ml", "js-slice-0")


def test_a_leader_that_waits_gets_its_pool() -> None:
    create = one(decided(leader(), jobset()), Create)
    assert create.body["locations"] == ["z1"]
    assert create.body["config"]["labels"][words.POOL_HASH] == ASK.digest
    assert create.body["config"]["labels"][words.ATTEMPT] == "0"
    assert create.body["config"]["labels"][words.CREATED] == str(int(NOW))
    assert (create.job, create.jobset, create.attempt, create.where) == (JOB, Ref("ml", "js"), 0, "on-demand in z1")


def test_all_leaders_get_theirs_at_once_and_the_oldest_jobset_first() -> None:
    old = [leader(index, "old", since=moment(-100 + index)) for index in range(3)]
    new = [leader(index, "new", since=moment(-101 + 90 + index)) for index in range(2)]
    decision = decided(*new, *old, jobset("old", 3), jobset("new", 2))
    assert [each.jobset.name for each in only(decision, Create)] == ["old"] * 3 + ["new"] * 2


@pytest.mark.parametrize(
    "more", [{"ended": "completed"}, {"deleting": True}, {"suspended": True, "suspended_since": moment(-5)}], ids=str
)
def test_a_jobset_that_is_over_gets_nothing(more: dict[str, Any]) -> None:
    assert not only(decided(leader(), jobset(**more)), Create)


def test_a_leader_whose_jobset_is_not_known_yet_waits() -> None:
    assert kinds(decided(leader())) == []


@pytest.mark.parametrize("status", ["PROVISIONING", "RUNNING", "RECONCILING"])
def test_a_pool_that_is_there_or_coming_is_enough(status: str) -> None:
    assert not only(decided(leader(), jobset(), pool(status=status)), Create, Delete, Remember)


def test_a_pool_that_was_just_asked_for_is_not_asked_for_again() -> None:
    name = pool().name
    assert not only(decided(leader(), jobset(), busy={name: "create"}), Create)


def test_a_pool_that_is_stopping_is_waited_for() -> None:
    decision = decided(leader(), jobset(), pool(status="STOPPING"))
    assert not only(decision, Create, Delete)
    assert "is still being deleted" in only(decision, Tell)[-1].message


def test_a_pool_of_another_shape_makes_way() -> None:
    other = read({**TPU, "cloud.google.com/gke-tpu-topology": "2x2x2"}, {"google.com/tpu": 4})
    decision = decided(leader(), jobset(), pool(digest=other.digest))
    assert one(decision, Delete).why == "it is not what Pod js-slice-0-0-abcde asks for now"


def test_a_pool_of_the_go_provisioner_is_taken_as_it_is() -> None:
    theirs = pool(digest="7f9c8", machine="ct5p-hightpu-4t", nodes=4, topology="2x2x4", created=0.0, attempt=0)
    assert not only(decided(leader(), jobset(), theirs), Create, Delete)
    wrong = replace(theirs, nodes=1)
    assert one(decided(leader(), jobset(), wrong), Delete).name == wrong.name


def test_a_name_that_is_taken() -> None:
    taken = replace(pool(), ours=False)
    decision = decided(leader(), jobset(), taken)
    assert kinds(decision) == ["Tell", "Tell"]
    assert only(decision, Tell)[0].reason == "NameTaken"


# A pool that failed: written down first, then out of the way, then the next way.


def test_a_failure_is_written_down_before_its_pool_goes() -> None:
    broken = pool(status="ERROR", fault=STOCKOUT)
    decision = decided(leader(), jobset(), broken)
    assert not only(decision, Delete, Create)
    remember = one(decision, Remember)
    assert remember.attempts == {"js-slice-0": Attempt(1, 0.0, "Stockout")}
    [(about, problem)] = remember.failed
    assert about.kind == "Pod"
    assert problem.message == "no node pool as on-demand in z1: there are none left; next: on-demand in z2"


def test_each_way_is_told_of_once_and_each_new_reason() -> None:
    ways = {"zones": ("z1", "z2")}

    def tried(tries: int, before: str) -> tuple[int, int]:
        broken = pool(status="ERROR", fault=STOCKOUT, attempt=tries)
        known = jobset(attempts={"js-slice-0": Attempt(tries, 0.0, before)} if tries else {})
        remember = one(decided(leader(), known, broken, settings=ways), Remember)
        return len(remember.failed), len(remember.again)

    assert [tried(tries, "Stockout") for tries in range(4)] == [(1, 0), (1, 0), (0, 1), (0, 1)]
    assert tried(7, "QuotaExceeded") == (1, 0)


def test_then_its_pool_goes() -> None:
    broken = pool(status="ERROR", fault=STOCKOUT)
    decision = decided(leader(), jobset(attempts={"js-slice-0": Attempt(1, 0.0, "Stockout")}), broken)
    assert one(decision, Delete).why == "it failed (Stockout) and another is to be tried"
    assert not only(decision, Remember, Create)


def test_then_the_next_zone_is_tried() -> None:
    create = one(decided(leader(), jobset(attempts={"js-slice-0": Attempt(1, 0.0, "Stockout")})), Create)
    assert (create.where, create.attempt) == ("on-demand in z2", 1)


def test_then_the_next_kind_of_capacity() -> None:
    both = {"capacity": (SPOT, ON_DEMAND)}
    wheres = [
        one(decided(leader(), jobset(attempts={"js-slice-0": Attempt(tries, 0.0, "x")}), settings=both), Create).where
        for tries in range(5)
    ]
    assert wheres == ["spot in z1", "spot in z2", "on-demand in z1", "on-demand in z2", "spot in z1"]


def test_after_all_ways_there_is_a_pause() -> None:
    broken = pool(status="ERROR", fault=STOCKOUT, attempt=1)
    seen = jobset(attempts={"js-slice-0": Attempt(1, 0.0, "Stockout")})
    attempt = one(decided(leader(), seen, broken), Remember).attempts["js-slice-0"]
    assert (attempt.tries, attempt.reason) == (2, "Stockout")
    assert 30 <= attempt.not_before - NOW <= 45
    waiting = decided(leader(), jobset(attempts={"js-slice-0": Attempt(2, NOW + 30, "Stockout")}))
    assert not only(waiting, Create)
    assert waiting.wake == NOW + 30
    assert "tried 2 times in vain" in only(waiting, Tell)[0].message


def test_pauses_grow_to_a_cap() -> None:
    assert [pause(tries, 1, SETTINGS) for tries in range(1, 8)] == [30, 60, 120, 240, 480, 600, 600]
    assert [pause(tries, 3, SETTINGS) for tries in range(1, 7)] == [0, 0, 30, 0, 0, 60]
    assert pause(10_000, 1, SETTINGS) == 600


def test_pauses_of_slices_differ() -> None:
    found = [spread(100.0, f"job-{index}") for index in range(100)]
    assert 100 <= min(found) < 110
    assert 140 < max(found) <= 150
    assert spread(0.0, "job") == 0


def test_a_request_that_was_refused_counts_as_a_try() -> None:
    failures = {JOB: Failure(0, Problem("QuotaExceeded", "short of 96 CPUs"))}
    remember = one(decided(leader(), jobset(), failures=failures), Remember)
    assert remember.attempts["js-slice-0"].tries == 1
    assert "short of 96 CPUs" in remember.failed[0][1].message
    again = decided(leader(), jobset(attempts={"js-slice-0": Attempt(1, 0.0, "QuotaExceeded")}), failures=failures)
    assert one(again, Create).attempt == 1


def test_a_success_is_forgotten_like_a_failure() -> None:
    seen = jobset(attempts={"js-slice-0": Attempt(3, 0.0, "Stockout"), "js-slice-9": Attempt(1, 0.0, "x")})
    assert one(decided(leader(), seen, pool(attempt=3)), Remember).attempts == {}


def test_a_pool_that_never_comes_is_given_up() -> None:
    slow = pool(status="PROVISIONING", created=NOW - 4000)
    assert one(decided(leader(), jobset(), slow), Remember).attempts["js-slice-0"].reason == "TimedOut"
    seen = jobset(attempts={"js-slice-0": Attempt(1, 0.0, "TimedOut")})
    delete = one(decided(leader(), seen, slow), Delete)
    assert delete.cancel
    assert decided(leader(), jobset(), pool(status="PROVISIONING")).wake == NOW - 30 + 3600


# Giving back.


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (None, "JobSet js no longer exists"),
        (jobset(deleting=True), "JobSet js no longer exists"),
        (jobset(ended="completed", ended_at=moment(-1)), "JobSet js has completed"),
        (jobset(ended="failed", ended_at=moment(-1)), "JobSet js has failed"),
        (jobset(drained=True), "JobSet js is drained"),
        (jobset(suspended=True, suspended_since=moment(-400)), "JobSet js is suspended"),
        (jobset(replicas=0), "JobSet js has no Job js-slice-0 any more"),
    ],
)
def test_what_nobody_needs_goes_at_once(found: Any, why: str) -> None:
    things = [found] if found is not None else []
    delete = one(decided(*things, pool(created=NOW - 400)), Delete)
    assert (delete.name, delete.why) == (pool().name, why)
    assert delete.about.kind == "JobSet"


@pytest.mark.parametrize("status", ["PROVISIONING", "RUNNING", "RUNNING_WITH_ERROR", "ERROR", "RECONCILING"])
def test_in_whatever_state_it_is(status: str) -> None:
    assert one(decided(pool(status=status)), Delete).cancel is (status == "PROVISIONING")


def test_but_not_twice() -> None:
    assert not only(decided(pool(status="STOPPING")), Delete)
    assert not only(decided(pool(), busy={pool().name: "delete"}), Delete)


def test_and_not_what_is_of_others() -> None:
    foreign = replace(pool(), ours=False)
    nameless = replace(pool(), name="x", jobset=Ref("default", ""))
    assert kinds(decided(foreign, nameless)) == []


def test_a_pool_lives_for_a_while() -> None:
    decision = decided(pool(created=NOW - 3), settings={"node_min_lifespan": 10.0})
    assert not only(decision, Delete)
    assert decision.wake == NOW + 7


def test_the_end_of_a_jobset_can_be_waited_out() -> None:
    ended = jobset(ended="completed", ended_at=moment(-10))
    decision = decided(ended, pool(), settings={"deletion_delay": 30.0})
    assert not only(decision, Delete)
    assert decision.wake == NOW + 20


def test_a_suspended_jobset_keeps_its_pools_for_a_grace() -> None:
    decision = decided(jobset(suspended=True, suspended_since=moment(-100)), pool())
    assert not only(decision, Delete)
    assert decision.wake == NOW + 270  # five minutes from when the pool was made


# Who sits where.


def test_a_pool_on_which_another_jobset_sits_stays() -> None:
    assert not only(decided(pool(0, "gone"), jobset(), seats=seat(pool(0, "gone"), "js")), Delete)
    assert only(decided(pool(0, "gone"), jobset(), seats=seat(pool(0, "gone"), "gone")), Delete)


def test_a_drained_jobset_gives_back_what_it_sits_on() -> None:
    swapped = {**seat(pool(0, "js"), "other"), **seat(pool(0, "other"), "js")}
    delete = one(decided(pool(0, "js"), pool(0, "other"), jobset(drained=True), jobset("other"), seats=swapped), Delete)
    assert (delete.name, delete.why) == (pool(0, "other").name, "JobSet js is drained")


def test_one_whose_pool_another_jobset_has_taken_gets_a_further_one() -> None:
    taken = pool()
    things = [leader(), jobset(), jobset("other"), taken]
    create = one(decided(*things, seats=seat(taken, "other")), Create)
    assert create.name != taken.name
    assert create.job == JOB
    further = replace(taken, name=create.name)
    assert not only(decided(*things, further, seats=seat(taken, "other")), Create, Delete)


def test_unless_one_like_it_is_free() -> None:
    taken, free = pool(), pool(0, "other")
    things = [leader(), jobset(), jobset("other"), taken]
    decision = decided(*things, free, seats=seat(taken, "other"))
    assert not only(decision, Create)
    assert only(decision, Tell)[0].reason == "Taken"
    full = {**seat(taken, "other"), **seat(free, "third")}
    assert only(decided(*things, jobset("third"), free, seats=full), Create)


# Draining.


@pytest.mark.parametrize(("settings", "more"), [({"drain": True}, {}), ({}, {"drained": True})])
def test_a_drain_makes_nothing(settings: dict[str, Any], more: dict[str, Any]) -> None:
    decision = decided(leader(), jobset(**more), settings=settings)
    assert not only(decision, Create)
    assert only(decision, Tell)[0].reason == "Draining"


def test_a_drain_gives_back_what_is_over_and_leaves_what_runs() -> None:
    drain = {"drain": True}
    assert only(decided(pool(), settings=drain), Delete)
    assert not only(decided(jobset(), pool(), settings=drain), Delete)


# What is told.


def test_what_cannot_be_is_told_once() -> None:
    wrong = leader(ask=Problem("BadRequest", "the pod has no nodeSelector"))
    tell = only(decided(wrong, jobset()), Tell)[0]
    assert (tell.about.kind, tell.condition, tell.status, tell.event) == ("Pod", words.POD_CONDITION, "False", True)
    told = Told("False", "BadRequest", "the pod has no nodeSelector", moment(-5))
    assert [each.about.kind for each in only(decided(replace(wrong, told=told), jobset()), Tell)] == ["JobSet"]


def test_others_go_on() -> None:
    wrong = leader(0, ask=read({**TPU, "cloud.google.com/gke-tpu-topology": "5x5x5"}, {"google.com/tpu": 4}))
    decision = decided(wrong, leader(0, "other"), jobset(), jobset("other"))
    assert one(decision, Create).jobset.name == "other"
    assert "5x5x5 is no topology" in only(decision, Tell)[0].message


def test_without_a_zone() -> None:
    tell = only(decided(leader(), jobset(), settings={"zones": ()}), Tell)[0]
    assert (tell.reason, tell.event) == ("NoZone", True)
    own = read(TPU, {"google.com/tpu": 4}, annotations={words.ZONES: "mine"})
    assert one(decided(leader(ask=own), jobset(), settings={"zones": ()}), Create).body["locations"] == ["mine"]


def test_pods_without_trouble_are_left_alone() -> None:
    assert [each.about.kind for each in only(decided(leader(), jobset()), Tell)] == ["JobSet"]
    troubled = leader(told=Told("False", "Stockout", "none left", moment(-9)))
    tells = only(decided(troubled, jobset(), pool(status="PROVISIONING")), Tell)
    assert [(each.about.kind, each.reason) for each in tells] == [("Pod", "Provisioning"), ("JobSet", "Provisioning")]


def test_when_the_cloud_cannot_be_asked_nothing_is_done() -> None:
    trouble = Problem("PermissionDenied", "Required container.clusters.get")
    decision = decided(leader(), leader(0, "gone"), jobset(), pool(0, "gone"), trouble=trouble)
    assert kinds(decision) == ["Tell", "Tell"]
    tells = [(each.about.kind, each.status, each.reason, each.event) for each in only(decision, Tell)]
    assert tells == [("Pod", "False", "PermissionDenied", True), ("JobSet", "False", "PermissionDenied", False)]
    told = Told("False", "PermissionDenied", "x", moment(-5))
    assert kinds(decided(leader(told=told), jobset(told=told), trouble=trouble)) == []


def test_deletions_come_first_and_words_last() -> None:
    found = kinds(decided(leader(), jobset(), pool(0, "gone")))
    assert found == ["Delete", "Create", "Tell"]
