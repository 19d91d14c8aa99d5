"""Endpoints and EndpointSlices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.twin.apiserver.validation import error_list
from sliceworks.twin.apiserver.validation.error_list import PROTOCOLS, list_items, parse_ip
from sliceworks.twin.apiserver.validation.object_meta import validate_labels

if TYPE_CHECKING:
    from ipaddress import IPv4Network

    from sliceworks.twin.apiserver.validation.defaults import Json
    from sliceworks.twin.apiserver.validation.error_list import ErrorList

_MAX_ENDPOINTS = 1000
_MAX_ADDRESSES = 100
_MAX_PORTS = 20000
_MAX_TOPOLOGY_LABELS = 16
_MAX_HINTS = 8


def validate_endpoints(errors: ErrorList, obj: Json, *, pods: IPv4Network | None = None) -> None:
    """Validate an Endpoints object. `pods` is the pod CIDR if it is a loopback network, whose addresses are otherwise invalid."""
    for subset, path in list_items(obj, "", "subsets"):
        if not subset.get("addresses") and not subset.get("notReadyAddresses"):
            errors.required(path, "must specify `addresses` or `notReadyAddresses`")
        for field in ("addresses", "notReadyAddresses"):
            for address, address_path in list_items(subset, path, field):
                _validate_address(errors, address, address_path, pods)
        for port, port_path in list_items(subset, path, "ports"):
            if not port.get("name") and len(subset["ports"]) > 1:
                errors.required(f"{port_path}.name")
            errors.check_port(port.get("port") or 0, f"{port_path}.port")
            _validate_port(errors, port, port_path)


def validate_endpoint_slice(errors: ErrorList, obj: Json, *, pods: IPv4Network | None = None) -> None:
    """Validate an EndpointSlice. `pods` is the pod CIDR if it is a loopback network, whose addresses are otherwise invalid."""
    errors.check_enum(obj, "", "addressType", ("FQDN", "IPv4", "IPv6"))
    ports, endpoints = obj.get("ports") or (), obj.get("endpoints") or ()
    errors.check_count(ports, "ports", _MAX_PORTS)
    seen: set[str] = set()
    for port, path in list_items(obj, "", "ports") if len(ports) <= _MAX_PORTS else ():
        errors.check_unique(seen, port.get("name") or "", f"{path}.name")
        _validate_port(errors, port, path)
    errors.check_count(endpoints, "endpoints", _MAX_ENDPOINTS)
    for endpoint, path in list_items(obj, "", "endpoints") if len(endpoints) <= _MAX_ENDPOINTS else ():
        _validate_endpoint(errors, endpoint, obj.get("addressType") or "", path, pods)


def _validate_address(errors: ErrorList, address: Json, path: str, pods: IPv4Network | None) -> None:
    ip = address.get("ip") or ""
    errors.check_ip(ip, f"{path}.ip")
    errors.check_optional_names(address, path, error_list.dns1123_label_errors, "hostname")
    if address.get("nodeName") is not None:
        errors.check_dns_subdomain(address["nodeName"], f"{path}.nodeName")
    if pods is None or parse_ip(ip) not in pods:
        errors.check_endpoint_ip(ip, f"{path}.ip")


def _validate_port(errors: ErrorList, port: Json, path: str) -> None:
    errors.check_optional_names(port, path, error_list.dns1123_label_errors, "name")
    errors.check_enum(port, path, "protocol", PROTOCOLS)
    if port.get("appProtocol") is not None:
        errors.check_qualified_name(port["appProtocol"], f"{path}.appProtocol")


def _validate_endpoint(errors: ErrorList, endpoint: Json, kind: str, path: str, pods: IPv4Network | None) -> None:
    addresses = endpoint.get("addresses") or []
    if not addresses:
        errors.required(f"{path}.addresses", "must contain at least 1 address")
    errors.check_count(addresses, f"{path}.addresses", _MAX_ADDRESSES)
    for address, address_path in list_items(endpoint, path, "addresses"):
        if kind in ("IPv4", "IPv6"):
            _validate_endpoint_address(errors, address, kind, address_path, pods)
        elif kind == "FQDN":
            _validate_domain_name(errors, address, address_path)
    if endpoint.get("nodeName") is not None:
        errors.check_dns_subdomain(endpoint["nodeName"], f"{path}.nodeName")
    topology = endpoint.get("deprecatedTopology") or {}
    errors.check_count(topology, f"{path}.deprecatedTopology", _MAX_TOPOLOGY_LABELS)
    validate_labels(errors, topology, f"{path}.deprecatedTopology")
    if endpoint.get("hostname") is not None:
        errors.check_dns_label(endpoint["hostname"], f"{path}.hostname")
    for field, rule in (("forZones", error_list.label_value_errors), ("forNodes", error_list.dns1123_subdomain_errors)):
        hints = endpoint.get("hints") or {}
        if len(hints.get(field) or ()) > _MAX_HINTS:
            errors.check_count(hints[field], f"{path}.hints.{field}", _MAX_HINTS)
            return
        seen: set[str] = set()
        for hint, hint_path in list_items(hints, f"{path}.hints", field):
            name = hint.get("name") or ""
            errors.check_unique(seen, name, f"{hint_path}.name")
            errors.check_name(name, f"{hint_path}.name", rule)


def _validate_endpoint_address(errors: ErrorList, value: str, kind: str, path: str, pods: IPv4Network | None) -> None:
    ip = parse_ip(value)
    if ip is None:
        errors.check_ip(value, path)
        return
    if kind == "IPv6" and value != str(ip):
        errors.invalid(path, value, "must not have leading 0s" if ip.version == 4 else f'must be in canonical form ("{ip}")')
        return
    if f"IPv{ip.version}" != kind:
        errors.invalid(path.rpartition("[")[0], value, f"must be an {kind} address")
    if pods is None or ip not in pods:
        errors.check_endpoint_ip(value, path)


def _validate_domain_name(errors: ErrorList, name: str, path: str) -> None:
    """Validate a fully qualified domain name."""
    if not name:
        errors.required(path)
        return
    name = name.removesuffix(".")
    if messages := error_list.dns1123_subdomain_errors(name):
        errors.invalid(path, name, ",".join(messages))
    elif "." not in name:
        errors.invalid(path, name, "should be a domain with at least two segments separated by dots")
    else:
        for part in name.split("."):
            if messages := error_list.dns1123_label_errors(part):
                errors.invalid(path, part, ",".join(messages))
                return
