"""PodDisruptionBudgets: their counters, and the evictions they allow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.polling import eventually
from tests.support.workloads import WorkloadHarness, template

if TYPE_CHECKING:
    from tests.support.clusters import Cluster

pytestmark = pytest.mark.controllers
CLUSTER = "controllers"
Object = dict[str, Any]
LABELS = {"app": "web"}


@pytest.fixture
def workloads(cluster: Cluster, ns: str) -> WorkloadHarness:
    return WorkloadHarness(cluster, ns)


def budget(workloads: WorkloadHarness, **spec: Any) -> None:
    workloads.create("PodDisruptionBudget", "keep", {"selector": {"matchLabels": LABELS}, **spec})


def three_ready(workloads: WorkloadHarness) -> list[Object]:
    body = {"replicas": 3, "selector": {"matchLabels": LABELS}, "template": template(labels=LABELS)}
    workloads.create("ReplicaSet", "web", body)
    return workloads.all_ready(3)


def until_status(workloads: WorkloadHarness, **expected: int) -> Object:
    def matches(obj: Object) -> bool:
        status = obj.get("status", {})
        return status.get("observedGeneration") == 1 and all(status[name] == number for name, number in expected.items())

    return workloads.until("PodDisruptionBudget", "keep", matches, f"{expected}")["status"]  # type: ignore[no-any-return]


def test_budget_without_pods(workloads: WorkloadHarness) -> None:
    budget(workloads, minAvailable=1)
    status = until_status(workloads, expectedPods=0)
    (event,) = workloads.events("PodDisruptionBudget", "keep", "NoPods")
    assert (event["by"], event["type"], event["message"]) == ("controllermanager", "Normal", "No matching pods found")
    workloads.check("disruption", "nothing", status)


@pytest.mark.parametrize(
    ("spec", "needed"),
    [({"minAvailable": 2}, 2), ({"minAvailable": "50%"}, 2), ({"maxUnavailable": 1}, 2), ({"maxUnavailable": "50%"}, 1)],
)
def test_budget_counts_pods(workloads: WorkloadHarness, spec: Object, needed: int) -> None:
    three_ready(workloads)
    budget(workloads, **spec)
    status = until_status(workloads, currentHealthy=3, desiredHealthy=needed)
    workloads.check("disruption", f"{spec}", status)


def test_budget_with_too_few_healthy_pods(workloads: WorkloadHarness) -> None:
    pods = three_ready(workloads)
    budget(workloads, minAvailable=3)
    until_status(workloads, currentHealthy=3, disruptionsAllowed=0)
    workloads.phase(pods[0], "Running")
    workloads.check("disruption", "too few", until_status(workloads, currentHealthy=2))


def test_eviction_respects_budget(workloads: WorkloadHarness) -> None:
    pods = three_ready(workloads)
    budget(workloads, minAvailable=2)
    until_status(workloads, disruptionsAllowed=1)
    first, second = (pod["metadata"]["name"] for pod in pods[:2])
    evict = {"apiVersion": "policy/v1", "kind": "Eviction"}
    workloads.api.post(workloads.path("Pod", first) + "/eviction", {**evict, "metadata": {"name": first}}).ok(201)
    eventually(lambda: workloads.gone("Pod", first), what="the first pod is deleted")
    response = workloads.api.post(workloads.path("Pod", second) + "/eviction", {**evict, "metadata": {"name": second}})
    response.refused(429, "TooManyRequests", "Cannot evict pod as it would violate the pod's disruption budget.")
    until_status(workloads, disruptionsAllowed=0, currentHealthy=2, expectedPods=3)
    workloads.all_ready(3)
    until_status(workloads, disruptionsAllowed=1)


@pytest.mark.parametrize(
    ("spec", "goes"),
    [
        ({"maxUnavailable": 1}, False),  # one pod, none needs to be healthy: a pod that is not ready is not evicted all the same
        ({"maxUnavailable": 1, "unhealthyPodEvictionPolicy": "IfHealthyBudget"}, False),
        ({"maxUnavailable": 1, "unhealthyPodEvictionPolicy": "AlwaysAllow"}, True),
    ],
)
def test_eviction_of_only_pod_while_starting(workloads: WorkloadHarness, spec: Object, goes: bool) -> None:
    body = {"replicas": 1, "selector": {"matchLabels": LABELS}, "template": template(labels=LABELS)}
    workloads.create("ReplicaSet", "web", body)
    [pod] = workloads.all_ready(1)
    workloads.phase(pod, "Running")
    budget(workloads, **spec)
    until_status(workloads, currentHealthy=0, desiredHealthy=0, expectedPods=1)
    name = pod["metadata"]["name"]
    evict = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    response = workloads.api.post(workloads.path("Pod", name) + "/eviction", evict)
    if goes:
        response.ok(201)
    else:
        response.refused(429, "TooManyRequests", "Cannot evict pod as it would violate the pod's disruption budget.")


def test_eviction_of_unready_pod_with_enough_healthy_pods(workloads: WorkloadHarness) -> None:
    pods = three_ready(workloads)
    workloads.phase(pods[0], "Running")
    budget(workloads, minAvailable=2)
    until_status(workloads, currentHealthy=2, desiredHealthy=2, disruptionsAllowed=0)
    name = pods[0]["metadata"]["name"]
    evict = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    workloads.api.post(workloads.path("Pod", name) + "/eviction", evict).ok(201)
