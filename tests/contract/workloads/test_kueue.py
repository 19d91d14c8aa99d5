"""Kueue: who is admitted, with what, in which order, and why others have to wait."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.support.kueue import TOLD

if TYPE_CHECKING:
    from tests.support.kueue import Desk

CLUSTER = "kueue"


def test_a_job_is_admitted(desk: Desk) -> None:
    desk.queue("q", {"name": "f", "cpu": 2})
    desk.job("a", "q", cpu="500m", pods=3).ok(201)
    desk.until_runs("a")
    desk.until(lambda: desk.get_queue("q")["status"].get("admittedWorkloads") == 1, "the queue counts it")
    desk.until(lambda: len(desk.events(*TOLD)) == 4, "events")

    def look() -> dict[str, Any]:
        states = {"queue": desk.queue_status("q"), "local": desk.local_status("q")}
        return {**desk.picture("a"), **states, "events": desk.events(*TOLD)}

    desk.settles("admitted", look)


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
    desk.settles("used_up", lambda: desk.picture("a", "b"))
    desk.finish("a")
    desk.until_runs("b")
    desk.until_is("a", "Finished")
    desk.settles("freed", lambda: desk.picture("a", "b"))


def test_more_than_there_ever_is(desk: Desk) -> None:
    desk.queue("q", {"name": "f", "cpu": 2, "memory": "1Gi"})
    desk.job("a", "q", requests={"cpu": 3, "memory": "1Mi"}).ok(201)
    desk.until_waits("a", "maximum capacity")
    desk.settles("too_much", lambda: desk.picture("a"))


def test_a_resource_that_the_queue_lacks(desk: Desk) -> None:
    desk.queue("q", {"name": "f", "cpu": 2})
    desk.job("a", "q", requests={"cpu": 1, "memory": "1Mi"}).ok(201)
    desk.until_waits("a", "unavailable")
    desk.settles("lacking", lambda: desk.picture("a"))


def test_a_queue_that_does_not_exist(desk: Desk) -> None:
    desk.job("a", "nowhere").ok(201)
    desk.until_waits("a", "doesn't exist")
    desk.settles("no_local_queue", lambda: desk.picture("a"))
    desk.local("nowhere", desk.own("q"))
    desk.until_waits("a", "ClusterQueue")
    desk.until(lambda: desk.local_status("nowhere").get("pendingWorkloads") == 1, "the LocalQueue counts it")
    desk.settles("no_cluster_queue", lambda: desk.local_status("nowhere"))
    desk.queue("q", {"name": "f", "cpu": 2}, local=False)
    desk.until_runs("a")


def test_a_flavor_that_does_not_exist(desk: Desk) -> None:
    groups = desk.groups({"name": "later", "cpu": 2})
    desk.queue("q", resourceGroups=groups)
    desk.job("a", "q").ok(201)
    desk.until_waits("a", "inactive")
    desk.until(lambda: desk.local_status("q")["conditions"].get("Active", [""])[0] == "False", "the LocalQueue knows")
    desk.settles(
        "no_flavor",
        lambda: {**desk.picture("a"), "queue": desk.queue_status("q")["conditions"], "local": desk.local_status("q")["conditions"]},
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
    desk.settles("best_effort", lambda: desk.picture("c"))


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
    desk.settles("priorities", lambda: desk.picture("b", "c"))


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
