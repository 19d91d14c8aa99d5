"""Pending pods: scheduling gates, missing capacity, changes of nodes, and their conditions and events."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.polling import eventually, pass_time
from tests.support.scheduling import HOST, NO_VICTIMS, UNHELPFUL

if TYPE_CHECKING:
    from tests.support.scheduling import SchedulerHarness

CLUSTER = "scheduling"


def test_scheduling_gates_hold_pod(scheduler: SchedulerHarness) -> None:
    scheduler.node("a")
    scheduler.pod("one", schedulingGates=[{"name": "example.com/quota"}])
    condition = scheduler.condition("one")
    assert (condition["status"], condition["reason"]) == ("False", "SchedulingGated")
    assert condition["message"] == "Scheduling is blocked due to non-empty scheduling gates"
    scheduler.pod("other")
    scheduler.where("other")
    assert "nodeName" not in scheduler.get("one")["spec"]
    assert scheduler.condition("one")["reason"] == "SchedulingGated"
    assert scheduler.events("one", "FailedScheduling") == []
    scheduler.change_pod("one", {"spec": {"schedulingGates": None}})
    assert scheduler.where("one") == "a"
    assert "reason" not in scheduler.condition("one")


def test_gated_pod_may_get_a_node_selector(scheduler: SchedulerHarness) -> None:
    scheduler.node("a")
    scheduler.node("b")
    scheduler.pod("one", schedulingGates=[{"name": "example.com/topology"}])
    scheduler.change_pod("one", {"spec": {"nodeSelector": {HOST: "b"}, "schedulingGates": None}})
    assert scheduler.where("one") == "b"


def test_pods_of_other_schedulers_are_ignored(scheduler: SchedulerHarness) -> None:
    scheduler.node("a")
    scheduler.pod("theirs", schedulerName="other-scheduler")
    scheduler.pod("ours")
    scheduler.where("ours")
    assert "nodeName" not in scheduler.get("theirs")["spec"]
    assert scheduler.condition("theirs") == {}


def test_bound_pod_uses_capacity(scheduler: SchedulerHarness) -> None:
    scheduler.node("a", cpu="1")
    scheduler.pod("pinned", nodeName="a", asks={"cpu": "1"})
    assert scheduler.events("pinned", "Scheduled") == []
    scheduler.pod("late", asks={"cpu": "1"})
    scheduler.refused_with("late", f"0/1 nodes are available: 1 Insufficient cpu. {NO_VICTIMS.format(1)}")


@pytest.mark.parametrize("how", ["deleted", "ended", "failed"])
def test_released_capacity_is_used(scheduler: SchedulerHarness, how: str) -> None:
    scheduler.node("a", tpu="4")
    scheduler.pod("first", asks={"tpu": "4"})
    scheduler.where("first")
    scheduler.pod("second", asks={"tpu": "4"})
    scheduler.refusal("second")
    if how == "deleted":
        scheduler.delete("first")
    else:
        scheduler.end("first", "Succeeded" if how == "ended" else "Failed")
    assert scheduler.where("second") == "a"
    assert "reason" not in scheduler.condition("second")


@pytest.mark.parametrize("what", ["new", "larger", "label", "taint"])
def test_node_update_schedules_pod(scheduler: SchedulerHarness, what: str) -> None:
    scheduler.node(
        "a",
        labels={} if what == "label" else {"pool": "p"},
        taints=[{"key": "t", "effect": "NoSchedule"}] if what == "taint" else None,
    )
    scheduler.pod("one", asks={"cpu": "5"} if what in ("new", "larger") else None, nodeSelector={"pool": "p"})
    scheduler.refusal("one")
    if what == "new":
        scheduler.node("b", labels={"pool": "p"}, cpu="8")
    elif what == "larger":
        scheduler.offer("a", cpu="8")
    elif what == "label":
        scheduler.change_node("a", {"metadata": {"labels": {"pool": "p"}}})
    else:
        scheduler.change_node("a", {"spec": {"taints": None}})
    assert scheduler.where("one") == ("b" if what == "new" else "a")


def test_new_toleration_schedules_pod(scheduler: SchedulerHarness) -> None:
    scheduler.node("a", taints=[{"key": "t", "effect": "NoSchedule"}])
    scheduler.pod("one")
    scheduler.refusal("one")
    now = [*(scheduler.get("one")["spec"].get("tolerations") or ()), {"key": "t", "operator": "Exists"}]
    scheduler.change_pod("one", {"spec": {"tolerations": now}})
    assert scheduler.where("one") == "a"


def test_changed_message_keeps_transition_time(scheduler: SchedulerHarness) -> None:
    scheduler.node("a", cpu="1")
    scheduler.pod("one", asks={"cpu": "4"}, nodeSelector={"x": "1"})
    first = scheduler.refusal("one")
    since = scheduler.condition("one")["lastTransitionTime"]
    pass_time(1.1)
    scheduler.node("b", cpu="1", labels={"x": "1"})
    scheduler.change_node("a", {"metadata": {"labels": {"x": "1"}}})
    reason = f"0/2 nodes are available: 2 Insufficient cpu. {UNHELPFUL.format(2)}"
    scheduler.refused_with("one", reason)
    assert first != reason
    assert scheduler.condition("one")["lastTransitionTime"] == since
    # The second message is a new event, unless the scheduler's cache lacks its own last write: then the first is counted up.
    eventually(lambda: first in {event["message"] for event in scheduler.events("one", "FailedScheduling")})


def test_changed_message_has_a_new_event(scheduler: SchedulerHarness) -> None:
    scheduler.node("a", labels={"x": "1"})
    scheduler.pod("one", nodeSelector={"x": "2"})
    scheduler.refusal("one")
    scheduler.node("b", labels={"x": "2"}, cpu="1")
    assert scheduler.where("one") == "b"
    scheduler.pod("two", nodeSelector={"x": "2"}, asks={"cpu": "2"})
    reasons = "1 Insufficient cpu, 1 node(s) didn't match Pod's node affinity/selector"
    scheduler.refused_with("two", f"0/2 nodes are available: {reasons}. {UNHELPFUL.format(2)}")
    scheduler.offer("b", cpu="2")
    assert scheduler.where("two") == "b"


def test_deleted_pod_leaves_the_queue(scheduler: SchedulerHarness) -> None:
    scheduler.pod("one", asks={"cpu": "1"})
    scheduler.refusal("one")
    scheduler.delete("one")
    scheduler.pod("two", asks={"cpu": "1"})
    scheduler.refusal("two")
    scheduler.node("a", cpu="1")
    assert scheduler.where("two") == "a"


def test_tainted_node_reason_is_reported(scheduler: SchedulerHarness) -> None:
    scheduler.node("a", cpu="1")
    scheduler.pod("one", asks={"cpu": "4"})
    scheduler.refusal("one")
    assert "series" not in scheduler.event("one", "FailedScheduling")
    for name in ("b", "c"):
        scheduler.node(name, cpu="8", taints=[{"key": "t", "effect": "NoSchedule"}])
    reasons = "1 Insufficient cpu, 2 node(s) had untolerated taint(s)"
    scheduler.refused_with("one", f"0/3 nodes are available: {reasons}. {UNHELPFUL.format(3)}")


def test_missing_volume_claim(scheduler: SchedulerHarness) -> None:
    scheduler.node("a")
    scheduler.pod("one", volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}])
    scheduler.refused_with("one", '0/1 nodes are available: persistentvolumeclaim "data" not found. not found')
