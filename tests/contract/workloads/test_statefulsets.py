"""StatefulSets: names, order, revisions, volume claims."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.polling import eventually, pass_time
from tests.support.workloads import WorkloadHarness, summary, template

if TYPE_CHECKING:
    from tests.support.clusters import Cluster

pytestmark = pytest.mark.controllers
CLUSTER = "controllers"
Object = dict[str, Any]
LABELS = {"app": "db"}


@pytest.fixture
def workloads(cluster: Cluster, ns: str) -> WorkloadHarness:
    return WorkloadHarness(cluster, ns)


def stateful_set(workloads: WorkloadHarness, replicas: int, **spec: Any) -> Object:
    body = {"replicas": replicas, "selector": {"matchLabels": LABELS}, "serviceName": "db", "template": template(labels=LABELS)}
    return workloads.create("StatefulSet", "db", {**body, **spec}, annotations={"note": "kept"})


def image(number: int) -> Object:
    return {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": f"example.com/app:{number}"}]}}}}


def until_status(workloads: WorkloadHarness, **expected: Any) -> Object:
    def matches(obj: Object) -> bool:
        return all(obj["status"].get(name, 0) == number for name, number in expected.items())

    return workloads.until("StatefulSet", "db", matches, f"{expected}")


def ready(workloads: WorkloadHarness, *ordinals: int, image: int = 1) -> None:
    """Make pods ready one after the other, in the order of their creation."""
    for number in ordinals:
        name = f"db-{number}"

        def there(name: str = name) -> bool:
            pod = workloads.get("Pod", name)
            fresh = "deletionTimestamp" not in pod["metadata"]
            return fresh and pod["spec"]["containers"][0]["image"] == f"example.com/app:{image}"

        eventually(there, what=f"{name} of version {image}")
        workloads.phase(name, "Running", ready=True)


def picture(workloads: WorkloadHarness, last: str, times: int) -> Object:
    result = workloads.get("StatefulSet", "db")
    revisions = [
        {key: item.get(key) for key in ("data", "revision")}
        | {key: item["metadata"].get(key) for key in ("name", "labels", "annotations")}
        for item in workloads.items("ControllerRevision")
    ]
    return {
        "status": result["status"],
        "pods": sorted((summary(pod) for pod in workloads.items("Pod")), key=lambda pod: str(pod["name"])),
        "revisions": sorted(revisions, key=lambda each: int(each["revision"])),
        # A controller with a stale cache tries to delete a deleted pod and reports the failure.
        "events": [event for event in workloads.events("StatefulSet", "db", last, times) if event["type"] == "Normal"],
    }


def test_ordered_ready_creation(workloads: WorkloadHarness) -> None:
    stateful_set(workloads, 2)
    assert [pod["metadata"]["name"] for pod in workloads.pods(1)] == ["db-0"]
    pass_time(0.3)
    assert len(workloads.items("Pod")) == 1
    ready(workloads, 0, 1)
    until_status(workloads, availableReplicas=2, readyReplicas=2)
    workloads.settles("statefulsets", "two pods", lambda: picture(workloads, "SuccessfulCreate", 2))


def test_parallel_creation(workloads: WorkloadHarness) -> None:
    stateful_set(workloads, 3, podManagementPolicy="Parallel")
    assert {pod["metadata"]["name"] for pod in workloads.pods(3)} == {"db-0", "db-1", "db-2"}
    result = until_status(workloads, replicas=3)
    assert result["status"]["availableReplicas"] == 0


def test_start_ordinal(workloads: WorkloadHarness) -> None:
    stateful_set(workloads, 2, podManagementPolicy="Parallel", ordinals={"start": 5})
    assert {pod["metadata"]["name"] for pod in workloads.pods(2)} == {"db-5", "db-6"}


def test_scale_down_in_reverse_order(workloads: WorkloadHarness) -> None:
    stateful_set(workloads, 3)
    ready(workloads, 0, 1, 2)
    until_status(workloads, readyReplicas=3)
    workloads.patch("StatefulSet", "db", {"spec": {"replicas": 1}})
    eventually(lambda: [pod["metadata"]["name"] for pod in workloads.items("Pod")] == ["db-0"], what="only db-0 is left")
    until_status(workloads, replicas=1, observedGeneration=2)
    workloads.settles("statefulsets", "scaled down", lambda: picture(workloads, "SuccessfulDelete", 2))


def test_scale_down_waits_for_each_pod(workloads: WorkloadHarness) -> None:
    stateful_set(workloads, 3, template=template(labels=LABELS, nodeName=workloads.nowhere))
    ready(workloads, 0, 1, 2)
    until_status(workloads, readyReplicas=3)
    workloads.patch("StatefulSet", "db", {"spec": {"replicas": 1}})
    eventually(lambda: "deletionTimestamp" in workloads.get("Pod", "db-2")["metadata"], what="db-2 is ending")
    pass_time(0.3)
    assert "deletionTimestamp" not in workloads.get("Pod", "db-1")["metadata"]
    workloads.remove("db-2")
    eventually(lambda: "deletionTimestamp" in workloads.get("Pod", "db-1")["metadata"], what="db-1 is ending")
    workloads.remove("db-1")
    until_status(workloads, replicas=1)


def test_rolling_update_in_reverse_order(workloads: WorkloadHarness) -> None:
    stateful_set(workloads, 2)
    ready(workloads, 0, 1)
    until_status(workloads, readyReplicas=2)
    workloads.patch("StatefulSet", "db", image(2))
    ready(workloads, 1, image=2)
    ready(workloads, 0, image=2)
    result = workloads.until(
        "StatefulSet", "db", lambda result: result["status"]["currentRevision"] == result["status"]["updateRevision"]
    )
    result = until_status(workloads, updatedReplicas=2, currentReplicas=2, availableReplicas=2)
    assert result["status"]["replicas"] == 2
    workloads.settles("statefulsets", "updated", lambda: picture(workloads, "SuccessfulCreate", 4))


def test_status_during_update(workloads: WorkloadHarness) -> None:
    stateful_set(workloads, 2)
    ready(workloads, 0, 1)
    until_status(workloads, readyReplicas=2)
    workloads.patch("StatefulSet", "db", image(2))
    eventually(lambda: workloads.get("Pod", "db-1")["spec"]["containers"][0]["image"] == "example.com/app:2", what="db-1 is new")
    workloads.settles("statefulsets", "in the middle", lambda: {"status": workloads.get("StatefulSet", "db")["status"]})


def test_partition(workloads: WorkloadHarness) -> None:
    stateful_set(workloads, 3, podManagementPolicy="Parallel", updateStrategy={"rollingUpdate": {"partition": 2}})
    ready(workloads, 0, 1, 2)
    until_status(workloads, readyReplicas=3)
    workloads.patch("StatefulSet", "db", image(2))
    ready(workloads, 2, image=2)
    result = until_status(workloads, updatedReplicas=1, readyReplicas=3)
    workloads.check("statefulsets", "partition", {"status": result["status"]})
    workloads.delete("Pod", "db-0")
    ready(workloads, 0, image=1)


def test_on_delete_update(workloads: WorkloadHarness) -> None:
    stateful_set(workloads, 1, updateStrategy={"type": "OnDelete"})
    ready(workloads, 0)
    until_status(workloads, readyReplicas=1)
    workloads.patch("StatefulSet", "db", image(2))
    until_status(workloads, observedGeneration=2)
    assert workloads.get("Pod", "db-0")["spec"]["containers"][0]["image"] == "example.com/app:1"
    workloads.delete("Pod", "db-0")
    ready(workloads, 0, image=2)
    result = until_status(workloads, updatedReplicas=1, readyReplicas=1)
    workloads.check("statefulsets", "on delete", {"status": result["status"]})


def test_failed_pods_are_recreated(workloads: WorkloadHarness) -> None:
    stateful_set(workloads, 1)
    (pod,) = workloads.pods(1)
    workloads.phase(pod, "Failed", 1)
    eventually(lambda: workloads.get("Pod", "db-0")["metadata"]["uid"] != pod["metadata"]["uid"], what="a new db-0")


def test_volume_claims(workloads: WorkloadHarness) -> None:
    claim = {
        "metadata": {"name": "data", "labels": {"kind": "disk"}},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    stateful_set(workloads, 1, volumeClaimTemplates=[claim])
    (pod,) = workloads.pods(1)
    volumes = [volume for volume in pod["spec"]["volumes"] if "persistentVolumeClaim" in volume]
    assert volumes == [{"name": "data", "persistentVolumeClaim": {"claimName": "data-db-0"}}]
    result = workloads.get("PersistentVolumeClaim", "data-db-0")
    assert result["metadata"]["labels"] == {"app": "db", "kind": "disk"}
    assert "ownerReferences" not in result["metadata"]
    workloads.check("statefulsets", "claims", workloads.events("StatefulSet", "db", "SuccessfulCreate", 2))


def test_volume_claim_retention_policy(workloads: WorkloadHarness) -> None:
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    policy = {"whenDeleted": "Delete", "whenScaled": "Retain"}
    stateful_set(workloads, 1, volumeClaimTemplates=[claim], persistentVolumeClaimRetentionPolicy=policy)
    workloads.pods(1)
    refs = eventually(lambda: workloads.get("PersistentVolumeClaim", "data-db-0")["metadata"].get("ownerReferences"), what="owned")
    assert [(ref["kind"], ref["name"], ref["controller"]) for ref in refs] == [("StatefulSet", "db", True)]


def test_rollback_reuses_revision(workloads: WorkloadHarness) -> None:
    stateful_set(workloads, 1)
    ready(workloads, 0)
    until_status(workloads, readyReplicas=1)
    workloads.patch("StatefulSet", "db", image(2))
    ready(workloads, 0, image=2)
    workloads.until("StatefulSet", "db", lambda obj: obj["status"]["currentRevision"] == obj["status"]["updateRevision"])
    workloads.patch("StatefulSet", "db", image(1))
    ready(workloads, 0, image=1)
    workloads.until("StatefulSet", "db", lambda obj: obj["status"].get("observedGeneration") == 3)
    workloads.until("StatefulSet", "db", lambda obj: obj["status"]["currentRevision"] == obj["status"]["updateRevision"])

    def find() -> Object:
        revisions = {item["metadata"]["name"]: item["revision"] for item in workloads.items("ControllerRevision")}
        assert sorted(revisions.values()) == [2, 3]
        return {"status": workloads.get("StatefulSet", "db")["status"], "revisions": revisions}

    workloads.settles("statefulsets", "rolled back", find)
