"""PodDisruptionBudgets: what they count, and what evictions they let through."""

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


@pytest.fixture
def lab(cluster: Cluster, ns: str) -> Lab:
    return Lab(cluster, ns)


def budget(lab: Lab, **spec: Any) -> None:
    lab.create("PodDisruptionBudget", "keep", {"selector": {"matchLabels": LABELS}, **spec})


def three_ready(lab: Lab) -> list[Object]:
    body = {"replicas": 3, "selector": {"matchLabels": LABELS}, "template": template(labels=LABELS)}
    lab.create("ReplicaSet", "web", body)
    return lab.all_ready(3)


def until_status(lab: Lab, **numbers: int) -> Object:
    def look(found: Object) -> bool:
        status = found.get("status", {})
        return status.get("observedGeneration") == 1 and all(status[name] == number for name, number in numbers.items())

    return lab.until("PodDisruptionBudget", "keep", look, f"{numbers}")["status"]  # type: ignore[no-any-return]


def test_nothing_to_keep(lab: Lab) -> None:
    budget(lab, minAvailable=1)
    status = until_status(lab, expectedPods=0)
    (event,) = lab.events("PodDisruptionBudget", "keep", "NoPods")
    assert (event["by"], event["type"], event["message"]) == ("controllermanager", "Normal", "No matching pods found")
    lab.check("disruption", "nothing", status)


@pytest.mark.parametrize(
    ("spec", "needed"),
    [({"minAvailable": 2}, 2), ({"minAvailable": "50%"}, 2), ({"maxUnavailable": 1}, 2), ({"maxUnavailable": "50%"}, 1)],
)
def test_numbers(lab: Lab, spec: Object, needed: int) -> None:
    three_ready(lab)
    budget(lab, **spec)
    status = until_status(lab, currentHealthy=3, desiredHealthy=needed)
    lab.check("disruption", f"{spec}", status)


def test_too_few(lab: Lab) -> None:
    pods = three_ready(lab)
    budget(lab, minAvailable=3)
    until_status(lab, currentHealthy=3, disruptionsAllowed=0)
    lab.phase(pods[0], "Running")
    lab.check("disruption", "too few", until_status(lab, currentHealthy=2))


def test_eviction(lab: Lab) -> None:
    pods = three_ready(lab)
    budget(lab, minAvailable=2)
    until_status(lab, disruptionsAllowed=1)
    first, second = (pod["metadata"]["name"] for pod in pods[:2])
    evict = {"apiVersion": "policy/v1", "kind": "Eviction"}
    lab.api.post(lab.path("Pod", first) + "/eviction", {**evict, "metadata": {"name": first}}).ok(201)
    eventually(lambda: lab.gone("Pod", first), what="the first pod goes")
    answer = lab.api.post(lab.path("Pod", second) + "/eviction", {**evict, "metadata": {"name": second}})
    answer.refused(429, "TooManyRequests", "Cannot evict pod as it would violate the pod's disruption budget.")
    until_status(lab, disruptionsAllowed=0, currentHealthy=2, expectedPods=3)
    lab.all_ready(3)
    until_status(lab, disruptionsAllowed=1)


@pytest.mark.parametrize(
    ("spec", "goes"),
    [
        ({"maxUnavailable": 1}, False),  # one pod, of which none need be healthy: a pod that is not yet stays all the same
        ({"maxUnavailable": 1, "unhealthyPodEvictionPolicy": "IfHealthyBudget"}, False),
        ({"maxUnavailable": 1, "unhealthyPodEvictionPolicy": "AlwaysAllow"}, True),
    ],
)
def test_eviction_of_the_only_one_while_it_starts(lab: Lab, spec: Object, goes: bool) -> None:
    body = {"replicas": 1, "selector": {"matchLabels": LABELS}, "template": template(labels=LABELS)}
    lab.create("ReplicaSet", "web", body)
    [pod] = lab.all_ready(1)
    lab.phase(pod, "Running")
    budget(lab, **spec)
    until_status(lab, currentHealthy=0, desiredHealthy=0, expectedPods=1)
    name = pod["metadata"]["name"]
    evict = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    answer = lab.api.post(lab.path("Pod", name) + "/eviction", evict)
    if goes:
        answer.ok(201)
    else:
        answer.refused(429, "TooManyRequests", "Cannot evict pod as it would violate the pod's disruption budget.")


def test_eviction_of_one_that_is_not_ready_beside_enough_that_are(lab: Lab) -> None:
    pods = three_ready(lab)
    lab.phase(pods[0], "Running")
    budget(lab, minAvailable=2)
    until_status(lab, currentHealthy=2, desiredHealthy=2, disruptionsAllowed=0)
    name = pods[0]["metadata"]["name"]
    evict = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    lab.api.post(lab.path("Pod", name) + "/eviction", evict).ok(201)
