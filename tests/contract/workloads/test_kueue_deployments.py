"""Deployments in Kueue's queues: each pod waits for its own quota."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.kueue import PRIORITY, QUEUE
from tests.support.kueue_pods import KueuePodHarness

if TYPE_CHECKING:
    from tests.support.clusters import Cluster
    from tests.support.kueue_install import Settings

CLUSTER = "pods"
PODS = True


@pytest.fixture
def harness(cluster: Cluster, kueue: Settings, ns: str) -> KueuePodHarness:
    return KueuePodHarness(cluster, ns)


def _ungated(harness: KueuePodHarness) -> int:
    return sum(not pod["spec"].get("schedulingGates") for pod in harness.pods().values())


def test_pods_wait_for_quota(harness: KueuePodHarness) -> None:
    harness.priority("high", 100)
    harness.queue("q", {"name": "f", "cpu": 2})
    created = harness.deployment("d", replicas=3, **{PRIORITY: harness.own("high")}).ok(201).json
    harness.until(lambda: len(harness.workloads()) == 3, "a Workload for each pod")
    harness.until(lambda: _ungated(harness) == 2, "two have no gate")
    waiting = next(name for name, pod in harness.pods().items() if pod["spec"].get("schedulingGates"))
    harness.wait_pending(waiting, "more needed")
    template = created["spec"]["template"]["metadata"]
    kept = {key: value for key, value in harness.get_pod(waiting)["metadata"]["labels"].items() if key != "pod-template-hash"}
    harness.settles("deployment", lambda: {"template": template, "labels": kept, "workload": harness.pod_workload(waiting)})
    harness.api.patch(harness.deployments("d"), {"spec": {"replicas": 2}}).ok()
    harness.until(lambda: len(harness.workloads()) == 2, "the Workload of the third is deleted")
    harness.until(lambda: len(harness.pods()) == 2, "and so is a pod")
    harness.until(lambda: _ungated(harness) == 2, "whichever it was, the two that stay are free")


def test_preempted_pod_is_recreated(harness: KueuePodHarness) -> None:
    harness.priority("high", 100)
    harness.queue("q", {"name": "f", "cpu": 1}, preemption={"withinClusterQueue": "LowerPriority"})
    harness.deployment("d").ok(201)
    harness.until(lambda: _ungated(harness) == 1, "its pod has no gate")
    first = next(iter(harness.pods()))
    harness.pod("h", priority="high").ok(201)
    harness.wait_ungated("h")
    harness.wait_deleted(first)
    second = harness.until(lambda: next(iter(set(harness.pods()) - {"h", first}), ""), "another pod")
    harness.wait_pending(second, "more needed")
    harness.phase("h", "Succeeded")
    harness.wait_ungated(second)


def test_queue_of_deployment_changes(harness: KueuePodHarness) -> None:
    harness.queue("q", {"name": "f", "cpu": 0})
    harness.queue("r", {"name": "f", "cpu": 1})
    harness.deployment("d").ok(201)
    harness.until(lambda: len(harness.workloads()) == 1, "a Workload")
    changed = harness.api.patch(harness.deployments("d"), {"metadata": {"labels": {QUEUE: "r"}}}).ok().json
    harness.until(lambda: _ungated(harness) == 1, "it has no gate")
    harness.compare("moved", changed["spec"]["template"]["metadata"])
    harness.phase(next(name for name, pod in harness.pods().items() if not pod["spec"].get("schedulingGates")), "Running")
    harness.until(lambda: harness.api.get(harness.deployments("d")).ok().json["status"].get("readyReplicas") == 1, "it is ready")
    response = harness.api.patch(harness.deployments("d"), {"metadata": {"labels": {QUEUE: "q"}}})
    harness.compare("stays", [response.status, response.json.get("message")])
    answer = harness.api.patch(harness.deployments("d"), {"metadata": {"labels": {QUEUE: None}}})
    harness.compare("stays_in_one", [answer.status, answer.json.get("message")])


def test_default_local_queue(harness: KueuePodHarness) -> None:
    harness.queue("default", {"name": "f", "cpu": 1})
    created = harness.deployment("d", "").ok(201).json
    harness.compare("default_of_deployment", [created["metadata"]["labels"], created["spec"]["template"]["metadata"]])
    harness.until(lambda: _ungated(harness) == 1, "it has no gate")


def test_invalid_queue_name_is_rejected(harness: KueuePodHarness) -> None:
    answer = harness.deployment("d", "Not_A_Name")
    harness.compare("deployment_refused", [answer.status, answer.json.get("message")])


def test_deployment_without_queue(harness: KueuePodHarness) -> None:
    created = harness.deployment("d", "").ok(201).json
    assert "annotations" not in created["spec"]["template"]["metadata"]
    pods = harness.until(lambda: list(harness.pods().values()), "its pod")
    assert "schedulingGates" not in pods[0]["spec"]
