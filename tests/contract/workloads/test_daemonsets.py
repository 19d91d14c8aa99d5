"""DaemonSets: which nodes they run on, and how they are updated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.waiting import eventually
from tests.support.workloads import Lab, summary, template

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.clusters import Cluster

Object = dict[str, Any]
LABELS = {"app": "agent"}


class Fleet:
    """Nodes of one case, which a label of their own sets apart."""

    def __init__(self, lab: Lab, prefix: str) -> None:
        self.lab, self.prefix = lab, prefix
        self.names: list[str] = []

    def add(self, name: str, effect: str | None = None) -> str:
        """A node, which may have its taint from the start: one that comes later may come too late."""
        full = f"{self.prefix}-{name}"
        metadata = {"name": full, "labels": {"fleet": self.prefix}}
        self.lab.api.post("/api/v1/nodes", {"metadata": metadata, "spec": {"taints": _bad(effect)}}).ok(201)
        well = {"type": "Ready", "status": "True", "lastHeartbeatTime": None, "lastTransitionTime": None, "reason": "Told"}
        size = {"cpu": "8", "memory": "32Gi", "pods": "110"}
        status = {"conditions": [well], "capacity": size, "allocatable": size}
        self.lab.api.patch(f"/api/v1/nodes/{full}/status", {"status": status}).ok(200)
        self.names.append(full)
        self.lab.words[full] = f"NODE-{name}"
        return full

    def taint(self, name: str, effect: str | None) -> None:
        self.lab.api.patch(f"/api/v1/nodes/{name}", {"spec": {"taints": _bad(effect)}}).ok(200)

    def close(self) -> None:
        for name in self.names:
            self.lab.api.delete(f"/api/v1/nodes/{name}")


def _bad(effect: str | None) -> list[Object] | None:
    return [{"key": "example.com/bad", "effect": effect}] if effect else None


@pytest.fixture
def lab(cluster: Cluster, ns: str) -> Lab:
    return Lab(cluster, ns)


@pytest.fixture
def fleet(lab: Lab, unique_name: str) -> Iterator[Fleet]:
    found = Fleet(lab, unique_name)
    yield found
    found.close()


def daemon_set(lab: Lab, fleet: Fleet, **spec: Any) -> None:
    pod = template(labels=LABELS, nodeSelector={"fleet": fleet.prefix}, terminationGracePeriodSeconds=0)
    lab.words[fleet.prefix] = "FLEET"
    lab.create("DaemonSet", "agent", {"selector": {"matchLabels": LABELS}, "template": pod, **spec})


def placed(lab: Lab, *nodes: str) -> dict[str, Object]:
    """The pods by node, once there is one on each of these."""

    def look() -> dict[str, Object] | None:
        found = {pod["spec"].get("nodeName", ""): pod for pod in lab.items("Pod") if "deletionTimestamp" not in pod["metadata"]}
        return found if set(found) == set(nodes) else None

    return eventually(look, what=f"pods on {nodes}")


def until_status(lab: Lab, **numbers: int) -> Object:
    def look(found: Object) -> bool:
        return all(found["status"].get(name, 0) == number for name, number in numbers.items())

    return lab.until("DaemonSet", "agent", look, f"{numbers}")


def test_one_on_each_node(lab: Lab, fleet: Fleet) -> None:
    first, second = fleet.add("a"), fleet.add("b")
    daemon_set(lab, fleet)
    pods = placed(lab, first, second)
    for pod in pods.values():
        lab.phase(pod, "Running", ready=True)
    found = until_status(lab, numberAvailable=2)
    pod = pods[first]
    lab.words[pod["metadata"]["labels"]["controller-revision-hash"]] = "HASH"
    told = lab.events("DaemonSet", "agent", "SuccessfulCreate", 2)
    spec = {key: pod["spec"].get(key) for key in ("affinity", "tolerations")}
    lab.check("daemonsets", "two nodes", {"status": found["status"], "pod": summary(pod), "spec": spec, "events": told})
    third = fleet.add("c")
    placed(lab, first, second, third)


def test_taints(lab: Lab, fleet: Fleet) -> None:
    first, second = fleet.add("a"), fleet.add("b", "NoSchedule")
    daemon_set(lab, fleet)
    placed(lab, first)
    fleet.taint(second, None)
    placed(lab, first, second)
    fleet.taint(second, "NoExecute")
    placed(lab, first)
    until_status(lab, currentNumberScheduled=1, desiredNumberScheduled=1)


def test_ended_pods_are_replaced(lab: Lab, fleet: Fleet) -> None:
    node = fleet.add("a")
    daemon_set(lab, fleet)
    pod = placed(lab, node)[node]
    lab.words[pod["metadata"]["name"]] = "POD"
    lab.phase(pod, "Failed", 1)
    told = lab.events("DaemonSet", "agent", "FailedDaemonPod")
    lab.check("daemonsets", "failed", [event for event in told if event["reason"] == "FailedDaemonPod"])
    eventually(lambda: placed(lab, node)[node]["metadata"]["name"] != pod["metadata"]["name"], what="another pod")


def test_rolling_update(lab: Lab, fleet: Fleet) -> None:
    first, second = fleet.add("a"), fleet.add("b")
    daemon_set(lab, fleet)
    for pod in placed(lab, first, second).values():
        lab.phase(pod, "Running", ready=True)
    until_status(lab, numberAvailable=2)
    containers = [{"name": "main", "image": "example.com/app:2"}]
    lab.patch("DaemonSet", "agent", {"spec": {"template": {"spec": {"containers": containers}}}})

    def new_pods() -> list[Object]:
        pods = [pod for pod in lab.items("Pod") if "deletionTimestamp" not in pod["metadata"]]
        return [pod for pod in pods if pod["spec"]["containers"][0]["image"] == "example.com/app:2" and pod["spec"].get("nodeName")]

    for number in (1, 2):
        eventually(lambda number=number: len(new_pods()) == number, what=f"{number} new pods")  # type: ignore[misc]
        for pod in new_pods():
            lab.phase(pod, "Running", ready=True)
    lab.settles("daemonsets", "updated", lambda: lab.get("DaemonSet", "agent")["status"])
    assert len(lab.items("ControllerRevision")) == 2


def test_on_delete(lab: Lab, fleet: Fleet) -> None:
    node = fleet.add("a")
    daemon_set(lab, fleet, updateStrategy={"type": "OnDelete"})
    pod = placed(lab, node)[node]
    containers = [{"name": "main", "image": "example.com/app:2"}]
    lab.patch("DaemonSet", "agent", {"spec": {"template": {"spec": {"containers": containers}}}})
    until_status(lab, observedGeneration=2, currentNumberScheduled=1, updatedNumberScheduled=0)
    lab.delete("Pod", pod["metadata"]["name"], gracePeriodSeconds=0)
    until_status(lab, updatedNumberScheduled=1)
