"""Deployments: rollouts step by step, conditions, revisions, scaling, pauses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.waiting import eventually
from tests.support.workloads import Lab, template

if TYPE_CHECKING:
    from tests.support.clusters import Cluster

CLUSTER = "hands"
Object = dict[str, Any]
LABELS = {"app": "web"}
HASH = "pod-template-hash"


@pytest.fixture
def lab(cluster: Cluster, ns: str) -> Lab:
    return Lab(cluster, ns)


def deployment(lab: Lab, replicas: int, **spec: Any) -> Object:
    body = {"replicas": replicas, "selector": {"matchLabels": LABELS}, "template": template(labels=LABELS), **spec}
    return lab.create("Deployment", "web", body, annotations={"note": "kept"})


def image(number: int) -> Object:
    return {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": f"example.com/app:{number}"}]}}}}


def until_status(lab: Lab, **numbers: int) -> Object:
    def look(found: Object) -> bool:
        return all(found["status"].get(name, 0) == number for name, number in numbers.items())

    return lab.until("Deployment", "web", look, f"{numbers}")


def sets(lab: Lab) -> dict[str, Object]:
    """The ReplicaSets by the image they run; their hashes are given a name."""
    found = {}
    for each in lab.items("ReplicaSet"):
        version = each["spec"]["template"]["spec"]["containers"][0]["image"].rsplit(":", 1)[1]
        lab.words[each["metadata"]["labels"][HASH]] = f"HASH{version}"
        found[version] = each
    return found


def until_sizes(lab: Lab, **sizes: int) -> dict[str, Object]:
    """The ReplicaSets, once they want so many pods each."""

    def look() -> dict[str, Object] | None:
        found = sets(lab)
        return found if {f"v{key}": each["spec"]["replicas"] for key, each in found.items()} == sizes else None

    return eventually(look, what=f"{sizes}")


def ready(lab: Lab, version: int, count: int) -> None:
    """Make so many pods of a version ready that are not yet."""
    short = sets(lab)[str(version)]["metadata"]["labels"][HASH]

    def look() -> list[Object] | None:
        pods = lab.items("Pod", f"{HASH}={short}")
        new = [pod for pod in pods if pod["status"]["phase"] == "Pending" and "deletionTimestamp" not in pod["metadata"]]
        return new if len(new) >= count else None

    for pod in eventually(look, what=f"{count} new pods")[:count]:
        lab.phase(pod, "Running", ready=True)


def picture(lab: Lab, last: str = "ScalingReplicaSet", times: int = 1) -> Object:
    found = lab.get("Deployment", "web")
    told = {}
    eventually(lambda: all(_is_settled(each) for each in sets(lab).values()), what="the sets are as they should be")
    for version, each in sets(lab).items():
        told[version] = {
            "metadata": {key: each["metadata"].get(key) for key in ("name", "labels", "annotations")},
            "spec": each["spec"],
            "status": each["status"],
        }
    return {
        "annotations": found["metadata"]["annotations"],
        "status": found["status"],
        "sets": told,
        "events": lab.events("Deployment", "web", last, times),
    }


def _is_settled(each: Object) -> bool:
    status = each["status"]
    seen = (status.get("observedGeneration"), status.get("replicas"))
    return seen == (each["metadata"]["generation"], each["spec"]["replicas"])


def test_new(lab: Lab) -> None:
    deployment(lab, 2)
    until_sizes(lab, v1=2)
    ready(lab, 1, 2)
    lab.until("Deployment", "web", lambda found: _progress(found) == "NewReplicaSetAvailable")
    lab.settles("deployments", "new", lambda: picture(lab))


def _progress(found: Object) -> str:
    return next((str(each["reason"]) for each in found["status"].get("conditions", ()) if each["type"] == "Progressing"), "")


def test_not_available_yet(lab: Lab) -> None:
    deployment(lab, 2)
    until_sizes(lab, v1=2)
    sets(lab)
    lab.settles("deployments", "not available", lambda: lab.get("Deployment", "web")["status"])


def test_rolling_update(lab: Lab) -> None:
    """Two pods, one too many allowed, none may be missing: each step waits for the pod before."""
    deployment(lab, 2, strategy={"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}})
    until_sizes(lab, v1=2)
    ready(lab, 1, 2)
    until_status(lab, availableReplicas=2)
    lab.patch("Deployment", "web", image(2))
    until_sizes(lab, v1=2, v2=1)
    ready(lab, 2, 1)
    until_sizes(lab, v1=1, v2=2)
    ready(lab, 2, 1)
    until_sizes(lab, v1=0, v2=2)
    lab.until("Deployment", "web", lambda found: found["status"].get("replicas") == found["status"].get("availableReplicas") == 2)
    lab.until("Deployment", "web", lambda found: _progress(found) == "NewReplicaSetAvailable")
    lab.settles("deployments", "rolled", lambda: picture(lab, times=5))


def test_rolling_update_with_missing_pods(lab: Lab) -> None:
    deployment(lab, 4, strategy={"rollingUpdate": {"maxSurge": 0, "maxUnavailable": "50%"}})
    until_sizes(lab, v1=4)
    ready(lab, 1, 4)
    until_status(lab, availableReplicas=4)
    lab.patch("Deployment", "web", image(2))
    until_sizes(lab, v1=2, v2=2)
    ready(lab, 2, 2)
    until_sizes(lab, v1=0, v2=4)
    ready(lab, 2, 2)
    lab.until("Deployment", "web", lambda found: _progress(found) == "NewReplicaSetAvailable")
    sets(lab)
    lab.settles("deployments", "rolled with missing pods", lambda: lab.get("Deployment", "web")["status"])


def test_unhealthy_old_pods_go_first(lab: Lab) -> None:
    deployment(lab, 3, strategy={"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}})
    until_sizes(lab, v1=3)
    ready(lab, 1, 1)
    until_status(lab, readyReplicas=1)
    lab.patch("Deployment", "web", image(2))
    until_sizes(lab, v1=2, v2=2)
    ready(lab, 2, 2)
    until_sizes(lab, v1=0, v2=3)


def test_recreate(lab: Lab) -> None:
    deployment(lab, 2, strategy={"type": "Recreate"}, template=template(labels=LABELS, nodeName=lab.nowhere))
    until_sizes(lab, v1=2)
    ready(lab, 1, 2)
    until_status(lab, availableReplicas=2)
    lab.patch("Deployment", "web", image(2))
    until_sizes(lab, v1=0)
    eventually(lambda: all("deletionTimestamp" in pod["metadata"] for pod in lab.items("Pod")), what="old pods are ending")
    assert set(sets(lab)) == {"1"}
    for pod in lab.items("Pod"):
        lab.remove(pod)
    until_sizes(lab, v1=0, v2=2)
    ready(lab, 2, 2)
    lab.until("Deployment", "web", lambda found: _progress(found) == "NewReplicaSetAvailable")
    lab.settles("deployments", "recreated", lambda: picture(lab, times=3))


def test_back_to_an_older_template(lab: Lab) -> None:
    deployment(lab, 1)
    until_sizes(lab, v1=1)
    ready(lab, 1, 1)
    until_status(lab, availableReplicas=1)
    lab.patch("Deployment", "web", image(2))
    until_sizes(lab, v1=1, v2=1)
    ready(lab, 2, 1)
    until_sizes(lab, v1=0, v2=1)
    # Not before it knows that no pod of the old template is left: such a pod would count at once.
    until_status(lab, observedGeneration=2, replicas=1, updatedReplicas=1, availableReplicas=1)
    lab.patch("Deployment", "web", image(1))
    until_sizes(lab, v1=1, v2=1)
    ready(lab, 1, 1)
    until_sizes(lab, v1=1, v2=0)
    lab.until("Deployment", "web", lambda found: _progress(found) == "NewReplicaSetAvailable")
    until_status(lab, replicas=1, availableReplicas=1)
    lab.settles("deployments", "rolled back", lambda: picture(lab, times=5))


def test_scale(lab: Lab) -> None:
    deployment(lab, 1)
    until_sizes(lab, v1=1)
    ready(lab, 1, 1)
    until_status(lab, availableReplicas=1)
    lab.patch("Deployment", "web", {"spec": {"replicas": 3}})
    until_sizes(lab, v1=3)
    ready(lab, 1, 2)
    until_status(lab, availableReplicas=3)
    lab.patch("Deployment", "web", {"spec": {"replicas": 0}})
    until_sizes(lab, v1=0)
    until_status(lab, replicas=0, availableReplicas=0, observedGeneration=3)
    lab.settles("deployments", "scaled", lambda: picture(lab, times=3))


def test_scale_in_the_middle_of_a_rollout(lab: Lab) -> None:
    deployment(lab, 4, strategy={"rollingUpdate": {"maxSurge": 2, "maxUnavailable": 0}})
    until_sizes(lab, v1=4)
    ready(lab, 1, 4)
    until_status(lab, availableReplicas=4)
    lab.patch("Deployment", "web", image(2))
    until_sizes(lab, v1=4, v2=2)
    # Each set gets a share of its size, as the controller knows it.
    until_status(lab, replicas=6, updatedReplicas=2)
    lab.patch("Deployment", "web", {"spec": {"replicas": 10}})
    until_sizes(lab, v1=8, v2=4)


def test_paused(lab: Lab) -> None:
    deployment(lab, 1)
    until_sizes(lab, v1=1)
    ready(lab, 1, 1)
    lab.until("Deployment", "web", lambda found: _progress(found) == "NewReplicaSetAvailable")
    lab.patch("Deployment", "web", {"spec": {"paused": True}})
    lab.until("Deployment", "web", lambda found: _progress(found) == "DeploymentPaused")
    lab.patch("Deployment", "web", image(2))
    until_status(lab, observedGeneration=3)
    assert set(sets(lab)) == {"1"}
    lab.settles("deployments", "paused", lambda: lab.get("Deployment", "web")["status"])
    lab.patch("Deployment", "web", {"spec": {"paused": False}})
    until_sizes(lab, v1=1, v2=1)
    ready(lab, 2, 1)
    until_sizes(lab, v1=0, v2=1)
    lab.until("Deployment", "web", lambda found: _progress(found) == "NewReplicaSetAvailable")


def test_deadline(lab: Lab) -> None:
    deployment(lab, 1, progressDeadlineSeconds=2)
    until_sizes(lab, v1=1)
    lab.until("Deployment", "web", lambda found: _progress(found) == "ProgressDeadlineExceeded")
    sets(lab)
    lab.settles("deployments", "late", lambda: lab.get("Deployment", "web")["status"])


def test_history_limit(lab: Lab) -> None:
    deployment(lab, 1, revisionHistoryLimit=1)
    until_sizes(lab, v1=1)
    ready(lab, 1, 1)
    until_status(lab, availableReplicas=1)
    for version in (2, 3):
        lab.patch("Deployment", "web", image(version))
        eventually(lambda version=version: str(version) in sets(lab))  # type: ignore[misc]
        ready(lab, version, 1)
        until_status(lab, observedGeneration=version, updatedReplicas=1, replicas=1, availableReplicas=1)
    until_sizes(lab, v2=0, v3=1)


def test_sets_are_adopted(lab: Lab) -> None:
    body = {"replicas": 1, "selector": {"matchLabels": LABELS}, "template": template(labels=LABELS)}
    lab.create("ReplicaSet", "old", body, labels=LABELS)
    lab.pods(1)
    deployment(lab, 1)
    owner = eventually(lambda: lab.get("ReplicaSet", "old")["metadata"].get("ownerReferences"), what="adopted")
    assert [(ref["kind"], ref["name"]) for ref in owner] == [("Deployment", "web")]
    found = lab.until("Deployment", "web", lambda found: found["status"].get("updatedReplicas") == 1)
    assert len(lab.items("ReplicaSet")) == 1
    assert found["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "1"


def test_pods_that_cannot_be_made(lab: Lab) -> None:
    lab.allow_pods(0)
    deployment(lab, 1)
    found = lab.until_condition("Deployment", "web", "ReplicaFailure")
    sets(lab)
    conditions = found["status"]["conditions"]
    assert {each["type"]: each["reason"] for each in conditions} == {
        "Available": "MinimumReplicasUnavailable",
        "Progressing": "NewReplicaSetCreated",
        "ReplicaFailure": "FailedCreate",
    }


def test_deletion_takes_everything(lab: Lab) -> None:
    deployment(lab, 1)
    until_sizes(lab, v1=1)
    lab.pods(1)
    lab.delete("Deployment", "web", propagationPolicy="Foreground")
    eventually(lambda: lab.gone("Deployment", "web"), what="the Deployment is gone")
    # It goes last, unless the garbage collector has not heard of its set yet.
    eventually(lambda: not lab.items("ReplicaSet") and not lab.items("Pod"), what="all is gone")
