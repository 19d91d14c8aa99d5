"""Nodes and pods for tests of the scheduler's decisions, without an API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.twin.scheduler.decide import Placement, Unschedulable, decide
from sliceworks.twin.scheduler.snapshot import Snapshot

if TYPE_CHECKING:
    from sliceworks.twin.scheduler.pods import Pod

Obj = dict[str, Any]
HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"


class Board:
    """A snapshot that is easy to fill."""

    def __init__(self) -> None:
        self.snapshot = Snapshot()
        self.snapshot.set_namespace("ns", {})

    def node(self, name: str, labels: Obj | None = None, taints: list[Obj] | None = None, **offers: Any) -> None:
        offers = {
            "cpu": "4",
            "memory": "8Gi",
            "pods": "20",
            **{key.replace("__", "/"): str(value) for key, value in offers.items()},
        }
        spec = {"taints": taints or [], "unschedulable": False}
        metadata = {"name": name, "labels": {HOST: name, **(labels or {})}}
        self.snapshot.set_node({"metadata": metadata, "spec": spec, "status": {"allocatable": offers}})

    def pod(self, name: str, *, labels: Obj | None = None, asks: Obj | None = None, started: str = "", **spec: Any) -> Pod:
        """Read a pod; it lies nowhere yet."""
        return self.snapshot.shapes.read(pod_object(name, labels=labels, asks=asks, started=started, **spec))

    def place(self, name: str, node: str, **pod: Any) -> Pod:
        placed = self.pod(name, **pod)
        self.snapshot.place(placed, node)
        return placed

    def decide(self, pod: Pod) -> Placement | Unschedulable:
        return decide(pod, self.snapshot)

    def where(self, pod: Pod) -> str:
        """The node that is chosen; the pod is put there."""
        decision = self.decide(pod)
        assert isinstance(decision, Placement), decision
        self.snapshot.place(pod, decision.node)
        return decision.node

    def why_not(self, pod: Pod) -> str:
        decision = self.decide(pod)
        assert isinstance(decision, Unschedulable), decision
        return decision.message


def pod_object(name: str, *, labels: Obj | None = None, asks: Obj | None = None, started: str = "", **spec: Any) -> Obj:
    """A pod as the API stores it."""
    container = {"name": "main", "image": "image", "resources": {"requests": asks or {}}}
    status: Obj = {"phase": "Pending", **({"startTime": started} if started else {})}
    return {
        "metadata": {"name": name, "namespace": "ns", "uid": f"uid-{name}", "labels": labels or {}, "generation": 1},
        "spec": {"containers": [container], **spec},
        "status": status,
    }
