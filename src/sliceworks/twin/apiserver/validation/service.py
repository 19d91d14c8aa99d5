"""Services: ports, addresses, traffic policies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.schemas.field_errors import duplicate, forbidden, invalid, not_supported, required
from sliceworks.twin.apiserver.validation import field_checks
from sliceworks.twin.apiserver.validation.field_checks import (
    PROTOCOLS,
    Errors,
    check_cidr,
    check_dns_label,
    check_dns_subdomain,
    check_endpoint_ip,
    check_enum,
    check_ip,
    check_name,
    check_port,
    check_port_or_name,
    check_qualified_name,
    format_go_struct,
    parse_ip,
)
from sliceworks.twin.apiserver.validation.object_meta import label_errors

if TYPE_CHECKING:
    from sliceworks.twin.apiserver.validation.defaults import Json

_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_FAMILIES = ("IPv4", "IPv6")
_FAMILY_POLICIES = ("PreferDualStack", "RequireDualStack", "SingleStack")
_DISTRIBUTIONS = ("PreferClose", "PreferSameZone", "PreferSameNode")
_BALANCER_ONLY = "may only be used when `type` is 'LoadBalancer'"
_RANGES = "service.beta.kubernetes.io/load-balancer-source-ranges"
_HINTS, _MODE = "service.kubernetes.io/topology-aware-hints", "service.kubernetes.io/topology-mode"
_LONGEST_AFFINITY = 86400


def service_errors(obj: Json) -> Errors:
    """Errors of a Service whose cluster IPs and node ports are already allocated."""
    errors: Errors = []
    spec, annotations = obj.get("spec") or {}, (obj.get("metadata") or {}).get("annotations") or {}
    kind, ports = spec.get("type") or "", spec.get("ports") or []
    if _HINTS in annotations and _MODE in annotations and annotations[_HINTS] != annotations[_MODE]:
        detail = f"must match annotations[{_HINTS}] when both are specified"
        errors.append(invalid(f"metadata.annotations[{_MODE}]", annotations[_MODE], detail))
    if not ports and not is_headless(spec) and kind != "ExternalName":
        errors.append(required("spec.ports"))
    if kind in ("LoadBalancer", "NodePort") and is_headless(spec):
        errors.append(invalid("spec.clusterIPs[0]", "None", f"may not be set to 'None' for {kind} services"))
    if kind == "ExternalName":
        _external_name(errors, spec)
    _ports(errors, ports)
    if spec.get("selector"):
        label_errors(errors, spec["selector"], "spec.selector")
    check_enum(errors, spec.get("sessionAffinity") or "", "spec.sessionAffinity", ("ClientIP", "None"))
    if spec.get("sessionAffinity") == "ClientIP":
        _affinity(errors, spec.get("sessionAffinityConfig"))
    if kind != "ExternalName":
        _cluster_addresses(errors, spec)
    for index, address in enumerate(spec.get("externalIPs") or ()):
        before = len(errors)
        check_ip(errors, address, f"spec.externalIPs[{index}]")
        if len(errors) == before:
            check_endpoint_ip(errors, address, f"spec.externalIPs[{index}]")
    check_enum(errors, kind, "spec.type", _TYPES)
    _port_clashes(errors, ports, kind)
    _balancer(errors, spec, annotations, kind)
    _traffic(errors, spec, kind)
    return errors


def service_update_errors(new: Json, old: Json) -> Errors:
    errors: Errors = []
    now, before = new.get("spec") or {}, old.get("spec") or {}
    if "ExternalName" not in (now.get("type"), before.get("type")):
        if not (is_headless(now) and is_headless(before)):
            _same_addresses(errors, now, before)
        if not is_headless(now) and not is_headless(before):
            _same_families(errors, now, before)
    if now.get("type") == before.get("type") == "LoadBalancer" and now.get("loadBalancerClass") != before.get("loadBalancerClass"):
        errors.append(invalid("spec.loadBalancerClass", now.get("loadBalancerClass"), "may not change once set"))
    if (
        _needs_health_check(now)
        and _needs_health_check(before)
        and now.get("healthCheckNodePort") != before.get("healthCheckNodePort")
    ):
        errors.append(forbidden("spec.healthCheckNodePort", "field is immutable"))
    return errors


def service_status_errors(new: Json, _old: Json) -> Errors:
    errors: Errors = []
    ingresses = ((new.get("status") or {}).get("loadBalancer") or {}).get("ingress") or []
    path = "status.loadBalancer.ingress"
    if ingresses and (new.get("spec") or {}).get("type") != "LoadBalancer":
        errors.append(forbidden(path, "may only be used when `spec.type` is 'LoadBalancer'"))
        return errors
    for index, ingress in enumerate(ingresses):
        ip, mode, host = ingress.get("ip"), ingress.get("ipMode"), ingress.get("hostname")
        if ip:
            check_ip(errors, ip, f"{path}[{index}].ip")
        if mode is None and ip:
            errors.append(required(f"{path}[{index}].ipMode", "must be specified when `ip` is set"))
        elif mode is not None and not ip:
            errors.append(forbidden(f"{path}[{index}].ipMode", "may not be specified when `ip` is not set"))
        elif mode is not None and mode not in ("Proxy", "VIP"):
            errors.append(not_supported(f"{path}[{index}].ipMode", mode, ("Proxy", "VIP")))
        if host:
            host_errors(errors, host, f"{path}[{index}].hostname")
    return errors


def host_errors(errors: Errors, host: str, path: str) -> None:
    """Check a DNS name; an IP address is invalid."""
    check_dns_subdomain(errors, host, path)
    if parse_ip(host) is not None:
        errors.append(invalid(path, host, "must be a DNS name, not an IP address"))


def is_headless(spec: Json) -> bool:
    return spec.get("clusterIPs") == ["None"]


def _needs_health_check(spec: Json) -> bool:
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def _external_name(errors: Errors, spec: Json) -> None:
    for field in ("clusterIPs", "ipFamilies", "ipFamilyPolicy"):
        if spec.get(field):
            errors.append(forbidden(f"spec.{field}", "may not be set for ExternalName services"))
    name = (spec.get("externalName") or "").removesuffix(".")
    if name:
        check_dns_subdomain(errors, name, "spec.externalName")
    else:
        errors.append(required("spec.externalName"))


def _ports(errors: Errors, ports: list[Json]) -> None:
    seen: set[str] = set()
    for index, port in enumerate(ports):
        path, name = f"spec.ports[{index}]", port.get("name") or ""
        if name:
            check_dns_label(errors, name, f"{path}.name")
            if name in seen:
                errors.append(duplicate(f"{path}.name", name))
            seen.add(name)
        elif len(ports) > 1:
            errors.append(required(f"{path}.name"))
        check_port(errors, port.get("port") or 0, f"{path}.port")
        check_enum(errors, port.get("protocol") or "", f"{path}.protocol", PROTOCOLS)
        check_port_or_name(errors, port.get("targetPort", 0), f"{path}.targetPort")
        if port.get("appProtocol") is not None:
            check_qualified_name(errors, port["appProtocol"], f"{path}.appProtocol")


def _affinity(errors: Errors, config: Json | None) -> None:
    path = "spec.sessionAffinityConfig.clientIP.timeoutSeconds"
    seconds = ((config or {}).get("clientIP") or {}).get("timeoutSeconds")
    if seconds is not None and not 0 < seconds <= _LONGEST_AFFINITY:
        errors.append(invalid(path, seconds, f"must be greater than 0 and less than {_LONGEST_AFFINITY}"))


def _cluster_addresses(errors: Errors, spec: Json) -> None:
    first, addresses, families = spec.get("clusterIP") or "", spec.get("clusterIPs") or [], spec.get("ipFamilies") or []
    path = "spec.clusterIPs"
    if first and not addresses:
        errors.append(required(path))
    elif first and addresses[0] != first:
        errors.append(invalid(path, addresses, "first value must match `clusterIP`"))
    elif not first and addresses:
        errors.append(invalid(path, addresses, "must be empty when `clusterIP` is not specified"))
    seen: set[str] = set()
    for index, family in enumerate(families):
        if family not in _FAMILIES:
            errors.append(not_supported(f"spec.ipFamilies[{index}]", family, _FAMILIES))
        if family in seen:
            errors.append(duplicate(f"spec.ipFamilies[{index}]", family))
        seen.add(family)
    policy = spec.get("ipFamilyPolicy")
    if policy is not None and policy not in _FAMILY_POLICIES:
        errors.append(not_supported("spec.ipFamilyPolicy", policy, _FAMILY_POLICIES))
    _address_values(errors, addresses, families, path)


def _address_values(errors: Errors, addresses: list[str], families: list[str], path: str) -> None:
    has_errors = False
    for index, address in enumerate(addresses):
        if index == 0 and address == "None":
            if len(addresses) > 1:
                has_errors = True
                errors.append(invalid(path, addresses, "'None' must be the first and only value"))
            continue
        before = len(errors)
        check_ip(errors, address, f"{path}[{index}]")
        has_errors = has_errors or len(errors) > before
    if len(addresses) > 2:
        errors.append(invalid(path, addresses, "may only hold up to 2 values"))
    if has_errors or addresses == ["None"]:
        return
    versions = [address.version for address in map(parse_ip, addresses) if address is not None]
    if len(addresses) > 1 and len(set(versions)) < 2:
        errors.append(invalid(path, addresses, "may specify no more than one IP for each IP family"))
    for index, (address, version, family) in enumerate(zip(addresses, versions, families, strict=False)):
        if family in _FAMILIES and family != f"IPv{version}":
            errors.append(invalid(f"{path}[{index}]", address, f"expected an {family} value as indicated by `ipFamilies[{index}]`"))


def _port_clashes(errors: Errors, ports: list[Json], kind: str) -> None:
    node_ports: set[tuple[str, int]] = set()
    numbers: set[tuple[str, int]] = set()
    for index, port in enumerate(ports):
        path, protocol, node = f"spec.ports[{index}]", port.get("protocol") or "", port.get("nodePort") or 0
        if node and kind == "ClusterIP":
            errors.append(forbidden(f"{path}.nodePort", "may not be used when `type` is 'ClusterIP'"))
        if node and (protocol, node) in node_ports:
            errors.append(duplicate(f"{path}.nodePort", node))
        node_ports.add((protocol, node))
        number = port.get("port") or 0
        if (protocol, number) in numbers:
            key = {"name": "", "protocol": protocol, "port": number, "targetPort": 0, "nodePort": 0}
            errors.append(
                duplicate(path, format_go_struct(key, "name", "protocol", "appProtocol", "port", "targetPort", "nodePort"))
            )
        numbers.add((protocol, number))


def _balancer(errors: Errors, spec: Json, annotations: dict[str, str], kind: str) -> None:
    if ranges := spec.get("loadBalancerSourceRanges"):
        if kind != "LoadBalancer":
            errors.append(forbidden("spec.LoadBalancerSourceRanges", _BALANCER_ONLY))
        for index, cidr in enumerate(ranges):
            check_cidr(errors, cidr.strip(), f"spec.LoadBalancerSourceRanges[{index}]")
    elif _RANGES in annotations:
        if kind != "LoadBalancer":
            errors.append(forbidden(f"metadata.annotations[{_RANGES}]", _BALANCER_ONLY))
        for cidr in filter(None, annotations[_RANGES].strip().split(",")):
            check_cidr(errors, cidr.strip(), f"metadata.annotations[{_RANGES}]")
    if spec.get("allocateLoadBalancerNodePorts") is not None and kind != "LoadBalancer":
        errors.append(forbidden("spec.allocateLoadBalancerNodePorts", _BALANCER_ONLY))
    if (name := spec.get("loadBalancerClass")) is not None:
        if kind == "LoadBalancer":
            check_name(errors, name, "spec.loadBalancerClass", field_checks.qualified_name_errors)
        else:
            errors.append(forbidden("spec.loadBalancerClass", _BALANCER_ONLY))


def _traffic(errors: Errors, spec: Json, kind: str) -> None:
    policy, path = spec.get("externalTrafficPolicy") or "", "spec.externalTrafficPolicy"
    if kind in ("LoadBalancer", "NodePort") or (kind == "ClusterIP" and spec.get("externalIPs")):
        check_enum(errors, policy, path, ("Cluster", "Local"))
    elif policy:
        errors.append(invalid(path, policy, "may only be set for externally-accessible services"))
    port = spec.get("healthCheckNodePort") or 0
    if _needs_health_check(spec):
        if port:
            check_port(errors, port, "spec.healthCheckNodePort")
    elif port:
        detail = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        errors.append(invalid("spec.healthCheckNodePort", port, detail))
    inner = spec.get("internalTrafficPolicy")
    if inner is not None and inner not in ("Cluster", "Local"):
        errors.append(not_supported("spec.internalTrafficPolicy", inner, ("Cluster", "Local")))
    spread = spec.get("trafficDistribution")
    if spread is not None and spread not in _DISTRIBUTIONS:
        errors.append(not_supported("spec.trafficDistribution", spread, _DISTRIBUTIONS))


def _same_addresses(errors: Errors, now: Json, before: Json) -> None:
    addresses, old_addresses = now.get("clusterIPs") or [], before.get("clusterIPs") or []
    path = "spec.clusterIPs"
    if len(addresses) == len(old_addresses):
        changed = [index for index, address in enumerate(old_addresses) if address != addresses[index]]
    else:
        changed = [0] if addresses and old_addresses and addresses[0] != old_addresses[0] else []
    if old_addresses and not addresses:
        errors.append(invalid(f"{path}[0]", now.get("clusterIPs"), "primary clusterIP can not be unset"))
    errors += [invalid(f"{path}[{index}]", addresses, "may not change once set") for index in changed]
    if len(addresses) == 1 < len(old_addresses) and now.get("ipFamilyPolicy") != "SingleStack":
        detail = "must be set to 'SingleStack' when releasing the secondary clusterIP"
        errors.append(invalid("spec.ipFamilyPolicy", now.get("ipFamilyPolicy"), detail))


def _same_families(errors: Errors, now: Json, before: Json) -> None:
    families, old_families = now.get("ipFamilies") or [], before.get("ipFamilies") or []
    if families and old_families and families[0] != old_families[0]:
        errors.append(invalid("spec.ipFamilies[0]", families, "may not change once set"))
    if len(families) == 1 < len(old_families) and now.get("ipFamilyPolicy") != "SingleStack":
        detail = "must be set to 'SingleStack' when releasing the secondary ipFamily"
        errors.append(invalid("spec.ipFamilyPolicy", now.get("ipFamilyPolicy"), detail))
