"""Preemption by the scheduler: which pods are evicted for a pod of higher priority, and which are not."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
from tests.support.polling import eventually, pass_time
from tests.support.scheduling import HOST, REQUIRED, near

if TYPE_CHECKING:
    from tests.support.scheduling import SchedulerHarness

pytestmark = pytest.mark.controllers
CLUSTER = "scheduling"


def test_higher_priority_is_scheduled_first(scheduler: SchedulerHarness) -> None:
    scheduler.priority("high", 1000)
    scheduler.node("a", cpu="1", taints=[{"key": "t", "effect": "NoSchedule"}])
    scheduler.pod("low", asks={"cpu": "1"})
    scheduler.refusal("low")
    scheduler.pod("high", asks={"cpu": "1"}, priorityClassName="high")
    scheduler.refusal("high")
    # An unschedulable pod backs off for a second. Among pods in backoff, the first to leave it is scheduled first, whatever its
    # priority.
    pass_time(1.1)
    scheduler.change_node("a", {"spec": {"taints": None}})
    assert scheduler.where("high") == "a"
    assert "nodeName" not in scheduler.get("low")["spec"]


def test_preemption(scheduler: SchedulerHarness) -> None:
    scheduler.priority("high", 1000)
    scheduler.node("a", cpu="2")
    scheduler.pod("low", asks={"cpu": "2"})
    scheduler.where("low")
    uid = scheduler.pod("high", asks={"cpu": "1"}, priorityClassName="high")["metadata"]["uid"]
    assert scheduler.where("high") == "a"
    event = scheduler.event("low", "Preempted")
    assert event["message"] == f"Preempted by pod {uid} on node a"
    assert (event["type"], event["action"], event["reportingComponent"]) == ("Normal", "Preempting", "default-scheduler")
    assert event["related"]["uid"] == uid
    assert scheduler.event("high", "FailedScheduling")["message"] == "0/1 nodes are available: 1 Insufficient cpu."
    assert scheduler.api.get(f"{scheduler.pods}/low").status == 404
    assert "nominatedNodeName" not in scheduler.get("high")["status"]


def test_victim_with_grace_period(scheduler: SchedulerHarness) -> None:
    scheduler.priority("high", 1000)
    scheduler.node("a", cpu="2")
    scheduler.pod("low", asks={"cpu": "2"}, terminationGracePeriodSeconds=600)
    scheduler.where("low")
    scheduler.pod("high", asks={"cpu": "2"}, priorityClassName="high")
    eventually(lambda: scheduler.get("high")["status"].get("nominatedNodeName") == "a")
    eventually(lambda: scheduler.get("low")["metadata"].get("deletionTimestamp"))
    condition = scheduler.condition("low", "DisruptionTarget")
    assert (condition["status"], condition["reason"]) == ("True", "PreemptionByScheduler")
    assert condition["message"] == "default-scheduler: preempting to accommodate a higher priority pod"
    assert [condition["type"] for condition in scheduler.get("low")["status"]["conditions"]] == ["PodScheduled", "DisruptionTarget"]
    assert scheduler.refusal("high") == "0/1 nodes are available: 1 Insufficient cpu."
    scheduler.pod("opportunist", asks={"cpu": "1"})
    scheduler.refusal("opportunist")
    scheduler.delete("low")
    assert scheduler.where("high") == "a"
    assert "nodeName" not in scheduler.get("opportunist")["spec"]


def test_fewest_victims_are_evicted(scheduler: SchedulerHarness) -> None:
    scheduler.priority("high", 1000)
    scheduler.priority("middle", 500)
    scheduler.node("a", cpu="4")
    scheduler.pod("low", asks={"cpu": "2"})
    scheduler.pod("middle", asks={"cpu": "2"}, priorityClassName="middle")
    scheduler.where("low"), scheduler.where("middle")
    scheduler.pod("high", asks={"cpu": "2"}, priorityClassName="high")
    assert scheduler.where("high") == "a"
    assert scheduler.api.get(f"{scheduler.pods}/low").status == 404
    assert scheduler.get("middle")["spec"]["nodeName"] == "a"


def test_node_with_lowest_priority_victims_is_chosen(scheduler: SchedulerHarness) -> None:
    scheduler.priority("high", 1000)
    scheduler.priority("middle", 500)
    scheduler.node("a", cpu="2")
    scheduler.pod("middle", asks={"cpu": "2"}, priorityClassName="middle")
    scheduler.where("middle")
    scheduler.node("b", cpu="2")
    scheduler.pod("low", asks={"cpu": "2"})
    scheduler.where("low")
    scheduler.pod("high", asks={"cpu": "2"}, priorityClassName="high")
    assert scheduler.where("high") == "b"


def test_youngest_victims_are_evicted(scheduler: SchedulerHarness) -> None:
    scheduler.priority("high", 1000)
    scheduler.node("a", cpu="2")
    for name, since in (("old", "2026-01-01T00:00:00Z"), ("young", "2026-02-01T00:00:00Z")):
        scheduler.pod(name, asks={"cpu": "1"})
        scheduler.where(name)
        scheduler.start(name, since)
    scheduler.pod("high", asks={"cpu": "1"}, priorityClassName="high")
    scheduler.where("high")
    assert scheduler.api.get(f"{scheduler.pods}/young").status == 404
    assert scheduler.get("old")["spec"]["nodeName"] == "a"


def test_disruption_budgets_redirect_preemption(scheduler: SchedulerHarness) -> None:
    """The younger pod is evicted, unless a budget protects it. Budgets arrive at the scheduler on a separate watch."""
    scheduler.priority("high", 1000)
    for node in ("a", "b"):
        scheduler.node(node, cpu="1")
    budgets = f"/apis/policy/v1/namespaces/{scheduler.ns}/poddisruptionbudgets"
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"on": "a"}}}
    scheduler.api.post(budgets, {"metadata": {"name": "keep"}, "spec": spec}).ok(201)
    numbers = itertools.count()

    def elsewhere() -> bool:
        number = next(numbers)
        for node, since in (("a", "2026-02-01T00:00:00Z"), ("b", "2026-01-01T00:00:00Z")):
            name = f"on-{node}-{number}"
            scheduler.pod(name, labels={"on": node}, asks={"cpu": "1"}, nodeSelector={HOST: node})
            scheduler.where(name)
            scheduler.start(name, since)
        scheduler.pod(f"high-{number}", asks={"cpu": "1"}, priorityClassName="high")
        went = scheduler.where(f"high-{number}")
        for name in (f"high-{number}", f"on-{'b' if went == 'a' else 'a'}-{number}"):
            scheduler.delete(name)
        return went == "b"

    eventually(elsewhere, what="room on the node whose pod no budget keeps")


def test_preemption_policy_never(scheduler: SchedulerHarness) -> None:
    scheduler.priority("polite", 1000, preemptionPolicy="Never")
    scheduler.node("a", cpu="1")
    scheduler.pod("low", asks={"cpu": "1"})
    scheduler.where("low")
    scheduler.pod("polite", asks={"cpu": "1"}, priorityClassName="polite")
    refused = "no new claims to deallocate, preemption: not eligible due to preemptionPolicy=Never."
    scheduler.refused_with("polite", f"0/1 nodes are available: 1 Insufficient cpu. {refused}")
    scheduler.delete("low")
    assert scheduler.where("polite") == "a"


def test_preemption_resolves_anti_affinity(scheduler: SchedulerHarness) -> None:
    scheduler.priority("high", 1000)
    scheduler.node("a")
    away = {"podAntiAffinity": {REQUIRED: [near({"app": "x"})]}}
    scheduler.pod("low", labels={"app": "x"}, affinity=away)
    scheduler.where("low")
    scheduler.pod("high", labels={"app": "x"}, affinity=away, priorityClassName="high")
    assert scheduler.where("high") == "a"
    assert scheduler.event("low", "Preempted")
