"""Host ports of the pods on each node: a kubelet rejects a pod that needs one in use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sliceworks.kube.pod_requests import host_ports
from sliceworks.twin.controllers.runtime.pod_index import is_finished

if TYPE_CHECKING:
    from collections.abc import Hashable

Obj = dict[str, Any]
_ANY_ADDRESS = "0.0.0.0"


class HostPort(NamedTuple):
    """A port of a node."""

    protocol: str
    port: int
    address: str

    def conflicts_with(self, other: HostPort) -> bool:
        """Whether only one of them can be in use; 0.0.0.0 includes every address."""
        same_address = self.address == other.address or _ANY_ADDRESS in (self.address, other.address)
        return self[:2] == other[:2] and same_address


class HostPorts:
    """The host ports in use, by node and pod."""

    def __init__(self) -> None:
        self._nodes: dict[str, dict[Hashable, tuple[HostPort, ...]]] = {}

    def admit(self, key: Hashable, node: str, pod: Obj) -> bool:
        """Whether a pod may run on a node. Its ports are in use until it is finished or released; a started pod keeps them."""
        if is_finished(pod):
            self.release(key, node)
            return True
        ports = tuple(
            HostPort(port.get("protocol", "TCP"), port["hostPort"], port.get("hostIP") or _ANY_ADDRESS)
            for port in host_ports(pod["spec"])
        )
        if not ports:
            return True
        pods = self._nodes.setdefault(node, {})
        others = [port for other, used in pods.items() if other != key for port in used]
        has_started = bool((pod.get("status") or {}).get("startTime"))
        if not has_started and any(port.conflicts_with(other) for port in ports for other in others):
            return False
        pods[key] = ports
        return True

    def release(self, key: Hashable, node: str) -> None:
        """Forget the ports of a pod."""
        self._nodes.get(node, {}).pop(key, None)
