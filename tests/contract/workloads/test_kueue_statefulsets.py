"""StatefulSets in Kueue's queues: their pods are one group, which is admitted before its first pod runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.kueue import PRIORITY, QUEUE
from tests.support.kueue_pods import NAME, KueuePodHarness

if TYPE_CHECKING:
    from tests.support.clusters import Cluster
    from tests.support.kueue_install import Settings

CLUSTER = "pods"
PODS = True
Obj = dict[str, Any]


@pytest.fixture
def harness(cluster: Cluster, kueue: Settings, ns: str) -> KueuePodHarness:
    return KueuePodHarness(cluster, ns)


def group_of(made: Obj) -> str:
    """The name of the group of a StatefulSet's pods, which is that of its Workload."""
    return str(made["spec"]["template"]["metadata"]["labels"][NAME])


def ready(harness: KueuePodHarness, *names: str) -> None:
    """Make each pod ready in turn, as a StatefulSet creates them."""
    for name in names:
        harness.until(lambda: name in harness.pods(), f"{name} is there")  # noqa: B023
        harness.wait_ungated(name)
        harness.phase(name, "Running")


def pictures(harness: KueuePodHarness, *names: str) -> Obj:
    """The pods without the hash of their revision."""
    result = harness.pod_pictures(*names)
    for pod in filter(None, result.values()):
        pod["labels"].pop("controller-revision-hash")
    return result


def test_statefulset_waits_for_quota(harness: KueuePodHarness) -> None:
    harness.priority("high", 100)
    harness.queue("q", {"name": "f", "cpu": 2})
    created = harness.stateful("s", replicas=3, **{PRIORITY: harness.own("high")}).ok(201).json
    group = group_of(created)
    harness.until(lambda: harness.group(group), "the Workload")
    harness.until(lambda: harness.group_condition(group, "QuotaReserved") == "False", "it waits")
    harness.until(lambda: harness.group_condition(group, "WaitingForReplacementPods") == "True", "two pods are missing")
    assert list(harness.pods()) == ["s-0"]
    template = created["spec"]["template"]["metadata"]
    harness.settles(
        "stateful_waits", lambda: {"template": template, "group": harness.group_picture(group), "pods": pictures(harness, "s-0")}
    )


def test_statefulset_is_admitted_with_its_first_pod(harness: KueuePodHarness) -> None:
    harness.queue("q", {"name": "f", "cpu": 3})
    group = group_of(harness.stateful("s", replicas=3).ok(201).json)
    harness.wait_ungated("s-0")
    harness.until(lambda: harness.group_condition(group, "Admitted") == "True", "it is admitted")
    assert list(harness.pods()) == ["s-0"]
    ready(harness, "s-0", "s-1", "s-2")
    harness.until(lambda: len(harness.group(group)["metadata"]["ownerReferences"]) == 3, "all pods are its owners")
    harness.until(
        lambda: harness.get_queue("q")["status"]["flavorsUsage"][0]["resources"][0]["total"] == "3", "all of the quota is used"
    )
    harness.settles(
        "stateful_admitted", lambda: {"group": harness.group_picture(group), "pods": pictures(harness, "s-0", "s-1", "s-2")}
    )


def test_scale_to_zero_and_back(harness: KueuePodHarness) -> None:
    harness.queue("q", {"name": "f", "cpu": 2})
    created = harness.stateful("s", replicas=2).ok(201).json
    ready(harness, "s-0", "s-1")
    refused = harness.api.patch(harness.statefuls("s"), {"spec": {"replicas": 1}})
    harness.compare("stateful_smaller", [refused.status, refused.json.get("message")])
    harness.api.patch(harness.statefuls("s"), {"spec": {"replicas": 0}}).ok()
    harness.wait_deleted("s-0", "s-1")
    harness.until(lambda: not harness.group(group_of(created)), "the Workload is deleted")
    harness.until(lambda: not harness.api.get(harness.statefuls("s")).ok().json["status"].get("replicas"), "it has no pods")
    again = {"spec": {"replicas": 2}}
    harness.until(
        lambda: harness.api.patch(harness.statefuls("s"), again).status == 200, "Kueue knows that the Workload is deleted"
    )
    ready(harness, "s-0", "s-1")
    harness.until(lambda: harness.group_condition(group_of(created), "Admitted") == "True", "it is admitted again")


def test_deletion_deletes_pods_and_workload(harness: KueuePodHarness) -> None:
    harness.queue("q", {"name": "f", "cpu": 2})
    group = group_of(harness.stateful("s", replicas=2).ok(201).json)
    ready(harness, "s-0", "s-1")
    harness.api.delete(harness.statefuls("s"), {"propagationPolicy": "Background"}).ok()
    harness.wait_deleted("s-0", "s-1")
    harness.until(lambda: not harness.group(group), "the Workload is deleted")


def test_pending_statefulset_is_deleted(harness: KueuePodHarness) -> None:
    harness.queue("q", {"name": "f", "cpu": 0})
    group = group_of(harness.stateful("s").ok(201).json)
    harness.until(lambda: harness.group_condition(group, "QuotaReserved") == "False", "it waits")
    harness.api.delete(harness.statefuls("s"), {"propagationPolicy": "Background"}).ok()
    harness.wait_deleted("s-0")
    harness.until(lambda: not harness.group(group), "the Workload is deleted")


def test_immutable_fields_are_rejected(harness: KueuePodHarness) -> None:
    harness.queue("q", {"name": "f", "cpu": 2})
    harness.queue("r", {"name": "f", "cpu": 2})
    created = harness.stateful("s").ok(201).json
    ready(harness, "s-0")
    harness.until(lambda: harness.api.get(harness.statefuls("s")).ok().json["status"].get("readyReplicas") == 1, "it is ready")
    container = {**created["spec"]["template"]["spec"]["containers"][0], "resources": {"requests": {"cpu": 2}}}
    changes: dict[str, Obj] = {
        "queue": {"metadata": {"labels": {QUEUE: "r"}}},
        "no queue": {"metadata": {"labels": {QUEUE: None}}},
        "priority": {"metadata": {"labels": {PRIORITY: "x"}}},
        "requests": {"spec": {"template": {"spec": {"containers": [container]}}}},
    }
    seen = {}
    for name, body in changes.items():
        response = harness.api.patch(harness.statefuls("s"), body)
        seen[name] = [response.status, response.json.get("message")]
    harness.compare("stateful_stays", seen)


def test_queue_of_pending_statefulset_changes(harness: KueuePodHarness) -> None:
    harness.queue("q", {"name": "f", "cpu": 0})
    harness.queue("r", {"name": "f", "cpu": 1})
    group = group_of(harness.stateful("s").ok(201).json)
    harness.until(lambda: harness.group_condition(group, "QuotaReserved") == "False", "it waits")
    changed = harness.api.patch(harness.statefuls("s"), {"metadata": {"labels": {QUEUE: "r"}}}).ok().json
    harness.compare("stateful_moved", changed["spec"]["template"]["metadata"])


def test_default_local_queue(harness: KueuePodHarness) -> None:
    harness.queue("default", {"name": "f", "cpu": 1})
    created = harness.stateful("s", "").ok(201).json
    harness.compare("default_of_stateful", [created["metadata"]["labels"], created["spec"]["template"]["metadata"]])
    harness.wait_ungated("s-0")


def test_invalid_queue_name_is_rejected(harness: KueuePodHarness) -> None:
    answer = harness.stateful("s", "Not_A_Name")
    harness.compare("stateful_refused", [answer.status, answer.json.get("message")])


def test_statefulset_without_queue(harness: KueuePodHarness) -> None:
    created = harness.stateful("s", "").ok(201).json
    assert "annotations" not in created["spec"]["template"]["metadata"]
    pods = harness.until(lambda: list(harness.pods().values()), "its pod")
    assert "schedulingGates" not in pods[0]["spec"]
