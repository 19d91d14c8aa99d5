"""Kueue: what queues give each other: preemption, borrowing, cohorts, and flavors to choose from."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from tests.support.kueue import GROUP, TOLD

if TYPE_CHECKING:
    from tests.support.kueue import Desk

CLUSTER = "kueue"


def test_preemption_in_the_queue(desk: Desk) -> None:
    desk.priority("high", 100)
    desk.queue("q", {"name": "f", "cpu": 2}, preemption={"withinClusterQueue": "LowerPriority"})
    desk.job("a", "q").ok(201)
    desk.until_runs("a")
    desk.tick()
    desk.job("b", "q").ok(201)
    desk.until_runs("b")
    desk.job("c", "q", priority="high").ok(201)
    desk.until_runs("c")
    desk.until_waits("b", "more needed")
    desk.until(lambda: any(row[2] == "Stopped" for row in desk.events(*TOLD)), "b is stopped")
    desk.settles(
        "preempted", lambda: {**desk.picture("a", "b", "c"), "events": [row for row in desk.events(*TOLD) if "Preempted" in row[2]]}
    )


def test_preemption_of_newer_equals(desk: Desk) -> None:
    desk.queue("q", {"name": "f", "cpu": 2}, preemption={"withinClusterQueue": "LowerOrNewerEqualPriority"})
    desk.job("a", "q", cpu=1).ok(201)
    desk.until_runs("a")
    desk.tick()
    desk.job("b", "q", cpu=2).ok(201)
    desk.until_waits("b", "more needed")
    desk.tick()
    desk.job("c", "q", cpu=1).ok(201)
    desk.until_runs("c")
    desk.tick()
    desk.compare("newer_equals", {name: desk.get_job(name)["spec"]["suspend"] for name in "abc"})


def test_no_preemption_unless_allowed(desk: Desk) -> None:
    desk.priority("high", 100)
    desk.queue("q", {"name": "f", "cpu": 1})
    desk.job("a", "q").ok(201)
    desk.until_runs("a")
    desk.job("b", "q", priority="high").ok(201)
    desk.until_waits("b", "more needed")
    desk.settles("never", lambda: desk.picture("a", "b"))


def test_borrowing(desk: Desk) -> None:
    desk.queue("q", {"name": "f", "cpu": 2}, cohort="all")
    desk.queue("r", {"name": "f", "cpu": 2}, cohort="all")
    desk.job("a", "q", cpu=3).ok(201)
    desk.until_runs("a")
    desk.until(lambda: desk.get_queue("q")["status"].get("admittedWorkloads") == 1, "the queue counts it")
    desk.until(lambda: desk.events("QuotaReserved"), "the event")
    desk.settles(
        "borrowing", lambda: {**desk.picture("a"), "queue": desk.queue_status("q"), "events": desk.events("QuotaReserved")}
    )
    desk.job("b", "r", cpu=2).ok(201)
    desk.until_waits("b", "more needed")
    desk.settles("lent", lambda: desk.picture("b"))


def test_a_limit_on_borrowing(desk: Desk) -> None:
    desk.queue("q", {"name": "f", "cpu": [2, 1]}, cohort="all")
    desk.queue("r", {"name": "f", "cpu": 8}, cohort="all")
    desk.job("a", "q", cpu=4).ok(201)
    desk.until_waits("a", "maximum capacity")
    desk.job("b", "q", cpu=3).ok(201)
    desk.until_runs("b")
    desk.settles("borrowing_limit", lambda: desk.picture("a", "b"))


def test_a_limit_on_lending(desk: Desk) -> None:
    desk.queue("q", {"name": "f", "cpu": 2}, cohort="all")
    desk.queue("r", {"name": "f", "cpu": [4, None, 1]}, cohort="all")
    desk.job("a", "q", cpu=4).ok(201)
    desk.until_waits("a", "maximum capacity")
    desk.job("b", "q", cpu=3).ok(201)
    desk.until_runs("b")
    desk.job("c", "r", cpu=3).ok(201)
    desk.until_runs("c")
    desk.settles("lending_limit", lambda: desk.picture("a", "b", "c"))


def test_quota_of_the_cohort(desk: Desk) -> None:
    desk.flavor("f")
    desk.make("Cohort", "cohorts", desk.own("all"), {"resourceGroups": desk.groups({"name": "f", "cpu": 3})}).ok(201)
    desk.queue("q", {"name": "f", "cpu": 1}, cohort="all")
    desk.job("a", "q", cpu=4).ok(201)
    desk.until_runs("a")
    desk.settles("cohort", lambda: desk.picture("a"))


def test_cohorts_that_go_round(desk: Desk) -> None:
    """The queue is there first: one that is made below such cohorts ends the real Kueue when any namespace gets other labels."""
    desk.make("Cohort", "cohorts", desk.own("one"), {"parentName": desk.own("two")}).ok(201)
    desk.queue("q", {"name": "f", "cpu": 1}, cohort="one")
    desk.until(lambda: desk.queue_status("q")["conditions"]["Active"][0] == "True", "the queue works")
    desk.make("Cohort", "cohorts", desk.own("two"), {"parentName": desk.own("one")}).ok(201)
    probes = (f"probe{number}" for number in itertools.count())

    def known() -> bool:
        probe = next(probes)
        desk.job(probe, "q", cpu=2).ok(201)
        desk.until_is(probe, "QuotaReserved", "False")
        return "inactive" in desk.condition(probe, "QuotaReserved")["message"]

    desk.until(known, "Kueue knows of the circle")
    desk.job("a", "q").ok(201)
    desk.until_waits("a", "inactive")
    desk.settles("circular", lambda: desk.picture("a"))
    desk.api.patch(f"{GROUP}/cohorts/{desk.own('two')}", {"spec": {"parentName": None}}).ok()
    desk.until_runs("a")


def test_quota_of_a_cohort_above(desk: Desk) -> None:
    desk.flavor("f")
    groups = desk.groups({"name": "f", "cpu": 3})
    desk.make("Cohort", "cohorts", desk.own("top"), {"resourceGroups": groups}).ok(201)
    desk.make("Cohort", "cohorts", desk.own("left"), {"parentName": desk.own("top")}).ok(201)
    desk.make("Cohort", "cohorts", desk.own("right"), {"parentName": desk.own("top")}).ok(201)
    desk.queue("q", {"name": "f", "cpu": 1}, cohort="left")
    desk.queue("r", {"name": "f", "cpu": 1}, cohort="right", preemption={"reclaimWithinCohort": "Any"})
    desk.job("a", "q", cpu=5).ok(201)
    desk.until_runs("a")
    desk.job("b", "r", cpu=1).ok(201)
    desk.until_runs("b")
    desk.until_waits("a", "more needed")
    desk.settles("cohort_above", lambda: desk.picture("a", "b"))


def test_quota_is_reclaimed(desk: Desk) -> None:
    desk.queue("q", {"name": "f", "cpu": 2}, cohort="all", preemption={"reclaimWithinCohort": "Any"})
    desk.queue("r", {"name": "f", "cpu": 2}, cohort="all")
    desk.job("a", "r", cpu=2).ok(201)
    desk.until_runs("a")
    desk.tick()
    desk.job("b", "r", cpu=1).ok(201)
    desk.until_runs("b")
    desk.job("c", "q", cpu=2).ok(201)
    desk.until_runs("c")
    desk.until_waits("b", "more needed")
    desk.settles("reclaimed", lambda: desk.picture("a", "b", "c"))


def test_preemption_while_borrowing(desk: Desk) -> None:
    desk.priority("high", 100)
    policy = {"reclaimWithinCohort": "LowerPriority", "borrowWithinCohort": {"policy": "LowerPriority"}}
    desk.queue("q", {"name": "f", "cpu": 1}, cohort="all", preemption=policy)
    desk.queue("r", {"name": "f", "cpu": 1}, cohort="all")
    desk.queue("s", {"name": "f", "cpu": 2}, cohort="all")
    desk.job("a", "r", cpu=3).ok(201)
    desk.until_runs("a")
    desk.job("b", "q", cpu=2, priority="high").ok(201)
    desk.until_runs("b")
    desk.until_waits("a", "more needed")
    desk.settles("while_borrowing", lambda: desk.picture("a", "b"))


def test_the_next_flavor(desk: Desk) -> None:
    desk.flavor("one", nodeLabels={"pool": "one"})
    desk.flavor("two", nodeLabels={"pool": "two"}, tolerations=[{"key": "two", "operator": "Exists"}])
    desk.queue("q", {"name": "one", "cpu": 1}, {"name": "two", "cpu": 2})
    for name in "abc":
        desk.job(name, "q", pod={"nodeSelector": {"zone": "z"}}).ok(201)
        desk.until_runs(name)
    desk.settles("flavors", lambda: desk.picture("a", "b", "c"))
    desk.until(lambda: len(desk.events("QuotaReserved")) == 3, "events")
    desk.settles("flavors_told", lambda: desk.events("QuotaReserved"))
    desk.job("d", "q").ok(201)
    desk.until_waits("d", "more needed")
    desk.settles("flavors_used_up", lambda: desk.picture("d"))


def test_the_flavor_that_pods_ask_for(desk: Desk) -> None:
    desk.flavor("one", nodeLabels={"pool": "one"})
    desk.flavor("two", nodeLabels={"pool": "two"})
    desk.queue("q", {"name": "one", "cpu": 4}, {"name": "two", "cpu": 2})
    desk.job("a", "q", pod={"nodeSelector": {"pool": "two"}}).ok(201)
    desk.until_runs("a")
    expression = {"key": "pool", "operator": "NotIn", "values": ["one"]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    desk.job("b", "q", pod={"affinity": affinity}).ok(201)
    desk.until_runs("b")
    desk.job("c", "q", pod={"nodeSelector": {"pool": "three"}}).ok(201)
    desk.until_waits("c", "affinity")
    desk.settles("affinity", lambda: desk.picture("a", "b", "c"))


def test_taints_of_flavors(desk: Desk) -> None:
    taint = {"key": "spot", "value": "yes", "effect": "NoSchedule"}
    desk.flavor("spot", nodeTaints=[taint])
    desk.queue("q", {"name": "spot", "cpu": 4})
    desk.job("a", "q").ok(201)
    desk.until_waits("a", "taint")
    desk.job("b", "q", pod={"tolerations": [{"key": "spot", "operator": "Exists"}]}).ok(201)
    desk.until_runs("b")
    desk.settles("taints", lambda: desk.picture("a", "b"))


def test_rather_the_next_flavor_than_borrow(desk: Desk) -> None:
    fungibility = {"whenCanBorrow": "TryNextFlavor"}
    desk.queue("q", {"name": "one", "cpu": 1}, {"name": "two", "cpu": 4}, cohort="all", flavorFungibility=fungibility)
    desk.queue("r", {"name": "one", "cpu": 4}, cohort="all")
    desk.job("a", "q", cpu=2).ok(201)
    desk.until_runs("a")
    desk.settles("rather_next", lambda: desk.picture("a"))


def test_rather_preempt_than_the_next_flavor(desk: Desk) -> None:
    desk.priority("high", 100)
    policy = {"withinClusterQueue": "LowerPriority"}
    fungibility = {"whenCanPreempt": "MayStopSearch"}
    desk.queue("q", {"name": "one", "cpu": 1}, {"name": "two", "cpu": 4}, preemption=policy, flavorFungibility=fungibility)
    desk.job("a", "q").ok(201)
    desk.until_runs("a")
    desk.job("b", "q", priority="high").ok(201)
    desk.until_runs("b")
    desk.until_runs("a")
    desk.until(lambda: desk.condition("a", "Evicted").get("status") == "False", "a is back")
    desk.settles("rather_preempt", lambda: desk.picture("a", "b"))
