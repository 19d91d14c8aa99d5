"""ReplicaSets: sizes, ownership, and the order of deletion."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.polling import eventually
from tests.support.workloads import WorkloadHarness, summary, template

if TYPE_CHECKING:
    from tests.support.clusters import Cluster

pytestmark = pytest.mark.controllers
CLUSTER = "controllers"
Object = dict[str, Any]
LABELS = {"app": "web"}


@pytest.fixture
def workloads(cluster: Cluster, ns: str) -> WorkloadHarness:
    return WorkloadHarness(cluster, ns)


def replica_set(workloads: WorkloadHarness, replicas: int, labels: Object | None = None, **spec: Any) -> Object:
    body = {"replicas": replicas, "selector": {"matchLabels": LABELS}, "template": template(labels=labels or LABELS), **spec}
    return workloads.create("ReplicaSet", "web", body)


def until_status(workloads: WorkloadHarness, **expected: int) -> Object:
    def matches(obj: Object) -> bool:
        return all(obj["status"].get(name, 0) == number for name, number in expected.items())

    return workloads.until("ReplicaSet", "web", matches, f"{expected}")


def test_replicaset_creates_pods(workloads: WorkloadHarness) -> None:
    replica_set(workloads, 2)
    pods = workloads.all_ready(2)
    result = until_status(workloads, availableReplicas=2)
    reported = workloads.events("ReplicaSet", "web", "SuccessfulCreate", 2)
    workloads.check(
        "replicasets", "two pods", {"status": result["status"], "pods": [summary(pod) for pod in pods], "events": reported}
    )


def test_scale_down_order(workloads: WorkloadHarness) -> None:
    replica_set(workloads, 3)
    first, second, third = workloads.pods(3)
    workloads.phase(second, "Running", ready=True)
    until_status(workloads, readyReplicas=1)
    workloads.patch("ReplicaSet", "web", {"spec": {"replicas": 1}})
    (left,) = workloads.pods(1)
    assert left["metadata"]["name"] == second["metadata"]["name"]
    workloads.settles("replicasets", "scaled down", lambda: {"status": workloads.get("ReplicaSet", "web")["status"]})
    reported = workloads.events("ReplicaSet", "web", "SuccessfulDelete", 2)
    deleted = {event["message"] for event in reported if event["reason"] == "SuccessfulDelete"}
    assert deleted == {f"Deleted pod: {pod['metadata']['name']}" for pod in (first, third)}


def test_deletion_cost(workloads: WorkloadHarness) -> None:
    replica_set(workloads, 3)
    pods = workloads.all_ready(3)
    until_status(workloads, readyReplicas=3)
    cheap = pods[1]["metadata"]["name"]
    workloads.patch("Pod", cheap, {"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-5"}}})
    workloads.wait_synced()
    workloads.patch("ReplicaSet", "web", {"spec": {"replicas": 2}})
    eventually(lambda: workloads.gone("Pod", cheap), what="the cheapest pod is deleted")


def test_finished_pods_are_replaced_and_kept(workloads: WorkloadHarness) -> None:
    replica_set(workloads, 1)
    (pod,) = workloads.pods(1)
    workloads.phase(pod, "Failed", 1)
    (other,) = workloads.pods(1)
    assert other["metadata"]["name"] != pod["metadata"]["name"]
    assert len(workloads.items("Pod")) == 2


def test_terminating_pods_are_counted(workloads: WorkloadHarness) -> None:
    replica_set(workloads, 1, template=template(labels=LABELS, nodeName=workloads.nowhere))
    (pod,) = workloads.pods(1)
    workloads.delete("Pod", pod["metadata"]["name"])
    workloads.settles("replicasets", "one is terminating", lambda: {"status": workloads.get("ReplicaSet", "web")["status"]})
    workloads.remove(pod)


def test_adoption_and_release(workloads: WorkloadHarness) -> None:
    stray = {"metadata": {"name": "stray", "labels": LABELS}, "spec": template()["spec"]}
    workloads.api.post(workloads.path("Pod"), stray).ok(201)
    workloads.wait_synced()
    replica_set(workloads, 1)
    owner = eventually(lambda: workloads.get("Pod", "stray")["metadata"].get("ownerReferences"), what="adopted")
    assert [(ref["kind"], ref["name"], ref["controller"], ref["blockOwnerDeletion"]) for ref in owner] == [
        ("ReplicaSet", "web", True, True)
    ]
    workloads.patch("Pod", "stray", {"metadata": {"labels": {"app": "free"}}})
    eventually(lambda: "ownerReferences" not in workloads.get("Pod", "stray")["metadata"], what="released")
    workloads.pods(1, "app=web")


def test_surplus_orphans_are_deleted(workloads: WorkloadHarness) -> None:
    replica_set(workloads, 1)
    workloads.pods(1)
    stray = {"metadata": {"name": "stray", "labels": LABELS}, "spec": template()["spec"]}
    workloads.api.post(workloads.path("Pod"), stray).ok(201)
    workloads.pods(1)


def test_min_ready_seconds(workloads: WorkloadHarness) -> None:
    replica_set(workloads, 1, minReadySeconds=3)
    workloads.all_ready(1)
    result = until_status(workloads, readyReplicas=1, availableReplicas=1)
    workloads.check("replicasets", "available after a while", {"status": result["status"]})


def test_selector_requires_more_labels_than_template(workloads: WorkloadHarness) -> None:
    replica_set(workloads, 1, labels={"app": "web", "tier": "front"})
    (pod,) = workloads.pods(1)
    until_status(workloads, fullyLabeledReplicas=1)
    workloads.patch("Pod", pod["metadata"]["name"], {"metadata": {"labels": {"tier": None}}})
    result = until_status(workloads, fullyLabeledReplicas=0)
    assert result["status"]["replicas"] == 1


def test_rejected_pods_are_reported(workloads: WorkloadHarness) -> None:
    quota = workloads.allow_pods(0)
    replica_set(workloads, 2)
    result = workloads.until_condition("ReplicaSet", "web", "ReplicaFailure")
    workloads.check("replicasets", "no quota", {"status": {**result["status"], "observedGeneration": 1}})
    workloads.api.delete(quota).ok()
    workloads.until("ReplicaSet", "web", lambda result: "conditions" not in result["status"] and result["status"]["replicas"] == 2)


def test_deletion_and_orphans(workloads: WorkloadHarness) -> None:
    replica_set(workloads, 1)
    workloads.pods(1)
    workloads.wait_synced()
    workloads.delete("ReplicaSet", "web", propagationPolicy="Orphan")
    eventually(lambda: all("ownerReferences" not in pod["metadata"] for pod in workloads.items("Pod")), what="the pod is free")
    assert len(workloads.items("Pod")) == 1
