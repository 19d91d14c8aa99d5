"""Services: ports, addresses, traffic policies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.schemas.field_errors import duplicate, forbidden, invalid, not_supported, required
from sliceworks.schemas.rules import name_rules
from sliceworks.schemas.rules.metadata import label_errors
from sliceworks.schemas.rules.texts import (
    PROTOCOLS,
    Errors,
    address,
    endpoint_address,
    go_struct,
    label,
    named,
    network,
    one_of,
    parse_address,
    port_number,
    port_or_name,
    qualified,
    subdomain,
)

if TYPE_CHECKING:
    from sliceworks.schemas.rules.shape import Json

_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_FAMILIES = ("IPv4", "IPv6")
_FAMILY_POLICIES = ("PreferDualStack", "RequireDualStack", "SingleStack")
_DISTRIBUTIONS = ("PreferClose", "PreferSameZone", "PreferSameNode")
_BALANCER_ONLY = "may only be used when `type` is 'LoadBalancer'"
_RANGES = "service.beta.kubernetes.io/load-balancer-source-ranges"
_HINTS, _MODE = "service.kubernetes.io/topology-aware-hints", "service.kubernetes.io/topology-mode"
_LONGEST_AFFINITY = 86400


def service_errors(obj: Json) -> Errors:
    """Cluster addresses and node ports are there already: they are allocated before the check."""
    out: Errors = []
    spec, annotations = obj.get("spec") or {}, (obj.get("metadata") or {}).get("annotations") or {}
    kind, ports = spec.get("type") or "", spec.get("ports") or []
    if _HINTS in annotations and _MODE in annotations and annotations[_HINTS] != annotations[_MODE]:
        detail = f"must match annotations[{_HINTS}] when both are specified"
        out.append(invalid(f"metadata.annotations[{_MODE}]", annotations[_MODE], detail))
    if not ports and not is_headless(spec) and kind != "ExternalName":
        out.append(required("spec.ports"))
    if kind in ("LoadBalancer", "NodePort") and is_headless(spec):
        out.append(invalid("spec.clusterIPs[0]", "None", f"may not be set to 'None' for {kind} services"))
    if kind == "ExternalName":
        _external_name(out, spec)
    _ports(out, ports)
    if spec.get("selector"):
        label_errors(out, spec["selector"], "spec.selector")
    one_of(out, spec.get("sessionAffinity") or "", "spec.sessionAffinity", ("ClientIP", "None"))
    if spec.get("sessionAffinity") == "ClientIP":
        _affinity(out, spec.get("sessionAffinityConfig"))
    if kind != "ExternalName":
        _cluster_addresses(out, spec)
    for index, found in enumerate(spec.get("externalIPs") or ()):
        before = len(out)
        address(out, found, f"spec.externalIPs[{index}]")
        if len(out) == before:
            endpoint_address(out, found, f"spec.externalIPs[{index}]")
    one_of(out, kind, "spec.type", _TYPES)
    _port_clashes(out, ports, kind)
    _balancer(out, spec, annotations, kind)
    _traffic(out, spec, kind)
    return out


def service_update_errors(new: Json, old: Json) -> Errors:
    out: Errors = []
    now, before = new.get("spec") or {}, old.get("spec") or {}
    if "ExternalName" not in (now.get("type"), before.get("type")):
        if not (is_headless(now) and is_headless(before)):
            _same_addresses(out, now, before)
        if not is_headless(now) and not is_headless(before):
            _same_families(out, now, before)
    if now.get("type") == before.get("type") == "LoadBalancer" and now.get("loadBalancerClass") != before.get("loadBalancerClass"):
        out.append(invalid("spec.loadBalancerClass", now.get("loadBalancerClass"), "may not change once set"))
    if (
        _needs_health_check(now)
        and _needs_health_check(before)
        and now.get("healthCheckNodePort") != before.get("healthCheckNodePort")
    ):
        out.append(forbidden("spec.healthCheckNodePort", "field is immutable"))
    return out


def service_status_errors(new: Json, _old: Json) -> Errors:
    out: Errors = []
    ingresses = ((new.get("status") or {}).get("loadBalancer") or {}).get("ingress") or []
    path = "status.loadBalancer.ingress"
    if ingresses and (new.get("spec") or {}).get("type") != "LoadBalancer":
        out.append(forbidden(path, "may only be used when `spec.type` is 'LoadBalancer'"))
        return out
    for index, ingress in enumerate(ingresses):
        ip, mode, host = ingress.get("ip"), ingress.get("ipMode"), ingress.get("hostname")
        if ip:
            address(out, ip, f"{path}[{index}].ip")
        if mode is None and ip:
            out.append(required(f"{path}[{index}].ipMode", "must be specified when `ip` is set"))
        elif mode is not None and not ip:
            out.append(forbidden(f"{path}[{index}].ipMode", "may not be specified when `ip` is not set"))
        elif mode is not None and mode not in ("Proxy", "VIP"):
            out.append(not_supported(f"{path}[{index}].ipMode", mode, ("Proxy", "VIP")))
        if host:
            host_errors(out, host, f"{path}[{index}].hostname")
    return out


def host_errors(out: Errors, host: str, path: str) -> None:
    """A DNS name, not an address."""
    subdomain(out, host, path)
    if parse_address(host) is not None:
        out.append(invalid(path, host, "must be a DNS name, not an IP address"))


def is_headless(spec: Json) -> bool:
    return spec.get("clusterIPs") == ["None"]


def _needs_health_check(spec: Json) -> bool:
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def _external_name(out: Errors, spec: Json) -> None:
    for field in ("clusterIPs", "ipFamilies", "ipFamilyPolicy"):
        if spec.get(field):
            out.append(forbidden(f"spec.{field}", "may not be set for ExternalName services"))
    name = (spec.get("externalName") or "").removesuffix(".")
    if name:
        subdomain(out, name, "spec.externalName")
    else:
        out.append(required("spec.externalName"))


def _ports(out: Errors, ports: list[Json]) -> None:
    seen: set[str] = set()
    for index, port in enumerate(ports):
        path, name = f"spec.ports[{index}]", port.get("name") or ""
        if name:
            label(out, name, f"{path}.name")
            if name in seen:
                out.append(duplicate(f"{path}.name", name))
            seen.add(name)
        elif len(ports) > 1:
            out.append(required(f"{path}.name"))
        port_number(out, port.get("port") or 0, f"{path}.port")
        one_of(out, port.get("protocol") or "", f"{path}.protocol", PROTOCOLS)
        port_or_name(out, port.get("targetPort", 0), f"{path}.targetPort")
        if port.get("appProtocol") is not None:
            qualified(out, port["appProtocol"], f"{path}.appProtocol")


def _affinity(out: Errors, config: Json | None) -> None:
    path = "spec.sessionAffinityConfig.clientIP.timeoutSeconds"
    seconds = ((config or {}).get("clientIP") or {}).get("timeoutSeconds")
    if seconds is not None and not 0 < seconds <= _LONGEST_AFFINITY:
        out.append(invalid(path, seconds, f"must be greater than 0 and less than {_LONGEST_AFFINITY}"))


def _cluster_addresses(out: Errors, spec: Json) -> None:
    first, addresses, families = spec.get("clusterIP") or "", spec.get("clusterIPs") or [], spec.get("ipFamilies") or []
    path = "spec.clusterIPs"
    if first and not addresses:
        out.append(required(path))
    elif first and addresses[0] != first:
        out.append(invalid(path, addresses, "first value must match `clusterIP`"))
    elif not first and addresses:
        out.append(invalid(path, addresses, "must be empty when `clusterIP` is not specified"))
    seen: set[str] = set()
    for index, family in enumerate(families):
        if family not in _FAMILIES:
            out.append(not_supported(f"spec.ipFamilies[{index}]", family, _FAMILIES))
        if family in seen:
            out.append(duplicate(f"spec.ipFamilies[{index}]", family))
        seen.add(family)
    policy = spec.get("ipFamilyPolicy")
    if policy is not None and policy not in _FAMILY_POLICIES:
        out.append(not_supported("spec.ipFamilyPolicy", policy, _FAMILY_POLICIES))
    _address_values(out, addresses, families, path)


def _address_values(out: Errors, addresses: list[str], families: list[str], path: str) -> None:
    wrong = False
    for index, found in enumerate(addresses):
        if index == 0 and found == "None":
            if len(addresses) > 1:
                wrong = True
                out.append(invalid(path, addresses, "'None' must be the first and only value"))
            continue
        before = len(out)
        address(out, found, f"{path}[{index}]")
        wrong = wrong or len(out) > before
    if len(addresses) > 2:
        out.append(invalid(path, addresses, "may only hold up to 2 values"))
    if wrong or addresses == ["None"]:
        return
    versions = [found.version for found in map(parse_address, addresses) if found is not None]
    if len(addresses) > 1 and len(set(versions)) < 2:
        out.append(invalid(path, addresses, "may specify no more than one IP for each IP family"))
    for index, (found, version, family) in enumerate(zip(addresses, versions, families, strict=False)):
        if family in _FAMILIES and family != f"IPv{version}":
            out.append(invalid(f"{path}[{index}]", found, f"expected an {family} value as indicated by `ipFamilies[{index}]`"))


def _port_clashes(out: Errors, ports: list[Json], kind: str) -> None:
    node_ports: set[tuple[str, int]] = set()
    numbers: set[tuple[str, int]] = set()
    for index, port in enumerate(ports):
        path, protocol, node = f"spec.ports[{index}]", port.get("protocol") or "", port.get("nodePort") or 0
        if node and kind == "ClusterIP":
            out.append(forbidden(f"{path}.nodePort", "may not be used when `type` is 'ClusterIP'"))
        if node and (protocol, node) in node_ports:
            out.append(duplicate(f"{path}.nodePort", node))
        node_ports.add((protocol, node))
        number = port.get("port") or 0
        if (protocol, number) in numbers:
            key = {"name": "", "protocol": protocol, "port": number, "targetPort": 0, "nodePort": 0}
            out.append(duplicate(path, go_struct(key, "name", "protocol", "appProtocol", "port", "targetPort", "nodePort")))
        numbers.add((protocol, number))


def _balancer(out: Errors, spec: Json, annotations: dict[str, str], kind: str) -> None:
    if ranges := spec.get("loadBalancerSourceRanges"):
        if kind != "LoadBalancer":
            out.append(forbidden("spec.LoadBalancerSourceRanges", _BALANCER_ONLY))
        for index, found in enumerate(ranges):
            network(out, found.strip(), f"spec.LoadBalancerSourceRanges[{index}]")
    elif _RANGES in annotations:
        if kind != "LoadBalancer":
            out.append(forbidden(f"metadata.annotations[{_RANGES}]", _BALANCER_ONLY))
        for found in filter(None, annotations[_RANGES].strip().split(",")):
            network(out, found.strip(), f"metadata.annotations[{_RANGES}]")
    if spec.get("allocateLoadBalancerNodePorts") is not None and kind != "LoadBalancer":
        out.append(forbidden("spec.allocateLoadBalancerNodePorts", _BALANCER_ONLY))
    if (name := spec.get("loadBalancerClass")) is not None:
        if kind == "LoadBalancer":
            named(out, name, "spec.loadBalancerClass", name_rules.qualified_name_errors)
        else:
            out.append(forbidden("spec.loadBalancerClass", _BALANCER_ONLY))


def _traffic(out: Errors, spec: Json, kind: str) -> None:
    policy, path = spec.get("externalTrafficPolicy") or "", "spec.externalTrafficPolicy"
    if kind in ("LoadBalancer", "NodePort") or (kind == "ClusterIP" and spec.get("externalIPs")):
        one_of(out, policy, path, ("Cluster", "Local"))
    elif policy:
        out.append(invalid(path, policy, "may only be set for externally-accessible services"))
    port = spec.get("healthCheckNodePort") or 0
    if _needs_health_check(spec):
        if port:
            port_number(out, port, "spec.healthCheckNodePort")
    elif port:
        detail = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        out.append(invalid("spec.healthCheckNodePort", port, detail))
    inner = spec.get("internalTrafficPolicy")
    if inner is not None and inner not in ("Cluster", "Local"):
        out.append(not_supported("spec.internalTrafficPolicy", inner, ("Cluster", "Local")))
    spread = spec.get("trafficDistribution")
    if spread is not None and spread not in _DISTRIBUTIONS:
        out.append(not_supported("spec.trafficDistribution", spread, _DISTRIBUTIONS))


def _same_addresses(out: Errors, now: Json, before: Json) -> None:
    found, known = now.get("clusterIPs") or [], before.get("clusterIPs") or []
    path = "spec.clusterIPs"
    if len(found) == len(known):
        changed = [index for index, one in enumerate(known) if one != found[index]]
    else:
        changed = [0] if found and known and found[0] != known[0] else []
    if known and not found:
        out.append(invalid(f"{path}[0]", now.get("clusterIPs"), "primary clusterIP can not be unset"))
    out += [invalid(f"{path}[{index}]", found, "may not change once set") for index in changed]
    if len(found) == 1 < len(known) and now.get("ipFamilyPolicy") != "SingleStack":
        detail = "must be set to 'SingleStack' when releasing the secondary clusterIP"
        out.append(invalid("spec.ipFamilyPolicy", now.get("ipFamilyPolicy"), detail))


def _same_families(out: Errors, now: Json, before: Json) -> None:
    found, known = now.get("ipFamilies") or [], before.get("ipFamilies") or []
    if found and known and found[0] != known[0]:
        out.append(invalid("spec.ipFamilies[0]", found, "may not change once set"))
    if len(found) == 1 < len(known) and now.get("ipFamilyPolicy") != "SingleStack":
        detail = "must be set to 'SingleStack' when releasing the secondary ipFamily"
        out.append(invalid("spec.ipFamilyPolicy", now.get("ipFamilyPolicy"), detail))
