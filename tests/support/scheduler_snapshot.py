"""Builds scheduler snapshots of nodes and pods, without an API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.twin.scheduler.schedule_one import ScheduleResult, Unschedulable, schedule_pod
from sliceworks.twin.scheduler.snapshot import Snapshot

if TYPE_CHECKING:
    from sliceworks.twin.scheduler.pod_info import PodInfo

Obj = dict[str, Any]
HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"


class SnapshotBuilder:
    """Builds a snapshot and schedules pods in it."""

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

    def pod(self, name: str, *, labels: Obj | None = None, asks: Obj | None = None, started: str = "", **spec: Any) -> PodInfo:
        """An unscheduled pod that requests `asks`."""
        return self.snapshot.shapes.parse(pod_object(name, labels=labels, asks=asks, started=started, **spec))

    def place(self, name: str, node: str, **pod: Any) -> PodInfo:
        scheduled = self.pod(name, **pod)
        self.snapshot.add_pod(scheduled, node)
        return scheduled

    def decide(self, pod: PodInfo) -> ScheduleResult | Unschedulable:
        return schedule_pod(pod, self.snapshot)

    def where(self, pod: PodInfo) -> str:
        """Schedule a pod; returns its node."""
        decision = self.decide(pod)
        assert isinstance(decision, ScheduleResult), decision
        self.snapshot.add_pod(pod, decision.node)
        return decision.node

    def why_not(self, pod: PodInfo) -> str:
        decision = self.decide(pod)
        assert isinstance(decision, Unschedulable), decision
        return decision.message


def pod_object(name: str, *, labels: Obj | None = None, asks: Obj | None = None, started: str = "", **spec: Any) -> Obj:
    """A pod object."""
    container = {"name": "main", "image": "image", "resources": {"requests": asks or {}}}
    status: Obj = {"phase": "Pending", **({"startTime": started} if started else {})}
    return {
        "metadata": {"name": name, "namespace": "ns", "uid": f"uid-{name}", "labels": labels or {}, "generation": 1},
        "spec": {"containers": [container], **spec},
        "status": status,
    }
