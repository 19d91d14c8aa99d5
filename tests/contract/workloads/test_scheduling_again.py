"""Pods that wait: for a gate, for room, for a change of nodes; what they are told meanwhile."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from tests.support.scheduling import HOST, NO_VICTIMS, UNHELPFUL
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.scheduling import Stage

CLUSTER = "scheduling"


def test_gates_hold_a_pod(stage: Stage) -> None:
    stage.node("a")
    stage.pod("one", schedulingGates=[{"name": "example.com/quota"}])
    condition = stage.condition("one")
    assert (condition["status"], condition["reason"]) == ("False", "SchedulingGated")
    assert condition["message"] == "Scheduling is blocked due to non-empty scheduling gates"
    stage.pod("other")
    stage.where("other")
    assert "nodeName" not in stage.get("one")["spec"]
    assert stage.condition("one")["reason"] == "SchedulingGated"
    assert stage.events("one", "FailedScheduling") == []
    stage.change_pod("one", {"spec": {"schedulingGates": None}})
    assert stage.where("one") == "a"
    assert "reason" not in stage.condition("one")


def test_a_gated_pod_may_be_pinned_before_it_goes(stage: Stage) -> None:
    stage.node("a")
    stage.node("b")
    stage.pod("one", schedulingGates=[{"name": "example.com/topology"}])
    stage.change_pod("one", {"spec": {"nodeSelector": {HOST: "b"}, "schedulingGates": None}})
    assert stage.where("one") == "b"


def test_pods_of_other_schedulers_are_left_alone(stage: Stage) -> None:
    stage.node("a")
    stage.pod("theirs", schedulerName="other-scheduler")
    stage.pod("ours")
    stage.where("ours")
    assert "nodeName" not in stage.get("theirs")["spec"]
    assert stage.condition("theirs") == {}


def test_a_pod_with_a_node_needs_no_scheduler_but_takes_room(stage: Stage) -> None:
    stage.node("a", cpu="1")
    stage.pod("pinned", nodeName="a", asks={"cpu": "1"})
    assert stage.events("pinned", "Scheduled") == []
    stage.pod("late", asks={"cpu": "1"})
    stage.refused_with("late", f"0/1 nodes are available: 1 Insufficient cpu. {NO_VICTIMS.format(1)}")


@pytest.mark.parametrize("how", ["deleted", "ended", "failed"])
def test_room_is_found_again(stage: Stage, how: str) -> None:
    stage.node("a", tpu="4")
    stage.pod("first", asks={"tpu": "4"})
    stage.where("first")
    stage.pod("second", asks={"tpu": "4"})
    stage.refusal("second")
    if how == "deleted":
        stage.delete("first")
    else:
        stage.end("first", "Succeeded" if how == "ended" else "Failed")
    assert stage.where("second") == "a"
    assert "reason" not in stage.condition("second")


@pytest.mark.parametrize("what", ["new", "larger", "label", "taint"])
def test_nodes_that_change_help(stage: Stage, what: str) -> None:
    stage.node(
        "a",
        labels={} if what == "label" else {"pool": "p"},
        taints=[{"key": "t", "effect": "NoSchedule"}] if what == "taint" else None,
    )
    stage.pod("one", asks={"cpu": "5"} if what in ("new", "larger") else None, nodeSelector={"pool": "p"})
    stage.refusal("one")
    if what == "new":
        stage.node("b", labels={"pool": "p"}, cpu="8")
    elif what == "larger":
        stage.offer("a", cpu="8")
    elif what == "label":
        stage.change_node("a", {"metadata": {"labels": {"pool": "p"}}})
    else:
        stage.change_node("a", {"spec": {"taints": None}})
    assert stage.where("one") == ("b" if what == "new" else "a")


def test_a_new_toleration_helps(stage: Stage) -> None:
    stage.node("a", taints=[{"key": "t", "effect": "NoSchedule"}])
    stage.pod("one")
    stage.refusal("one")
    now = [*(stage.get("one")["spec"].get("tolerations") or ()), {"key": "t", "operator": "Exists"}]
    stage.change_pod("one", {"spec": {"tolerations": now}})
    assert stage.where("one") == "a"


def test_a_refusal_keeps_its_time_when_its_words_change(stage: Stage) -> None:
    stage.node("a", cpu="1")
    stage.pod("one", asks={"cpu": "4"}, nodeSelector={"x": "1"})
    first = stage.refusal("one")
    since = stage.condition("one")["lastTransitionTime"]
    time.sleep(1.1)
    stage.node("b", cpu="1", labels={"x": "1"})
    stage.change_node("a", {"metadata": {"labels": {"x": "1"}}})
    reason = f"0/2 nodes are available: 2 Insufficient cpu. {UNHELPFUL.format(2)}"
    stage.refused_with("one", reason)
    assert first != reason
    assert stage.condition("one")["lastTransitionTime"] == since
    # The second is an event of its own, unless the scheduler has not heard yet of what it wrote itself: then it counts the first.
    eventually(lambda: first in {event["message"] for event in stage.events("one", "FailedScheduling")})


def test_refusals_are_told_again_when_they_change(stage: Stage) -> None:
    stage.node("a", labels={"x": "1"})
    stage.pod("one", nodeSelector={"x": "2"})
    stage.refusal("one")
    stage.node("b", labels={"x": "2"}, cpu="1")
    assert stage.where("one") == "b"
    stage.pod("two", nodeSelector={"x": "2"}, asks={"cpu": "2"})
    reasons = "1 Insufficient cpu, 1 node(s) didn't match Pod's node affinity/selector"
    stage.refused_with("two", f"0/2 nodes are available: {reasons}. {UNHELPFUL.format(2)}")
    stage.offer("b", cpu="2")
    assert stage.where("two") == "b"


def test_a_pod_that_is_deleted_waits_no_longer(stage: Stage) -> None:
    stage.pod("one", asks={"cpu": "1"})
    stage.refusal("one")
    stage.delete("one")
    stage.pod("two", asks={"cpu": "1"})
    stage.refusal("two")
    stage.node("a", cpu="1")
    assert stage.where("two") == "a"


def test_a_node_that_is_large_enough_is_looked_at_even_if_it_is_tainted(stage: Stage) -> None:
    stage.node("a", cpu="1")
    stage.pod("one", asks={"cpu": "4"})
    stage.refusal("one")
    assert "series" not in stage.event("one", "FailedScheduling")
    for name in ("b", "c"):
        stage.node(name, cpu="8", taints=[{"key": "t", "effect": "NoSchedule"}])
    reasons = "1 Insufficient cpu, 2 node(s) had untolerated taint(s)"
    stage.refused_with("one", f"0/3 nodes are available: {reasons}. {UNHELPFUL.format(3)}")


def test_a_claim_that_does_not_exist(stage: Stage) -> None:
    stage.node("a")
    stage.pod("one", volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}])
    stage.refused_with("one", '0/1 nodes are available: persistentvolumeclaim "data" not found. not found')
