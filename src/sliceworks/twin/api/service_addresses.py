"""Cluster IPs: the range that Services get theirs from, and which of it a client may ask for."""

from __future__ import annotations

from ipaddress import IPv4Network
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.base.errors import InternalError
from sliceworks.schemas.field_errors import FieldError, invalid
from sliceworks.schemas.rules.texts import parse_address

if TYPE_CHECKING:
    from sliceworks.twin.api.strategies import ClusterView

Obj = dict[str, Any]
NETWORK = IPv4Network("10.96.0.0/16")
_KEPT = 10  # the first ones are for those that ask for them
_TRIES = 1000


def allocate(spec: Obj, cluster: ClusterView) -> None:
    """Give a Service an address, unless it has or wants one already."""
    if not spec.get("clusterIP"):
        spec["clusterIP"] = _free(cluster)
    if spec["clusterIP"] != "None" or "clusterIPs" not in spec:
        spec["clusterIPs"] = [spec["clusterIP"]]


def _free(cluster: ClusterView) -> str:
    network, random = cluster.service_network, clock.randomness()
    for _ in range(_TRIES):
        address = str(network[random.randrange(_KEPT, network.num_addresses - 1)])
        if not _taken(cluster, address):
            return address
    raise InternalError("failed to allocate a serviceIP: range is full")


def _taken(cluster: ClusterView, address: str) -> bool:
    return any(service.get("spec", {}).get("clusterIP") == address for service in cluster.holding("/services", address))


def errors(cluster: ClusterView, obj: Obj, old: Obj | None) -> list[FieldError]:
    """What stands against the address that a Service asks for, where it is right in itself."""
    spec, before = obj["spec"], (old or {}).get("spec") or {}
    wanted = spec.get("clusterIP") or "None"
    found = parse_address(wanted)
    if found is None or wanted == before.get("clusterIP"):
        return []
    given = spec["clusterIPs"]
    network = cluster.service_network
    if found not in network or found in (network.network_address, network.broadcast_address):
        reason = "the provided network does not match the current range"
    elif _taken(cluster, wanted):
        reason = "provided IP is already allocated"
    else:
        return []
    return [invalid("spec.clusterIPs", given, f"failed to allocate IP {wanted}: {reason}")]
