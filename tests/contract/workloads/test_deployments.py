"""Deployments: rollouts step by step, conditions, revisions, scaling, pauses."""

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
HASH = "pod-template-hash"


@pytest.fixture
def workloads(cluster: Cluster, ns: str) -> WorkloadHarness:
    return WorkloadHarness(cluster, ns)


def deployment(workloads: WorkloadHarness, replicas: int, **spec: Any) -> Object:
    body = {"replicas": replicas, "selector": {"matchLabels": LABELS}, "template": template(labels=LABELS), **spec}
    return workloads.create("Deployment", "web", body, annotations={"note": "kept"})


def image(number: int) -> Object:
    return {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": f"example.com/app:{number}"}]}}}}


def until_status(workloads: WorkloadHarness, **expected: int) -> Object:
    def matches(obj: Object) -> bool:
        return all(obj["status"].get(name, 0) == number for name, number in expected.items())

    return workloads.until("Deployment", "web", matches, f"{expected}")


def sets(workloads: WorkloadHarness) -> dict[str, Object]:
    """The ReplicaSets by the image they run; their hashes are replaced by placeholders."""
    result = {}
    for item in workloads.items("ReplicaSet"):
        version = item["spec"]["template"]["spec"]["containers"][0]["image"].rsplit(":", 1)[1]
        workloads.words[item["metadata"]["labels"][HASH]] = f"HASH{version}"
        result[version] = item
    return result


def until_sizes(workloads: WorkloadHarness, **sizes: int) -> dict[str, Object]:
    """Wait until the ReplicaSets have these sizes."""

    def find() -> dict[str, Object] | None:
        result = sets(workloads)
        return result if {f"v{key}": item["spec"]["replicas"] for key, item in result.items()} == sizes else None

    return eventually(find, what=f"{sizes}")


def ready(workloads: WorkloadHarness, version: int, count: int) -> None:
    """Make this many more pods of a version ready."""
    short = sets(workloads)[str(version)]["metadata"]["labels"][HASH]

    def find() -> list[Object] | None:
        pods = workloads.items("Pod", f"{HASH}={short}")
        new = [pod for pod in pods if pod["status"]["phase"] == "Pending" and "deletionTimestamp" not in pod["metadata"]]
        return new if len(new) >= count else None

    for pod in eventually(find, what=f"{count} new pods")[:count]:
        workloads.phase(pod, "Running", ready=True)


def picture(workloads: WorkloadHarness, last: str = "ScalingReplicaSet", times: int = 1) -> Object:
    result = workloads.get("Deployment", "web")
    reported = {}
    eventually(lambda: all(_is_settled(item) for item in sets(workloads).values()), what="the sets are as they should be")
    for version, item in sets(workloads).items():
        reported[version] = {
            "metadata": {key: item["metadata"].get(key) for key in ("name", "labels", "annotations")},
            "spec": item["spec"],
            "status": item["status"],
        }
    return {
        "annotations": result["metadata"]["annotations"],
        "status": result["status"],
        "sets": reported,
        "events": workloads.events("Deployment", "web", last, times),
    }


def _is_settled(each: Object) -> bool:
    status = each["status"]
    seen = (status.get("observedGeneration"), status.get("replicas"))
    return seen == (each["metadata"]["generation"], each["spec"]["replicas"])


def test_deployment_becomes_available(workloads: WorkloadHarness) -> None:
    deployment(workloads, 2)
    until_sizes(workloads, v1=2)
    ready(workloads, 1, 2)
    workloads.until("Deployment", "web", lambda obj: _progress(obj) == "NewReplicaSetAvailable")
    workloads.settles("deployments", "new", lambda: picture(workloads))


def _progress(obj: Object) -> str:
    return next(
        (str(condition["reason"]) for condition in obj["status"].get("conditions", ()) if condition["type"] == "Progressing"), ""
    )


def test_min_ready_seconds_delay_availability(workloads: WorkloadHarness) -> None:
    deployment(workloads, 2)
    until_sizes(workloads, v1=2)
    sets(workloads)
    workloads.settles("deployments", "not available", lambda: workloads.get("Deployment", "web")["status"])


def test_rolling_update(workloads: WorkloadHarness) -> None:
    """Two pods, one surge, none unavailable: each step waits for the pod of the previous one."""
    deployment(workloads, 2, strategy={"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}})
    until_sizes(workloads, v1=2)
    ready(workloads, 1, 2)
    until_status(workloads, availableReplicas=2)
    workloads.patch("Deployment", "web", image(2))
    until_sizes(workloads, v1=2, v2=1)
    ready(workloads, 2, 1)
    until_sizes(workloads, v1=1, v2=2)
    ready(workloads, 2, 1)
    until_sizes(workloads, v1=0, v2=2)
    workloads.until("Deployment", "web", lambda obj: obj["status"].get("replicas") == obj["status"].get("availableReplicas") == 2)
    workloads.until("Deployment", "web", lambda obj: _progress(obj) == "NewReplicaSetAvailable")
    workloads.settles("deployments", "rolled", lambda: picture(workloads, times=5))


def test_rolling_update_with_missing_pods(workloads: WorkloadHarness) -> None:
    deployment(workloads, 4, strategy={"rollingUpdate": {"maxSurge": 0, "maxUnavailable": "50%"}})
    until_sizes(workloads, v1=4)
    ready(workloads, 1, 4)
    until_status(workloads, availableReplicas=4)
    workloads.patch("Deployment", "web", image(2))
    until_sizes(workloads, v1=2, v2=2)
    ready(workloads, 2, 2)
    until_sizes(workloads, v1=0, v2=4)
    ready(workloads, 2, 2)
    workloads.until("Deployment", "web", lambda obj: _progress(obj) == "NewReplicaSetAvailable")
    sets(workloads)
    workloads.settles("deployments", "rolled with missing pods", lambda: workloads.get("Deployment", "web")["status"])


def test_unhealthy_old_pods_are_deleted_first(workloads: WorkloadHarness) -> None:
    deployment(workloads, 3, strategy={"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}})
    until_sizes(workloads, v1=3)
    ready(workloads, 1, 1)
    until_status(workloads, readyReplicas=1)
    workloads.patch("Deployment", "web", image(2))
    until_sizes(workloads, v1=2, v2=2)
    ready(workloads, 2, 2)
    until_sizes(workloads, v1=0, v2=3)


def test_recreate_strategy(workloads: WorkloadHarness) -> None:
    deployment(workloads, 2, strategy={"type": "Recreate"}, template=template(labels=LABELS, nodeName=workloads.nowhere))
    until_sizes(workloads, v1=2)
    ready(workloads, 1, 2)
    until_status(workloads, availableReplicas=2)
    workloads.patch("Deployment", "web", image(2))
    until_sizes(workloads, v1=0)
    eventually(lambda: all("deletionTimestamp" in pod["metadata"] for pod in workloads.items("Pod")), what="old pods are ending")
    assert set(sets(workloads)) == {"1"}
    for pod in workloads.items("Pod"):
        workloads.remove(pod)
    until_sizes(workloads, v1=0, v2=2)
    ready(workloads, 2, 2)
    workloads.until("Deployment", "web", lambda obj: _progress(obj) == "NewReplicaSetAvailable")
    workloads.settles("deployments", "recreated", lambda: picture(workloads, times=3))


def test_rollback_reuses_replica_set(workloads: WorkloadHarness) -> None:
    deployment(workloads, 1)
    until_sizes(workloads, v1=1)
    ready(workloads, 1, 1)
    until_status(workloads, availableReplicas=1)
    workloads.patch("Deployment", "web", image(2))
    until_sizes(workloads, v1=1, v2=1)
    ready(workloads, 2, 1)
    until_sizes(workloads, v1=0, v2=1)
    # Wait until the controller knows that no pod of the old template is left, because such a pod would count.
    until_status(workloads, observedGeneration=2, replicas=1, updatedReplicas=1, availableReplicas=1)
    workloads.patch("Deployment", "web", image(1))
    until_sizes(workloads, v1=1, v2=1)
    ready(workloads, 1, 1)
    until_sizes(workloads, v1=1, v2=0)
    workloads.until("Deployment", "web", lambda obj: _progress(obj) == "NewReplicaSetAvailable")
    until_status(workloads, replicas=1, availableReplicas=1)
    workloads.settles("deployments", "rolled back", lambda: picture(workloads, times=5))


def test_scale_up_and_down(workloads: WorkloadHarness) -> None:
    deployment(workloads, 1)
    until_sizes(workloads, v1=1)
    ready(workloads, 1, 1)
    until_status(workloads, availableReplicas=1)
    workloads.patch("Deployment", "web", {"spec": {"replicas": 3}})
    until_sizes(workloads, v1=3)
    ready(workloads, 1, 2)
    until_status(workloads, availableReplicas=3)
    workloads.patch("Deployment", "web", {"spec": {"replicas": 0}})
    until_sizes(workloads, v1=0)
    until_status(workloads, replicas=0, availableReplicas=0, observedGeneration=3)
    workloads.settles("deployments", "scaled", lambda: picture(workloads, times=3))


def test_scale_during_rollout_is_proportional(workloads: WorkloadHarness) -> None:
    deployment(workloads, 4, strategy={"rollingUpdate": {"maxSurge": 2, "maxUnavailable": 0}})
    until_sizes(workloads, v1=4)
    ready(workloads, 1, 4)
    until_status(workloads, availableReplicas=4)
    workloads.patch("Deployment", "web", image(2))
    until_sizes(workloads, v1=4, v2=2)
    # Each ReplicaSet gets a proportional share of its size in the controller's cache.
    until_status(workloads, replicas=6, updatedReplicas=2)
    workloads.patch("Deployment", "web", {"spec": {"replicas": 10}})
    until_sizes(workloads, v1=8, v2=4)


def test_paused_deployment_does_not_roll_out(workloads: WorkloadHarness) -> None:
    deployment(workloads, 1)
    until_sizes(workloads, v1=1)
    ready(workloads, 1, 1)
    workloads.until("Deployment", "web", lambda obj: _progress(obj) == "NewReplicaSetAvailable")
    workloads.patch("Deployment", "web", {"spec": {"paused": True}})
    workloads.until("Deployment", "web", lambda obj: _progress(obj) == "DeploymentPaused")
    workloads.patch("Deployment", "web", image(2))
    until_status(workloads, observedGeneration=3)
    assert set(sets(workloads)) == {"1"}
    workloads.settles("deployments", "paused", lambda: workloads.get("Deployment", "web")["status"])
    workloads.patch("Deployment", "web", {"spec": {"paused": False}})
    until_sizes(workloads, v1=1, v2=1)
    ready(workloads, 2, 1)
    until_sizes(workloads, v1=0, v2=1)
    workloads.until("Deployment", "web", lambda obj: _progress(obj) == "NewReplicaSetAvailable")


def test_progress_deadline_is_reported(workloads: WorkloadHarness) -> None:
    deployment(workloads, 1, progressDeadlineSeconds=2)
    until_sizes(workloads, v1=1)
    workloads.until("Deployment", "web", lambda obj: _progress(obj) == "ProgressDeadlineExceeded")
    sets(workloads)
    workloads.settles("deployments", "late", lambda: workloads.get("Deployment", "web")["status"])


def test_history_limit_deletes_old_replica_sets(workloads: WorkloadHarness) -> None:
    deployment(workloads, 1, revisionHistoryLimit=1)
    until_sizes(workloads, v1=1)
    ready(workloads, 1, 1)
    until_status(workloads, availableReplicas=1)
    for version in (2, 3):
        workloads.patch("Deployment", "web", image(version))
        eventually(lambda version=version: str(version) in sets(workloads))  # type: ignore[misc]
        ready(workloads, version, 1)
        until_status(workloads, observedGeneration=version, updatedReplicas=1, replicas=1, availableReplicas=1)
    until_sizes(workloads, v2=0, v3=1)


def test_replica_sets_are_adopted(workloads: WorkloadHarness) -> None:
    body = {"replicas": 1, "selector": {"matchLabels": LABELS}, "template": template(labels=LABELS)}
    workloads.create("ReplicaSet", "old", body, labels=LABELS)
    workloads.pods(1)
    deployment(workloads, 1)
    owner = eventually(lambda: workloads.get("ReplicaSet", "old")["metadata"].get("ownerReferences"), what="adopted")
    assert [(ref["kind"], ref["name"]) for ref in owner] == [("Deployment", "web")]
    actual = workloads.until("Deployment", "web", lambda result: result["status"].get("updatedReplicas") == 1)
    assert len(workloads.items("ReplicaSet")) == 1
    assert actual["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "1"


def test_rejected_pods_are_reported(workloads: WorkloadHarness) -> None:
    workloads.allow_pods(0)
    deployment(workloads, 1)
    result = workloads.until_condition("Deployment", "web", "ReplicaFailure")
    sets(workloads)
    conditions = result["status"]["conditions"]
    assert {condition["type"]: condition["reason"] for condition in conditions} == {
        "Available": "MinimumReplicasUnavailable",
        "Progressing": "NewReplicaSetCreated",
        "ReplicaFailure": "FailedCreate",
    }


def test_foreground_deletion_deletes_replica_sets_and_pods(workloads: WorkloadHarness) -> None:
    deployment(workloads, 1)
    until_sizes(workloads, v1=1)
    workloads.pods(1)
    workloads.delete("Deployment", "web", propagationPolicy="Foreground")
    eventually(lambda: workloads.gone("Deployment", "web"), what="the Deployment is deleted")
    # The Deployment is deleted last, unless the garbage collector does not know its ReplicaSet yet.
    eventually(lambda: not workloads.items("ReplicaSet") and not workloads.items("Pod"), what="everything is deleted")
