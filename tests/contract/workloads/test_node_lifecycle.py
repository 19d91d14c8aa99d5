"""Nodes that fall silent or say that they are unwell, and what becomes of their pods."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.waiting import PATIENCE, eventually
from tests.support.workloads import Lab, template

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.clusters import Cluster

Object = dict[str, Any]
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
WELL = {"MemoryPressure": "False", "DiskPressure": "False", "PIDPressure": "False", "Ready": "True"}


@pytest.fixture
def lab(cluster: Cluster, ns: str) -> Lab:
    return Lab(cluster, ns)


class Nodes:
    """Nodes of one case, in a zone of their own, and a kubelet that keeps some of them alive."""

    def __init__(self, lab: Lab, prefix: str) -> None:
        self.lab, self.prefix = lab, prefix
        self.names: list[str] = []
        self.alive: list[str] = []
        self._end = threading.Event()
        self._heart = threading.Thread(target=self._beat, daemon=True)
        self._heart.start()

    def add(self, name: str, conditions: Object | None = None, *, alive: bool = False, **spec: Any) -> str:
        full = f"{self.prefix}-{name}"
        labels = {"topology.kubernetes.io/zone": f"{self.prefix}-{name}", "kubernetes.io/os": "linux"}
        body = {"metadata": {"name": full, "labels": labels}, "spec": spec}
        self.lab.api.post("/api/v1/nodes", body).ok(201)
        self.names.append(full)
        self.lab.words[full] = f"NODE-{name}"
        if conditions:
            self.report(full, conditions)
        if alive:
            lease = {"metadata": {"name": full}, "spec": {"holderIdentity": full, "leaseDurationSeconds": 40, "renewTime": _now()}}
            eventually(lambda: self.lab.api.post(LEASES, lease).status == 201, what="a lease")
            self.alive.append(full)
        return full

    def report(self, name: str, conditions: Object) -> None:
        times = {"lastHeartbeatTime": _now(micro=False), "lastTransitionTime": _now(micro=False)}
        told = [{"type": kind, "status": status, "reason": "Told", **times} for kind, status in conditions.items()]
        self.lab.api.patch(f"/api/v1/nodes/{name}/status", {"status": {"conditions": told}}).ok(200)

    def get(self, name: str) -> Object:
        found: Object = self.lab.api.get(f"/api/v1/nodes/{name}").ok(200).json
        return found

    def until_taints(self, name: str, *taints: tuple[str, str], seconds: float = PATIENCE) -> Object:
        """The node, once it has just these taints."""
        wanted = {(f"node.kubernetes.io/{key}", effect) for key, effect in taints}

        def look() -> Object | None:
            node = self.get(name)
            found = {(each["key"], each["effect"]) for each in node["spec"].get("taints", ())}
            return node if found == wanted else None

        return eventually(look, seconds, what=f"{name} has {sorted(wanted)}")

    def events(self, name: str, last: str) -> list[Object]:
        def look() -> list[Object] | None:
            query = {"fieldSelector": f"involvedObject.kind=Node,involvedObject.name={name}"}
            found: list[Object] = self.lab.api.get("/api/v1/namespaces/default/events", query).ok(200).json["items"]
            return found if any(event["reason"] == last for event in found) else None

        told = [
            {key: event[key] for key in ("type", "reason", "message")} | {"by": event["source"]["component"]}
            for event in eventually(look, what=f"{last} on {name}")
        ]
        return sorted(told, key=lambda event: str(event["reason"]))

    def _beat(self) -> None:
        while not self._end.wait(5):
            for name in list(self.alive):
                self.lab.api.patch(f"{LEASES}/{name}", {"spec": {"renewTime": _now()}})

    def close(self) -> None:
        self._end.set()
        self._heart.join()
        for name in self.names:
            self.lab.api.delete(f"/api/v1/nodes/{name}")
            self.lab.api.delete(f"{LEASES}/{name}")


def _now(*, micro: bool = True) -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ" if micro else "%Y-%m-%dT%H:%M:%SZ")


@pytest.fixture
def nodes(lab: Lab, unique_name: str) -> Iterator[Nodes]:
    found = Nodes(lab, unique_name)
    yield found
    found.close()


def pod(lab: Lab, name: str, node: str, *tolerations: Object, ready: bool = True) -> None:
    body = {"metadata": {"name": name}, "spec": {**template()["spec"], "nodeName": node}}
    if tolerations:
        body["spec"]["tolerations"] = list(tolerations)
    lab.api.post(lab.path("Pod"), body).ok(201)
    lab.phase(name, "Running", ready=ready)


def conditions(found: Object) -> list[Object]:
    return [{key: each.get(key) for key in ("type", "status", "reason", "message")} for each in found["status"]["conditions"]]


def tolerating(key: str, seconds: int | None = None) -> Object:
    found: Object = {"key": key, "operator": "Exists", "effect": "NoExecute"}
    return found if seconds is None else {**found, "tolerationSeconds": seconds}


def test_new_nodes_are_registered(lab: Lab, nodes: Nodes) -> None:
    name = nodes.add("a", WELL)
    lab.check("nodes", "registered", nodes.events(name, "RegisteredNode"))
    eventually(lambda: nodes.get(name)["metadata"]["labels"].get("beta.kubernetes.io/os") == "linux", what="older labels")


def test_removed_nodes_are_told_of(lab: Lab, nodes: Nodes) -> None:
    name = nodes.add("a", WELL)
    nodes.events(name, "RegisteredNode")
    lab.api.delete(f"/api/v1/nodes/{name}").ok()
    lab.check("nodes", "removed", nodes.events(name, "RemovingNode"))


def test_new_node_that_has_said_nothing(nodes: Nodes) -> None:
    """The taint that every new node gets goes again: nothing says yet that it is not ready."""
    nodes.until_taints(nodes.add("a"))


def test_unschedulable(lab: Lab, nodes: Nodes) -> None:
    name = nodes.add("a", WELL)
    nodes.until_taints(name)
    lab.api.patch(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": True}}).ok()
    nodes.until_taints(name, ("unschedulable", "NoSchedule"))
    lab.api.patch(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": None}}).ok()
    nodes.until_taints(name)


def test_under_pressure(nodes: Nodes) -> None:
    name = nodes.add("a", {**WELL, "MemoryPressure": "True", "PIDPressure": "True"})
    nodes.until_taints(name, ("memory-pressure", "NoSchedule"), ("pid-pressure", "NoSchedule"))
    nodes.report(name, WELL)
    nodes.until_taints(name)


def test_says_that_it_is_not_ready(nodes: Nodes) -> None:
    nodes.add("well", WELL, alive=True)
    name = nodes.add("a", WELL)
    nodes.until_taints(name)
    nodes.report(name, {**WELL, "Ready": "False"})
    nodes.until_taints(name, ("not-ready", "NoSchedule"), ("not-ready", "NoExecute"))
    nodes.report(name, WELL)
    nodes.until_taints(name)


def test_pods_that_do_not_tolerate_leave_at_once(lab: Lab, nodes: Nodes) -> None:
    name = nodes.add("a", WELL)
    pod(lab, "plain", name)
    pod(lab, "patient", name, tolerating("example.com/bad", 3))
    pod(lab, "steady", name, tolerating("example.com/bad"))
    lab.api.patch(f"/api/v1/nodes/{name}", {"spec": {"taints": [{"key": "example.com/bad", "effect": "NoExecute"}]}}).ok()
    eventually(lambda: "deletionTimestamp" in lab.get("Pod", "plain")["metadata"], what="the plain pod leaves")
    found = lab.get("Pod", "plain")
    target = next(each for each in found["status"]["conditions"] if each["type"] == "DisruptionTarget")
    lab.check("nodes", "evicted", {"condition": target, "events": lab.events("Pod", "plain", "TaintManagerEviction")})
    assert "deletionTimestamp" not in lab.get("Pod", "patient")["metadata"]
    eventually(lambda: "deletionTimestamp" in lab.get("Pod", "patient")["metadata"], what="the patient pod leaves")
    assert "deletionTimestamp" not in lab.get("Pod", "steady")["metadata"]


def test_taint_that_goes_away_in_time(lab: Lab, nodes: Nodes) -> None:
    name = nodes.add("a", WELL)
    pod(lab, "patient", name, tolerating("example.com/bad", 60))
    lab.api.patch(f"/api/v1/nodes/{name}", {"spec": {"taints": [{"key": "example.com/bad", "effect": "NoExecute"}]}}).ok()
    eventually(lambda: nodes.get(name)["spec"].get("taints"))
    threading.Event().wait(1)
    lab.api.patch(f"/api/v1/nodes/{name}", {"spec": {"taints": None}}).ok()
    lab.check("nodes", "cancelled", lab.events("Pod", "patient", "TaintManagerEviction"))
    assert "deletionTimestamp" not in lab.get("Pod", "patient")["metadata"]


@pytest.mark.long(110)
@pytest.mark.timeout(600)
def test_silence(lab: Lab, nodes: Nodes) -> None:
    """The long one: a node stops to answer, another never did, a third is gone, and what becomes of their pods."""
    nodes.add("well", WELL, alive=True)
    silent, never, gone = nodes.add("silent", WELL), nodes.add("never"), nodes.add("gone", WELL)
    pod(lab, "plain", silent)
    pod(lab, "hasty", silent, tolerating("node.kubernetes.io/unreachable", 1))
    pod(lab, "lost", gone)
    lab.api.delete(f"/api/v1/nodes/{gone}").ok()
    found = nodes.until_taints(silent, ("unreachable", "NoSchedule"), ("unreachable", "NoExecute"), seconds=50 + PATIENCE)
    lab.check("nodes", "silent", {"conditions": conditions(found), "events": nodes.events(silent, "NodeNotReady")})
    found = lab.until("Pod", "plain", lambda pod: _ready(pod) == "False")
    assert "deletionTimestamp" not in found["metadata"]
    lab.check("nodes", "pod of a silent node", lab.events("Pod", "plain", "NodeNotReady"))
    eventually(lambda: "deletionTimestamp" in lab.get("Pod", "hasty")["metadata"], what="the hasty pod leaves")
    found = nodes.until_taints(never, ("unreachable", "NoSchedule"), ("unreachable", "NoExecute"))
    lab.check("nodes", "never heard of", {"conditions": conditions(found)})
    eventually(lambda: lab.gone("Pod", "lost"), what="the pod of a node that is gone")
    nodes.report(silent, WELL)
    nodes.until_taints(silent)


def _ready(found: Object) -> str:
    return next((str(each["status"]) for each in found["status"].get("conditions", ()) if each["type"] == "Ready"), "")
