"""Kueue: preemption, borrowing, cohorts and the choice of flavors."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.diagnosis import create, replicated_job
from tests.support.jobsets import GROUP as JOBSET_GROUP
from tests.support.kueue import GROUP, TOLD

if TYPE_CHECKING:
    from tests.support.kueue import KueueHarness

CLUSTER = "kueue"


def test_preemption_within_queue(harness: KueueHarness) -> None:
    harness.priority("high", 100)
    harness.queue("q", {"name": "f", "cpu": 2}, preemption={"withinClusterQueue": "LowerPriority"})
    harness.job("a", "q").ok(201)
    harness.wait_admitted("a")
    harness.tick()
    harness.job("b", "q").ok(201)
    harness.wait_admitted("b")
    harness.job("c", "q", priority="high").ok(201)
    harness.wait_admitted("c")
    harness.wait_pending("b", "more needed")
    harness.until(lambda: any(row[2] == "Stopped" for row in harness.events(*TOLD)), "b is stopped")
    harness.settles(
        "preempted",
        lambda: {**harness.picture("a", "b", "c"), "events": [row for row in harness.events(*TOLD) if "Preempted" in row[2]]},
    )


@pytest.mark.parametrize("metadata", [None, {"labels": {"a": "b"}}], ids=["bare", "labelled"])
def test_preempted_jobset_resumes(harness: KueueHarness, metadata: dict[str, Any] | None) -> None:
    """Twice: a start injects labels into the pod template, and a stop removes them."""
    harness.priority("high", 100)
    harness.flavor("f", nodeLabels={"a": "b"}, tolerations=[{"key": "a", "operator": "Exists"}])
    harness.queue("q", {"name": "f", "cpu": 1}, preemption={"withinClusterQueue": "LowerPriority"})
    path = f"{JOBSET_GROUP}/namespaces/{harness.ns}/jobsets"

    def runs(name: str, *, suspended: bool = False) -> None:
        harness.until(lambda: harness.api.get(f"{path}/{name}").ok().json["spec"]["suspend"] is suspended, f"{name}: {suspended}")

    create(harness.api, harness.ns, "low", replicated_job({"cpu": 1}, pod_metadata=metadata), queue="q")
    runs("low")
    for name in ("first", "second"):
        create(harness.api, harness.ns, name, replicated_job({"cpu": 1}), queue="q", priority=harness.own("high"))
        runs(name)
        runs("low", suspended=True)
        harness.api.delete(f"{path}/{name}").ok()
        runs("low")


def test_strict_queue_continues_when_its_blocked_head_is_deleted(harness: KueueHarness) -> None:
    harness.queue("q", {"name": "f", "cpu": 1}, queueingStrategy="StrictFIFO")
    harness.job("a", "q", cpu=5).ok(201)
    harness.wait_pending("a", "maximum capacity")
    harness.tick()
    harness.job("b", "q").ok(201)
    harness.until(lambda: "b" in harness.workloads(), "the Workload of b")
    assert harness.get_job("b")["spec"]["suspend"]
    harness.api.delete(f"/apis/batch/v1/namespaces/{harness.ns}/jobs/a", query={"propagationPolicy": "Background"}).ok()
    harness.wait_admitted("b")


def test_a_head_that_fits_in_part_blocks_a_best_effort_queue(harness: KueueHarness) -> None:
    """Its first pods fit a flavor that is not the last one, its second pods none: Kueue tries it again at once, before others."""
    harness.queue("q", {"name": "one", "cpu": 2}, {"name": "two", "cpu": 3})
    for name, cpu in (("a", 1), ("b", 3)):
        harness.job(name, "q", cpu=cpu).ok(201)
        harness.wait_admitted(name)
    create(harness.api, harness.ns, "js", replicated_job({"cpu": 1}, "x"), replicated_job({"cpu": 1}, "y"), queue="q")
    harness.wait_pending("js", "more needed")
    harness.tick()
    harness.job("c", "q").ok(201)
    harness.until(lambda: "c" in harness.workloads(), "the Workload of c")
    assert harness.get_job("c")["spec"]["suspend"]
    harness.api.delete(f"{JOBSET_GROUP}/namespaces/{harness.ns}/jobsets/js").ok()
    harness.wait_admitted("c")


def test_preemption_of_newer_equal_priority(harness: KueueHarness) -> None:
    harness.queue("q", {"name": "f", "cpu": 2}, preemption={"withinClusterQueue": "LowerOrNewerEqualPriority"})
    harness.job("a", "q", cpu=1).ok(201)
    harness.wait_admitted("a")
    harness.tick()
    harness.job("b", "q", cpu=2).ok(201)
    harness.wait_pending("b", "more needed")
    harness.tick()
    harness.job("c", "q", cpu=1).ok(201)
    harness.wait_admitted("c")
    harness.tick()
    harness.compare("newer_equals", {name: harness.get_job(name)["spec"]["suspend"] for name in "abc"})


def test_no_preemption_by_default(harness: KueueHarness) -> None:
    harness.priority("high", 100)
    harness.queue("q", {"name": "f", "cpu": 1})
    harness.job("a", "q").ok(201)
    harness.wait_admitted("a")
    harness.job("b", "q", priority="high").ok(201)
    harness.wait_pending("b", "more needed")
    harness.settles("never", lambda: harness.picture("a", "b"))


def test_borrowing(harness: KueueHarness) -> None:
    harness.queue("q", {"name": "f", "cpu": 2}, cohort="all")
    harness.queue("r", {"name": "f", "cpu": 2}, cohort="all")
    harness.job("a", "q", cpu=3).ok(201)
    harness.wait_admitted("a")
    harness.until(lambda: harness.get_queue("q")["status"].get("admittedWorkloads") == 1, "the queue counts it")
    harness.until(lambda: harness.events("QuotaReserved"), "the event")
    harness.settles(
        "borrowing", lambda: {**harness.picture("a"), "queue": harness.queue_status("q"), "events": harness.events("QuotaReserved")}
    )
    harness.job("b", "r", cpu=2).ok(201)
    harness.wait_pending("b", "more needed")
    harness.settles("lent", lambda: harness.picture("b"))


def test_borrowing_limit(harness: KueueHarness) -> None:
    harness.queue("q", {"name": "f", "cpu": [2, 1]}, cohort="all")
    harness.queue("r", {"name": "f", "cpu": 8}, cohort="all")
    harness.job("a", "q", cpu=4).ok(201)
    harness.wait_pending("a", "maximum capacity")
    harness.job("b", "q", cpu=3).ok(201)
    harness.wait_admitted("b")
    harness.settles("borrowing_limit", lambda: harness.picture("a", "b"))


def test_lending_limit(harness: KueueHarness) -> None:
    harness.queue("q", {"name": "f", "cpu": 2}, cohort="all")
    harness.queue("r", {"name": "f", "cpu": [4, None, 1]}, cohort="all")
    harness.job("a", "q", cpu=4).ok(201)
    harness.wait_pending("a", "maximum capacity")
    harness.job("b", "q", cpu=3).ok(201)
    harness.wait_admitted("b")
    harness.job("c", "r", cpu=3).ok(201)
    harness.wait_admitted("c")
    harness.settles("lending_limit", lambda: harness.picture("a", "b", "c"))


def test_cohort_quota(harness: KueueHarness) -> None:
    harness.flavor("f")
    harness.make("Cohort", "cohorts", harness.own("all"), {"resourceGroups": harness.groups({"name": "f", "cpu": 3})}).ok(201)
    harness.queue("q", {"name": "f", "cpu": 1}, cohort="all")
    harness.job("a", "q", cpu=4).ok(201)
    harness.wait_admitted("a")
    harness.settles("cohort", lambda: harness.picture("a"))


def test_cohort_cycle(harness: KueueHarness) -> None:
    """The queue is created first: a queue that is created below a cohort cycle crashes the real Kueue when a namespace's labels
    change.
    """
    harness.make("Cohort", "cohorts", harness.own("one"), {"parentName": harness.own("two")}).ok(201)
    harness.queue("q", {"name": "f", "cpu": 1}, cohort="one")
    harness.until(lambda: harness.queue_status("q")["conditions"]["Active"][0] == "True", "the queue works")
    harness.make("Cohort", "cohorts", harness.own("two"), {"parentName": harness.own("one")}).ok(201)
    probes = (f"probe{number}" for number in itertools.count())

    def known() -> bool:
        probe = next(probes)
        harness.job(probe, "q", cpu=2).ok(201)
        harness.wait_condition(probe, "QuotaReserved", "False")
        return "inactive" in harness.condition(probe, "QuotaReserved")["message"]

    harness.until(known, "Kueue knows the cycle")
    harness.job("a", "q").ok(201)
    harness.wait_pending("a", "inactive")
    harness.settles("circular", lambda: harness.picture("a"))
    harness.api.patch(f"{GROUP}/cohorts/{harness.own('two')}", {"spec": {"parentName": None}}).ok()
    harness.wait_admitted("a")


def test_parent_cohort_quota(harness: KueueHarness) -> None:
    harness.flavor("f")
    groups = harness.groups({"name": "f", "cpu": 3})
    harness.make("Cohort", "cohorts", harness.own("top"), {"resourceGroups": groups}).ok(201)
    harness.make("Cohort", "cohorts", harness.own("left"), {"parentName": harness.own("top")}).ok(201)
    harness.make("Cohort", "cohorts", harness.own("right"), {"parentName": harness.own("top")}).ok(201)
    harness.queue("q", {"name": "f", "cpu": 1}, cohort="left")
    harness.queue("r", {"name": "f", "cpu": 1}, cohort="right", preemption={"reclaimWithinCohort": "Any"})
    harness.job("a", "q", cpu=5).ok(201)
    harness.wait_admitted("a")
    harness.job("b", "r", cpu=1).ok(201)
    harness.wait_admitted("b")
    harness.wait_pending("a", "more needed")
    harness.settles("cohort_above", lambda: harness.picture("a", "b"))


def test_quota_is_reclaimed(harness: KueueHarness) -> None:
    harness.queue("q", {"name": "f", "cpu": 2}, cohort="all", preemption={"reclaimWithinCohort": "Any"})
    harness.queue("r", {"name": "f", "cpu": 2}, cohort="all")
    harness.job("a", "r", cpu=2).ok(201)
    harness.wait_admitted("a")
    harness.tick()
    harness.job("b", "r", cpu=1).ok(201)
    harness.wait_admitted("b")
    harness.job("c", "q", cpu=2).ok(201)
    harness.wait_admitted("c")
    harness.wait_pending("b", "more needed")
    harness.settles("reclaimed", lambda: harness.picture("a", "b", "c"))


def test_preemption_while_borrowing(harness: KueueHarness) -> None:
    harness.priority("high", 100)
    policy = {"reclaimWithinCohort": "LowerPriority", "borrowWithinCohort": {"policy": "LowerPriority"}}
    harness.queue("q", {"name": "f", "cpu": 1}, cohort="all", preemption=policy)
    harness.queue("r", {"name": "f", "cpu": 1}, cohort="all")
    harness.queue("s", {"name": "f", "cpu": 2}, cohort="all")
    harness.job("a", "r", cpu=3).ok(201)
    harness.wait_admitted("a")
    harness.job("b", "q", cpu=2, priority="high").ok(201)
    harness.wait_admitted("b")
    harness.wait_pending("a", "more needed")
    harness.settles("while_borrowing", lambda: harness.picture("a", "b"))


def test_next_flavor_is_used(harness: KueueHarness) -> None:
    harness.flavor("one", nodeLabels={"pool": "one"})
    harness.flavor("two", nodeLabels={"pool": "two"}, tolerations=[{"key": "two", "operator": "Exists"}])
    harness.queue("q", {"name": "one", "cpu": 1}, {"name": "two", "cpu": 2})
    for name in "abc":
        harness.job(name, "q", pod={"nodeSelector": {"zone": "z"}}).ok(201)
        harness.wait_admitted(name)
    harness.settles("flavors", lambda: harness.picture("a", "b", "c"))
    harness.until(lambda: len(harness.events("QuotaReserved")) == 3, "events")
    harness.settles("flavors_told", lambda: harness.events("QuotaReserved"))
    harness.job("d", "q").ok(201)
    harness.wait_pending("d", "more needed")
    harness.settles("flavors_used_up", lambda: harness.picture("d"))


def test_node_selector_selects_flavor(harness: KueueHarness) -> None:
    harness.flavor("one", nodeLabels={"pool": "one"})
    harness.flavor("two", nodeLabels={"pool": "two"})
    harness.queue("q", {"name": "one", "cpu": 4}, {"name": "two", "cpu": 2})
    harness.job("a", "q", pod={"nodeSelector": {"pool": "two"}}).ok(201)
    harness.wait_admitted("a")
    expression = {"key": "pool", "operator": "NotIn", "values": ["one"]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    harness.job("b", "q", pod={"affinity": affinity}).ok(201)
    harness.wait_admitted("b")
    harness.job("c", "q", pod={"nodeSelector": {"pool": "three"}}).ok(201)
    harness.wait_pending("c", "affinity")
    harness.settles("affinity", lambda: harness.picture("a", "b", "c"))


def test_flavor_taints(harness: KueueHarness) -> None:
    taint = {"key": "spot", "value": "yes", "effect": "NoSchedule"}
    harness.flavor("spot", nodeTaints=[taint])
    harness.queue("q", {"name": "spot", "cpu": 4})
    harness.job("a", "q").ok(201)
    harness.wait_pending("a", "taint")
    harness.job("b", "q", pod={"tolerations": [{"key": "spot", "operator": "Exists"}]}).ok(201)
    harness.wait_admitted("b")
    harness.settles("taints", lambda: harness.picture("a", "b"))


def test_next_flavor_before_borrowing(harness: KueueHarness) -> None:
    fungibility = {"whenCanBorrow": "TryNextFlavor"}
    harness.queue("q", {"name": "one", "cpu": 1}, {"name": "two", "cpu": 4}, cohort="all", flavorFungibility=fungibility)
    harness.queue("r", {"name": "one", "cpu": 4}, cohort="all")
    harness.job("a", "q", cpu=2).ok(201)
    harness.wait_admitted("a")
    harness.settles("rather_next", lambda: harness.picture("a"))


def test_preemption_before_next_flavor(harness: KueueHarness) -> None:
    harness.priority("high", 100)
    policy = {"withinClusterQueue": "LowerPriority"}
    fungibility = {"whenCanPreempt": "MayStopSearch"}
    harness.queue("q", {"name": "one", "cpu": 1}, {"name": "two", "cpu": 4}, preemption=policy, flavorFungibility=fungibility)
    harness.job("a", "q").ok(201)
    harness.wait_admitted("a")
    harness.job("b", "q", priority="high").ok(201)
    harness.wait_admitted("b")
    harness.wait_admitted("a")
    harness.until(lambda: harness.condition("a", "Evicted").get("status") == "False", "a is back")
    harness.settles("rather_preempt", lambda: harness.picture("a", "b"))
