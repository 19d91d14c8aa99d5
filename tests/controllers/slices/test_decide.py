"""`decide`: one slice request, failures and retries, garbage collection, placements, drain, conditions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.support.slice_snapshots import (
    NOW,
    REQUIREMENTS,
    SETTINGS,
    STOCKOUT,
    TPU,
    decided,
    jobset,
    kinds,
    leader,
    one,
    only,
    placement,
    pool,
    requirements,
    seconds_after_now,
)

from sliceworks.controllers.slices import well_known
from sliceworks.controllers.slices.capacity import ON_DEMAND, SPOT
from sliceworks.controllers.slices.model import (
    Attempt,
    ConditionView,
    CreateNodePool,
    DeleteNodePool,
    FailedAttempt,
    Problem,
    RecordAttempts,
    SetCondition,
)
from sliceworks.controllers.slices.provisioner import jitter, retry_delay
from sliceworks.kube.resources import Key

JOB = Key("ml", "js-slice-0")


def test_unschedulable_leader_gets_pool() -> None:
    create = one(decided(leader(), jobset()), CreateNodePool)
    assert create.body["locations"] == ["z1"]
    assert create.body["config"]["labels"][well_known.POOL_HASH] == REQUIREMENTS.digest
    assert create.body["config"]["labels"][well_known.ATTEMPT] == "0"
    assert create.body["config"]["labels"][well_known.CREATED] == str(int(NOW))
    assert (create.job, create.jobset, create.attempt, create.where) == (JOB, Key("ml", "js"), 0, "on-demand in z1")


def test_oldest_jobset_comes_first() -> None:
    old = [leader(index, "old", since=seconds_after_now(-100 + index)) for index in range(3)]
    new = [leader(index, "new", since=seconds_after_now(-101 + 90 + index)) for index in range(2)]
    decision = decided(*new, *old, jobset("old", 3), jobset("new", 2))
    assert [action.jobset.name for action in only(decision, CreateNodePool)] == ["old"] * 3 + ["new"] * 2


@pytest.mark.parametrize(
    "more", [{"ended": "completed"}, {"deleting": True}, {"suspended": True, "suspended_since": seconds_after_now(-5)}], ids=str
)
def test_inactive_jobset_gets_no_pool(more: dict[str, Any]) -> None:
    assert not only(decided(leader(), jobset(**more)), CreateNodePool)


def test_leader_without_jobset_waits() -> None:
    assert kinds(decided(leader())) == []


@pytest.mark.parametrize("status", ["PROVISIONING", "RUNNING", "RECONCILING"])
def test_existing_pool_is_used(status: str) -> None:
    assert not only(decided(leader(), jobset(), pool(status=status)), CreateNodePool, DeleteNodePool, RecordAttempts)


def test_pending_create_is_not_repeated() -> None:
    name = pool().name
    assert not only(decided(leader(), jobset(), pending_operations={name: "create"}), CreateNodePool)


def test_stopping_pool_is_waited_for() -> None:
    decision = decided(leader(), jobset(), pool(status="STOPPING"))
    assert not only(decision, CreateNodePool, DeleteNodePool)
    assert "is still being deleted" in only(decision, SetCondition)[-1].message


def test_mismatched_pool_is_replaced() -> None:
    other = requirements({**TPU, "cloud.google.com/gke-tpu-topology": "2x2x2"}, {"google.com/tpu": 4})
    decision = decided(leader(), jobset(), pool(digest=other.digest))
    assert one(decision, DeleteNodePool).reason == "it does not meet the requirements of Pod js-slice-0-0-abcde"


def test_pool_of_tpu_provisioner_is_compared_by_shape() -> None:
    theirs = pool(digest="7f9c8", machine="ct5p-hightpu-4t", nodes=4, topology="2x2x4", created=0.0, attempt=0)
    assert not only(decided(leader(), jobset(), theirs), CreateNodePool, DeleteNodePool)
    wrong = replace(theirs, nodes=1)
    assert one(decided(leader(), jobset(), wrong), DeleteNodePool).name == wrong.name


def test_name_conflict() -> None:
    taken = replace(pool(), is_managed=False)
    decision = decided(leader(), jobset(), taken)
    assert kinds(decision) == ["SetCondition", "SetCondition"]
    assert only(decision, SetCondition)[0].reason == "NameTaken"


# Failed pools: record the attempt, delete the pool, try the next candidate.


def test_failure_is_recorded_before_pool_is_deleted() -> None:
    broken = pool(status="ERROR", fault=STOCKOUT)
    decision = decided(leader(), jobset(), broken)
    assert not only(decision, DeleteNodePool, CreateNodePool)
    record = one(decision, RecordAttempts)
    assert record.attempts == {"js-slice-0": Attempt(1, 0.0, "Stockout", STOCKOUT.message)}
    [(regarding, problem)] = record.failed
    assert regarding.kind == "Pod"
    assert problem.message == "cannot create node pool (on-demand in z1): there are none left; next: on-demand in z2"


def test_each_candidate_and_new_reason_gets_one_event() -> None:
    zones = {"zones": ("z1", "z2")}

    def tried(tries: int, before: str) -> tuple[int, int]:
        broken = pool(status="ERROR", fault=STOCKOUT, attempt=tries)
        known = jobset(attempts={"js-slice-0": Attempt(tries, 0.0, before)} if tries else {})
        record = one(decided(leader(), known, broken, settings=zones), RecordAttempts)
        return len(record.failed), len(record.repeated)

    assert [tried(tries, "Stockout") for tries in range(4)] == [(1, 0), (1, 0), (0, 1), (0, 1)]
    assert tried(7, "QuotaExceeded") == (1, 0)


def test_failed_pool_is_deleted_after_recording() -> None:
    broken = pool(status="ERROR", fault=STOCKOUT)
    decision = decided(leader(), jobset(attempts={"js-slice-0": Attempt(1, 0.0, "Stockout")}), broken)
    assert one(decision, DeleteNodePool).reason == "it failed (Stockout) and is replaced"
    assert not only(decision, RecordAttempts, CreateNodePool)


def test_next_zone_is_tried() -> None:
    create = one(decided(leader(), jobset(attempts={"js-slice-0": Attempt(1, 0.0, "Stockout")})), CreateNodePool)
    assert (create.where, create.attempt) == ("on-demand in z2", 1)


def test_next_capacity_type_is_tried() -> None:
    both = {"capacity": (SPOT, ON_DEMAND)}
    wheres = [
        one(decided(leader(), jobset(attempts={"js-slice-0": Attempt(tries, 0.0, "x")}), settings=both), CreateNodePool).where
        for tries in range(5)
    ]
    assert wheres == ["spot in z1", "spot in z2", "on-demand in z1", "on-demand in z2", "spot in z1"]


def test_retry_is_delayed_after_all_candidates() -> None:
    broken = pool(status="ERROR", fault=STOCKOUT, attempt=1)
    recorded = jobset(attempts={"js-slice-0": Attempt(1, 0.0, "Stockout")})
    attempt = one(decided(leader(), recorded, broken), RecordAttempts).attempts["js-slice-0"]
    assert (attempt.tries, attempt.reason) == (2, "Stockout")
    assert 30 <= attempt.not_before - NOW <= 45
    waiting = decided(leader(), jobset(attempts={"js-slice-0": Attempt(2, NOW + 30, "Stockout")}))
    assert not only(waiting, CreateNodePool)
    assert waiting.requeue_time == NOW + 30
    assert "2 failed attempts" in only(waiting, SetCondition)[0].message


def test_the_last_message_of_the_cloud_stays_until_the_next_attempt() -> None:
    broken = pool(status="ERROR", fault=STOCKOUT, attempt=1)
    recorded = jobset(attempts={"js-slice-0": Attempt(1, 0.0, "Stockout")})
    attempt = one(decided(leader(), recorded, broken), RecordAttempts).attempts["js-slice-0"]
    for pools in ((pool(status="STOPPING", attempt=1),), ()):
        waiting = decided(leader(), jobset(attempts={"js-slice-0": attempt}), *pools)
        for condition in only(waiting, SetCondition):
            assert condition.reason == "Stockout"
            assert f"{STOCKOUT.message.rstrip('.')}; 2 failed attempts; next: " in condition.message


def test_retry_delay_grows_to_cap() -> None:
    assert [retry_delay(tries, 1, SETTINGS) for tries in range(1, 8)] == [30, 60, 120, 240, 480, 600, 600]
    assert [retry_delay(tries, 3, SETTINGS) for tries in range(1, 7)] == [0, 0, 30, 0, 0, 60]
    assert retry_delay(10_000, 1, SETTINGS) == 600


def test_jitter() -> None:
    result = [jitter(100.0, f"job-{index}") for index in range(100)]
    assert 100 <= min(result) < 110
    assert 140 < max(result) <= 150
    assert jitter(0.0, "job") == 0


def test_rejected_request_counts_as_attempt() -> None:
    failures = {JOB: FailedAttempt(0, Problem("QuotaExceeded", "short of 96 CPUs"))}
    record = one(decided(leader(), jobset(), failures=failures), RecordAttempts)
    assert record.attempts["js-slice-0"].tries == 1
    assert "short of 96 CPUs" in record.failed[0][1].message
    again = decided(leader(), jobset(attempts={"js-slice-0": Attempt(1, 0.0, "QuotaExceeded")}), failures=failures)
    assert one(again, CreateNodePool).attempt == 1


def test_attempts_are_dropped_after_success() -> None:
    recorded = jobset(attempts={"js-slice-0": Attempt(3, 0.0, "Stockout"), "js-slice-9": Attempt(1, 0.0, "x")})
    assert one(decided(leader(), recorded, pool(attempt=3)), RecordAttempts).attempts == {}


def test_creation_timeout() -> None:
    slow = pool(status="PROVISIONING", created=NOW - 4000)
    assert one(decided(leader(), jobset(), slow), RecordAttempts).attempts["js-slice-0"].reason == "TimedOut"
    recorded = jobset(attempts={"js-slice-0": Attempt(1, 0.0, "TimedOut")})
    delete = one(decided(leader(), recorded, slow), DeleteNodePool)
    assert delete.cancel
    assert decided(leader(), jobset(), pool(status="PROVISIONING")).requeue_time == NOW - 30 + 3600


# Garbage collection.


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (None, "JobSet js no longer exists"),
        (jobset(deleting=True), "JobSet js no longer exists"),
        (jobset(ended="completed", ended_at=seconds_after_now(-1)), "JobSet js has completed"),
        (jobset(ended="failed", ended_at=seconds_after_now(-1)), "JobSet js has failed"),
        (jobset(drained=True), "JobSet js is drained"),
        (jobset(suspended=True, suspended_since=seconds_after_now(-400)), "JobSet js is suspended"),
        (jobset(replicas=0), "JobSet js no longer has the Job js-slice-0"),
    ],
)
def test_unused_pool_is_deleted(state: Any, reason: str) -> None:
    things = [state] if state is not None else []
    delete = one(decided(*things, pool(created=NOW - 400)), DeleteNodePool)
    assert (delete.name, delete.reason) == (pool().name, reason)
    assert delete.regarding.kind == "JobSet"


@pytest.mark.parametrize("status", ["PROVISIONING", "RUNNING", "RUNNING_WITH_ERROR", "ERROR", "RECONCILING"])
def test_unused_pool_is_deleted_in_any_status(status: str) -> None:
    assert one(decided(pool(status=status)), DeleteNodePool).cancel is (status == "PROVISIONING")


def test_deletion_is_not_repeated() -> None:
    assert not only(decided(pool(status="STOPPING")), DeleteNodePool)
    assert not only(decided(pool(), pending_operations={pool().name: "delete"}), DeleteNodePool)


def test_unmanaged_pools_are_kept() -> None:
    foreign = replace(pool(), is_managed=False)
    nameless = replace(pool(), name="x", jobset=Key("default", ""))
    assert kinds(decided(foreign, nameless)) == []


def test_minimum_lifespan() -> None:
    decision = decided(pool(created=NOW - 3), settings={"node_min_lifespan": 10.0})
    assert not only(decision, DeleteNodePool)
    assert decision.requeue_time == NOW + 7


def test_deletion_delay() -> None:
    ended = jobset(ended="completed", ended_at=seconds_after_now(-10))
    decision = decided(ended, pool(), settings={"deletion_delay": 30.0})
    assert not only(decision, DeleteNodePool)
    assert decision.requeue_time == NOW + 20


def test_pool_of_a_completed_jobset_waits_for_a_pending_leader_that_fits() -> None:
    """The scheduler places the leader at the time at which the pods of the completed JobSet end."""
    ended = jobset("other", ended="completed", ended_at=seconds_after_now(-10))
    things = [leader(), jobset(), ended, free := pool(0, "other")]
    decision = decided(*things)
    assert not only(decision, DeleteNodePool)
    assert decision.requeue_time == NOW + 5
    read = decided(*things[1:], known_jobs={JOB: Key("ml", "js")})
    assert not only(read, DeleteNodePool), "the leader was placed, and it is not known where"
    assert not only(decided(*things[1:], placements=placement(free, "js")), DeleteNodePool), "the leader runs on it"
    late = replace(ended, ended_at=seconds_after_now(-16))
    assert one(decided(*things[:2], late, free), DeleteNodePool).name == free.name
    assert only(decided(*things[:2], ended, replace(free, digest="another")), DeleteNodePool)
    assert only(decided(*things[1:]), DeleteNodePool), "no leader is pending"


def test_suspended_grace() -> None:
    decision = decided(jobset(suspended=True, suspended_since=seconds_after_now(-100)), pool())
    assert not only(decision, DeleteNodePool)
    assert decision.requeue_time == NOW + 270  # five minutes after the creation of the pool


# Placements.


def test_occupied_pool_is_kept() -> None:
    assert not only(decided(pool(0, "gone"), jobset(), placements=placement(pool(0, "gone"), "js")), DeleteNodePool)
    assert only(decided(pool(0, "gone"), jobset(), placements=placement(pool(0, "gone"), "gone")), DeleteNodePool)


def test_drain_deletes_occupied_pool() -> None:
    swapped = {**placement(pool(0, "js"), "other"), **placement(pool(0, "other"), "js")}
    delete = one(
        decided(pool(0, "js"), pool(0, "other"), jobset(drained=True), jobset("other"), placements=swapped), DeleteNodePool
    )
    assert (delete.name, delete.reason) == (pool(0, "other").name, "JobSet js is drained")


def test_occupied_pool_is_supplemented() -> None:
    taken = pool()
    things = [leader(), jobset(), jobset("other"), taken]
    create = one(decided(*things, placements=placement(taken, "other")), CreateNodePool)
    assert create.name != taken.name
    assert create.job == JOB
    further = replace(taken, name=create.name)
    assert not only(decided(*things, further, placements=placement(taken, "other")), CreateNodePool, DeleteNodePool)


def test_free_equivalent_pool_is_used() -> None:
    taken, free = pool(), pool(0, "other")
    things = [leader(), jobset(), jobset("other"), taken]
    decision = decided(*things, free, placements=placement(taken, "other"))
    assert not only(decision, CreateNodePool)
    assert only(decision, SetCondition)[0].reason == "Taken"
    full = {**placement(taken, "other"), **placement(free, "third")}
    assert only(decided(*things, jobset("third"), free, placements=full), CreateNodePool)


# Draining.


@pytest.mark.parametrize(("settings", "more"), [({"drain": True}, {}), ({}, {"drained": True})])
def test_drain_creates_nothing(settings: dict[str, Any], more: dict[str, Any]) -> None:
    decision = decided(leader(), jobset(**more), settings=settings)
    assert not only(decision, CreateNodePool)
    assert only(decision, SetCondition)[0].reason == "Draining"


def test_drain_keeps_pools_of_active_jobsets() -> None:
    drain = {"drain": True}
    assert only(decided(pool(), settings=drain), DeleteNodePool)
    assert not only(decided(jobset(), pool(), settings=drain), DeleteNodePool)


# Conditions.


def test_invalid_requirements_are_reported_once() -> None:
    wrong = leader(requirements=Problem("BadRequest", "the pod has no nodeSelector"))
    action = only(decided(wrong, jobset()), SetCondition)[0]
    assert (action.regarding.kind, action.condition, action.status, action.event) == (
        "Pod",
        well_known.POD_CONDITION,
        "False",
        True,
    )
    condition = ConditionView("False", "BadRequest", "the pod has no nodeSelector", seconds_after_now(-5))
    assert [action.regarding.kind for action in only(decided(replace(wrong, condition=condition), jobset()), SetCondition)] == [
        "JobSet"
    ]


def test_invalid_request_does_not_block_others() -> None:
    wrong = leader(0, requirements=requirements({**TPU, "cloud.google.com/gke-tpu-topology": "5x5x5"}, {"google.com/tpu": 4}))
    decision = decided(wrong, leader(0, "other"), jobset(), jobset("other"))
    assert one(decision, CreateNodePool).jobset.name == "other"
    assert "5x5x5 is not a " in only(decision, SetCondition)[0].message


def test_missing_zone() -> None:
    action = only(decided(leader(), jobset(), settings={"zones": ()}), SetCondition)[0]
    assert (action.reason, action.event) == ("NoZone", True)
    own = requirements(TPU, {"google.com/tpu": 4}, annotations={well_known.ZONES: "mine"})
    assert one(decided(leader(requirements=own), jobset(), settings={"zones": ()}), CreateNodePool).body["locations"] == ["mine"]


def test_pods_without_problem_get_no_condition() -> None:
    assert [action.regarding.kind for action in only(decided(leader(), jobset()), SetCondition)] == ["JobSet"]
    troubled = leader(condition=ConditionView("False", "Stockout", "none left", seconds_after_now(-9)))
    conditions = only(decided(troubled, jobset(), pool(status="PROVISIONING")), SetCondition)
    assert [(action.regarding.kind, action.reason) for action in conditions] == [
        ("Pod", "Provisioning"),
        ("JobSet", "Provisioning"),
    ]


def test_cloud_error_is_reported_and_nothing_else() -> None:
    cloud_error = Problem("PermissionDenied", "Required container.clusters.get")
    decision = decided(leader(), leader(0, "gone"), jobset(), pool(0, "gone"), cloud_error=cloud_error)
    assert kinds(decision) == ["SetCondition", "SetCondition"]
    conditions = [(action.regarding.kind, action.status, action.reason, action.event) for action in only(decision, SetCondition)]
    assert conditions == [("Pod", "False", "PermissionDenied", True), ("JobSet", "False", "PermissionDenied", False)]
    condition = ConditionView("False", "PermissionDenied", "Required container.clusters.get", seconds_after_now(-5))
    assert kinds(decided(leader(condition=condition), jobset(condition=condition), cloud_error=cloud_error)) == []
    # Another permission that is missing replaces the message, without another event.
    other = decided(
        leader(condition=replace(condition, message="x")),
        jobset(condition=replace(condition, message="x")),
        cloud_error=cloud_error,
    )
    assert [(action.regarding.kind, action.event) for action in only(other, SetCondition)] == [("Pod", False), ("JobSet", False)]


def test_actions_are_sorted_by_urgency() -> None:
    result = kinds(decided(leader(), jobset(), pool(0, "gone")))
    assert result == ["DeleteNodePool", "CreateNodePool", "SetCondition"]
