"""Nodes as the scheduler sees them: what they offer, what is taken, and who runs there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.twin.scheduler.requests import amounts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.twin.scheduler.pods import HostPort, Key, Pod
    from sliceworks.twin.scheduler.selection import Taint

_ANY = "0.0.0.0"


Kind = tuple[bool, tuple["Taint", ...]]


class Node:
    """A node, with the pods on it. `version` counts changes of the node itself, not of its pods."""

    __slots__ = (
        "allocatable",
        "counted_cpu",
        "counted_memory",
        "cpu",
        "free",
        "gone",
        "images",
        "index",
        "labels",
        "memory",
        "most_pods",
        "name",
        "pods",
        "ports",
        "taints",
        "touched",
        "unschedulable",
        "version",
    )

    def __init__(self, name: str, index: int) -> None:
        self.name = name
        self.index = index
        self.version = 0
        self.touched = 0
        self.gone = True
        self.labels: dict[str, str] = {}
        self.taints: tuple[Taint, ...] = ()
        self.unschedulable = False
        self.allocatable: dict[str, int] = {}
        self.cpu = self.memory = self.most_pods = 0
        self.free: dict[str, int] = {}
        self.counted_cpu = self.counted_memory = 0
        self.pods: dict[Key, Pod] = {}
        self.ports: dict[tuple[str, int], list[str]] = {}
        self.images: dict[str, int] = {}

    @property
    def kind(self) -> Kind:
        """What makes nodes refuse pods that do not choose them."""
        return self.unschedulable, self.taints

    def update(self, obj: Mapping[str, Any]) -> bool:
        """Take over what an object says; whether anything changed that counts."""
        spec, status = obj.get("spec") or {}, obj.get("status") or {}
        labels = obj["metadata"].get("labels") or {}
        taints = tuple((one.get("key", ""), one.get("value", ""), one.get("effect", "")) for one in spec.get("taints") or ())
        allocatable = amounts(status.get("allocatable"))
        images = {name: image.get("sizeBytes", 0) for image in status.get("images") or () for name in image.get("names") or ()}
        found = (labels, taints, bool(spec.get("unschedulable")), allocatable, images)
        if not self.gone and found == (self.labels, self.taints, self.unschedulable, self.allocatable, self.images):
            return False
        self.labels, self.taints, self.unschedulable, self.allocatable, self.images = found
        self.gone = False
        self.version += 1
        self.cpu, self.memory = allocatable.get("cpu", 0), allocatable.get("memory", 0)
        self.most_pods = allocatable.get("pods", 0)
        self.free = dict(allocatable)
        for pod in self.pods.values():
            self._take(pod, -1)
        return True

    def add(self, pod: Pod) -> None:
        self.pods[pod.key] = pod
        self._take(pod, -1)
        wants = pod.shape.wants
        self.counted_cpu += wants.counted[0]
        self.counted_memory += wants.counted[1]
        for address, protocol, port in wants.ports:
            self.ports.setdefault((protocol, port), []).append(address)

    def remove(self, pod: Pod) -> None:
        del self.pods[pod.key]
        self._take(pod, 1)
        wants = pod.shape.wants
        self.counted_cpu -= wants.counted[0]
        self.counted_memory -= wants.counted[1]
        for address, protocol, port in wants.ports:
            self.ports[protocol, port].remove(address)
            if not self.ports[protocol, port]:
                del self.ports[protocol, port]

    def _take(self, pod: Pod, sign: int) -> None:
        free = self.free
        for name, amount in pod.shape.wants.requests:
            free[name] = free.get(name, 0) + sign * amount

    def has_free(self, ports: tuple[HostPort, ...]) -> bool:
        """Whether none of the ports is taken; an address of zeros means all addresses."""
        for address, protocol, port in ports:
            taken = self.ports.get((protocol, port))
            if taken and (address == _ANY or _ANY in taken or address in taken):
                return False
        return True
