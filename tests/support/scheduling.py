"""A test harness for the scheduler: nodes that are only objects, pods that no kubelet runs, and the scheduler's events and
conditions.
"""

from __future__ import annotations

import itertools
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tests.support.http import MERGE_PATCH, STRATEGIC_PATCH
from tests.support.polling import eventually

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


class SchedulerHarness:
    """The nodes of one test, and the pods in its namespace."""

    def __init__(self, api: Api, ns: str) -> None:
        self.api, self.ns = api, ns
        self.pods = f"/api/v1/namespaces/{ns}/pods"
        self._classes: dict[str, str] = {}
        self._numbers = itertools.count()
        self._known = True

    def node(self, name: str, *, labels: Obj | None = None, taints: list[Obj] | None = None, **resources: str) -> str:
        """Create a ready node; resources are written with underscores, `tpu` and `gpu` are short forms."""
        spec: Obj = {"taints": taints} if taints else {}
        labels = {HOST: name, **(labels or {})}
        self.api.post(_NODES, {"metadata": {"name": name, "labels": labels}, "spec": spec}).ok(201)
        self.offer(name, **resources)
        # The node lifecycle controller taints a new node until it is ready.
        self._change(name, {"spec": {"taints": taints}}, MERGE_PATCH)
        return name

    def offer(self, name: str, **resources: str) -> None:
        """Set the capacity and the heartbeat of a node."""
        offered = {"cpu": "4", "memory": "8Gi", "pods": "20", **{_resource(key): value for key, value in resources.items()}}
        # The node controller remembers names: a node whose heartbeat is older than 50 s, even of an earlier test, is unreachable.
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "", "lastHeartbeatTime": now}
        status = {"allocatable": offered, "capacity": offered, "conditions": [ready]}
        self._change(f"{name}/status", {"status": status})

    def images(self, name: str, *images: Obj) -> None:
        """Set the images of a node."""
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
        """Create a PriorityClass and wait until the admission plugin accepts pods with it; returns its name, which is unique for
        each test because an informer may still cache a deleted class.
        """
        self._classes[name] = full = f"{self.ns}-{name}"
        self.api.post(_CLASSES, {"metadata": {"name": full}, "value": value, **fields}).ok(201)
        body = {
            "metadata": {"name": "probe"},
            "spec": {"containers": [{"name": "c", "image": "x"}], "priorityClassName": full},
        }
        eventually(lambda: self.api.post(self.pods, body, {"dryRun": "All"}).status == 201, what=f"the class {name}")

    def serve(self, name: str, selector: dict[str, str]) -> Obj:
        """Create a Service and wait until the scheduler knows it, because Services and pods arrive on separate watches.

        Until then the scheduler places a pod of the Service on the emptier node, even next to another of its pods.
        """
        home = f"/api/v1/namespaces/{self.ns}/services"
        mark = {"probe": f"{self.ns}-{next(self._numbers)}"}
        created: Obj = self.api.post(home, _service(name, selector)).ok(201).json
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

        eventually(known, what=f"the scheduler knows {name}")
        for pod in ("ballast", "first"):
            self.delete(pod)
        for node in ("emptier", "fuller"):
            self.drop_node(node)
        self.api.delete(f"{home}/probe").ok()
        return created

    def pod(self, name: str, *, labels: Obj | None = None, asks: Obj | None = None, **spec: Any) -> Obj:
        """Create a pod with one container, once the scheduler knows all nodes; it keeps a result with fewer nodes for minutes."""
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
        result: Obj = self.api.get(f"{self.pods}/{name}").ok().json
        return result

    def where(self, name: str) -> str:
        """Wait until a pod is scheduled; returns its node."""
        return eventually(lambda: str(self.get(name)["spec"].get("nodeName") or ""), what=f"a node for {name}")

    def condition(self, name: str, kind: str = "PodScheduled") -> Obj:
        """A condition of a pod; empty if absent."""
        return next((condition for condition in self.get(name)["status"].get("conditions") or () if condition["type"] == kind), {})

    def refusal(self, name: str) -> str:
        """The message of a pod's Unschedulable condition."""
        result = eventually(lambda: self.condition(name).get("message"), what=f"a refusal of {name}")
        condition = self.condition(name)
        assert (condition["status"], condition["reason"]) == ("False", "Unschedulable")
        assert "nodeName" not in self.get(name)["spec"]
        return str(result)

    def refused_with(self, name: str, message: str) -> None:
        """Wait until a pod is unschedulable with this message."""
        actual = self.refusal(name)

        def has_message() -> bool:
            nonlocal actual
            actual = self.refusal(name)
            return actual == message

        try:
            eventually(has_message)
        except AssertionError as error:
            raise AssertionError(f"{name}: got {actual!r}, expected {message!r}") from error

    def events(self, name: str, reason: str) -> list[Obj]:
        """The events of a pod with a reason."""
        events = (
            self.api.get(f"/api/v1/namespaces/{self.ns}/events", {"fieldSelector": f"involvedObject.name={name}"})
            .ok()
            .json["items"]
        )
        return [event for event in events if event["reason"] == reason]

    def event(self, name: str, reason: str) -> Obj:
        """Wait for the first event with this reason."""
        return eventually(lambda: self.events(name, reason), what=f"{reason} of {name}")[0]

    def change_pod(self, name: str, change: Obj) -> None:
        self.api.patch(f"{self.pods}/{name}", change, MERGE_PATCH).ok()

    def end(self, name: str, phase: str = "Succeeded") -> None:
        """Set the phase of a pod whose containers have ended."""
        self.api.patch(f"{self.pods}/{name}/status", {"status": {"phase": phase}}, MERGE_PATCH).ok()

    def start(self, name: str, at: str) -> None:
        """Set the start time of a running pod."""
        self.api.patch(f"{self.pods}/{name}/status", {"status": {"phase": "Running", "startTime": at}}, MERGE_PATCH).ok()

    def delete(self, name: str) -> None:
        self.api.delete(f"{self.pods}/{name}", query=_NOW).ok()

    def settle(self) -> None:
        """Wait until the scheduler's cache equals the current nodes; nodes and pods arrive on separate watches.

        Each node gets a label that a probe pod selects. The scheduler's message about that unschedulable pod shows which nodes it
        knows with the label; all earlier node events were processed before it, and per-node data such as images is refreshed.
        """
        mark = {"mark": f"{self.ns}-{next(self._numbers)}"}
        nodes = self.api.get(_NODES).ok().json["items"]
        for node in nodes:
            self.change_node(node["metadata"]["name"], {"metadata": {"labels": mark}})
        self._known = True
        count = len(nodes)
        expected = f"0/{count} nodes are available: {count} Insufficient cpu" if nodes else "no nodes available to schedule pods"

        def known() -> bool:
            name = f"probe-{next(self._numbers)}"
            self.pod(name, asks={"cpu": "1000"}, nodeSelector=mark, tolerations=[{"operator": "Exists"}])
            actual = str(eventually(lambda: self.condition(name), what=f"a word on {name}").get("message"))
            self.delete(name)
            return actual.startswith(expected)

        eventually(known, what="the scheduler knows the nodes")

    def clear(self) -> None:
        """Delete all objects of this test."""
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
    """Required node affinity with one term."""
    term: Obj = {"matchExpressions": list(expressions)} if expressions else {}
    if fields:
        term["matchFields"] = fields
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}}}


def near(labels: dict[str, str], topology: str = HOST, **fields: Any) -> Obj:
    """An affinity term."""
    return {"labelSelector": {"matchLabels": labels}, "topologyKey": topology, **fields}


def expression(key: str, operator: str, *values: str) -> Obj:
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}
