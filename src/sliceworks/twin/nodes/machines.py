"""What the player knows of its nodes: the object, the addresses it gives out, and which pods are on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base.conditions import condition
from sliceworks.twin.nodes.addresses import Range, host_address, pod_range

if TYPE_CHECKING:
    from sliceworks.kube.resources import Key

Obj = dict[str, Any]
STATE = "sliceworks.dev/state"
SILENT = "silent"
_NEVER = "NodeStatusNeverUpdated"


class Machine:
    """One node."""

    __slots__ = ("addresses", "host", "node", "up")

    def __init__(self, node: Obj) -> None:
        self.node = node
        self.host = host_address(node)
        self.addresses = Range(pod_range(node))
        self.up = self.booted

    @property
    def silent(self) -> bool:
        """Whether the machine has failed: it says nothing and its pods stay as they were."""
        return (self.node["metadata"].get("annotations") or {}).get(STATE) == SILENT

    @property
    def idle(self) -> bool:
        """Whether nothing becomes of its pods now: it has failed, or is still booting."""
        return not self.up or self.silent

    @property
    def booted(self) -> bool:
        """Whether the kubelet has come up before. The cluster says of one that takes too long that it never did."""
        return bool(condition(self.node, "Ready").get("reason", _NEVER) != _NEVER)

    def take(self, node: Obj) -> bool:
        """Take in a newer state; whether that may change what becomes of its pods."""
        before, up = self.node, self.up
        self.node, self.host = node, host_address(node)
        self.up = self.booted
        return up != self.up or bool(before["metadata"].get("annotations") != node["metadata"].get("annotations"))


class Machines:
    """All nodes that are played, and the pods on them."""

    def __init__(self) -> None:
        self._machines: dict[str, Machine] = {}
        self._pods: dict[str, dict[Key, None]] = {}

    def __len__(self) -> int:
        return len(self._machines)

    def get(self, name: str) -> Machine | None:
        """The node of this name, if it is one of ours."""
        return self._machines.get(name)

    def put(self, node: Obj) -> bool:
        """Know a node; whether its pods are to be looked at anew."""
        name = node["metadata"]["name"]
        machine = self._machines.get(name)
        if machine is not None and machine.node["metadata"]["uid"] == node["metadata"]["uid"]:
            return machine.take(node)
        self._machines[name] = Machine(node)
        return True

    def remove(self, name: str) -> None:
        """The node is gone."""
        self._machines.pop(name, None)

    def names(self) -> list[str]:
        """Which nodes are played."""
        return list(self._machines)

    def pods_on(self, name: str) -> list[Key]:
        """The pods that were seen on a node and may still change."""
        return list(self._pods.get(name, ()))

    def add_pod(self, node: str, pod: Key) -> None:
        """A pod is on a node."""
        self._pods.setdefault(node, {})[pod] = None

    def drop_pod(self, node: str, pod: Key) -> None:
        """A pod has ended or is gone."""
        pods = self._pods.get(node)
        if pods is not None:
            pods.pop(pod, None)
            if not pods:
                del self._pods[node]
