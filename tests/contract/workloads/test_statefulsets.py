"""StatefulSets: names, order, revisions, claims."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.waiting import eventually
from tests.support.workloads import Lab, summary, template

if TYPE_CHECKING:
    from tests.support.clusters import Cluster

CLUSTER = "hands"
Object = dict[str, Any]
LABELS = {"app": "db"}


@pytest.fixture
def lab(cluster: Cluster, ns: str) -> Lab:
    return Lab(cluster, ns)


def stateful_set(lab: Lab, replicas: int, **spec: Any) -> Object:
    body = {"replicas": replicas, "selector": {"matchLabels": LABELS}, "serviceName": "db", "template": template(labels=LABELS)}
    return lab.create("StatefulSet", "db", {**body, **spec}, annotations={"note": "kept"})


def image(number: int) -> Object:
    return {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": f"example.com/app:{number}"}]}}}}


def until_status(lab: Lab, **numbers: Any) -> Object:
    def look(found: Object) -> bool:
        return all(found["status"].get(name, 0) == number for name, number in numbers.items())

    return lab.until("StatefulSet", "db", look, f"{numbers}")


def ready(lab: Lab, *ordinals: int, image: int = 1) -> None:
    """Make pods ready, one after the other as they come."""
    for number in ordinals:
        name = f"db-{number}"

        def there(name: str = name) -> bool:
            pod = lab.get("Pod", name)
            fresh = "deletionTimestamp" not in pod["metadata"]
            return fresh and pod["spec"]["containers"][0]["image"] == f"example.com/app:{image}"

        eventually(there, what=f"{name} of version {image}")
        lab.phase(name, "Running", ready=True)


def picture(lab: Lab, last: str, times: int) -> Object:
    found = lab.get("StatefulSet", "db")
    revisions = [
        {key: each.get(key) for key in ("data", "revision")}
        | {key: each["metadata"].get(key) for key in ("name", "labels", "annotations")}
        for each in lab.items("ControllerRevision")
    ]
    return {
        "status": found["status"],
        "pods": sorted((summary(pod) for pod in lab.items("Pod")), key=lambda pod: str(pod["name"])),
        "revisions": sorted(revisions, key=lambda each: int(each["revision"])),
        # A controller whose view lags tries to delete a pod that is gone, and says that it failed.
        "events": [event for event in lab.events("StatefulSet", "db", last, times) if event["type"] == "Normal"],
    }


def test_one_after_the_other(lab: Lab) -> None:
    stateful_set(lab, 2)
    assert [pod["metadata"]["name"] for pod in lab.pods(1)] == ["db-0"]
    time.sleep(0.3)
    assert len(lab.items("Pod")) == 1
    ready(lab, 0, 1)
    until_status(lab, availableReplicas=2, readyReplicas=2)
    lab.settles("statefulsets", "two pods", lambda: picture(lab, "SuccessfulCreate", 2))


def test_all_at_once(lab: Lab) -> None:
    stateful_set(lab, 3, podManagementPolicy="Parallel")
    assert {pod["metadata"]["name"] for pod in lab.pods(3)} == {"db-0", "db-1", "db-2"}
    found = until_status(lab, replicas=3)
    assert found["status"]["availableReplicas"] == 0


def test_other_numbers(lab: Lab) -> None:
    stateful_set(lab, 2, podManagementPolicy="Parallel", ordinals={"start": 5})
    assert {pod["metadata"]["name"] for pod in lab.pods(2)} == {"db-5", "db-6"}


def test_scale_down_from_the_end(lab: Lab) -> None:
    stateful_set(lab, 3)
    ready(lab, 0, 1, 2)
    until_status(lab, readyReplicas=3)
    lab.patch("StatefulSet", "db", {"spec": {"replicas": 1}})
    eventually(lambda: [pod["metadata"]["name"] for pod in lab.items("Pod")] == ["db-0"], what="only db-0 is left")
    until_status(lab, replicas=1, observedGeneration=2)
    lab.settles("statefulsets", "scaled down", lambda: picture(lab, "SuccessfulDelete", 2))


def test_scale_down_waits_for_each_pod(lab: Lab) -> None:
    stateful_set(lab, 3, template=template(labels=LABELS, nodeName=lab.nowhere))
    ready(lab, 0, 1, 2)
    until_status(lab, readyReplicas=3)
    lab.patch("StatefulSet", "db", {"spec": {"replicas": 1}})
    eventually(lambda: "deletionTimestamp" in lab.get("Pod", "db-2")["metadata"], what="db-2 is ending")
    time.sleep(0.3)
    assert "deletionTimestamp" not in lab.get("Pod", "db-1")["metadata"]
    lab.remove("db-2")
    eventually(lambda: "deletionTimestamp" in lab.get("Pod", "db-1")["metadata"], what="db-1 is ending")
    lab.remove("db-1")
    until_status(lab, replicas=1)


def test_update_from_the_end(lab: Lab) -> None:
    stateful_set(lab, 2)
    ready(lab, 0, 1)
    until_status(lab, readyReplicas=2)
    lab.patch("StatefulSet", "db", image(2))
    ready(lab, 1, image=2)
    ready(lab, 0, image=2)
    found = lab.until("StatefulSet", "db", lambda found: found["status"]["currentRevision"] == found["status"]["updateRevision"])
    found = until_status(lab, updatedReplicas=2, currentReplicas=2, availableReplicas=2)
    assert found["status"]["replicas"] == 2
    lab.settles("statefulsets", "updated", lambda: picture(lab, "SuccessfulCreate", 4))


def test_in_the_middle_of_an_update(lab: Lab) -> None:
    stateful_set(lab, 2)
    ready(lab, 0, 1)
    until_status(lab, readyReplicas=2)
    lab.patch("StatefulSet", "db", image(2))
    eventually(lambda: lab.get("Pod", "db-1")["spec"]["containers"][0]["image"] == "example.com/app:2", what="db-1 is new")
    lab.settles("statefulsets", "in the middle", lambda: {"status": lab.get("StatefulSet", "db")["status"]})


def test_partition(lab: Lab) -> None:
    stateful_set(lab, 3, podManagementPolicy="Parallel", updateStrategy={"rollingUpdate": {"partition": 2}})
    ready(lab, 0, 1, 2)
    until_status(lab, readyReplicas=3)
    lab.patch("StatefulSet", "db", image(2))
    ready(lab, 2, image=2)
    found = until_status(lab, updatedReplicas=1, readyReplicas=3)
    lab.check("statefulsets", "partition", {"status": found["status"]})
    lab.delete("Pod", "db-0")
    ready(lab, 0, image=1)


def test_on_delete(lab: Lab) -> None:
    stateful_set(lab, 1, updateStrategy={"type": "OnDelete"})
    ready(lab, 0)
    until_status(lab, readyReplicas=1)
    lab.patch("StatefulSet", "db", image(2))
    until_status(lab, observedGeneration=2)
    assert lab.get("Pod", "db-0")["spec"]["containers"][0]["image"] == "example.com/app:1"
    lab.delete("Pod", "db-0")
    ready(lab, 0, image=2)
    found = until_status(lab, updatedReplicas=1, readyReplicas=1)
    lab.check("statefulsets", "on delete", {"status": found["status"]})


def test_failed_pods_come_again(lab: Lab) -> None:
    stateful_set(lab, 1)
    (pod,) = lab.pods(1)
    lab.phase(pod, "Failed", 1)
    eventually(lambda: lab.get("Pod", "db-0")["metadata"]["uid"] != pod["metadata"]["uid"], what="a new db-0")


def test_claims(lab: Lab) -> None:
    claim = {
        "metadata": {"name": "data", "labels": {"kind": "disk"}},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    stateful_set(lab, 1, volumeClaimTemplates=[claim])
    (pod,) = lab.pods(1)
    volumes = [volume for volume in pod["spec"]["volumes"] if "persistentVolumeClaim" in volume]
    assert volumes == [{"name": "data", "persistentVolumeClaim": {"claimName": "data-db-0"}}]
    found = lab.get("PersistentVolumeClaim", "data-db-0")
    assert found["metadata"]["labels"] == {"app": "db", "kind": "disk"}
    assert "ownerReferences" not in found["metadata"]
    lab.check("statefulsets", "claims", lab.events("StatefulSet", "db", "SuccessfulCreate", 2))


def test_claims_that_go_with_the_set(lab: Lab) -> None:
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    policy = {"whenDeleted": "Delete", "whenScaled": "Retain"}
    stateful_set(lab, 1, volumeClaimTemplates=[claim], persistentVolumeClaimRetentionPolicy=policy)
    lab.pods(1)
    refs = eventually(lambda: lab.get("PersistentVolumeClaim", "data-db-0")["metadata"].get("ownerReferences"), what="owned")
    assert [(ref["kind"], ref["name"], ref["controller"]) for ref in refs] == [("StatefulSet", "db", True)]


def test_back_to_an_older_template(lab: Lab) -> None:
    stateful_set(lab, 1)
    ready(lab, 0)
    until_status(lab, readyReplicas=1)
    lab.patch("StatefulSet", "db", image(2))
    ready(lab, 0, image=2)
    lab.until("StatefulSet", "db", lambda found: found["status"]["currentRevision"] == found["status"]["updateRevision"])
    lab.patch("StatefulSet", "db", image(1))
    ready(lab, 0, image=1)
    lab.until("StatefulSet", "db", lambda found: found["status"].get("observedGeneration") == 3)
    lab.until("StatefulSet", "db", lambda found: found["status"]["currentRevision"] == found["status"]["updateRevision"])

    def look() -> Object:
        revisions = {each["metadata"]["name"]: each["revision"] for each in lab.items("ControllerRevision")}
        assert sorted(revisions.values()) == [2, 3]
        return {"status": lab.get("StatefulSet", "db")["status"], "revisions": revisions}

    lab.settles("statefulsets", "rolled back", look)
