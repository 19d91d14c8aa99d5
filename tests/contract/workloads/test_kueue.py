"""Kueue: who is admitted, with what, who has to wait and why, on the twin and on the real one."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.jobsets import Played, replicated
from tests.support.kueue import GROUP, PRIORITY, QUEUE

if TYPE_CHECKING:
    from tests.support.kueue import Desk

_TOLD = (
    "CreatedWorkload",
    "QuotaReserved",
    "Admitted",
    "Started",
    "Stopped",
    "Preempted",
    "EvictedDueToPreempted",
    "FinishedWorkload",
)


def test_a_job_is_admitted(desk: Desk) -> None:
    desk.queue("q", {"name": "f", "cpu": 2})
    desk.job("a", "q", cpu="500m", pods=3).ok(201)
    desk.until_runs("a")
    desk.until(lambda: desk.get_queue("q")["status"].get("admittedWorkloads") == 1, "the queue counts it")
    desk.until(lambda: len(desk.events(*_TOLD)) == 4, "events")
    seen = {**desk.picture("a"), "queue": desk.queue_status("q"), "local": desk.local_status("q"), "events": desk.events(*_TOLD)}
    desk.compare("admitted", seen)


def test_the_workload_is_the_job_written_otherwise(desk: Desk) -> None:
    desk.queue("q", {"name": "f", "cpu": 2})
    desk.job("a", "q").ok(201)
    desk.until_runs("a")
    workload = desk.workloads()["a"]
    metadata = {key: workload["metadata"][key] for key in ("name", "labels", "finalizers", "ownerReferences")}
    spec = {key: value for key, value in workload["spec"].items() if key != "podSets"}
    desk.compare(
        "workload",
        {"metadata": metadata, "spec": spec, "containers": workload["spec"]["podSets"][0]["template"]["spec"]["containers"]},
    )


def test_quota_is_used_up(desk: Desk) -> None:
    desk.queue("q", {"name": "f", "cpu": 2})
    desk.job("a", "q", cpu="1500m").ok(201)
    desk.until_runs("a")
    desk.job("b", "q", cpu=1).ok(201)
    desk.until_waits("b", "more needed")
    desk.compare("used_up", desk.picture("a", "b"))
    desk.finish("a")
    desk.until_runs("b")
    desk.until_is("a", "Finished")
    desk.compare("freed", desk.picture("a", "b"))


def test_more_than_there_ever_is(desk: Desk) -> None:
    desk.queue("q", {"name": "f", "cpu": 2, "memory": "1Gi"})
    desk.job("a", "q", requests={"cpu": 3, "memory": "1Mi"}).ok(201)
    desk.until_waits("a", "maximum capacity")
    desk.compare("too_much", desk.picture("a"))


def test_a_resource_that_the_queue_lacks(desk: Desk) -> None:
    desk.queue("q", {"name": "f", "cpu": 2})
    desk.job("a", "q", requests={"cpu": 1, "memory": "1Mi"}).ok(201)
    desk.until_waits("a", "unavailable")
    desk.compare("lacking", desk.picture("a"))


def test_a_queue_that_does_not_exist(desk: Desk) -> None:
    desk.job("a", "nowhere").ok(201)
    desk.until_waits("a", "doesn't exist")
    desk.compare("no_local_queue", desk.picture("a"))
    desk.local("nowhere", desk.own("q"))
    desk.until_waits("a", "ClusterQueue")
    desk.until(lambda: desk.local_status("nowhere").get("pendingWorkloads") == 1, "the LocalQueue counts it")
    desk.compare("no_cluster_queue", desk.local_status("nowhere"))
    desk.queue("q", {"name": "f", "cpu": 2}, local=False)
    desk.until_runs("a")


def test_a_flavor_that_does_not_exist(desk: Desk) -> None:
    groups = desk.groups({"name": "later", "cpu": 2})
    desk.queue("q", resourceGroups=groups)
    desk.job("a", "q").ok(201)
    desk.until_waits("a", "inactive")
    desk.until(lambda: desk.local_status("q")["conditions"].get("Active", [""])[0] == "False", "the LocalQueue knows")
    desk.compare(
        "no_flavor",
        {**desk.picture("a"), "queue": desk.queue_status("q")["conditions"], "local": desk.local_status("q")["conditions"]},
    )
    desk.flavor("later")
    desk.until_runs("a")


def test_strict_order(desk: Desk) -> None:
    desk.queue("q", {"name": "f", "cpu": 3}, queueingStrategy="StrictFIFO")
    desk.job("a", "q", cpu=2).ok(201)
    desk.until_runs("a")
    desk.job("b", "q", cpu=2).ok(201)
    desk.until_waits("b", "more needed")
    desk.tick()
    desk.job("c", "q", cpu=1).ok(201)
    desk.tick()
    desk.compare("strict", desk.picture("b", "c")["c"]["job"])
    desk.finish("a")
    desk.until_runs("b", "c")


def test_best_effort(desk: Desk) -> None:
    desk.queue("q", {"name": "f", "cpu": 3})
    desk.job("a", "q", cpu=2).ok(201)
    desk.until_runs("a")
    desk.job("b", "q", cpu=2).ok(201)
    desk.until_waits("b", "more needed")
    desk.job("c", "q", cpu=1).ok(201)
    desk.until_runs("c")
    desk.compare("best_effort", desk.picture("c"))


def test_the_most_important_first(desk: Desk) -> None:
    desk.priority("low", 10)
    desk.priority("high", 20)
    desk.queue("q", {"name": "f", "cpu": 1})
    desk.job("a", "q").ok(201)
    desk.until_runs("a")
    desk.job("b", "q", priority="low").ok(201)
    desk.job("c", "q", priority="high").ok(201)
    desk.until_waits("b", "more needed")
    desk.until_waits("c", "more needed")
    desk.finish("a")
    desk.until_runs("c")
    desk.compare("priorities", desk.picture("b", "c"))


def test_the_oldest_first(desk: Desk) -> None:
    desk.queue("q", {"name": "f", "cpu": 1})
    desk.job("a", "q").ok(201)
    desk.until_runs("a")
    for name in "bc":
        desk.job(name, "q").ok(201)
        desk.until_waits(name, "more needed")
        desk.tick()
    desk.finish("a")
    desk.until_runs("b")
    assert desk.get_job("c")["spec"]["suspend"]


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
    desk.until(lambda: any(row[2] == "Stopped" for row in desk.events(*_TOLD)), "b is stopped")
    desk.compare(
        "preempted", {**desk.picture("a", "b", "c"), "events": [row for row in desk.events(*_TOLD) if "Preempted" in row[2]]}
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
    desk.tick()
    desk.compare("newer_equals", {name: desk.get_job(name)["spec"]["suspend"] for name in "abc"})


def test_no_preemption_unless_allowed(desk: Desk) -> None:
    desk.priority("high", 100)
    desk.queue("q", {"name": "f", "cpu": 1})
    desk.job("a", "q").ok(201)
    desk.until_runs("a")
    desk.job("b", "q", priority="high").ok(201)
    desk.until_waits("b", "more needed")
    desk.compare("never", desk.picture("a", "b"))


def test_borrowing(desk: Desk) -> None:
    desk.queue("q", {"name": "f", "cpu": 2}, cohort="all")
    desk.queue("r", {"name": "f", "cpu": 2}, cohort="all")
    desk.job("a", "q", cpu=3).ok(201)
    desk.until_runs("a")
    desk.until(lambda: desk.get_queue("q")["status"].get("admittedWorkloads") == 1, "the queue counts it")
    desk.until(lambda: desk.events("QuotaReserved"), "the event")
    desk.compare("borrowing", {**desk.picture("a"), "queue": desk.queue_status("q"), "events": desk.events("QuotaReserved")})
    desk.job("b", "r", cpu=2).ok(201)
    desk.until_waits("b", "more needed")
    desk.compare("lent", desk.picture("b"))


def test_a_limit_on_borrowing(desk: Desk) -> None:
    desk.queue("q", {"name": "f", "cpu": [2, 1]}, cohort="all")
    desk.queue("r", {"name": "f", "cpu": 8}, cohort="all")
    desk.job("a", "q", cpu=4).ok(201)
    desk.until_waits("a", "maximum capacity")
    desk.job("b", "q", cpu=3).ok(201)
    desk.until_runs("b")
    desk.compare("borrowing_limit", desk.picture("a", "b"))


def test_a_limit_on_lending(desk: Desk) -> None:
    desk.queue("q", {"name": "f", "cpu": 2}, cohort="all")
    desk.queue("r", {"name": "f", "cpu": [4, None, 1]}, cohort="all")
    desk.job("a", "q", cpu=4).ok(201)
    desk.until_waits("a", "maximum capacity")
    desk.job("b", "q", cpu=3).ok(201)
    desk.until_runs("b")
    desk.job("c", "r", cpu=3).ok(201)
    desk.until_runs("c")
    desk.compare("lending_limit", desk.picture("a", "b", "c"))


def test_quota_of_the_cohort(desk: Desk) -> None:
    desk.flavor("f")
    desk.make("Cohort", "cohorts", desk.own("all"), {"resourceGroups": desk.groups({"name": "f", "cpu": 3})}).ok(201)
    desk.queue("q", {"name": "f", "cpu": 1}, cohort="all")
    desk.job("a", "q", cpu=4).ok(201)
    desk.until_runs("a")
    desk.compare("cohort", desk.picture("a"))


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
    desk.compare("circular", desk.picture("a"))
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
    desk.compare("cohort_above", desk.picture("a", "b"))


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
    desk.compare("reclaimed", desk.picture("a", "b", "c"))


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
    desk.compare("while_borrowing", desk.picture("a", "b"))


def test_the_next_flavor(desk: Desk) -> None:
    desk.flavor("one", nodeLabels={"pool": "one"})
    desk.flavor("two", nodeLabels={"pool": "two"}, tolerations=[{"key": "two", "operator": "Exists"}])
    desk.queue("q", {"name": "one", "cpu": 1}, {"name": "two", "cpu": 2})
    for name in "abc":
        desk.job(name, "q", pod={"nodeSelector": {"zone": "z"}}).ok(201)
        desk.until_runs(name)
    desk.compare("flavors", desk.picture("a", "b", "c"))
    desk.until(lambda: len(desk.events("QuotaReserved")) == 3, "events")
    desk.compare("flavors_told", desk.events("QuotaReserved"))
    desk.job("d", "q").ok(201)
    desk.until_waits("d", "more needed")
    desk.compare("flavors_used_up", desk.picture("d"))


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
    desk.compare("affinity", desk.picture("a", "b", "c"))


def test_taints_of_flavors(desk: Desk) -> None:
    taint = {"key": "spot", "value": "yes", "effect": "NoSchedule"}
    desk.flavor("spot", nodeTaints=[taint])
    desk.queue("q", {"name": "spot", "cpu": 4})
    desk.job("a", "q").ok(201)
    desk.until_waits("a", "taint")
    desk.job("b", "q", pod={"tolerations": [{"key": "spot", "operator": "Exists"}]}).ok(201)
    desk.until_runs("b")
    desk.compare("taints", desk.picture("a", "b"))


def test_rather_the_next_flavor_than_borrow(desk: Desk) -> None:
    fungibility = {"whenCanBorrow": "TryNextFlavor"}
    desk.queue("q", {"name": "one", "cpu": 1}, {"name": "two", "cpu": 4}, cohort="all", flavorFungibility=fungibility)
    desk.queue("r", {"name": "one", "cpu": 4}, cohort="all")
    desk.job("a", "q", cpu=2).ok(201)
    desk.until_runs("a")
    desk.compare("rather_next", desk.picture("a"))


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
    desk.compare("rather_preempt", desk.picture("a", "b"))


def test_admission_checks(desk: Desk) -> None:
    desk.check("look")
    strategy = {"admissionChecks": [{"name": desk.own("look")}]}
    desk.queue("q", {"name": "f", "cpu": 2}, admissionChecksStrategy=strategy)
    desk.job("a", "q").ok(201)
    desk.until_is("a", "QuotaReserved")
    desk.until(lambda: (desk.workloads()["a"]["status"].get("admissionChecks") or [{}])[0].get("state") == "Pending", "it is asked")
    desk.compare("check_pending", desk.picture("a"))
    update = {
        "name": "main",
        "nodeSelector": {"slice": "s1"},
        "labels": {"l": "1"},
        "tolerations": [{"key": "t", "operator": "Exists"}],
    }
    desk.set_check("a", "look", "Ready", podSetUpdates=[update])
    desk.until_runs("a")
    desk.compare("check_ready", desk.picture("a"))


def test_a_check_that_wants_another_try(desk: Desk) -> None:
    desk.check("look")
    strategy = {"admissionChecks": [{"name": desk.own("look")}]}
    desk.queue("q", {"name": "f", "cpu": 2}, admissionChecksStrategy=strategy)
    desk.job("a", "q").ok(201)
    desk.until_is("a", "QuotaReserved")
    desk.set_check("a", "look", "Retry")
    desk.until_is("a", "Requeued", reason="BackoffFinished")
    desk.until_is("a", "QuotaReserved")
    desk.compare("check_retry", desk.picture("a"))


def test_a_check_that_refuses(desk: Desk) -> None:
    desk.check("look")
    strategy = {"admissionChecks": [{"name": desk.own("look")}]}
    desk.queue("q", {"name": "f", "cpu": 2}, admissionChecksStrategy=strategy)
    desk.job("a", "q").ok(201)
    desk.until_is("a", "QuotaReserved")
    desk.set_check("a", "look", "Rejected")
    desk.until_is("a", "Evicted")
    desk.until_is("a", "QuotaReserved", "False")
    desk.until_is("a", "Requeued", "False")
    desk.compare("check_rejected", desk.picture("a"))


def test_a_queue_on_hold(desk: Desk) -> None:
    desk.queue("q", {"name": "f", "cpu": 2})
    desk.job("a", "q").ok(201)
    desk.until_runs("a")
    desk.change_queue("q", stopPolicy="Hold").ok()
    desk.until(lambda: desk.queue_status("q")["conditions"]["Active"][0] == "False", "it is stopped")
    desk.job("b", "q").ok(201)
    desk.until_waits("b", "inactive")
    desk.compare("hold", {**desk.picture("a", "b"), "queue": desk.queue_status("q")["conditions"]})
    desk.change_queue("q", stopPolicy="None").ok()
    desk.until_runs("b")


def test_a_queue_that_is_drained(desk: Desk) -> None:
    desk.queue("q", {"name": "f", "cpu": 2})
    desk.job("a", "q").ok(201)
    desk.until_runs("a")
    desk.change_queue("q", stopPolicy="HoldAndDrain").ok()
    desk.until_is("a", "Requeued", "False")
    desk.until(lambda: desk.get_job("a")["spec"]["suspend"], "a is stopped")
    desk.until_waits("a", "inactive")
    desk.compare("drained", desk.picture("a"))
    desk.change_queue("q", stopPolicy="None").ok()
    desk.until_runs("a")
    desk.compare("goes_on", desk.picture("a"))


def test_a_local_queue_that_is_drained(desk: Desk) -> None:
    desk.queue("q", {"name": "f", "cpu": 2})
    desk.job("a", "q").ok(201)
    desk.until_runs("a")
    desk.api.patch(desk.local_path("q"), {"spec": {"stopPolicy": "HoldAndDrain"}}).ok()
    desk.until_is("a", "Requeued", "False")
    desk.until_waits("a", "inactive")
    desk.compare("local_drained", {**desk.picture("a"), "local": desk.local_status("q")["conditions"]})
    desk.api.patch(desk.local_path("q"), {"spec": {"stopPolicy": "None"}}).ok()
    desk.until_runs("a")


def test_namespaces_that_are_not_welcome(desk: Desk) -> None:
    desk.queue("q", {"name": "f", "cpu": 2}, namespaceSelector={"matchLabels": {"team": "x"}})
    desk.job("a", "q").ok(201)
    desk.until_waits("a", "selector")
    desk.compare("selector", desk.picture("a"))
    desk.api.patch(f"/api/v1/namespaces/{desk.ns}", {"metadata": {"labels": {"team": "x"}}}).ok()
    desk.until_runs("a")


def test_deactivation(desk: Desk) -> None:
    desk.queue("q", {"name": "f", "cpu": 2})
    desk.job("a", "q").ok(201)
    desk.until_runs("a")
    desk.api.patch(desk.path("a"), {"spec": {"active": False}}).ok()
    desk.until_is("a", "Requeued", "False")
    desk.until_is("a", "QuotaReserved", "False")
    desk.until(lambda: desk.get_job("a")["spec"]["suspend"], "a is stopped")
    desk.compare("deactivated", desk.picture("a"))
    desk.api.patch(desk.path("a"), {"spec": {"active": True}}).ok()
    desk.until_runs("a")
    desk.compare("reactivated", desk.picture("a"))


def test_a_workload_that_is_deleted(desk: Desk) -> None:
    desk.queue("q", {"name": "f", "cpu": 2})
    desk.job("a", "q").ok(201)
    desk.until_runs("a")
    before = desk.workloads()["a"]["metadata"]["uid"]
    desk.api.delete(desk.path("a")).ok()
    desk.until(lambda: desk.workloads().get("a", {"metadata": {"uid": before}})["metadata"]["uid"] != before, "a new Workload")
    desk.until_runs("a")


def test_a_job_that_is_deleted(desk: Desk) -> None:
    desk.queue("q", {"name": "f", "cpu": 1})
    desk.job("a", "q").ok(201)
    desk.until_runs("a")
    desk.job("b", "q").ok(201)
    desk.until_waits("b", "more needed")
    desk.api.delete(f"/apis/batch/v1/namespaces/{desk.ns}/jobs/a", {"propagationPolicy": "Background"}).ok()
    desk.until_runs("b")
    desk.until(lambda: "a" not in desk.workloads(), "its Workload is gone")


def test_another_queue(desk: Desk) -> None:
    desk.queue("q", {"name": "f", "cpu": 1})
    desk.queue("r", {"name": "f", "cpu": 2})
    desk.job("a", "q", cpu=2).ok(201)
    desk.until_waits("a", "maximum capacity")
    desk.change_job("a", {"metadata": {"labels": {QUEUE: "r"}}}).ok()
    desk.until_runs("a")
    refused = desk.change_job("a", {"metadata": {"labels": {QUEUE: "q"}}})
    desk.compare("another_queue", {**desk.picture("a"), "refused": [refused.status, refused.json["message"]]})


def test_other_priorities(desk: Desk) -> None:
    desk.priority("low", 1)
    desk.priority("high", 100)
    desk.queue("q", {"name": "f", "cpu": 1}, preemption={"withinClusterQueue": "LowerPriority"})
    desk.job("a", "q", priority="low").ok(201)
    desk.until_runs("a")
    desk.job("b", "q", priority="low").ok(201)
    desk.until_waits("b", "more needed")
    desk.change_job("b", {"metadata": {"labels": {PRIORITY: desk.own("high")}}}).ok()
    desk.until_runs("b")
    desk.compare("other_priority", desk.picture("b"))


def test_fewer_pods(desk: Desk) -> None:
    desk.queue("q", {"name": "f", "cpu": 3})
    desk.job("a", "q", pods=5, annotations={"kueue.x-k8s.io/job-min-parallelism": "2"}).ok(201)
    desk.until_runs("a")
    desk.compare("partial", desk.picture("a"))


def test_pods_that_are_done(desk: Desk) -> None:
    desk.queue("q", {"name": "f", "cpu": 3})
    desk.job("a", "q", pods=3).ok(201)
    desk.until_runs("a")
    desk.job("b", "q", cpu=1).ok(201)
    desk.until_waits("b", "more needed")
    query = {"labelSelector": "batch.kubernetes.io/job-name=a"}
    core = f"/api/v1/namespaces/{desk.ns}/pods"
    pods = desk.until(lambda: len(found := desk.api.get(core, query).ok().json["items"]) == 3 and found, "pods")
    desk.api.patch(f"{core}/{pods[0]['metadata']['name']}/status", {"status": {"phase": "Succeeded"}}).ok()
    desk.until_runs("b")
    desk.compare("reclaimable", desk.picture("a", "b"))


def test_the_default_queue(desk: Desk) -> None:
    desk.queue("default", {"name": "f", "cpu": 3})
    spec = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}
    made = desk.api.post(
        f"/apis/batch/v1/namespaces/{desk.ns}/jobs", {"metadata": {"name": "a"}, "spec": {"template": {"spec": spec}}}
    )
    name = made.ok(201).json["metadata"]["labels"][QUEUE]
    desk.compare("default_queue", {"queue": name, "suspend": made.json["spec"]["suspend"]})
    desk.until_runs("a")


def test_what_is_in_use_stays(desk: Desk) -> None:
    desk.queue("q", {"name": "f", "cpu": 1})
    desk.job("a", "q").ok(201)
    desk.until_runs("a")
    desk.api.delete(f"{GROUP}/resourceflavors/{desk.own('f')}").ok()
    desk.api.delete(f"{GROUP}/clusterqueues/{desk.own('q')}").ok()
    desk.tick()
    seen = {"queue": desk.get_queue("q")["metadata"]["finalizers"]}
    desk.compare("in_use", seen)
    desk.finish("a")
    desk.until(lambda: desk.api.get(f"{GROUP}/clusterqueues/{desk.own('q')}").status == 404, "the queue is gone")
    desk.until(lambda: desk.api.get(f"{GROUP}/resourceflavors/{desk.own('f')}").status == 404, "the flavor is gone")


def test_a_jobset_is_admitted(desk: Desk) -> None:
    desk.flavor("f", nodeLabels={"pool": "one"})
    desk.queue("q", {"name": "f", "cpu": 8})
    js = Played(desk.api, desk.ns)
    pod = {"containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "500m"}}}]}
    js.create(replicated("a", 2, pods=2, pod=pod), replicated("b", pod=pod), labels={QUEUE: "q"}).ok(201)
    desk.until_is("js", "Admitted")
    js.until(lambda: not js.get()["spec"]["suspend"], "it is started")
    js.until_counted("a", active=2)
    workload = desk.workloads()["js"]
    counts = {pods["name"]: pods["count"] for pods in workload["spec"]["podSets"]}
    selectors = [one["template"]["spec"]["template"]["spec"].get("nodeSelector") for one in js.get()["spec"]["replicatedJobs"]]
    desk.compare("jobset", {"counts": counts, "admission": workload["status"]["admission"], "selectors": selectors})


def test_a_jobset_is_preempted(desk: Desk) -> None:
    desk.priority("high", 100)
    desk.flavor("f", nodeLabels={"pool": "one"})
    desk.queue("q", {"name": "f", "cpu": 2}, preemption={"withinClusterQueue": "LowerPriority"})
    js = Played(desk.api, desk.ns)
    pod = {"containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": 1}}}]}
    js.create(replicated("a", 2, pod=pod), labels={QUEUE: "q"}).ok(201)
    desk.until_is("js", "Admitted")
    js.until_counted("a", active=2)
    desk.job("b", "q", cpu=2, priority="high").ok(201)
    desk.until_runs("b")
    js.until_counted("a", suspended=2)
    selector = js.get()["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"].get("nodeSelector")
    desk.until_waits("js", "more needed")
    conditions = {one["type"]: [one["status"], one["reason"]] for one in desk.workloads()["js"]["status"]["conditions"]}
    desk.compare("jobset_preempted", {"selector": selector, "suspend": js.get()["spec"]["suspend"], "conditions": conditions})


def test_the_older_version(desk: Desk) -> None:
    desk.flavor("f")
    spec = {
        "cohort": desk.own("all"),
        "namespaceSelector": {},
        "resourceGroups": desk.groups({"name": "f", "cpu": 4}),
        "flavorFungibility": {"whenCanBorrow": "Borrow", "whenCanPreempt": "TryNextFlavor"},
    }
    old = GROUP.replace("v1beta2", "v1beta1")
    body = {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "ClusterQueue", "metadata": {"name": desk.own("q")}, "spec": spec}
    desk.api.post(f"{old}/clusterqueues", body).ok(201)
    desk.local("q", desk.own("q"))
    desk.priority("high", 7)
    desk.job("a", "q", priority="high").ok(201)
    desk.until_runs("a")
    shown = {
        version: desk.api.get(f"{home}/clusterqueues/{desk.own('q')}").ok().json["spec"]
        for version, home in (("old", old), ("new", GROUP))
    }
    workload = desk.api.get(desk.path("a").replace("v1beta2", "v1beta1")).ok().json["spec"]
    desk.compare("older", {**shown, "workload": {key: value for key, value in workload.items() if key != "podSets"}})


_BAD: dict[str, dict[str, Any]] = {
    "negative": {"flavors": [{"name": "f", "cpu": -1}]},
    "borrowing_without_cohort": {"flavors": [{"name": "f", "cpu": [1, 1]}]},
    "lending_without_cohort": {"flavors": [{"name": "f", "cpu": [1, None, 1]}]},
    "lends_more_than_it_has": {"flavors": [{"name": "f", "cpu": [1, None, 2]}], "spec": {"cohortName": "x"}},
    "flavor_twice": {"flavors": [{"name": "f", "cpu": 1}, {"name": "f", "cpu": 1}]},
    "policies_that_clash": {
        "flavors": [{"name": "f", "cpu": 1}],
        "spec": {"preemption": {"reclaimWithinCohort": "Never", "borrowWithinCohort": {"policy": "LowerPriority"}}},
    },
    "unknown_strategy": {"flavors": [{"name": "f", "cpu": 1}], "spec": {"queueingStrategy": "Fast"}},
    "no_flavors": {"flavors": [], "spec": {"resourceGroups": [{"coveredResources": ["cpu"], "flavors": []}]}},
}


@pytest.mark.parametrize("case", sorted(_BAD))
def test_queues_that_are_refused(desk: Desk, case: str) -> None:
    bad = _BAD[case]
    spec = {"resourceGroups": desk.groups(*bad["flavors"])} if bad["flavors"] else {}
    answer = desk.make("ClusterQueue", "clusterqueues", desk.own("q"), {**spec, **bad.get("spec", {})})
    desk.compare(f"refused_{case}", [answer.status, answer.json.get("reason"), answer.json["message"]])


_BAD_JOBS: dict[str, dict[str, Any]] = {
    "no_time": {"labels": {"kueue.x-k8s.io/max-exec-time-seconds": "0"}},
    "time_is_no_number": {"labels": {"kueue.x-k8s.io/max-exec-time-seconds": "soon"}},
    "prebuilt_is_no_name": {"labels": {"kueue.x-k8s.io/prebuilt-workload-name": "Not_A_Name"}},
    "least_is_no_number": {"annotations": {"kueue.x-k8s.io/job-min-parallelism": "some"}},
    "least_is_all": {"pods": 2, "annotations": {"kueue.x-k8s.io/job-min-parallelism": "2"}},
    "least_is_none": {"pods": 2, "annotations": {"kueue.x-k8s.io/job-min-parallelism": "0"}},
    "same_is_no_answer": {"annotations": {"kueue.x-k8s.io/job-completions-equal-parallelism": "maybe"}},
    "same_without_indexes": {"annotations": {"kueue.x-k8s.io/job-completions-equal-parallelism": "true"}},
}


@pytest.mark.parametrize("case", sorted(_BAD_JOBS))
def test_jobs_that_are_refused(desk: Desk, case: str) -> None:
    answer = desk.job("a", "q", **_BAD_JOBS[case])
    desk.compare(f"refused_job_{case}", [answer.status, answer.json.get("reason"), answer.json.get("message")])


def test_changes_of_a_running_job(desk: Desk) -> None:
    desk.queue("q", {"name": "f", "cpu": 3})
    desk.job("a", "q", pods=5, annotations={"kueue.x-k8s.io/job-min-parallelism": "2"}).ok(201)
    desk.until_runs("a")
    changes: dict[str, dict[str, Any]] = {
        "parallelism": {"spec": {"parallelism": 2}},
        "time": {"metadata": {"labels": {"kueue.x-k8s.io/max-exec-time-seconds": "5"}}},
        "prebuilt": {"metadata": {"labels": {"kueue.x-k8s.io/prebuilt-workload-name": "w"}}},
        "least": {"metadata": {"annotations": {"kueue.x-k8s.io/job-min-parallelism": "9"}}},
    }
    seen = {}
    for name, body in changes.items():
        answer = desk.change_job("a", body)
        seen[name] = [answer.status, answer.json.get("message")]
    desk.compare("changes_refused", seen)


def test_the_default_queue_stays(desk: Desk) -> None:
    desk.queue("default", {"name": "f", "cpu": 0})
    desk.job("a", "default").ok(201)
    answer = desk.change_job("a", {"metadata": {"labels": {QUEUE: None}}})
    desk.compare("default_stays", [answer.status, answer.json.get("message")])


def test_a_queue_name_that_is_none(desk: Desk) -> None:
    answer = desk.job("a", "Not_A_Name")
    desk.compare("bad_queue_name", [answer.status, answer.json.get("reason"), answer.json["message"]])
