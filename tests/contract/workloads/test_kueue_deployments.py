"""Deployments in Kueue's queues: each of their pods waits for its own quota."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.kueue import PRIORITY, QUEUE
from tests.support.kueue_pods import PodDesk

if TYPE_CHECKING:
    from tests.support.clusters import Cluster
    from tests.support.kueue_settings import Settings

CLUSTER = "pods"
PODS = True


@pytest.fixture
def desk(cluster: Cluster, kueue: Settings, ns: str) -> PodDesk:
    return PodDesk(cluster, ns)


def _free(desk: PodDesk) -> int:
    return sum(not pod["spec"].get("schedulingGates") for pod in desk.pods().values())


def test_its_pods_wait(desk: PodDesk) -> None:
    desk.priority("high", 100)
    desk.queue("q", {"name": "f", "cpu": 2})
    made = desk.deployment("d", replicas=3, **{PRIORITY: desk.own("high")}).ok(201).json
    desk.until(lambda: len(desk.workloads()) == 3, "a Workload for each pod")
    desk.until(lambda: _free(desk) == 2, "two are let go")
    waiting = next(name for name, pod in desk.pods().items() if pod["spec"].get("schedulingGates"))
    desk.until_waits(waiting, "more needed")
    template = made["spec"]["template"]["metadata"]
    kept = {key: value for key, value in desk.get_pod(waiting)["metadata"]["labels"].items() if key != "pod-template-hash"}
    desk.settles("deployment", lambda: {"template": template, "labels": kept, "workload": desk.pod_workload(waiting)})
    desk.api.patch(desk.deployments("d"), {"spec": {"replicas": 2}}).ok()
    desk.until(lambda: len(desk.workloads()) == 2, "the Workload of the third is gone")
    desk.until(lambda: len(desk.pods()) == 2, "and so is a pod")
    desk.until(lambda: _free(desk) == 2, "whichever it was, the two that stay are free")


def test_a_pod_that_is_preempted_is_made_again(desk: PodDesk) -> None:
    desk.priority("high", 100)
    desk.queue("q", {"name": "f", "cpu": 1}, preemption={"withinClusterQueue": "LowerPriority"})
    desk.deployment("d").ok(201)
    desk.until(lambda: _free(desk) == 1, "its pod is let go")
    first = next(iter(desk.pods()))
    desk.pod("h", priority="high").ok(201)
    desk.until_free("h")
    desk.until_gone(first)
    second = desk.until(lambda: next(iter(set(desk.pods()) - {"h", first}), ""), "another pod")
    desk.until_waits(second, "more needed")
    desk.phase("h", "Succeeded")
    desk.until_free(second)


def test_another_queue(desk: PodDesk) -> None:
    desk.queue("q", {"name": "f", "cpu": 0})
    desk.queue("r", {"name": "f", "cpu": 1})
    desk.deployment("d").ok(201)
    desk.until(lambda: len(desk.workloads()) == 1, "a Workload")
    changed = desk.api.patch(desk.deployments("d"), {"metadata": {"labels": {QUEUE: "r"}}}).ok().json
    desk.until(lambda: _free(desk) == 1, "it is let go")
    desk.compare("moved", changed["spec"]["template"]["metadata"])
    desk.phase(next(name for name, pod in desk.pods().items() if not pod["spec"].get("schedulingGates")), "Running")
    desk.until(lambda: desk.api.get(desk.deployments("d")).ok().json["status"].get("readyReplicas") == 1, "it is ready")
    answer = desk.api.patch(desk.deployments("d"), {"metadata": {"labels": {QUEUE: "q"}}})
    desk.compare("stays", [answer.status, answer.json.get("message")])
    answer = desk.api.patch(desk.deployments("d"), {"metadata": {"labels": {QUEUE: None}}})
    desk.compare("stays_in_one", [answer.status, answer.json.get("message")])


def test_the_default_queue(desk: PodDesk) -> None:
    desk.queue("default", {"name": "f", "cpu": 1})
    made = desk.deployment("d", "").ok(201).json
    desk.compare("default_of_deployment", [made["metadata"]["labels"], made["spec"]["template"]["metadata"]])
    desk.until(lambda: _free(desk) == 1, "it is let go")


def test_a_name_that_is_none(desk: PodDesk) -> None:
    answer = desk.deployment("d", "Not_A_Name")
    desk.compare("deployment_refused", [answer.status, answer.json.get("message")])


def test_no_queue(desk: PodDesk) -> None:
    made = desk.deployment("d", "").ok(201).json
    assert "annotations" not in made["spec"]["template"]["metadata"]
    pods = desk.until(lambda: list(desk.pods().values()), "its pod")
    assert "schedulingGates" not in pods[0]["spec"]
