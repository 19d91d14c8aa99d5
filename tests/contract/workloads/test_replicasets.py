"""ReplicaSets: sizes, ownership and whom they give up first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.waiting import eventually
from tests.support.workloads import Lab, summary, template

if TYPE_CHECKING:
    from tests.support.clusters import Cluster

CLUSTER = "hands"
Object = dict[str, Any]
LABELS = {"app": "web"}


@pytest.fixture
def lab(cluster: Cluster, ns: str) -> Lab:
    return Lab(cluster, ns)


def replica_set(lab: Lab, replicas: int, labels: Object | None = None, **spec: Any) -> Object:
    body = {"replicas": replicas, "selector": {"matchLabels": LABELS}, "template": template(labels=labels or LABELS), **spec}
    return lab.create("ReplicaSet", "web", body)


def until_status(lab: Lab, **numbers: int) -> Object:
    def look(found: Object) -> bool:
        return all(found["status"].get(name, 0) == number for name, number in numbers.items())

    return lab.until("ReplicaSet", "web", look, f"{numbers}")


def test_pods(lab: Lab) -> None:
    replica_set(lab, 2)
    pods = lab.all_ready(2)
    found = until_status(lab, availableReplicas=2)
    told = lab.events("ReplicaSet", "web", "SuccessfulCreate", 2)
    lab.check("replicasets", "two pods", {"status": found["status"], "pods": [summary(pod) for pod in pods], "events": told})


def test_scale_down_takes_the_least_useful(lab: Lab) -> None:
    replica_set(lab, 3)
    first, second, third = lab.pods(3)
    lab.phase(second, "Running", ready=True)
    until_status(lab, readyReplicas=1)
    lab.patch("ReplicaSet", "web", {"spec": {"replicas": 1}})
    (left,) = lab.pods(1)
    assert left["metadata"]["name"] == second["metadata"]["name"]
    lab.settles("replicasets", "scaled down", lambda: {"status": lab.get("ReplicaSet", "web")["status"]})
    told = lab.events("ReplicaSet", "web", "SuccessfulDelete", 2)
    gone = {event["message"] for event in told if event["reason"] == "SuccessfulDelete"}
    assert gone == {f"Deleted pod: {pod['metadata']['name']}" for pod in (first, third)}


def test_deletion_cost(lab: Lab) -> None:
    replica_set(lab, 3)
    pods = lab.all_ready(3)
    until_status(lab, readyReplicas=3)
    cheap = pods[1]["metadata"]["name"]
    lab.patch("Pod", cheap, {"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-5"}}})
    lab.caught_up()
    lab.patch("ReplicaSet", "web", {"spec": {"replicas": 2}})
    eventually(lambda: lab.gone("Pod", cheap), what="the cheapest pod goes")


def test_ended_pods_are_replaced_and_stay(lab: Lab) -> None:
    replica_set(lab, 1)
    (pod,) = lab.pods(1)
    lab.phase(pod, "Failed", 1)
    (other,) = lab.pods(1)
    assert other["metadata"]["name"] != pod["metadata"]["name"]
    assert len(lab.items("Pod")) == 2


def test_terminating_pods_are_counted(lab: Lab) -> None:
    replica_set(lab, 1, template=template(labels=LABELS, nodeName=lab.nowhere))
    (pod,) = lab.pods(1)
    lab.delete("Pod", pod["metadata"]["name"])
    lab.settles("replicasets", "one is terminating", lambda: {"status": lab.get("ReplicaSet", "web")["status"]})
    lab.remove(pod)


def test_adoption_and_release(lab: Lab) -> None:
    stray = {"metadata": {"name": "stray", "labels": LABELS}, "spec": template()["spec"]}
    lab.api.post(lab.path("Pod"), stray).ok(201)
    lab.caught_up()
    replica_set(lab, 1)
    owner = eventually(lambda: lab.get("Pod", "stray")["metadata"].get("ownerReferences"), what="adopted")
    assert [(ref["kind"], ref["name"], ref["controller"], ref["blockOwnerDeletion"]) for ref in owner] == [
        ("ReplicaSet", "web", True, True)
    ]
    lab.patch("Pod", "stray", {"metadata": {"labels": {"app": "free"}}})
    eventually(lambda: "ownerReferences" not in lab.get("Pod", "stray")["metadata"], what="released")
    lab.pods(1, "app=web")


def test_surplus_orphans_are_deleted(lab: Lab) -> None:
    replica_set(lab, 1)
    lab.pods(1)
    stray = {"metadata": {"name": "stray", "labels": LABELS}, "spec": template()["spec"]}
    lab.api.post(lab.path("Pod"), stray).ok(201)
    lab.pods(1)


def test_min_ready_seconds(lab: Lab) -> None:
    replica_set(lab, 1, minReadySeconds=3)
    lab.all_ready(1)
    found = until_status(lab, readyReplicas=1, availableReplicas=1)
    lab.check("replicasets", "available after a while", {"status": found["status"]})


def test_more_labels_than_the_template(lab: Lab) -> None:
    replica_set(lab, 1, labels={"app": "web", "tier": "front"})
    (pod,) = lab.pods(1)
    until_status(lab, fullyLabeledReplicas=1)
    lab.patch("Pod", pod["metadata"]["name"], {"metadata": {"labels": {"tier": None}}})
    found = until_status(lab, fullyLabeledReplicas=0)
    assert found["status"]["replicas"] == 1


def test_pods_that_cannot_be_made(lab: Lab) -> None:
    quota = lab.allow_pods(0)
    replica_set(lab, 2)
    found = lab.until_condition("ReplicaSet", "web", "ReplicaFailure")
    lab.check("replicasets", "no quota", {"status": {**found["status"], "observedGeneration": 1}})
    lab.api.delete(quota).ok()
    lab.until("ReplicaSet", "web", lambda found: "conditions" not in found["status"] and found["status"]["replicas"] == 2)


def test_deletion_and_orphans(lab: Lab) -> None:
    replica_set(lab, 1)
    lab.pods(1)
    lab.caught_up()
    lab.delete("ReplicaSet", "web", propagationPolicy="Orphan")
    eventually(lambda: all("ownerReferences" not in pod["metadata"] for pod in lab.items("Pod")), what="the pod is free")
    assert len(lab.items("Pod")) == 1
