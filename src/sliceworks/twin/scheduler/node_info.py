"""Nodes as the scheduler caches them: allocatable, requested, ports and pods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.kube.node_affinity import parse_taints
from sliceworks.kube.pod_requests import parse_resources

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.kube.node_affinity import Taint
    from sliceworks.twin.scheduler.pod_info import HostPort, PodInfo, PodKey

_ANY_ADDRESS = "0.0.0.0"
NodeClass = tuple[bool, tuple["Taint", ...]]
"""spec.unschedulable and the taints of a node."""


class NodeInfo:
    """A node with its pods.

    `version` counts changes of the node itself, not of its pods; `changed_at` is its position in the snapshot's change log;
    `deleted` nodes are kept while they have pods.
    """

    __slots__ = (
        "allocatable",
        "changed_at",
        "cpu",
        "deleted",
        "free",
        "images",
        "index",
        "labels",
        "max_pods",
        "memory",
        "name",
        "non_zero_cpu",
        "non_zero_memory",
        "pods",
        "ports",
        "taints",
        "unschedulable",
        "version",
    )

    def __init__(self, name: str, index: int) -> None:
        self.name = name
        self.index = index
        self.version = 0
        self.changed_at = 0
        self.deleted = True
        self.labels: dict[str, str] = {}
        self.taints: tuple[Taint, ...] = ()
        self.unschedulable = False
        self.allocatable: dict[str, int] = {}
        self.cpu = self.memory = self.max_pods = 0
        self.free: dict[str, int] = {}
        self.non_zero_cpu = self.non_zero_memory = 0
        self.pods: dict[PodKey, PodInfo] = {}
        self.ports: dict[tuple[str, int], list[str]] = {}
        self.images: dict[str, int] = {}

    @property
    def node_class(self) -> NodeClass:
        return self.unschedulable, self.taints

    def update(self, obj: Mapping[str, Any]) -> bool:
        """Update the node from its object; False if nothing changed that scheduling depends on."""
        spec, status = obj.get("spec") or {}, obj.get("status") or {}
        labels = obj["metadata"].get("labels") or {}
        taints = parse_taints(spec.get("taints") or ())
        allocatable = parse_resources(status.get("allocatable"))
        images = {name: image.get("sizeBytes", 0) for image in status.get("images") or () for name in image.get("names") or ()}
        fields = (labels, taints, bool(spec.get("unschedulable")), allocatable, images)
        if not self.deleted and fields == (self.labels, self.taints, self.unschedulable, self.allocatable, self.images):
            return False
        self.labels, self.taints, self.unschedulable, self.allocatable, self.images = fields
        self.deleted = False
        self.version += 1
        self.cpu, self.memory = allocatable.get("cpu", 0), allocatable.get("memory", 0)
        self.max_pods = allocatable.get("pods", 0)
        self.free = dict(allocatable)
        for pod in self.pods.values():
            self._add_free(pod, -1)
        return True

    def add(self, pod: PodInfo) -> None:
        self.pods[pod.key] = pod
        self._add_free(pod, -1)
        requirements = pod.shape.node
        self.non_zero_cpu += requirements.non_zero[0]
        self.non_zero_memory += requirements.non_zero[1]
        for address, protocol, port in requirements.ports:
            self.ports.setdefault((protocol, port), []).append(address)

    def remove(self, pod: PodInfo) -> None:
        del self.pods[pod.key]
        self._add_free(pod, 1)
        requirements = pod.shape.node
        self.non_zero_cpu -= requirements.non_zero[0]
        self.non_zero_memory -= requirements.non_zero[1]
        for address, protocol, port in requirements.ports:
            self.ports[protocol, port].remove(address)
            if not self.ports[protocol, port]:
                del self.ports[protocol, port]

    def _add_free(self, pod: PodInfo, sign: int) -> None:
        free = self.free
        for name, amount in pod.shape.node.requests:
            free[name] = free.get(name, 0) + sign * amount

    def has_free_ports(self, ports: tuple[HostPort, ...]) -> bool:
        """Whether none of the host ports is in use; 0.0.0.0 conflicts with every address."""
        for address, protocol, port in ports:
            used = self.ports.get((protocol, port))
            if used and (address == _ANY_ADDRESS or _ANY_ADDRESS in used or address in used):
                return False
        return True
