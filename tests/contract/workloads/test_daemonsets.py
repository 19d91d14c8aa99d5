"""DaemonSets: which nodes they run on, and how they are updated."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.polling import eventually
from tests.support.workloads import WorkloadHarness, summary, template

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.clusters import Cluster

Object = dict[str, Any]
pytestmark = pytest.mark.controllers
LABELS = {"app": "agent"}


class NodeGroup:
    """The nodes of one test, identified by a label."""

    def __init__(self, workloads: WorkloadHarness, prefix: str) -> None:
        self.workloads, self.prefix = workloads, prefix
        self.names: list[str] = []

    def add(self, name: str, effect: str | None = None) -> str:
        """Add a node; a taint that is set later may be too late."""
        full = f"{self.prefix}-{name}"
        metadata = {"name": full, "labels": {"fleet": self.prefix}}
        self.workloads.api.post("/api/v1/nodes", {"metadata": metadata, "spec": {"taints": _bad(effect)}}).ok(201)
        well = {"type": "Ready", "status": "True", "lastHeartbeatTime": None, "lastTransitionTime": None, "reason": "Told"}
        size = {"cpu": "8", "memory": "32Gi", "pods": "110"}
        status = {"conditions": [well], "capacity": size, "allocatable": size}
        self.workloads.api.patch(f"/api/v1/nodes/{full}/status", {"status": status}).ok(200)
        self.names.append(full)
        self.workloads.words[full] = f"NODE-{name}"
        return full

    def taint(self, name: str, effect: str | None) -> None:
        self.workloads.api.patch(f"/api/v1/nodes/{name}", {"spec": {"taints": _bad(effect)}}).ok(200)

    def close(self) -> None:
        for name in self.names:
            self.workloads.api.delete(f"/api/v1/nodes/{name}")


def _bad(effect: str | None) -> list[Object] | None:
    return [{"key": "example.com/bad", "effect": effect}] if effect else None


@pytest.fixture
def workloads(cluster: Cluster, ns: str) -> WorkloadHarness:
    return WorkloadHarness(cluster, ns)


@pytest.fixture
def node_group(workloads: WorkloadHarness, unique_name: str) -> Iterator[NodeGroup]:
    result = NodeGroup(workloads, unique_name)
    yield result
    result.close()


def daemon_set(workloads: WorkloadHarness, node_group: NodeGroup, **spec: Any) -> None:
    pod = template(labels=LABELS, nodeSelector={"fleet": node_group.prefix}, terminationGracePeriodSeconds=0)
    workloads.words[node_group.prefix] = "FLEET"
    workloads.create("DaemonSet", "agent", {"selector": {"matchLabels": LABELS}, "template": pod, **spec})


def wait_for_pods(workloads: WorkloadHarness, *nodes: str) -> dict[str, Object]:
    """Wait for one pod on each of these nodes; returns the pods by node."""

    def find() -> dict[str, Object] | None:
        result = {
            pod["spec"].get("nodeName", ""): pod for pod in workloads.items("Pod") if "deletionTimestamp" not in pod["metadata"]
        }
        return result if set(result) == set(nodes) else None

    return eventually(find, what=f"pods on {nodes}")


def until_status(workloads: WorkloadHarness, **expected: int) -> Object:
    def matches(obj: Object) -> bool:
        return all(obj["status"].get(name, 0) == number for name, number in expected.items())

    return workloads.until("DaemonSet", "agent", matches, f"{expected}")


def test_daemonset_runs_one_pod_per_node(workloads: WorkloadHarness, node_group: NodeGroup) -> None:
    first, second = node_group.add("a"), node_group.add("b")
    daemon_set(workloads, node_group)
    pods = wait_for_pods(workloads, first, second)
    for pod in pods.values():
        workloads.phase(pod, "Running", ready=True)
    result = until_status(workloads, numberAvailable=2)
    pod = pods[first]
    workloads.words[pod["metadata"]["labels"]["controller-revision-hash"]] = "HASH"
    reported = workloads.events("DaemonSet", "agent", "SuccessfulCreate", 2)
    spec = {key: pod["spec"].get(key) for key in ("affinity", "tolerations")}
    workloads.check("daemonsets", "two nodes", {"status": result["status"], "pod": summary(pod), "spec": spec, "events": reported})
    third = node_group.add("c")
    wait_for_pods(workloads, first, second, third)


def test_taints_are_respected(workloads: WorkloadHarness, node_group: NodeGroup) -> None:
    first, second = node_group.add("a"), node_group.add("b", "NoSchedule")
    daemon_set(workloads, node_group)
    wait_for_pods(workloads, first)
    node_group.taint(second, None)
    wait_for_pods(workloads, first, second)
    node_group.taint(second, "NoExecute")
    wait_for_pods(workloads, first)
    until_status(workloads, currentNumberScheduled=1, desiredNumberScheduled=1)


def test_finished_pods_are_replaced(workloads: WorkloadHarness, node_group: NodeGroup) -> None:
    node = node_group.add("a")
    daemon_set(workloads, node_group)
    pod = wait_for_pods(workloads, node)[node]
    workloads.words[pod["metadata"]["name"]] = "POD"
    workloads.phase(pod, "Failed", 1)
    reported = workloads.events("DaemonSet", "agent", "FailedDaemonPod")
    workloads.check("daemonsets", "failed", [event for event in reported if event["reason"] == "FailedDaemonPod"])
    eventually(lambda: wait_for_pods(workloads, node)[node]["metadata"]["name"] != pod["metadata"]["name"], what="another pod")


def test_rolling_update(workloads: WorkloadHarness, node_group: NodeGroup) -> None:
    first, second = node_group.add("a"), node_group.add("b")
    daemon_set(workloads, node_group)
    for pod in wait_for_pods(workloads, first, second).values():
        workloads.phase(pod, "Running", ready=True)
    until_status(workloads, numberAvailable=2)
    containers = [{"name": "main", "image": "example.com/app:2"}]
    workloads.patch("DaemonSet", "agent", {"spec": {"template": {"spec": {"containers": containers}}}})

    def new_pods() -> list[Object]:
        pods = [pod for pod in workloads.items("Pod") if "deletionTimestamp" not in pod["metadata"]]
        return [pod for pod in pods if pod["spec"]["containers"][0]["image"] == "example.com/app:2" and pod["spec"].get("nodeName")]

    for number in (1, 2):
        eventually(lambda number=number: len(new_pods()) == number, what=f"{number} new pods")  # type: ignore[misc]
        for pod in new_pods():
            workloads.phase(pod, "Running", ready=True)
    workloads.settles("daemonsets", "updated", lambda: workloads.get("DaemonSet", "agent")["status"])
    assert len(workloads.items("ControllerRevision")) == 2


def test_on_delete_update(workloads: WorkloadHarness, node_group: NodeGroup) -> None:
    node = node_group.add("a")
    daemon_set(workloads, node_group, updateStrategy={"type": "OnDelete"})
    pod = wait_for_pods(workloads, node)[node]
    containers = [{"name": "main", "image": "example.com/app:2"}]
    workloads.patch("DaemonSet", "agent", {"spec": {"template": {"spec": {"containers": containers}}}})
    until_status(workloads, observedGeneration=2, currentNumberScheduled=1, updatedNumberScheduled=0)
    workloads.delete("Pod", pod["metadata"]["name"], gracePeriodSeconds=0)
    until_status(workloads, updatedNumberScheduled=1)


def test_fields_of_a_revision_are_sorted(workloads: WorkloadHarness, node_group: NodeGroup) -> None:
    """Clients compare the template of a revision byte by byte."""
    node = node_group.add("a")
    daemon_set(workloads, node_group)
    wait_for_pods(workloads, node)
    body = workloads.api.get(f"/apis/apps/v1/namespaces/{workloads.ns}/controllerrevisions").ok(200).json
    [data] = [item["data"] for item in body["items"]]
    assert json.dumps(data) == json.dumps(data, sort_keys=True)
