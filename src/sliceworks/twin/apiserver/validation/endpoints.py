"""Endpoints and EndpointSlices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.schemas.field_errors import duplicate, invalid, required, too_many
from sliceworks.twin.apiserver.validation import field_checks
from sliceworks.twin.apiserver.validation.field_checks import (
    PROTOCOLS,
    Errors,
    check_dns_label,
    check_dns_subdomain,
    check_endpoint_ip,
    check_enum,
    check_immutable,
    check_ip,
    check_name,
    check_port,
    check_qualified_name,
    parse_ip,
)
from sliceworks.twin.apiserver.validation.object_meta import label_errors

if TYPE_CHECKING:
    from ipaddress import IPv4Network

    from sliceworks.twin.apiserver.validation.defaults import Json

_MOST_ENDPOINTS = 1000
_MOST_ADDRESSES = 100
_MOST_PORTS = 20000
_MOST_TOPOLOGY = 16
_MOST_HINTS = 8


def endpoints_errors(obj: Json) -> Errors:
    errors: Errors = []
    for index, subset in enumerate(obj.get("subsets") or ()):
        path = f"subsets[{index}]"
        if not subset.get("addresses") and not subset.get("notReadyAddresses"):
            errors.append(required(path, "must specify `addresses` or `notReadyAddresses`"))
        for field in ("addresses", "notReadyAddresses"):
            for number, address in enumerate(subset.get(field) or ()):
                _address(errors, address, f"{path}.{field}[{number}]")
        ports = subset.get("ports") or ()
        for number, port in enumerate(ports):
            _port(errors, port, f"{path}.ports[{number}]", needs_name=len(ports) > 1)
    return errors


def endpoint_slice_errors(obj: Json, *, pods: IPv4Network | None = None) -> Errors:
    """Errors of an EndpointSlice. `pods` is the pod CIDR if it is a loopback network, whose addresses are otherwise invalid."""
    errors: Errors = []
    kind, endpoints = obj.get("addressType") or "", obj.get("endpoints") or []
    check_enum(errors, kind, "addressType", ("FQDN", "IPv4", "IPv6"))
    _slice_ports(errors, obj.get("ports") or [])
    if len(endpoints) > _MOST_ENDPOINTS:
        errors.append(too_many("endpoints", len(endpoints), _MOST_ENDPOINTS))
        return errors
    for index, endpoint in enumerate(endpoints):
        _endpoint(errors, endpoint, kind, f"endpoints[{index}]", pods)
    return errors


def endpoint_slice_update_errors(new: Json, old: Json) -> Errors:
    errors: Errors = []
    check_immutable(errors, new.get("addressType"), old.get("addressType"), "addressType")
    return errors


def _address(errors: Errors, address: Json, path: str) -> None:
    ip = address.get("ip") or ""
    check_ip(errors, ip, f"{path}.ip")
    if address.get("hostname"):
        check_dns_label(errors, address["hostname"], f"{path}.hostname")
    if address.get("nodeName") is not None:
        check_dns_subdomain(errors, address["nodeName"], f"{path}.nodeName")
    check_endpoint_ip(errors, ip, f"{path}.ip")


def _port(errors: Errors, port: Json, path: str, *, needs_name: bool) -> None:
    name = port.get("name") or ""
    if name:
        check_dns_label(errors, name, f"{path}.name")
    elif needs_name:
        errors.append(required(f"{path}.name"))
    check_port(errors, port.get("port") or 0, f"{path}.port")
    check_enum(errors, port.get("protocol") or "", f"{path}.protocol", PROTOCOLS)
    if port.get("appProtocol") is not None:
        check_qualified_name(errors, port["appProtocol"], f"{path}.appProtocol")


def _slice_ports(errors: Errors, ports: list[Json]) -> None:
    if len(ports) > _MOST_PORTS:
        errors.append(too_many("ports", len(ports), _MOST_PORTS))
        return
    seen: set[str] = set()
    for index, port in enumerate(ports):
        name = port.get("name") or ""
        if name:
            check_dns_label(errors, name, f"ports[{index}].name")
        if name in seen:
            errors.append(duplicate(f"ports[{index}].name", name))
        seen.add(name)
        check_enum(errors, port.get("protocol") or "", f"ports[{index}].protocol", PROTOCOLS)
        if port.get("appProtocol") is not None:
            check_qualified_name(errors, port["appProtocol"], f"ports[{index}].appProtocol")


def _endpoint(errors: Errors, endpoint: Json, kind: str, path: str, pods: IPv4Network | None) -> None:
    addresses = endpoint.get("addresses") or []
    if not addresses:
        errors.append(required(f"{path}.addresses", "must contain at least 1 address"))
    elif len(addresses) > _MOST_ADDRESSES:
        errors.append(too_many(f"{path}.addresses", len(addresses), _MOST_ADDRESSES))
    for index, address in enumerate(addresses):
        if kind in ("IPv4", "IPv6"):
            _ip(errors, address, kind, (f"{path}.addresses", index), pods)
        elif kind == "FQDN":
            _domain(errors, address, f"{path}.addresses[{index}]")
    if endpoint.get("nodeName") is not None:
        check_dns_subdomain(errors, endpoint["nodeName"], f"{path}.nodeName")
    topology = endpoint.get("deprecatedTopology") or {}
    if len(topology) > _MOST_TOPOLOGY:
        errors.append(too_many(f"{path}.deprecatedTopology", len(topology), _MOST_TOPOLOGY))
    label_errors(errors, topology, f"{path}.deprecatedTopology")
    if endpoint.get("hostname") is not None:
        check_dns_label(errors, endpoint["hostname"], f"{path}.hostname")
    for field, rule in (("forZones", field_checks.label_value_errors), ("forNodes", field_checks.dns1123_subdomain_errors)):
        hints = (endpoint.get("hints") or {}).get(field) or []
        if len(hints) > _MOST_HINTS:
            errors.append(too_many(f"{path}.hints.{field}", len(hints), _MOST_HINTS))
            return
        seen: set[str] = set()
        for index, hint in enumerate(hints):
            name, child_path = hint.get("name") or "", f"{path}.hints.{field}[{index}].name"
            if name in seen:
                errors.append(duplicate(child_path, name))
            seen.add(name)
            check_name(errors, name, child_path, rule)


def _ip(errors: Errors, value: str, kind: str, child_path: tuple[str, int], pods: IPv4Network | None) -> None:
    path, index = child_path
    ip = parse_ip(value)
    if ip is None:
        check_ip(errors, value, f"{path}[{index}]")
        return
    if kind == "IPv6" and value != str(ip):
        detail = "must not have leading 0s" if ip.version == 4 else f'must be in canonical form ("{ip}")'
        errors.append(invalid(f"{path}[{index}]", value, detail))
        return
    if f"IPv{ip.version}" != kind:
        errors.append(invalid(path, value, f"must be an {kind} address"))
    if pods is None or ip not in pods:
        check_endpoint_ip(errors, value, f"{path}[{index}]")


def _domain(errors: Errors, name: str, path: str) -> None:
    """Check a fully qualified domain name."""
    if not name:
        errors.append(required(path))
        return
    name = name.removesuffix(".")
    if messages := field_checks.dns1123_subdomain_errors(name):
        errors.append(invalid(path, name, ",".join(messages)))
    elif "." not in name:
        errors.append(invalid(path, name, "should be a domain with at least two segments separated by dots"))
    else:
        for part in name.split("."):
            if messages := field_checks.dns1123_label_errors(part):
                errors.append(invalid(path, part, ",".join(messages)))
                return
