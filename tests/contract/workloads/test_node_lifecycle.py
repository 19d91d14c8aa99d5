"""Nodes that become unreachable or not ready, and the fate of their pods."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.polling import PATIENCE, eventually, on_clock, pass_time
from tests.support.workloads import WorkloadHarness, template

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.clusters import Cluster

Object = dict[str, Any]
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
WELL = {"MemoryPressure": "False", "DiskPressure": "False", "PIDPressure": "False", "Ready": "True"}


@pytest.fixture
def workloads(cluster: Cluster, ns: str) -> WorkloadHarness:
    return WorkloadHarness(cluster, ns)


class Nodes:
    """The nodes of one test, in their own zone; `pass_time` renews the leases of some of them, as a kubelet does."""

    def __init__(self, workloads: WorkloadHarness, prefix: str) -> None:
        self.workloads, self.prefix = workloads, prefix
        self.names: list[str] = []
        self.alive: list[str] = []
        self._renewed = time.monotonic()
        self._passed = 0.0

    def add(self, name: str, conditions: Object | None = None, *, alive: bool = False, **spec: Any) -> str:
        full = f"{self.prefix}-{name}"
        labels = {"topology.kubernetes.io/zone": f"{self.prefix}-{name}", "kubernetes.io/os": "linux"}
        body = {"metadata": {"name": full, "labels": labels}, "spec": spec}
        self.workloads.api.post("/api/v1/nodes", body).ok(201)
        self.names.append(full)
        self.workloads.words[full] = f"NODE-{name}"
        if conditions:
            self.report(full, conditions)
        if alive:
            self.keep_alive(full)
        return full

    def keep_alive(self, name: str) -> None:
        """Renew the node's lease from now on."""
        lease = {"metadata": {"name": name}, "spec": {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": _now()}}
        eventually(lambda: self.workloads.api.post(LEASES, lease).status == 201, what="a lease")
        self.alive.append(name)

    def report(self, name: str, conditions: Object) -> None:
        times = {"lastHeartbeatTime": _now(micro=False), "lastTransitionTime": _now(micro=False)}
        reported = [{"type": kind, "status": status, "reason": "Told", **times} for kind, status in conditions.items()]
        self.workloads.api.patch(f"/api/v1/nodes/{name}/status", {"status": {"conditions": reported}}).ok(200)

    def get(self, name: str) -> Object:
        result: Object = self.workloads.api.get(f"/api/v1/nodes/{name}").ok(200).json
        return result

    def until_taints(self, name: str, *taints: tuple[str, str], seconds: float = PATIENCE) -> Object:
        """Wait until the node has exactly these taints."""
        expected = {(f"node.kubernetes.io/{key}", effect) for key, effect in taints}

        def find() -> Object | None:
            node = self.get(name)
            result = {(taint["key"], taint["effect"]) for taint in node["spec"].get("taints", ())}
            return node if result == expected else None

        return eventually(find, seconds, what=f"{name} has {sorted(expected)}")

    def events(self, name: str, last: str) -> list[Object]:
        def find() -> list[Object] | None:
            query = {"fieldSelector": f"involvedObject.kind=Node,involvedObject.name={name}"}
            result: list[Object] = self.workloads.api.get("/api/v1/namespaces/default/events", query).ok(200).json["items"]
            return result if any(event["reason"] == last for event in result) else None

        reported = [
            {key: event[key] for key in ("type", "reason", "message")} | {"by": event["source"]["component"]}
            for event in eventually(find, what=f"{last} on {name}")
        ]
        return sorted(reported, key=lambda event: str(event["reason"]))

    def pass_time(self, seconds: float) -> None:
        self.workloads.cluster.pass_time(seconds)
        self._passed += seconds
        # Real time passes too while a busy machine answers.
        if self._passed + time.monotonic() - self._renewed >= 5:
            self._renewed, self._passed = time.monotonic(), 0.0
            for name in self.alive:
                self.workloads.api.patch(f"{LEASES}/{name}", {"spec": {"renewTime": _now()}})

    def close(self) -> None:
        for name in self.names:
            self.workloads.api.delete(f"/api/v1/nodes/{name}")
            self.workloads.api.delete(f"{LEASES}/{name}")


def _now(*, micro: bool = True) -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ" if micro else "%Y-%m-%dT%H:%M:%SZ")


@pytest.fixture
def nodes(workloads: WorkloadHarness, unique_name: str) -> Iterator[Nodes]:
    result = Nodes(workloads, unique_name)
    with on_clock(result.pass_time):
        yield result
    result.close()


def pod(workloads: WorkloadHarness, name: str, node: str, *tolerations: Object, ready: bool = True) -> None:
    body = {"metadata": {"name": name}, "spec": {**template()["spec"], "nodeName": node}}
    if tolerations:
        body["spec"]["tolerations"] = list(tolerations)
    workloads.api.post(workloads.path("Pod"), body).ok(201)
    workloads.phase(name, "Running", ready=ready)


def conditions(obj: Object) -> list[Object]:
    return [
        {key: condition.get(key) for key in ("type", "status", "reason", "message")} for condition in obj["status"]["conditions"]
    ]


def tolerating(key: str, seconds: int | None = None) -> Object:
    result: Object = {"key": key, "operator": "Exists", "effect": "NoExecute"}
    return result if seconds is None else {**result, "tolerationSeconds": seconds}


def test_new_nodes_are_registered(workloads: WorkloadHarness, nodes: Nodes) -> None:
    name = nodes.add("a", WELL)
    workloads.check("nodes", "registered", nodes.events(name, "RegisteredNode"))
    eventually(lambda: nodes.get(name)["metadata"]["labels"].get("beta.kubernetes.io/os") == "linux", what="older labels")


def test_removed_node_has_an_event(workloads: WorkloadHarness, nodes: Nodes) -> None:
    name = nodes.add("a", WELL)
    nodes.events(name, "RegisteredNode")
    workloads.api.delete(f"/api/v1/nodes/{name}").ok()
    workloads.check("nodes", "removed", nodes.events(name, "RemovingNode"))


def test_new_node_without_status(nodes: Nodes) -> None:
    """The controller removes the taint of new nodes, because no condition says that the node is not ready."""
    nodes.until_taints(nodes.add("a"))


def test_unschedulable_node_is_tainted(workloads: WorkloadHarness, nodes: Nodes) -> None:
    name = nodes.add("a", WELL, alive=True)
    nodes.until_taints(name)
    workloads.api.patch(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": True}}).ok()
    nodes.until_taints(name, ("unschedulable", "NoSchedule"))
    workloads.api.patch(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": None}}).ok()
    nodes.until_taints(name)


def test_pressure_conditions_are_taints(nodes: Nodes) -> None:
    name = nodes.add("a", {**WELL, "MemoryPressure": "True", "PIDPressure": "True"}, alive=True)
    nodes.until_taints(name, ("memory-pressure", "NoSchedule"), ("pid-pressure", "NoSchedule"))
    nodes.report(name, WELL)
    nodes.until_taints(name)


def test_not_ready_node_is_tainted(nodes: Nodes) -> None:
    nodes.add("well", WELL, alive=True)
    name = nodes.add("a", WELL, alive=True)
    nodes.until_taints(name)
    nodes.report(name, {**WELL, "Ready": "False"})
    nodes.until_taints(name, ("not-ready", "NoSchedule"), ("not-ready", "NoExecute"))
    nodes.report(name, WELL)
    nodes.until_taints(name)


def test_pods_without_toleration_are_evicted(workloads: WorkloadHarness, nodes: Nodes) -> None:
    name = nodes.add("a", WELL, alive=True)
    pod(workloads, "plain", name)
    pod(workloads, "patient", name, tolerating("example.com/bad", 10))
    pod(workloads, "steady", name, tolerating("example.com/bad"))
    workloads.api.patch(f"/api/v1/nodes/{name}", {"spec": {"taints": [{"key": "example.com/bad", "effect": "NoExecute"}]}}).ok()
    eventually(lambda: "deletionTimestamp" in workloads.get("Pod", "plain")["metadata"], what="the plain pod leaves")
    result = workloads.get("Pod", "plain")
    target = next(condition for condition in result["status"]["conditions"] if condition["type"] == "DisruptionTarget")
    workloads.check("nodes", "evicted", {"condition": target, "events": workloads.events("Pod", "plain", "TaintManagerEviction")})
    assert "deletionTimestamp" not in workloads.get("Pod", "patient")["metadata"]
    eventually(lambda: "deletionTimestamp" in workloads.get("Pod", "patient")["metadata"], what="the patient pod leaves")
    assert "deletionTimestamp" not in workloads.get("Pod", "steady")["metadata"]


def test_removed_taint_cancels_eviction(workloads: WorkloadHarness, nodes: Nodes) -> None:
    name = nodes.add("a", WELL, alive=True)
    pod(workloads, "patient", name, tolerating("example.com/bad", 60))
    workloads.api.patch(f"/api/v1/nodes/{name}", {"spec": {"taints": [{"key": "example.com/bad", "effect": "NoExecute"}]}}).ok()
    eventually(lambda: nodes.get(name)["spec"].get("taints"))
    pass_time(1)
    workloads.api.patch(f"/api/v1/nodes/{name}", {"spec": {"taints": None}}).ok()
    workloads.check("nodes", "cancelled", workloads.events("Pod", "patient", "TaintManagerEviction"))
    assert "deletionTimestamp" not in workloads.get("Pod", "patient")["metadata"]


@pytest.mark.long(110)
@pytest.mark.timeout(600)
def test_unreachable_node(workloads: WorkloadHarness, nodes: Nodes) -> None:
    """The long test: one node becomes unreachable, one never reported, one is deleted; then their pods are checked."""
    nodes.add("well", WELL, alive=True)
    silent, never, deleted = nodes.add("silent", WELL), nodes.add("never"), nodes.add("gone", WELL)
    pod(workloads, "plain", silent)
    pod(workloads, "hasty", silent, tolerating("node.kubernetes.io/unreachable", 1))
    pod(workloads, "lost", deleted)
    workloads.api.delete(f"/api/v1/nodes/{deleted}").ok()
    result = nodes.until_taints(silent, ("unreachable", "NoSchedule"), ("unreachable", "NoExecute"), seconds=50 + PATIENCE)
    workloads.check("nodes", "silent", {"conditions": conditions(result), "events": nodes.events(silent, "NodeNotReady")})
    result = workloads.until("Pod", "plain", lambda pod: _ready(pod) == "False")
    assert "deletionTimestamp" not in result["metadata"]
    workloads.check("nodes", "pod of a silent node", workloads.events("Pod", "plain", "NodeNotReady"))
    eventually(lambda: "deletionTimestamp" in workloads.get("Pod", "hasty")["metadata"], what="the hasty pod leaves")
    result = nodes.until_taints(never, ("unreachable", "NoSchedule"), ("unreachable", "NoExecute"))
    workloads.check("nodes", "never heard of", {"conditions": conditions(result)})
    eventually(lambda: workloads.gone("Pod", "lost"), what="the pod of a deleted node")
    nodes.keep_alive(silent)
    nodes.report(silent, WELL)
    nodes.until_taints(silent)


def _ready(obj: Object) -> str:
    return next((str(condition["status"]) for condition in obj["status"].get("conditions", ()) if condition["type"] == "Ready"), "")
