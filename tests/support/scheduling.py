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
_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


class Stage:
    """One case's nodes, and the pods in its namespace."""

    def __init__(self, api: Api, ns: str) -> None:
        self.api, self.ns = api, ns
        self.pods = f"/api/v1/namespaces/{ns}/pods"
        self._classes: dict[str, str] = {}
        self._numbers = itertools.count()
        self._known = True

    def node(self, name: str, *, labels: Obj | None = None, taints: list[Obj] | None = None, **resources: str) -> str:
        """A node that is ready; resources are written with underscores, `tpu` and `gpu` for short."""
        spec: Obj = {"taints": taints} if taints else {}
        labels = {HOST: name, **(labels or {})}
        self.api.post(_NODES, {"metadata": {"name": name, "labels": labels}, "spec": spec}).ok(201)
        self.offer(name, **resources)
        # A new node has a taint until somebody finds it ready.
        self._change(name, {"spec": {"taints": taints}}, MERGE_PATCH)
        return name

    def offer(self, name: str, **resources: str) -> None:
        """Say what a node has."""
        offered = {"cpu": "4", "memory": "8Gi", "pods": "20", **{_resource(key): value for key, value in resources.items()}}
        # The node controller never forgets a name: one that has had the same heartbeat for 50 s, in however many cases, is lost.
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "", "lastHeartbeatTime": now}
        status = {"allocatable": offered, "capacity": offered, "conditions": [ready]}
        self._change(f"{name}/status", {"status": status})

    def images(self, name: str, *images: Obj) -> None:
        """Say which images a node has."""
        self._change(f"{name}/status", {"status": {"images": list(images)}})

    def change_node(self, name: str, change: Obj) -> None:
        self._change(name, change)

    def _change(self, name: str, change: Obj, kind: str = STRATEGIC_PATCH) -> None:
        self.api.patch(f"{_NODES}/{name}", change, kind).ok()
        self._known = False

    def drop_node(self, name: str) -> None:
        self.api.delete(f"{_NODES}/{name}").ok()
        self._known = False

    def priority(self, name: str, value: int, **fields: Any) -> None:
        """A class of pods with a priority, once the API server lets pods have it: classes come to that part of it on a line of
        their own, and one of the same name may have gone just before. So it has another name in each case."""
        self._classes[name] = full = f"{self.ns}-{name}"
        self.api.post(_CLASSES, {"metadata": {"name": full}, "value": value, **fields}).ok(201)
        body = {
            "metadata": {"name": "probe"},
            "spec": {"containers": [{"name": "c", "image": "x"}], "priorityClassName": full},
        }
        eventually(lambda: self.api.post(self.pods, body, {"dryRun": "All"}).status == 201, what=f"the class {name}")

    def serve(self, name: str, selector: dict[str, str]) -> Obj:
        """A Service, once the scheduler knows it: Services and pods come to it on two lines.

        A pod of a later Service goes to the emptier of two nodes, although another of its pods is there, until that is known.
        """
        home = f"/api/v1/namespaces/{self.ns}/services"
        mark = {"probe": f"{self.ns}-{next(self._numbers)}"}
        made: Obj = self.api.post(home, _service(name, selector)).ok(201).json
        self.api.post(home, _service("probe", mark)).ok(201)
        for node in ("emptier", "fuller"):
            self.node(node)
        self.pod("ballast", asks={"cpu": "1", "memory": "2Gi"}, nodeSelector={HOST: "fuller"})
        self.pod("first", labels=mark, nodeSelector={HOST: "emptier"})
        self.where("ballast"), self.where("first")

        def known() -> bool:
            probe = f"probe-{next(self._numbers)}"
            self.pod(probe, labels=mark)
            went = self.where(probe)
            self.delete(probe)
            return went == "fuller"

        eventually(known, what=f"a scheduler that knows {name}")
        for pod in ("ballast", "first"):
            self.delete(pod)
        for node in ("emptier", "fuller"):
            self.drop_node(node)
        self.api.delete(f"{home}/probe").ok()
        return made

    def pod(self, name: str, *, labels: Obj | None = None, asks: Obj | None = None, **spec: Any) -> Obj:
        """Create a pod with one container, once the scheduler knows all nodes: what it finds with fewer it may keep for minutes."""
        if not self._known:
            self.settle()
        if "priorityClassName" in spec:
            spec["priorityClassName"] = self._classes[spec["priorityClassName"]]
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
            eventually(hears_it)
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
        self._known = True
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
        for name in self._classes.values():
            self.api.delete(f"{_CLASSES}/{name}")


def _service(name: str, selector: dict[str, str]) -> Obj:
    return {"metadata": {"name": name}, "spec": {"selector": selector, "ports": [{"port": 80}]}}


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
