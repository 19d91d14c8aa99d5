"""Allocate cluster IPs and node ports of Services."""

from __future__ import annotations

from ipaddress import IPv4Network
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.base.errors import InternalError
from sliceworks.twin.apiserver.registry.service_families import (
    FAMILY_FIELDS,
    is_configured,
    set_default_families,
    validate_families,
)
from sliceworks.twin.apiserver.validation.error_list import list_items, parse_ip
from sliceworks.twin.apiserver.validation.service import is_externally_accessible, needs_health_check, needs_node_port

if TYPE_CHECKING:
    from sliceworks.twin.apiserver.registry.resources import ClusterView
    from sliceworks.twin.apiserver.validation.error_list import ErrorList

Obj = dict[str, Any]
SERVICE_NETWORK = IPv4Network("10.96.0.0/16")
_FIRST_DYNAMIC_IP = 10  # lower addresses are left for Services that request one
_MAX_ATTEMPTS = 1000
_NODE_PORTS = range(30_000, 32_768)
_CLUSTER_IP_FIELDS = (*FAMILY_FIELDS, "internalTrafficPolicy")


def prepare_service(obj: Obj, cluster: ClusterView) -> None:
    obj["status"] = {"loadBalancer": {}}
    spec = obj.setdefault("spec", {})
    if spec.get("type", "ClusterIP") != "ExternalName":
        _allocate(spec, {}, cluster)


def prepare_service_update(new: Obj, old: Obj, cluster: ClusterView) -> None:
    """Keep what is allocated, and release what the new type does not use."""
    spec, old_spec = new.setdefault("spec", {}), old.get("spec", {})
    _drop_unused_fields(spec, old_spec)
    if spec.get("type") != "LoadBalancer":
        new["status"] = {**(new.get("status") or {}), "loadBalancer": {}}
    if spec.get("type") == "ExternalName":
        return
    if old_spec.get("type") != "ExternalName":
        for field in _CLUSTER_IP_FIELDS:
            if field in old_spec and not spec.get(field):
                spec[field] = old_spec[field]
    if needs_node_port(spec) and needs_node_port(old_spec):
        _keep_node_ports(spec, old_spec)
    if needs_health_check(spec) and needs_health_check(old_spec) and not spec.get("healthCheckNodePort"):
        spec["healthCheckNodePort"] = old_spec.get("healthCheckNodePort", 0)
    _allocate(spec, old_spec, cluster)


def _drop_unused_fields(spec: Obj, old: Obj) -> None:
    """Drop the fields that the old type of a Service used and the new type does not, unless the client changed them."""
    unused: list[str] = []
    if spec.get("type") == "ExternalName" != old.get("type"):
        unused += _CLUSTER_IP_FIELDS
    if needs_health_check(old) and not needs_health_check(spec):
        unused.append("healthCheckNodePort")
    if old.get("type") == "LoadBalancer" != spec.get("type"):
        unused += ("allocateLoadBalancerNodePorts", "loadBalancerClass")
    if is_externally_accessible(old) and not is_externally_accessible(spec):
        unused.append("externalTrafficPolicy")
    for field in unused:
        if spec.get(field) == old.get(field):
            spec.pop(field, None)
    if needs_node_port(old) and not needs_node_port(spec) and _node_ports(spec) <= _node_ports(old):
        for port in spec.get("ports") or ():
            port.pop("nodePort", None)


def _allocate(spec: Obj, old_spec: Obj, cluster: ClusterView) -> None:
    if is_configured(spec) or spec.get("clusterIP"):
        allocate_cluster_ip(spec, cluster)
    set_default_families(spec, old_spec)
    spec.setdefault("internalTrafficPolicy", "Cluster")
    if needs_node_port(spec):
        _allocate_node_ports(spec, cluster)


def allocate_cluster_ip(spec: Obj, cluster: ClusterView) -> None:
    """Set the cluster IP of a Service that does not request one."""
    if not spec.get("clusterIP"):
        spec["clusterIP"] = _free_cluster_ip(cluster)
    if spec["clusterIP"] not in ("None", *(spec.get("clusterIPs") or ())[:1]) or "clusterIPs" not in spec:
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
    """Set the node ports that the Service does not request. Ports that differ only in their protocol share one."""
    spec.setdefault("externalTrafficPolicy", "Cluster")
    if spec["type"] == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)
    ports = spec.get("ports") or () if spec.get("allocateLoadBalancerNodePorts") is not False else ()
    needs_check = needs_health_check(spec) and not spec.get("healthCheckNodePort")
    if not needs_check and all(port.get("nodePort") for port in ports):
        return
    allocated = _allocated_node_ports(cluster, None) | _node_ports(spec)
    by_port = {port.get("port"): port["nodePort"] for port in reversed(ports or ()) if port.get("nodePort")}
    for port in ports:
        if not port.get("nodePort"):
            port["nodePort"] = by_port.get(port.get("port")) or _free_node_port(allocated)
            by_port[port.get("port")] = port["nodePort"]
    if needs_check:
        spec["healthCheckNodePort"] = _free_node_port(allocated)


def _free_node_port(allocated: set[int]) -> int:
    """A random free node port, which is added to the allocated ones."""
    if allocated.issuperset(_NODE_PORTS):
        raise InternalError("Internal error occurred: failed to allocate a nodePort: range is full")
    random = clock.rng()
    while (number := random.choice(_NODE_PORTS)) in allocated:
        pass
    allocated.add(number)
    return number


def _keep_node_ports(spec: Obj, old_spec: Obj) -> None:
    """Give ports without a node port that of the old port with their name, unless another port has it."""
    used = _node_ports(spec) & _node_ports(old_spec)
    by_name = {port.get("name"): port.get("nodePort") for port in old_spec.get("ports") or ()}
    for port in spec.get("ports") or ():
        node_port = by_name.get(port.get("name"))
        if node_port and not port.get("nodePort") and node_port not in used:
            port["nodePort"] = node_port
            used.add(node_port)


def _node_ports(spec: Obj) -> set[int]:
    return {port["nodePort"] for port in spec.get("ports") or () if port.get("nodePort")}


def _allocated_node_ports(cluster: ClusterView, service: Obj | None) -> set[int]:
    """The node ports of all Services but this one."""
    name = (service["metadata"].get("namespace"), service["metadata"].get("name")) if service is not None else None
    specs = [
        other["spec"]
        for other in cluster.search("/services", 'odePort":')
        if (other["metadata"].get("namespace"), other["metadata"].get("name")) != name
    ]
    return set().union(*map(_node_ports, specs)) | {
        spec["healthCheckNodePort"] for spec in specs if spec.get("healthCheckNodePort")
    }


def validate_allocation(errors: ErrorList, obj: Obj, old: Obj | None, cluster: ClusterView) -> None:
    """Validate that the requested cluster IP and node ports are in range and not allocated."""
    spec, old_spec = obj["spec"], (old or {}).get("spec") or {}
    if spec.get("type") != "ExternalName":
        validate_families(errors, spec, old_spec)
        if errors:
            return
    requested = spec.get("clusterIP") or "None"
    address, network = parse_ip(requested), cluster.service_network
    reason = ""
    if address is not None and requested != old_spec.get("clusterIP"):
        if address not in network or address in (network.network_address, network.broadcast_address):
            reason = "the provided network does not match the current range"
        elif _is_allocated(cluster, requested):
            reason = "provided IP is already allocated"
    if reason:
        errors.invalid("spec.clusterIPs", spec["clusterIPs"], f"failed to allocate IP {requested}: {reason}")
    elif needs_node_port(spec):
        _validate_node_ports(errors, obj, old_spec, cluster)


def _validate_node_ports(errors: ErrorList, obj: Obj, old_spec: Obj, cluster: ClusterView) -> None:
    spec, kept = obj["spec"], _node_ports(old_spec)
    check_port = spec.get("healthCheckNodePort") if not needs_health_check(old_spec) else None
    if _node_ports(spec) <= kept and not check_port:
        return
    allocated = _allocated_node_ports(cluster, obj)
    by_port: dict[int, int] = {}
    for port, path in list_items(spec, "spec", "ports"):
        number = port.get("nodePort")
        if not number or number in kept or by_port.get(port["port"]) == number:
            continue
        if problem := _node_port_problem(number, allocated):
            errors.invalid(f"{path}.nodePort", number, problem)
            return
        allocated.add(number)
        by_port.setdefault(port["port"], number)
    if check_port and (problem := _node_port_problem(check_port, allocated)):
        reason = f"failed to allocate requested HealthCheck NodePort {check_port}: {problem}"
        raise InternalError(f"Internal error occurred: {reason}")


def _node_port_problem(number: int, allocated: set[int]) -> str:
    if number not in _NODE_PORTS:
        return f"provided port is not in the valid range. The range of valid ports is {_NODE_PORTS[0]}-{_NODE_PORTS[-1]}"
    return "provided port is already allocated" if number in allocated else ""
