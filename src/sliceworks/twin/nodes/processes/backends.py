"""What Services say about pods on loopback: under which names, at which ports, and who is behind them. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import TYPE_CHECKING, Any

from sliceworks.twin.nodes.processes.links import API
from sliceworks.twin.nodes.processes.names import Named

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from ipaddress import IPv4Network

    from sliceworks.twin.nodes.processes.lines import Target

Obj = dict[str, Any]
Key = tuple[str, str]
_SERVICE_NAME = "kubernetes.io/service-name"


@dataclass(frozen=True, slots=True)
class Port:
    """A port at a cluster IP, and the endpoints that are ready behind it. With `affinity` a client stays with one for so long."""

    service: Obj
    place: tuple[str, int]
    targets: tuple[Target, ...]
    affinity: float


def by_service(slices: Iterable[Obj]) -> dict[Key, list[Obj]]:
    """The slices of each Service."""
    found: dict[Key, list[Obj]] = {}
    for each in slices:
        metadata = each["metadata"]
        if name := (metadata.get("labels") or {}).get(_SERVICE_NAME):
            found.setdefault((metadata["namespace"], name), []).append(each)
    return found


def ports(services: Iterable[Obj], slices: dict[Key, list[Obj]], pods: IPv4Network, api: Target | None) -> Iterator[Port]:
    """The TCP ports of Services that have a cluster IP. Endpoints elsewhere than among `pods` are simulated: nobody answers there.

    The API itself has no slice: no API server would take one on loopback.
    """
    for service in services:
        spec, key = service["spec"], key_of(service)
        if not has_address(service):
            continue
        affinity = _affinity(spec)
        for port in spec.get("ports") or ():
            if port.get("protocol", "TCP") == "TCP":
                targets = (
                    ((api,) if api else ()) if key == API else tuple(_targets(slices.get(key, ()), port.get("name", ""), pods))
                )
                yield Port(service, (spec["clusterIP"], int(port["port"])), targets, affinity)


def names(services: Iterable[Obj], slices: dict[Key, list[Obj]], pods: IPv4Network) -> list[Named]:
    """The names of Services: each is its cluster IP, or all that are ready behind it where it has none."""
    found = []
    for service in services:
        key = key_of(service)
        if has_address(service):
            found.append(Named(*key, (service["spec"]["clusterIP"],)))
        elif addresses := dict.fromkeys(address for each in slices.get(key, ()) for address in _ready(each, pods)):
            found.append(Named(*key, tuple(addresses)))
    return found


def has_address(service: Obj) -> bool:
    """Whether a Service has a cluster IP."""
    return service["spec"].get("clusterIP") not in (None, "", "None")


def key_of(service: Obj) -> Key:
    """Its namespace and name."""
    return service["metadata"]["namespace"], service["metadata"]["name"]


def _affinity(spec: Obj) -> float:
    if spec.get("sessionAffinity") != "ClientIP":
        return 0.0
    return float(((spec.get("sessionAffinityConfig") or {}).get("clientIP") or {}).get("timeoutSeconds") or 10_800)


def _targets(slices: Iterable[Obj], name: str, pods: IPv4Network) -> Iterator[Target]:
    for each in slices:
        number = next((port.get("port") for port in each.get("ports") or () if (port.get("name") or "") == name), None)
        if number is not None:
            yield from ((address, int(number)) for address in _ready(each, pods))


def _ready(each: Obj, pods: IPv4Network) -> Iterator[str]:
    if each["addressType"] != "IPv4":
        return
    for endpoint in each.get("endpoints") or ():
        address = endpoint["addresses"][0]
        if (endpoint.get("conditions") or {}).get("ready") is not False and IPv4Address(address) in pods:
            yield address
