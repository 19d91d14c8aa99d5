"""Kueue: which workloads are admitted, with which flavors, in which order, and why others are pending."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.kueue import TOLD

if TYPE_CHECKING:
    from tests.support.kueue import KueueHarness

pytestmark = pytest.mark.controllers
CLUSTER = "kueue"


def test_job_is_admitted(harness: KueueHarness) -> None:
    harness.queue("q", {"name": "f", "cpu": 2})
    harness.job("a", "q", cpu="500m", pods=3).ok(201)
    harness.wait_admitted("a")
    harness.until(lambda: harness.get_queue("q")["status"].get("admittedWorkloads") == 1, "the queue counts it")
    harness.until(lambda: len(harness.events(*TOLD)) == 4, "events")

    def find() -> dict[str, Any]:
        states = {"queue": harness.queue_status("q"), "local": harness.local_status("q")}
        return {**harness.picture("a"), **states, "events": harness.events(*TOLD)}

    harness.settles("admitted", find)


def test_workload_matches_job(harness: KueueHarness) -> None:
    harness.queue("q", {"name": "f", "cpu": 2})
    harness.job("a", "q").ok(201)
    harness.wait_admitted("a")
    workload = harness.workloads()["a"]
    metadata = {key: workload["metadata"][key] for key in ("name", "labels", "finalizers", "ownerReferences")}
    spec = {key: value for key, value in workload["spec"].items() if key != "podSets"}
    harness.compare(
        "workload",
        {"metadata": metadata, "spec": spec, "containers": workload["spec"]["podSets"][0]["template"]["spec"]["containers"]},
    )


def test_job_waits_for_used_quota(harness: KueueHarness) -> None:
    harness.queue("q", {"name": "f", "cpu": 2})
    harness.job("a", "q", cpu="1500m").ok(201)
    harness.wait_admitted("a")
    harness.job("b", "q", cpu=1).ok(201)
    harness.wait_pending("b", "more needed")
    harness.settles("used_up", lambda: harness.picture("a", "b"))
    harness.finish("a")
    harness.wait_admitted("b")
    harness.wait_condition("a", "Finished")
    harness.settles("freed", lambda: harness.picture("a", "b"))


def test_request_above_total_quota(harness: KueueHarness) -> None:
    harness.queue("q", {"name": "f", "cpu": 2, "memory": "1Gi"})
    harness.job("a", "q", requests={"cpu": 3, "memory": "1Mi"}).ok(201)
    harness.wait_pending("a", "maximum capacity")
    harness.settles("too_much", lambda: harness.picture("a"))


def test_resource_without_quota(harness: KueueHarness) -> None:
    harness.queue("q", {"name": "f", "cpu": 2})
    harness.job("a", "q", requests={"cpu": 1, "memory": "1Mi"}).ok(201)
    harness.wait_pending("a", "unavailable")
    harness.settles("lacking", lambda: harness.picture("a"))


def test_missing_local_queue(harness: KueueHarness) -> None:
    harness.job("a", "nowhere").ok(201)
    harness.wait_pending("a", "doesn't exist")
    harness.settles("no_local_queue", lambda: harness.picture("a"))
    harness.local("nowhere", harness.own("q"))
    harness.wait_pending("a", "ClusterQueue")
    harness.until(lambda: harness.local_status("nowhere").get("pendingWorkloads") == 1, "the LocalQueue counts it")
    harness.settles("no_cluster_queue", lambda: harness.local_status("nowhere"))
    harness.queue("q", {"name": "f", "cpu": 2}, local=False)
    harness.wait_admitted("a")


def test_missing_flavor(harness: KueueHarness) -> None:
    groups = harness.groups({"name": "later", "cpu": 2})
    harness.queue("q", resourceGroups=groups)
    harness.job("a", "q").ok(201)
    harness.wait_pending("a", "inactive")
    harness.until(
        lambda: harness.local_status("q")["conditions"].get("Active", [""])[0] == "False", "the LocalQueue has the status"
    )
    harness.settles(
        "no_flavor",
        lambda: {
            **harness.picture("a"),
            "queue": harness.queue_status("q")["conditions"],
            "local": harness.local_status("q")["conditions"],
        },
    )
    harness.flavor("later")
    harness.wait_admitted("a")


def test_strict_fifo(harness: KueueHarness) -> None:
    harness.queue("q", {"name": "f", "cpu": 3}, queueingStrategy="StrictFIFO")
    harness.job("a", "q", cpu=2).ok(201)
    harness.wait_admitted("a")
    harness.job("b", "q", cpu=2).ok(201)
    harness.wait_pending("b", "more needed")
    harness.tick()
    harness.job("c", "q", cpu=1).ok(201)
    harness.tick()
    harness.compare("strict", harness.picture("b", "c")["c"]["job"])
    harness.finish("a")
    harness.wait_admitted("b", "c")


def test_best_effort_fifo(harness: KueueHarness) -> None:
    harness.queue("q", {"name": "f", "cpu": 3})
    harness.job("a", "q", cpu=2).ok(201)
    harness.wait_admitted("a")
    harness.job("b", "q", cpu=2).ok(201)
    harness.wait_pending("b", "more needed")
    harness.job("c", "q", cpu=1).ok(201)
    harness.wait_admitted("c")
    harness.settles("best_effort", lambda: harness.picture("c"))


def test_highest_priority_is_admitted_first(harness: KueueHarness) -> None:
    harness.priority("low", 10)
    harness.priority("high", 20)
    harness.queue("q", {"name": "f", "cpu": 1})
    harness.job("a", "q").ok(201)
    harness.wait_admitted("a")
    harness.job("b", "q", priority="low").ok(201)
    harness.job("c", "q", priority="high").ok(201)
    harness.wait_pending("b", "more needed")
    harness.wait_pending("c", "more needed")
    harness.finish("a")
    harness.wait_admitted("c")
    harness.settles("priorities", lambda: harness.picture("b", "c"))


def test_oldest_is_admitted_first(harness: KueueHarness) -> None:
    harness.queue("q", {"name": "f", "cpu": 1})
    harness.job("a", "q").ok(201)
    harness.wait_admitted("a")
    for name in "bc":
        harness.job(name, "q").ok(201)
        harness.wait_pending(name, "more needed")
        harness.tick()
    harness.finish("a")
    harness.wait_admitted("b")
    assert harness.get_job("c")["spec"]["suspend"]
