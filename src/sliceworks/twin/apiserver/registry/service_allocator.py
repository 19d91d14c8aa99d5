"""Allocate cluster IPs and node ports of Services."""

from __future__ import annotations

from ipaddress import IPv4Network
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.base.errors import InternalError
from sliceworks.schemas.field_errors import FieldError, invalid
from sliceworks.twin.apiserver.validation.field_checks import parse_ip

if TYPE_CHECKING:
    from sliceworks.twin.apiserver.registry.resources import ClusterView

Obj = dict[str, Any]
SERVICE_NETWORK = IPv4Network("10.96.0.0/16")
_FIRST_DYNAMIC_IP = 10  # lower addresses are left for Services that request one
_MAX_ATTEMPTS = 1000
_NODE_PORTS = range(30_000, 32_768)
_CLUSTER_IP_FIELDS = ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy")


def prepare_service(obj: Obj, cluster: ClusterView) -> None:
    obj["status"] = {"loadBalancer": {}}
    spec = obj.setdefault("spec", {})
    if spec.get("type", "ClusterIP") != "ExternalName":
        _allocate(spec, cluster)


def prepare_service_update(new: Obj, old: Obj, cluster: ClusterView) -> None:
    """Keep what is allocated; release it when the Service becomes an ExternalName."""
    spec, old_spec = new.setdefault("spec", {}), old.get("spec", {})
    if spec.get("type") == "ExternalName":
        if old_spec.get("type") != "ExternalName":
            for field in _CLUSTER_IP_FIELDS:
                spec.pop(field, None)
        return
    if old_spec.get("type") != "ExternalName":
        for field in _CLUSTER_IP_FIELDS:
            if field in old_spec and not spec.get(field):
                spec[field] = old_spec[field]
        if spec.get("type") in {"NodePort", "LoadBalancer"}:
            _keep_node_ports(spec, old_spec)
    _allocate(spec, cluster)


def _allocate(spec: Obj, cluster: ClusterView) -> None:
    allocate_cluster_ip(spec, cluster)
    spec.setdefault("ipFamilies", ["IPv4"])
    spec.setdefault("ipFamilyPolicy", "SingleStack")
    spec.setdefault("internalTrafficPolicy", "Cluster")
    _allocate_node_ports(spec, cluster)


def allocate_cluster_ip(spec: Obj, cluster: ClusterView) -> None:
    """Set the cluster IP of a Service that does not request one."""
    if not spec.get("clusterIP"):
        spec["clusterIP"] = _free_cluster_ip(cluster)
    if spec["clusterIP"] != "None" or "clusterIPs" not in spec:
        spec["clusterIPs"] = [spec["clusterIP"]]


def _free_cluster_ip(cluster: ClusterView) -> str:
    network, random = cluster.service_network, clock.rng()
    for _ in range(_MAX_ATTEMPTS):
        address = str(network[random.randrange(_FIRST_DYNAMIC_IP, network.num_addresses - 1)])
        if not _is_allocated(cluster, address):
            return address
    raise InternalError("failed to allocate a serviceIP: range is full")


def _is_allocated(cluster: ClusterView, address: str) -> bool:
    return any(service.get("spec", {}).get("clusterIP") == address for service in cluster.search("/services", address))


def _allocate_node_ports(spec: Obj, cluster: ClusterView) -> None:
    if spec.get("type") not in {"NodePort", "LoadBalancer"}:
        return
    if spec["type"] == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)
        if not spec["allocateLoadBalancerNodePorts"]:
            return
    spec.setdefault("externalTrafficPolicy", "Cluster")
    allocated = {port.get("nodePort") for service in cluster.list("/services") for port in service.get("spec", {}).get("ports", ())}
    random = clock.rng()
    for port in spec.get("ports") or ():
        while not port.get("nodePort"):
            number = random.choice(_NODE_PORTS)
            if number not in allocated:
                port["nodePort"] = number
                allocated.add(number)


def _keep_node_ports(spec: Obj, old_spec: Obj) -> None:
    node_ports = {(port.get("protocol"), port.get("port")): port.get("nodePort") for port in old_spec.get("ports") or ()}
    for port in spec.get("ports") or ():
        node_port = node_ports.get((port.get("protocol"), port.get("port")))
        if node_port and not port.get("nodePort"):
            port["nodePort"] = node_port


def cluster_ip_errors(cluster: ClusterView, obj: Obj, old: Obj | None) -> list[FieldError]:
    """Errors of a requested cluster IP that is valid, but out of range or allocated."""
    spec, old_spec = obj["spec"], (old or {}).get("spec") or {}
    requested = spec.get("clusterIP") or "None"
    address = parse_ip(requested)
    if address is None or requested == old_spec.get("clusterIP"):
        return []
    network = cluster.service_network
    if address not in network or address in (network.network_address, network.broadcast_address):
        reason = "the provided network does not match the current range"
    elif _is_allocated(cluster, requested):
        reason = "provided IP is already allocated"
    else:
        return []
    return [invalid("spec.clusterIPs", spec["clusterIPs"], f"failed to allocate IP {requested}: {reason}")]
