"""ReplicationControllers: sizes, mutable selectors, ownership, scale, status and deletion."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.polling import eventually
from tests.support.workloads import WorkloadHarness, summary, template

if TYPE_CHECKING:
    from tests.support.clusters import Cluster

CLUSTER = "controllers"
Object = dict[str, Any]
LABELS = {"app": "web"}
KIND = "ReplicationController"


@pytest.fixture
def workloads(cluster: Cluster, ns: str) -> WorkloadHarness:
    return WorkloadHarness(cluster, ns)


def replication_controller(workloads: WorkloadHarness, replicas: int, name: str = "web", **spec: Any) -> Object:
    return workloads.create(KIND, name, {"replicas": replicas, "template": template(labels=LABELS), **spec})


def until_status(workloads: WorkloadHarness, **expected: int) -> Object:
    def matches(obj: Object) -> bool:
        return all(obj["status"].get(name, 0) == number for name, number in expected.items())

    return workloads.until(KIND, "web", matches, f"{expected}")


def test_creates_pods_by_labels_of_its_template(workloads: WorkloadHarness) -> None:
    created = replication_controller(workloads, 2)
    assert created["spec"]["selector"] == LABELS
    assert created["metadata"]["labels"] == LABELS
    pods = workloads.all_ready(2)
    result = until_status(workloads, availableReplicas=2)
    reported = workloads.events(KIND, "web", "SuccessfulCreate", 2)
    workloads.check(
        "replicationcontrollers",
        "two pods",
        {"status": result["status"], "pods": [summary(pod) for pod in pods], "events": reported},
    )


def test_terminating_pods_are_not_reported(workloads: WorkloadHarness) -> None:
    replication_controller(workloads, 1, template=template(labels=LABELS, nodeName=workloads.nowhere))
    (pod,) = workloads.pods(1)
    workloads.delete("Pod", pod["metadata"]["name"])
    workloads.pods(1)
    result = until_status(workloads, replicas=1)
    assert "terminatingReplicas" not in result["status"]
    workloads.remove(pod)


def test_scale_subresource(workloads: WorkloadHarness) -> None:
    replication_controller(workloads, 1)
    workloads.pods(1)
    until_status(workloads, replicas=1)
    path = workloads.path(KIND, "web") + "/scale"
    scale = workloads.api.get(path).ok(200).json
    assert (scale["kind"], scale["apiVersion"], scale["spec"]) == ("Scale", "autoscaling/v1", {"replicas": 1})
    assert scale["status"] == {"replicas": 1, "selector": "app=web"}
    workloads.api.put(path, {**scale, "spec": {"replicas": 3}}).ok(200)
    workloads.pods(3)
    until_status(workloads, replicas=3)
    workloads.api.patch(path, {"spec": {"replicas": 0}}).ok(200)
    eventually(lambda: not workloads.items("Pod"), what="no pods")


def test_scale_down_deletes_pods_that_are_not_ready_first(workloads: WorkloadHarness) -> None:
    replication_controller(workloads, 3)
    _, second, _ = workloads.pods(3)
    workloads.phase(second, "Running", ready=True)
    until_status(workloads, readyReplicas=1)
    workloads.patch(KIND, "web", {"spec": {"replicas": 1}})
    (left,) = workloads.pods(1)
    assert left["metadata"]["name"] == second["metadata"]["name"]


def test_adoption_and_release(workloads: WorkloadHarness) -> None:
    stray = {"metadata": {"name": "stray", "labels": LABELS}, "spec": template()["spec"]}
    workloads.api.post(workloads.path("Pod"), stray).ok(201)
    workloads.wait_synced()
    replication_controller(workloads, 1)
    owner = eventually(lambda: workloads.get("Pod", "stray")["metadata"].get("ownerReferences"), what="adopted")
    assert [(ref["apiVersion"], ref["kind"], ref["controller"], ref["blockOwnerDeletion"]) for ref in owner] == [
        ("v1", KIND, True, True)
    ]
    workloads.patch("Pod", "stray", {"metadata": {"labels": {"app": "free"}}})
    eventually(lambda: "ownerReferences" not in workloads.get("Pod", "stray")["metadata"], what="released")
    workloads.pods(1, "app=web")


def test_selector_can_change(workloads: WorkloadHarness) -> None:
    replication_controller(workloads, 1)
    (old,) = workloads.pods(1)
    workloads.wait_synced()
    labels = {"app": "new"}
    changed = {"spec": {"selector": labels, "template": {"metadata": {"labels": labels}}}}
    workloads.patch(KIND, "web", changed)
    released = old["metadata"]["name"]
    eventually(lambda: "ownerReferences" not in workloads.get("Pod", released)["metadata"], what="released")
    workloads.pods(1, "app=new")
    assert workloads.get("Pod", released)["metadata"]["labels"] == LABELS
    # A pod without an owner is matched by the new selector.
    workloads.patch("Pod", released, {"metadata": {"labels": labels}})
    workloads.pods(1)


def test_rejected_pods_are_reported(workloads: WorkloadHarness) -> None:
    quota = workloads.allow_pods(0)
    replication_controller(workloads, 2)
    result = workloads.until_condition(KIND, "web", "ReplicaFailure")
    workloads.check("replicationcontrollers", "no quota", {"status": {**result["status"], "observedGeneration": 1}})
    workloads.api.delete(quota).ok()
    workloads.until(KIND, "web", lambda result: "conditions" not in result["status"] and result["status"]["replicas"] == 2)


def test_budget_counts_replicas(workloads: WorkloadHarness) -> None:
    replication_controller(workloads, 2)
    workloads.all_ready(2)
    until_status(workloads, availableReplicas=2)
    workloads.create("PodDisruptionBudget", "web", {"maxUnavailable": 1, "selector": {"matchLabels": LABELS}})
    result = workloads.until("PodDisruptionBudget", "web", lambda budget: (budget.get("status") or {}).get("currentHealthy") == 2)
    assert (result["status"]["expectedPods"], result["status"]["disruptionsAllowed"]) == (2, 1)


def test_background_deletion_deletes_pods(workloads: WorkloadHarness) -> None:
    replication_controller(workloads, 2)
    workloads.pods(2)
    workloads.wait_synced()
    workloads.delete(KIND, "web", propagationPolicy="Background")
    eventually(lambda: not workloads.items("Pod"), what="the pods are deleted")


def test_foreground_deletion_waits_for_pods(workloads: WorkloadHarness) -> None:
    replication_controller(workloads, 1, template=template(labels=LABELS, nodeName=workloads.nowhere))
    (pod,) = workloads.pods(1)
    workloads.wait_synced()
    workloads.delete(KIND, "web", propagationPolicy="Foreground")
    eventually(lambda: "deletionTimestamp" in workloads.get("Pod", pod["metadata"]["name"])["metadata"], what="terminating pod")
    assert workloads.get(KIND, "web")["metadata"]["finalizers"] == ["foregroundDeletion"]
    workloads.remove(pod)
    eventually(lambda: workloads.gone(KIND, "web"), what="its controller is deleted after it")


def test_deletion_without_a_policy_orphans_pods(workloads: WorkloadHarness) -> None:
    replication_controller(workloads, 1)
    workloads.pods(1)
    workloads.wait_synced()
    workloads.delete(KIND, "web")
    eventually(lambda: workloads.gone(KIND, "web"), what="deleted")
    eventually(lambda: all("ownerReferences" not in pod["metadata"] for pod in workloads.items("Pod")), what="the pod is free")
    assert len(workloads.items("Pod")) == 1


def test_pod_with_two_owners_stays_until_both_are_deleted(workloads: WorkloadHarness) -> None:
    waiting = replication_controller(workloads, 1)
    (pod,) = workloads.pods(1)
    other = replication_controller(workloads, 0, "other", selector={"app": "other"}, template=template(labels={"app": "other"}))
    reference = {"apiVersion": "v1", "kind": KIND, "name": "other", "uid": other["metadata"]["uid"]}
    owners = [*pod["metadata"]["ownerReferences"], reference]
    name = pod["metadata"]["name"]
    workloads.patch("Pod", name, {"metadata": {"ownerReferences": owners}})
    workloads.wait_synced()
    workloads.delete(KIND, "web", propagationPolicy="Foreground")
    eventually(lambda: workloads.gone(KIND, "web"), what="the owner that waited is deleted")
    left = workloads.get("Pod", name)["metadata"]
    assert [owner["uid"] for owner in left["ownerReferences"]] == [other["metadata"]["uid"]]
    assert "deletionTimestamp" not in left
    assert waiting["metadata"]["uid"] not in str(left["ownerReferences"])
