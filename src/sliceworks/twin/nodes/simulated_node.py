"""A simulated node: its object, its address range and the pods on it."""

from __future__ import annotations

import ipaddress
import zlib
from typing import TYPE_CHECKING, Any

from sliceworks.base.conditions import find_condition

if TYPE_CHECKING:
    from sliceworks.kube.resources import Key
Obj = dict[str, Any]
_FIRST = 2  # the first host and the first pod, after the addresses of the network and the gateway


def host_address(node: Obj) -> str:
    """The internal IP of a node, or an empty string."""
    for item in (node.get("status") or {}).get("addresses") or ():
        if item.get("type") == "InternalIP":
            return str(item["address"])
    return ""


def node_addresses(number: int, name: str) -> list[Obj]:
    """The addresses of the node with this number in the cluster."""
    return [{"type": "InternalIP", "address": _host_ip(number + _FIRST)}, {"type": "Hostname", "address": name}]


def pod_cidr(number: int) -> Obj:
    """The pod CIDR of the node with this number in the cluster, as fields of its spec."""
    return {"podCIDR": _pod_cidr(number), "podCIDRs": [_pod_cidr(number)]}


def derived_address(name: str) -> str:
    """An address derived from the name, for a node without one."""
    return _host_ip(zlib.crc32(name.encode()))


def pod_range(node: Obj) -> str:
    """The pod CIDR of a node, derived from its name if it has none."""
    if cidr := (node.get("spec") or {}).get("podCIDR"):
        return str(cidr)
    return _pod_cidr(zlib.crc32(node["metadata"]["name"].encode()))


def _host_ip(number: int) -> str:
    return f"172.{16 + (number >> 16 & 15)}.{number >> 8 & 255}.{number & 255}"


def _pod_cidr(number: int) -> str:
    return f"10.{number >> 8 & 255}.{number & 255}.0/24"


class AddressRange:
    """Allocates the addresses of a pod CIDR, lowest first."""

    __slots__ = ("_base", "_free", "_next", "_size", "_used")

    def __init__(self, cidr: str) -> None:
        network = ipaddress.ip_network(cidr, strict=False)
        self._base, self._size = network.network_address, network.num_addresses
        self._next = _FIRST
        self._used: set[int] = set()
        self._free: list[int] = []

    def allocate(self) -> str:
        """Return a free address, or an empty string if all are in use."""
        while self._next in self._used:
            self._next += 1
        if self._next < self._size - 1:
            number = self._next
            self._next += 1
        elif self._free:
            number = self._free.pop(0)
        else:
            return ""
        self._used.add(number)
        return self._format(number)

    def reserve(self, address: str) -> None:
        """Mark an address as used."""
        if (number := self._number(address)) is not None:
            self._used.add(number)

    def release(self, address: str) -> None:
        """Release the address of a deleted pod."""
        number = self._number(address)
        if number is not None and number in self._used:
            self._used.discard(number)
            if number < self._next:  # higher ones are allocated in order
                self._free.append(number)

    def _format(self, number: int) -> str:
        if self._base.version == 6:
            return str(self._base + number)
        value = int(self._base) + number
        return f"{value >> 24}.{value >> 16 & 255}.{value >> 8 & 255}.{value & 255}"

    def _number(self, address: str) -> int | None:
        try:
            number = int(ipaddress.ip_address(address)) - int(self._base)
        except ValueError:
            return None
        return number if 0 <= number < self._size else None


STATE = "sliceworks.dev/state"
SILENT = "silent"
_NEVER_UPDATED = "NodeStatusNeverUpdated"


class SimulatedNode:
    """A node object and what follows from it."""

    __slots__ = ("addresses", "host", "is_up", "obj")

    def __init__(self, node: Obj) -> None:
        self.obj = node
        self.host = host_address(node)
        self.addresses = AddressRange(pod_range(node))
        self.is_up = self.is_booted

    @property
    def is_silent(self) -> bool:
        """Whether the machine has failed: no heartbeats, and no changes of its pods."""
        return (self.obj["metadata"].get("annotations") or {}).get(STATE) == SILENT

    @property
    def is_active(self) -> bool:
        """Whether the kubelet runs pods: the node has booted and has not failed."""
        return self.is_up and not self.is_silent

    @property
    def is_booted(self) -> bool:
        """Whether the kubelet has reported a status. The node controller reports NodeStatusNeverUpdated for one that has not."""
        return bool(find_condition(self.obj, "Ready").get("reason", _NEVER_UPDATED) != _NEVER_UPDATED)

    def update(self, node: Obj) -> bool:
        """Replace the object; returns whether the change can affect its pods."""
        before, was_up = self.obj, self.is_up
        self.obj, self.host = node, host_address(node)
        self.is_up = self.is_booted
        return was_up != self.is_up or bool(before["metadata"].get("annotations") != node["metadata"].get("annotations"))


class SimulatedNodes:
    """All simulated nodes and their pods."""

    def __init__(self) -> None:
        self._nodes: dict[str, SimulatedNode] = {}
        self._pods: dict[str, dict[Key, None]] = {}

    def __len__(self) -> int:
        return len(self._nodes)

    def get(self, name: str) -> SimulatedNode | None:
        """Return a simulated node, or None."""
        return self._nodes.get(name)

    def put(self, node: Obj) -> bool:
        """Add or replace a node; returns whether the change can affect its pods."""
        name = node["metadata"]["name"]
        known = self._nodes.get(name)
        if known is not None and known.obj["metadata"]["uid"] == node["metadata"]["uid"]:
            return known.update(node)
        self._nodes[name] = SimulatedNode(node)
        return True

    def delete(self, name: str) -> None:
        """Delete a node."""
        self._nodes.pop(name, None)

    def names(self) -> list[str]:
        """The names of all nodes."""
        return list(self._nodes)

    def pods_on(self, name: str) -> list[Key]:
        """The pods of a node that can still change."""
        return list(self._pods.get(name, ()))

    def add_pod(self, node: str, pod: Key) -> None:
        """Add a pod to a node."""
        self._pods.setdefault(node, {})[pod] = None

    def delete_pod(self, node: str, pod: Key) -> None:
        """Remove a terminal or deleted pod from a node."""
        pods = self._pods.get(node)
        if pods is not None:
            pods.pop(pod, None)
            if not pods:
                del self._pods[node]
