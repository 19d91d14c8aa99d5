"""Services: ports, addresses, traffic policies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.twin.apiserver.validation.error_list import PROTOCOLS, format_go_struct, list_items, parse_ip
from sliceworks.twin.apiserver.validation.object_meta import validate_labels

if TYPE_CHECKING:
    from sliceworks.twin.apiserver.validation.defaults import Json
    from sliceworks.twin.apiserver.validation.error_list import ErrorList

_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_FAMILIES = ("IPv4", "IPv6")
_FAMILY_POLICIES = ("PreferDualStack", "RequireDualStack", "SingleStack")
_DISTRIBUTIONS = ("PreferClose", "PreferSameZone", "PreferSameNode")
_BALANCER_ONLY = "may only be used when `type` is 'LoadBalancer'"
_RANGES = "service.beta.kubernetes.io/load-balancer-source-ranges"
_HINTS, _MODE = "service.kubernetes.io/topology-aware-hints", "service.kubernetes.io/topology-mode"
_MAX_AFFINITY_SECONDS = 86400


def validate_service(errors: ErrorList, obj: Json) -> None:
    """Validate a Service whose cluster IPs and node ports are already allocated."""
    spec, annotations = obj.get("spec") or {}, (obj.get("metadata") or {}).get("annotations") or {}
    kind, ports = spec.get("type") or "", spec.get("ports") or []
    if _HINTS in annotations and _MODE in annotations and annotations[_HINTS] != annotations[_MODE]:
        detail = f"must match annotations[{_HINTS}] when both are specified"
        errors.invalid(f"metadata.annotations[{_MODE}]", annotations[_MODE], detail)
    if not ports and not is_headless(spec) and kind != "ExternalName":
        errors.required("spec.ports")
    if needs_node_port(spec) and is_headless(spec):
        errors.invalid("spec.clusterIPs[0]", "None", f"may not be set to 'None' for {kind} services")
    if kind == "ExternalName":
        _validate_external_name(errors, spec)
    _validate_ports(errors, ports)
    if spec.get("selector"):
        validate_labels(errors, spec["selector"], "spec.selector")
    errors.check_enum(spec, "spec", "sessionAffinity", ("ClientIP", "None"))
    if spec.get("sessionAffinity") == "ClientIP":
        _validate_affinity(errors, spec.get("sessionAffinityConfig"))
    if kind != "ExternalName":
        _validate_cluster_addresses(errors, spec)
    for address, path in list_items(spec, "spec", "externalIPs"):
        before = len(errors)
        errors.check_ip(address, path)
        if len(errors) == before:
            errors.check_endpoint_ip(address, path)
    errors.check_enum(spec, "spec", "type", _TYPES)
    _validate_port_clashes(errors, ports, kind)
    _validate_balancer(errors, spec, annotations, kind)
    _validate_traffic(errors, spec)


def validate_service_update(errors: ErrorList, new: Json, old: Json) -> None:
    now, before = new.get("spec") or {}, old.get("spec") or {}
    if "ExternalName" not in (now.get("type"), before.get("type")):
        if not (is_headless(now) and is_headless(before)):
            _validate_same_addresses(errors, now, before)
        if not is_headless(now) and not is_headless(before):
            _validate_same_families(errors, now, before)
    if now.get("type") == before.get("type") == "LoadBalancer" and now.get("loadBalancerClass") != before.get("loadBalancerClass"):
        errors.invalid("spec.loadBalancerClass", now.get("loadBalancerClass"), "may not change once set")
    same_port = now.get("healthCheckNodePort") == before.get("healthCheckNodePort")
    if needs_health_check(now) and needs_health_check(before) and not same_port:
        errors.forbidden("spec.healthCheckNodePort", "field is immutable")


def validate_service_status(errors: ErrorList, new: Json, _old: Json) -> None:
    balancer = (new.get("status") or {}).get("loadBalancer") or {}
    if balancer.get("ingress") and (new.get("spec") or {}).get("type") != "LoadBalancer":
        errors.forbidden("status.loadBalancer.ingress", "may only be used when `spec.type` is 'LoadBalancer'")
        return
    for ingress, path in list_items(balancer, "status.loadBalancer", "ingress"):
        ip, mode = ingress.get("ip"), ingress.get("ipMode")
        if ip:
            errors.check_ip(ip, f"{path}.ip")
        if mode is None and ip:
            errors.required(f"{path}.ipMode", "must be specified when `ip` is set")
        elif mode is not None and not ip:
            errors.forbidden(f"{path}.ipMode", "may not be specified when `ip` is not set")
        else:
            errors.check_optional_enum(ingress, path, "ipMode", ("Proxy", "VIP"))
        validate_ingress_hostname(errors, ingress, path)


def validate_ingress_hostname(errors: ErrorList, ingress: Json, path: str) -> None:
    """Validate the hostname of a load balancer, which must not be an IP address."""
    if host := ingress.get("hostname"):
        errors.check_dns_subdomain(host, f"{path}.hostname")
        if parse_ip(host) is not None:
            errors.invalid(f"{path}.hostname", host, "must be a DNS name, not an IP address")


def is_headless(spec: Json) -> bool:
    return spec.get("clusterIPs") == ["None"]


def needs_node_port(spec: Json) -> bool:
    return spec.get("type") in ("LoadBalancer", "NodePort")


def needs_health_check(spec: Json) -> bool:
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def is_externally_accessible(spec: Json) -> bool:
    return needs_node_port(spec) or bool(spec.get("type") == "ClusterIP" and spec.get("externalIPs"))


def _validate_external_name(errors: ErrorList, spec: Json) -> None:
    for field in ("clusterIPs", "ipFamilies", "ipFamilyPolicy"):
        if spec.get(field):
            errors.forbidden(f"spec.{field}", "may not be set for ExternalName services")
    name = (spec.get("externalName") or "").removesuffix(".")
    if name:
        errors.check_dns_subdomain(name, "spec.externalName")
    else:
        errors.required("spec.externalName")


def _validate_ports(errors: ErrorList, ports: list[Json]) -> None:
    seen: set[str] = set()
    for index, port in enumerate(ports):
        path, name = f"spec.ports[{index}]", port.get("name") or ""
        if name:
            errors.check_dns_label(name, f"{path}.name")
            errors.check_unique(seen, name, f"{path}.name")
        elif len(ports) > 1:
            errors.required(f"{path}.name")
        errors.check_port(port.get("port") or 0, f"{path}.port")
        errors.check_enum(port, path, "protocol", PROTOCOLS)
        errors.check_port_or_name(port.get("targetPort", 0), f"{path}.targetPort")
        if port.get("appProtocol") is not None:
            errors.check_qualified_name(port["appProtocol"], f"{path}.appProtocol")


def _validate_affinity(errors: ErrorList, config: Json | None) -> None:
    path = "spec.sessionAffinityConfig.clientIP.timeoutSeconds"
    seconds = ((config or {}).get("clientIP") or {}).get("timeoutSeconds")
    if seconds is not None and not 0 < seconds <= _MAX_AFFINITY_SECONDS:
        errors.invalid(path, seconds, f"must be greater than 0 and less than {_MAX_AFFINITY_SECONDS}")


def _validate_cluster_addresses(errors: ErrorList, spec: Json) -> None:
    first, addresses, families = spec.get("clusterIP") or "", spec.get("clusterIPs") or [], spec.get("ipFamilies") or []
    path = "spec.clusterIPs"
    if first and not addresses:
        errors.required(path)
    elif first and addresses[0] != first:
        errors.invalid(path, addresses, "first value must match `clusterIP`")
    elif not first and addresses:
        errors.invalid(path, addresses, "must be empty when `clusterIP` is not specified")
    seen: set[str] = set()
    for family, family_path in list_items(spec, "spec", "ipFamilies"):
        if family not in _FAMILIES:
            errors.not_supported(family_path, family, _FAMILIES)
        errors.check_unique(seen, family, family_path)
    errors.check_optional_enum(spec, "spec", "ipFamilyPolicy", _FAMILY_POLICIES)
    _validate_address_values(errors, addresses, families, path)


def _validate_address_values(errors: ErrorList, addresses: list[str], families: list[str], path: str) -> None:
    has_errors = False
    for index, address in enumerate(addresses):
        if index == 0 and address == "None":
            if len(addresses) > 1:
                has_errors = True
                errors.invalid(path, addresses, "'None' must be the first and only value")
            continue
        before = len(errors)
        errors.check_ip(address, f"{path}[{index}]")
        has_errors = has_errors or len(errors) > before
    if len(addresses) > 2:
        errors.invalid(path, addresses, "may only hold up to 2 values")
    if has_errors or addresses == ["None"]:
        return
    versions = [address.version for address in map(parse_ip, addresses) if address is not None]
    if len(addresses) > 1 and len(set(versions)) < 2:
        errors.invalid(path, addresses, "may specify no more than one IP for each IP family")
    for index, (address, version, family) in enumerate(zip(addresses, versions, families, strict=False)):
        if family in _FAMILIES and family != f"IPv{version}":
            errors.invalid(f"{path}[{index}]", address, f"expected an {family} value as indicated by `ipFamilies[{index}]`")


def _validate_port_clashes(errors: ErrorList, ports: list[Json], kind: str) -> None:
    node_ports: set[tuple[str, int]] = set()
    numbers: set[tuple[str, int]] = set()
    for index, port in enumerate(ports):
        path, protocol, node = f"spec.ports[{index}]", port.get("protocol") or "", port.get("nodePort") or 0
        if node and kind == "ClusterIP":
            errors.forbidden(f"{path}.nodePort", "may not be used when `type` is 'ClusterIP'")
        if node and (protocol, node) in node_ports:
            errors.duplicate(f"{path}.nodePort", node)
        node_ports.add((protocol, node))
        number = port.get("port") or 0
        if (protocol, number) in numbers:
            key = {"name": "", "protocol": protocol, "port": number, "targetPort": 0, "nodePort": 0}
            errors.duplicate(path, format_go_struct(key, "name", "protocol", "appProtocol", "port", "targetPort", "nodePort"))
        numbers.add((protocol, number))


def _validate_balancer(errors: ErrorList, spec: Json, annotations: dict[str, str], kind: str) -> None:
    if ranges := spec.get("loadBalancerSourceRanges"):
        if kind != "LoadBalancer":
            errors.forbidden("spec.LoadBalancerSourceRanges", _BALANCER_ONLY)
        for index, cidr in enumerate(ranges):
            errors.check_cidr(cidr.strip(), f"spec.LoadBalancerSourceRanges[{index}]")
    elif _RANGES in annotations:
        if kind != "LoadBalancer":
            errors.forbidden(f"metadata.annotations[{_RANGES}]", _BALANCER_ONLY)
        for cidr in filter(None, annotations[_RANGES].strip().split(",")):
            errors.check_cidr(cidr.strip(), f"metadata.annotations[{_RANGES}]")
    if spec.get("allocateLoadBalancerNodePorts") is not None and kind != "LoadBalancer":
        errors.forbidden("spec.allocateLoadBalancerNodePorts", _BALANCER_ONLY)
    if (name := spec.get("loadBalancerClass")) is not None:
        if kind == "LoadBalancer":
            errors.check_qualified_name(name, "spec.loadBalancerClass")
        else:
            errors.forbidden("spec.loadBalancerClass", _BALANCER_ONLY)


def _validate_traffic(errors: ErrorList, spec: Json) -> None:
    policy = spec.get("externalTrafficPolicy")
    if is_externally_accessible(spec):
        errors.check_enum(spec, "spec", "externalTrafficPolicy", ("Cluster", "Local"))
    elif policy:
        errors.invalid("spec.externalTrafficPolicy", policy, "may only be set for externally-accessible services")
    port = spec.get("healthCheckNodePort") or 0
    if needs_health_check(spec):
        if port:
            errors.check_port(port, "spec.healthCheckNodePort")
    elif port:
        detail = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        errors.invalid("spec.healthCheckNodePort", port, detail)
    errors.check_optional_enum(spec, "spec", "internalTrafficPolicy", ("Cluster", "Local"))
    errors.check_optional_enum(spec, "spec", "trafficDistribution", _DISTRIBUTIONS)


def _validate_same_addresses(errors: ErrorList, now: Json, before: Json) -> None:
    addresses, old_addresses = now.get("clusterIPs") or [], before.get("clusterIPs") or []
    path = "spec.clusterIPs"
    if len(addresses) == len(old_addresses):
        changed = [index for index, address in enumerate(old_addresses) if address != addresses[index]]
    else:
        changed = [0] if addresses and old_addresses and addresses[0] != old_addresses[0] else []
    if old_addresses and not addresses:
        errors.invalid(f"{path}[0]", now.get("clusterIPs"), "primary clusterIP can not be unset")
    for index in changed:
        errors.invalid(f"{path}[{index}]", addresses, "may not change once set")
    _validate_release(errors, now, before, "clusterIPs", "clusterIP")


def _validate_same_families(errors: ErrorList, now: Json, before: Json) -> None:
    families, old_families = now.get("ipFamilies") or [], before.get("ipFamilies") or []
    if families and old_families and families[0] != old_families[0]:
        errors.invalid("spec.ipFamilies[0]", families, "may not change once set")
    _validate_release(errors, now, before, "ipFamilies", "ipFamily")


def _validate_release(errors: ErrorList, now: Json, before: Json, field: str, noun: str) -> None:
    """Check that a Service that releases its secondary address or family becomes single-stack."""
    if len(now.get(field) or ()) == 1 < len(before.get(field) or ()) and now.get("ipFamilyPolicy") != "SingleStack":
        detail = f"must be set to 'SingleStack' when releasing the secondary {noun}"
        errors.invalid("spec.ipFamilyPolicy", now.get("ipFamilyPolicy"), detail)
