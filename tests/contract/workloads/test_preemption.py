"""Who makes room for the more important, and who does not."""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING

from tests.support.scheduling import HOST, REQUIRED, near
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.scheduling import Stage

CLUSTER = "scheduling"


def test_the_important_go_first(stage: Stage) -> None:
    stage.priority("high", 1000)
    stage.node("a", cpu="1", taints=[{"key": "t", "effect": "NoSchedule"}])
    stage.pod("low", asks={"cpu": "1"})
    stage.refusal("low")
    stage.pod("high", asks={"cpu": "1"}, priorityClassName="high")
    stage.refusal("high")
    # Who was refused rests for a second. Of those that still rest the first to have rested enough goes first, important or not.
    time.sleep(1.1)
    stage.change_node("a", {"spec": {"taints": None}})
    assert stage.where("high") == "a"
    assert "nodeName" not in stage.get("low")["spec"]


def test_preemption(stage: Stage) -> None:
    stage.priority("high", 1000)
    stage.node("a", cpu="2")
    stage.pod("low", asks={"cpu": "2"})
    stage.where("low")
    uid = stage.pod("high", asks={"cpu": "1"}, priorityClassName="high")["metadata"]["uid"]
    assert stage.where("high") == "a"
    event = stage.event("low", "Preempted")
    assert event["message"] == f"Preempted by pod {uid} on node a"
    assert (event["type"], event["action"], event["reportingComponent"]) == ("Normal", "Preempting", "default-scheduler")
    assert event["related"]["uid"] == uid
    assert stage.event("high", "FailedScheduling")["message"] == "0/1 nodes are available: 1 Insufficient cpu."
    assert stage.api.get(f"{stage.pods}/low").status == 404
    assert "nominatedNodeName" not in stage.get("high")["status"]


def test_a_victim_may_take_its_time(stage: Stage) -> None:
    stage.priority("high", 1000)
    stage.node("a", cpu="2")
    stage.pod("low", asks={"cpu": "2"}, terminationGracePeriodSeconds=600)
    stage.where("low")
    stage.pod("high", asks={"cpu": "2"}, priorityClassName="high")
    eventually(lambda: stage.get("high")["status"].get("nominatedNodeName") == "a")
    eventually(lambda: stage.get("low")["metadata"].get("deletionTimestamp"))
    condition = stage.condition("low", "DisruptionTarget")
    assert (condition["status"], condition["reason"]) == ("True", "PreemptionByScheduler")
    assert condition["message"] == "default-scheduler: preempting to accommodate a higher priority pod"
    assert [one["type"] for one in stage.get("low")["status"]["conditions"]] == ["PodScheduled", "DisruptionTarget"]
    assert stage.refusal("high") == "0/1 nodes are available: 1 Insufficient cpu."
    stage.pod("opportunist", asks={"cpu": "1"})
    stage.refusal("opportunist")
    stage.delete("low")
    assert stage.where("high") == "a"
    assert "nodeName" not in stage.get("opportunist")["spec"]


def test_as_few_as_possible_make_room(stage: Stage) -> None:
    stage.priority("high", 1000)
    stage.priority("middle", 500)
    stage.node("a", cpu="4")
    stage.pod("low", asks={"cpu": "2"})
    stage.pod("middle", asks={"cpu": "2"}, priorityClassName="middle")
    stage.where("low"), stage.where("middle")
    stage.pod("high", asks={"cpu": "2"}, priorityClassName="high")
    assert stage.where("high") == "a"
    assert stage.api.get(f"{stage.pods}/low").status == 404
    assert stage.get("middle")["spec"]["nodeName"] == "a"


def test_room_is_made_where_it_hurts_least(stage: Stage) -> None:
    stage.priority("high", 1000)
    stage.priority("middle", 500)
    stage.node("a", cpu="2")
    stage.pod("middle", asks={"cpu": "2"}, priorityClassName="middle")
    stage.where("middle")
    stage.node("b", cpu="2")
    stage.pod("low", asks={"cpu": "2"})
    stage.where("low")
    stage.pod("high", asks={"cpu": "2"}, priorityClassName="high")
    assert stage.where("high") == "b"


def test_the_youngest_make_room(stage: Stage) -> None:
    stage.priority("high", 1000)
    stage.node("a", cpu="2")
    for name, since in (("old", "2026-01-01T00:00:00Z"), ("young", "2026-02-01T00:00:00Z")):
        stage.pod(name, asks={"cpu": "1"})
        stage.where(name)
        stage.start(name, since)
    stage.pod("high", asks={"cpu": "1"}, priorityClassName="high")
    stage.where("high")
    assert stage.api.get(f"{stage.pods}/young").status == 404
    assert stage.get("old")["spec"]["nodeName"] == "a"


def test_budgets_turn_preemption_elsewhere(stage: Stage) -> None:
    """The younger makes room, unless a budget keeps it. Budgets come to the scheduler on a line of their own."""
    stage.priority("high", 1000)
    for node in ("a", "b"):
        stage.node(node, cpu="1")
    budgets = f"/apis/policy/v1/namespaces/{stage.ns}/poddisruptionbudgets"
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"on": "a"}}}
    stage.api.post(budgets, {"metadata": {"name": "keep"}, "spec": spec}).ok(201)
    numbers = itertools.count()

    def elsewhere() -> bool:
        number = next(numbers)
        for node, since in (("a", "2026-02-01T00:00:00Z"), ("b", "2026-01-01T00:00:00Z")):
            name = f"on-{node}-{number}"
            stage.pod(name, labels={"on": node}, asks={"cpu": "1"}, nodeSelector={HOST: node})
            stage.where(name)
            stage.start(name, since)
        stage.pod(f"high-{number}", asks={"cpu": "1"}, priorityClassName="high")
        went = stage.where(f"high-{number}")
        for name in (f"high-{number}", f"on-{'b' if went == 'a' else 'a'}-{number}"):
            stage.delete(name)
        return went == "b"

    eventually(elsewhere, what="room on the node whose pod no budget keeps")


def test_some_never_preempt(stage: Stage) -> None:
    stage.priority("polite", 1000, preemptionPolicy="Never")
    stage.node("a", cpu="1")
    stage.pod("low", asks={"cpu": "1"})
    stage.where("low")
    stage.pod("polite", asks={"cpu": "1"}, priorityClassName="polite")
    refused = "no new claims to deallocate, preemption: not eligible due to preemptionPolicy=Never."
    stage.refused_with("polite", f"0/1 nodes are available: 1 Insufficient cpu. {refused}")
    stage.delete("low")
    assert stage.where("polite") == "a"


def test_preemption_opens_a_place_kept_by_anti_affinity(stage: Stage) -> None:
    stage.priority("high", 1000)
    stage.node("a")
    away = {"podAntiAffinity": {REQUIRED: [near({"app": "x"})]}}
    stage.pod("low", labels={"app": "x"}, affinity=away)
    stage.where("low")
    stage.pod("high", labels={"app": "x"}, affinity=away, priorityClassName="high")
    assert stage.where("high") == "a"
    assert stage.event("low", "Preempted")
