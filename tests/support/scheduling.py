"""A stage for scheduling: nodes that are only objects, pods that nobody runs, and what the scheduler says about them."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tests.support.http import MERGE_PATCH, STRATEGIC_PATCH
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.http import Api

Obj = dict[str, Any]
HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
REQUIRED, PREFERRED = "requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution"
UNHELPFUL = "no new claims to deallocate, preemption: 0/{0} nodes are available: {0} Preemption is not helpful for scheduling."
NO_VICTIMS = "no new claims to deallocate, preemption: 0/{0} nodes are available: {0} No preemption victims found for incoming pod."
_NOW = {"gracePeriodSeconds": "0"}
_NODES = "/api/v1/nodes"


class Stage:
    """One case's nodes, and the pods in its namespace."""

    def __init__(self, api: Api, ns: str) -> None:
        self.api, self.ns = api, ns
        self.pods = f"/api/v1/namespaces/{ns}/pods"
        self._classes: list[str] = []
        self._numbers = itertools.count()

    def node(self, name: str, *, labels: Obj | None = None, taints: list[Obj] | None = None, **resources: str) -> str:
        """A node that is ready; resources are written with underscores, `tpu` and `gpu` for short."""
        spec: Obj = {"taints": taints} if taints else {}
        labels = {HOST: name, **(labels or {})}
        self.api.post(_NODES, {"metadata": {"name": name, "labels": labels}, "spec": spec}).ok(201)
        self.offer(name, **resources)
        # A new node has a taint until somebody finds it ready.
        self.api.patch(f"{_NODES}/{name}", {"spec": {"taints": taints}}, MERGE_PATCH).ok()
        return name

    def offer(self, name: str, **resources: str) -> None:
        """Say what a node has."""
        offered = {"cpu": "4", "memory": "8Gi", "pods": "20", **{_resource(key): value for key, value in resources.items()}}
        # The node controller never forgets a name: one that has had the same heartbeat for 50 s, in however many cases, is lost.
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "", "lastHeartbeatTime": now}
        status = {"allocatable": offered, "capacity": offered, "conditions": [ready]}
        self.api.patch(f"{_NODES}/{name}/status", {"status": status}, STRATEGIC_PATCH).ok()

    def change_node(self, name: str, change: Obj) -> None:
        self.api.patch(f"{_NODES}/{name}", change, STRATEGIC_PATCH).ok()

    def drop_node(self, name: str) -> None:
        self.api.delete(f"{_NODES}/{name}").ok()

    def priority(self, name: str, value: int, **fields: Any) -> str:
        """A class of pods with a priority."""
        self._classes.append(name)
        self.api.post("/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": name}, "value": value, **fields}).ok(201)
        return name

    def pod(self, name: str, *, labels: Obj | None = None, asks: Obj | None = None, **spec: Any) -> Obj:
        """Create a pod with one container."""
        container = {"name": "main", "image": "example.test/image:1", "resources": {"requests": {}, "limits": {}}}
        for key, value in (asks or {}).items():
            resource = _resource(key)
            container["resources"]["requests"][resource] = value  # type: ignore[index]
            if "/" in resource:
                container["resources"]["limits"][resource] = value  # type: ignore[index]
        body = {
            "metadata": {"name": name, "labels": labels or {}},
            "spec": {"containers": [container], "terminationGracePeriodSeconds": 0, **spec},
        }
        created: Obj = self.api.post(self.pods, body).ok(201).json
        return created

    def get(self, name: str) -> Obj:
        found: Obj = self.api.get(f"{self.pods}/{name}").ok().json
        return found

    def where(self, name: str) -> str:
        """The node a pod gets."""
        return eventually(lambda: str(self.get(name)["spec"].get("nodeName") or ""), what=f"a node for {name}")

    def condition(self, name: str, kind: str = "PodScheduled") -> Obj:
        """A condition of a pod; empty where there is none."""
        return next((one for one in self.get(name)["status"].get("conditions") or () if one["type"] == kind), {})

    def refusal(self, name: str) -> str:
        """Why a pod has no node."""
        found = eventually(lambda: self.condition(name).get("message"), what=f"a refusal of {name}")
        condition = self.condition(name)
        assert (condition["status"], condition["reason"]) == ("False", "Unschedulable")
        assert "nodeName" not in self.get(name)["spec"]
        return str(found)

    def refused_with(self, name: str, message: str) -> None:
        """Wait until a pod has no node for this reason."""
        said = self.refusal(name)

        def hears_it() -> bool:
            nonlocal said
            said = self.refusal(name)
            return said == message

        try:
            eventually(hears_it, 10)
        except AssertionError as error:
            raise AssertionError(f"{name} was told {said!r} and not {message!r}") from error

    def events(self, name: str, reason: str) -> list[Obj]:
        """The events of a pod with a reason."""
        events = (
            self.api.get(f"/api/v1/namespaces/{self.ns}/events", {"fieldSelector": f"involvedObject.name={name}"})
            .ok()
            .json["items"]
        )
        return [event for event in events if event["reason"] == reason]

    def event(self, name: str, reason: str) -> Obj:
        """The first event with a reason, once there is one."""
        return eventually(lambda: self.events(name, reason), what=f"{reason} of {name}")[0]

    def change_pod(self, name: str, change: Obj) -> None:
        self.api.patch(f"{self.pods}/{name}", change, MERGE_PATCH).ok()

    def end(self, name: str, phase: str = "Succeeded") -> None:
        """A pod's containers have ended."""
        self.api.patch(f"{self.pods}/{name}/status", {"status": {"phase": phase}}, MERGE_PATCH).ok()

    def start(self, name: str, at: str) -> None:
        """A pod runs since a moment."""
        self.api.patch(f"{self.pods}/{name}/status", {"status": {"phase": "Running", "startTime": at}}, MERGE_PATCH).ok()

    def delete(self, name: str) -> None:
        self.api.delete(f"{self.pods}/{name}", query=_NOW).ok()

    def settle(self) -> None:
        """Wait until the scheduler knows all nodes as they are now, and no others: nodes and pods come to it on two lines.

        Each node gets a mark that a pod asks for. What is said of that pod, which no node can hold, tells where the mark was seen;
        all that was said of nodes before comes before it, and a node's copy of what all nodes have (images) is made anew.
        """
        mark = {"mark": f"{self.ns}-{next(self._numbers)}"}
        nodes = self.api.get(_NODES).ok().json["items"]
        for node in nodes:
            self.change_node(node["metadata"]["name"], {"metadata": {"labels": mark}})
        count = len(nodes)
        said = f"0/{count} nodes are available: {count} Insufficient cpu" if nodes else "no nodes available to schedule pods"

        def known() -> bool:
            name = f"probe-{next(self._numbers)}"
            self.pod(name, asks={"cpu": "1000"}, nodeSelector=mark, tolerations=[{"operator": "Exists"}])
            told = str(eventually(lambda: self.condition(name), what=f"a word on {name}").get("message"))
            self.delete(name)
            return told.startswith(said)

        eventually(known, what="a scheduler that knows the nodes")

    def clear(self) -> None:
        """Take everything away."""
        for pod in self.api.get(self.pods).json["items"]:
            self.api.delete(f"{self.pods}/{pod['metadata']['name']}", query=_NOW)
        for node in self.api.get(_NODES).json["items"]:
            self.api.delete(f"{_NODES}/{node['metadata']['name']}")
        for name in self._classes:
            self.api.delete(f"/apis/scheduling.k8s.io/v1/priorityclasses/{name}")


def _resource(name: str) -> str:
    short = {"tpu": "google.com/tpu", "gpu": "nvidia.com/gpu"}
    return short.get(name, name.replace("_", "-"))


def node_affinity(*expressions: Obj, fields: list[Obj] | None = None) -> Obj:
    """Required affinity with one term."""
    term: Obj = {"matchExpressions": list(expressions)} if expressions else {}
    if fields:
        term["matchFields"] = fields
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}}}


def near(labels: dict[str, str], topology: str = HOST, **fields: Any) -> Obj:
    """An affinity term."""
    return {"labelSelector": {"matchLabels": labels}, "topologyKey": topology, **fields}


def expression(key: str, operator: str, *values: str) -> Obj:
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}
