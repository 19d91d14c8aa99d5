"""Cluster IPs and node ports of Services, and host ports of pods: watches them and opens a socket on loopback for each."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import sys
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sliceworks.base import clock
from sliceworks.base.sockets import is_loopback
from sliceworks.kube.informers import Informers
from sliceworks.kube.pod_requests import host_ports
from sliceworks.kube.resources import ENDPOINT_SLICE, NODE, SERVICE, Key, key_of
from sliceworks.twin.nodes.runtime import envvars
from sliceworks.twin.nodes.runtime.dns_zone import Zone, build_zone
from sliceworks.twin.nodes.runtime.envvars import API_SERVICE
from sliceworks.twin.nodes.runtime.pod_dns import DnsName
from sliceworks.twin.nodes.runtime.proxy_datagrams import ProxyDatagrams
from sliceworks.twin.nodes.runtime.proxy_socket import ProxySocket
from sliceworks.twin.nodes.simulated_node import host_address

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from ipaddress import IPv4Network

    from sliceworks.kube.client import Client
    from sliceworks.kube.events import EventRecorder
    from sliceworks.kube.informers import Delta
    from sliceworks.twin.nodes.runtime.pod_dns import HostsFiles, LoopbackNetworks
    from sliceworks.twin.nodes.runtime.process_runtime import ApiAccess
    from sliceworks.twin.nodes.runtime.proxy_socket import Target
_SOCKET_TABLES = {"TCP": (Path("/proc/net/tcp"), Path("/proc/net/tcp6")), "UDP": (Path("/proc/net/udp"), Path("/proc/net/udp6"))}
_LISTENING = {"TCP": "0A", "UDP": "07"}
_PROXIES: dict[str, type[ProxySocket | ProxyDatagrams]] = {"TCP": ProxySocket, "UDP": ProxyDatagrams}
"""The protocols that are forwarded."""

_IPV4_MAPPED = "0000000000000000FFFF0000"
ANY_ADDRESS = "0.0.0.0"


class Listener(NamedTuple):
    """Where a program listens."""

    protocol: str
    address: str
    port: int


def listening_sockets() -> set[Listener]:
    """The protocols, IPv4 addresses and ports on which programs of this machine listen."""
    return {listener for protocol, tables in _SOCKET_TABLES.items() for table in tables for listener in _listeners(protocol, table)}


def _listeners(protocol: str, table: Path) -> Iterator[Listener]:
    try:
        file = table.open()
    except OSError:
        return  # for example, without IPv6
    with file:
        next(file, "")
        for line in file:
            columns = line.split()
            if columns[3] != _LISTENING[protocol]:
                continue
            address, _, port = columns[1].rpartition(":")
            if (ip := _parse_address(address)) is not None:
                yield Listener(protocol, ip, int(port, 16))


def _parse_address(address: str) -> str | None:
    if not address.strip("0"):
        return ANY_ADDRESS
    if len(address) == 32:
        if not address.startswith(_IPV4_MAPPED):
            return None
        address = address.removeprefix(_IPV4_MAPPED)
    return ".".join(str(byte) for byte in int(address, 16).to_bytes(4, sys.byteorder))


Obj = dict[str, Any]
_SERVICE_NAME = "kubernetes.io/service-name"


@dataclass(frozen=True, slots=True)
class ServicePort:
    """A port of a Service or of a pod's node, its ready endpoints, and the seconds of session affinity."""

    owner: Obj
    listener: Listener
    targets: tuple[Target, ...]
    affinity: float


def group_by_service(slices: Iterable[Obj]) -> dict[Key, list[Obj]]:
    """EndpointSlices by Service."""
    grouped: dict[Key, list[Obj]] = {}
    for endpoint_slice in slices:
        metadata = endpoint_slice["metadata"]
        if name := (metadata.get("labels") or {}).get(_SERVICE_NAME):
            grouped.setdefault(Key(metadata["namespace"], name), []).append(endpoint_slice)
    return grouped


def service_ports(
    services: Iterable[Obj], slices: dict[Key, list[Obj]], pods: IPv4Network, api: Target | None, nodes: Iterable[str] = ()
) -> Iterator[ServicePort]:
    """The ports of Services with a cluster IP, and their node ports at `nodes`. Endpoints outside `pods` have no listener.

    The API server has no EndpointSlice, because validation rejects loopback addresses; `api` is its address.
    """
    for service in services:
        spec, key = service["spec"], key_of(service)
        if not has_cluster_ip(service):
            continue
        affinity = _affinity_seconds(spec)
        for port in spec.get("ports") or ():
            if (protocol := port.get("protocol", "TCP")) in _PROXIES:
                targets = (
                    ((api,) if api else ())
                    if key == API_SERVICE
                    else tuple(_targets(slices.get(key, ()), port.get("name", ""), pods))
                )
                yield ServicePort(service, Listener(protocol, spec["clusterIP"], int(port["port"])), targets, affinity)
                if number := port.get("nodePort"):
                    yield from (ServicePort(service, Listener(protocol, node, int(number)), targets, affinity) for node in nodes)


def served_host_ports(pod: Obj, node: str, address: str, networks: LoopbackNetworks | None) -> Iterator[ServicePort]:
    """The ports that a pod with an address occupies at its node; only addresses of this machine can be served."""
    for port in host_ports(pod["spec"]) if not pod["spec"].get("hostNetwork") else ():
        host, protocol = port.get("hostIP") or ANY_ADDRESS, port.get("protocol", "TCP")
        host = node if host == ANY_ADDRESS else host
        if protocol in _PROXIES and (is_loopback(host) or (networks is not None and _is_in(host, networks.pods))):
            yield ServicePort(pod, Listener(protocol, host, port["hostPort"]), ((address, port["containerPort"]),), 0.0)


def service_names(services: Iterable[Obj], slices: dict[Key, list[Obj]], pods: IPv4Network) -> list[DnsName]:
    """DNS names of Services: the cluster IP, or the ready endpoints of a headless Service."""
    names = []
    for service in services:
        key = key_of(service)
        if has_cluster_ip(service):
            names.append(DnsName(*key, (service["spec"]["clusterIP"],)))
        elif addresses := dict.fromkeys(address for item in slices.get(key, ()) for address in _ready_addresses(item, pods)):
            names.append(DnsName(*key, tuple(addresses)))
    return names


def has_cluster_ip(service: Obj) -> bool:
    """Whether a Service has a cluster IP."""
    return service["spec"].get("clusterIP") not in (None, "", "None")


def _affinity_seconds(spec: Obj) -> float:
    if spec.get("sessionAffinity") != "ClientIP":
        return 0.0
    return float(((spec.get("sessionAffinityConfig") or {}).get("clientIP") or {}).get("timeoutSeconds") or 10_800)


def _targets(slices: Iterable[Obj], name: str, pods: IPv4Network) -> Iterator[Target]:
    for endpoint_slice in slices:
        ports = endpoint_slice.get("ports")
        number = next((port.get("port") for port in ports or () if (port.get("name") or "") == name), None)
        if number is not None:
            yield from ((address, int(number)) for address in _ready_addresses(endpoint_slice, pods))


def _ready_addresses(endpoint_slice: Obj, pods: IPv4Network) -> Iterator[str]:
    if endpoint_slice["addressType"] != "IPv4":
        return
    for endpoint in endpoint_slice.get("endpoints") or ():
        address = endpoint["addresses"][0]
        if (endpoint.get("conditions") or {}).get("ready") is not False and _is_in(address, pods):
            yield address


def served_hosts(nodes: Iterable[Obj], pods: IPv4Network) -> list[str]:
    """The addresses of nodes at which node ports can be served: those that the twin has assigned."""
    return [host for node in nodes if (host := host_address(node)) and _is_in(host, pods)]


def _is_in(address: str, network: IPv4Network) -> bool:
    """Whether an address, which clients can write in any form, is in a network."""
    try:
        return IPv4Address(address) in network
    except ValueError:
        return False


log = logging.getLogger(__name__)
_BATCH_SECONDS = 0.02
_FIRST_INTERVAL, _MAX_INTERVAL = 0.1, 2.0
_MAX_PORTS, _MAX_CLIENTS = 1000, 4000
_TOO_MANY_PORTS = f"the limit of {_MAX_PORTS} open Service ports is reached"
_REASONS = {
    errno.EACCES: "ports below 1024 require root on this machine",
    errno.EADDRINUSE: "a program of this machine listens on this port on all addresses and receives the connections",
}


class ServiceProxy:
    """Proxies Services to their endpoints from `open` to `close`; does nothing without a network."""

    def __init__(
        self, client: Client, recorder: EventRecorder, networks: LoopbackNetworks | None, files: HostsFiles, access: ApiAccess
    ) -> None:
        self._informers = Informers(client)
        self._recorder = recorder
        self._networks = networks
        self._files = files
        self._access = access
        self._changed = asyncio.Event()
        self._sockets: dict[Listener, ProxySocket | ProxyDatagrams] = {}
        self._draining: list[ProxySocket | ProxyDatagrams] = []
        self._reported: dict[Listener, str] = {}
        self._task: asyncio.Task[None] | None = None
        self.zone = Zone()
        self.find_host_ports: Callable[[], Iterable[ServicePort]] = tuple
        """The ports of pods at their nodes; call `notify` when they change."""
        files.on_changed = self.notify

    async def open(self) -> None:
        """Start; returns once the existing Services are known."""
        if self._networks is None:
            return
        self._services, self._slices = self._informers.open(SERVICE), self._informers.open(ENDPOINT_SLICE)
        self._nodes = self._informers.open(NODE)
        for informer in (self._services, self._slices, self._nodes):
            informer.add_handler(self._on_delta)
        await self._informers.wait_synced()
        self._task = asyncio.create_task(self._reconcile_forever(self._networks.pods), name="services of processes")

    async def close(self) -> None:
        """Stop and reset all connections."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._informers.close()
        for proxy in (*self._sockets.values(), *self._draining):
            proxy.abort()

    def variables(self, pod: Obj, *, api: bool) -> dict[str, str]:
        """The Service environment variables of a starting container; `api` includes those of the API server."""
        if self._task is None:
            return {}
        return envvars.service_variables(pod, self._services.store, self._access.address if api else None)

    def notify(self) -> None:
        """Reconcile soon."""
        self._changed.set()

    def _on_delta(self, _: Delta) -> None:
        self.notify()

    async def _reconcile_forever(self, pods: IPv4Network) -> None:
        interval = _FIRST_INTERVAL
        while True:
            interval = _FIRST_INTERVAL if self._changed.is_set() else min(interval * 1.5, _MAX_INTERVAL)
            self._changed.clear()
            try:
                is_waiting = await self._reconcile(pods)
            except Exception:
                log.exception("reconciling Services failed; retrying")
                is_waiting = True
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(clock.scale_real_seconds(interval) if is_waiting else None):
                    await self._changed.wait()
                    await clock.sleep(clock.scale_real_seconds(_BATCH_SECONDS))

    async def _reconcile(self, pods: IPv4Network) -> bool:
        """Update names and sockets; returns whether a port waits for an endpoint that listens."""
        services, slices = list(self._services.store), group_by_service(self._slices.store)
        self._files.set_services(service_names(services, slices, pods))
        self._files.refresh()
        self.zone = build_zone(self._files.names, services)
        nodes = served_hosts(self._nodes.store, pods)
        of_services = service_ports(services, slices, pods, self._access.address, nodes)
        ports = {port.listener: port for port in (*of_services, *self.find_host_ports())}
        self._draining = [proxy for proxy in self._draining if proxy.is_busy]
        for listener in self._sockets.keys() - ports.keys():
            self._sockets[listener].close()
            self._draining.append(self._sockets.pop(listener))
            self._reported.pop(listener, None)
        for listener, port in ports.items():
            proxy = self._sockets.get(listener)
            if proxy is None:
                proxy = self._sockets[listener] = _PROXIES[listener.protocol](listener.address, listener.port)
                proxy.has_room = self._has_room
            proxy.targets, proxy.affinity = port.targets, port.affinity
            if not port.targets:
                proxy.close()
        waiting = [port for port in ports.values() if port.targets and not self._sockets[port.listener].is_open]
        listeners = listening_sockets() if waiting else set()
        for port in waiting:
            if any(self._listens(port, target, listeners) for target in port.targets):
                await self._open(port, listeners)
        return any(not self._sockets[port.listener].is_open for port in waiting)

    def _has_room(self) -> bool:
        """Whether the open files of the twin suffice for a further client, and for the clients of its API."""
        return sum(proxy.clients for proxy in (*self._sockets.values(), *self._draining)) < _MAX_CLIENTS

    @staticmethod
    def _listens(port: ServicePort, target: Target, listeners: set[Listener]) -> bool:
        protocol = port.listener.protocol
        return Listener(protocol, *target) in listeners or Listener(protocol, ANY_ADDRESS, target[1]) in listeners

    async def _open(self, port: ServicePort, listeners: set[Listener]) -> None:
        protocol, _, number = port.listener
        if sum(proxy.is_open for proxy in self._sockets.values()) >= _MAX_PORTS:
            self._report(port, _TOO_MANY_PORTS)
            return
        try:
            await self._sockets[port.listener].open()
        except OSError as error:
            is_served_directly = Listener(protocol, ANY_ADDRESS, number) in listeners and any(
                number == target[1] for target in port.targets
            )
            if not is_served_directly and key_of(port.owner) != envvars.API_SERVICE:
                self._report(port, _REASONS.get(error.errno or 0, str(error)))
        else:
            self._reported.pop(port.listener, None)

    def _report(self, port: ServicePort, reason: str) -> None:
        """Record an event of the Service, once for each reason."""
        if self._reported.get(port.listener) != reason:
            self._reported[port.listener] = reason
            self._recorder.record(port.owner, "PortNotOpened", f"Port {port.listener.port} is not served: {reason}", type="Warning")
