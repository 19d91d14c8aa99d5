"""Endpoints and EndpointSlices: addresses and ports behind a service."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.schemas.field_errors import duplicate, invalid, required, too_many
from sliceworks.schemas.rules import name_rules
from sliceworks.schemas.rules.metadata import label_errors
from sliceworks.schemas.rules.texts import (
    PROTOCOLS,
    Errors,
    address,
    endpoint_address,
    immutable,
    label,
    named,
    one_of,
    parse_address,
    port_number,
    qualified,
    subdomain,
)

if TYPE_CHECKING:
    from ipaddress import IPv4Network

    from sliceworks.schemas.rules.shape import Json

_MOST_ENDPOINTS = 1000
_MOST_ADDRESSES = 100
_MOST_PORTS = 20000
_MOST_TOPOLOGY = 16
_MOST_HINTS = 8


def endpoints_errors(obj: Json) -> Errors:
    out: Errors = []
    for index, subset in enumerate(obj.get("subsets") or ()):
        path = f"subsets[{index}]"
        if not subset.get("addresses") and not subset.get("notReadyAddresses"):
            out.append(required(path, "must specify `addresses` or `notReadyAddresses`"))
        for field in ("addresses", "notReadyAddresses"):
            for number, found in enumerate(subset.get(field) or ()):
                _address(out, found, f"{path}.{field}[{number}]")
        ports = subset.get("ports") or ()
        for number, port in enumerate(ports):
            _port(out, port, f"{path}.ports[{number}]", needs_name=len(ports) > 1)
    return out


def endpoint_slice_errors(obj: Json, *, pods: IPv4Network | None = None) -> Errors:
    """`pods` is the network of the cluster's pods where that is on loopback, which is refused else."""
    out: Errors = []
    kind, endpoints = obj.get("addressType") or "", obj.get("endpoints") or []
    one_of(out, kind, "addressType", ("FQDN", "IPv4", "IPv6"))
    _slice_ports(out, obj.get("ports") or [])
    if len(endpoints) > _MOST_ENDPOINTS:
        out.append(too_many("endpoints", len(endpoints), _MOST_ENDPOINTS))
        return out
    for index, endpoint in enumerate(endpoints):
        _endpoint(out, endpoint, kind, f"endpoints[{index}]", pods)
    return out


def endpoint_slice_update_errors(new: Json, old: Json) -> Errors:
    out: Errors = []
    immutable(out, new.get("addressType"), old.get("addressType"), "addressType")
    return out


def _address(out: Errors, found: Json, path: str) -> None:
    ip = found.get("ip") or ""
    address(out, ip, f"{path}.ip")
    if found.get("hostname"):
        label(out, found["hostname"], f"{path}.hostname")
    if found.get("nodeName") is not None:
        subdomain(out, found["nodeName"], f"{path}.nodeName")
    endpoint_address(out, ip, f"{path}.ip")


def _port(out: Errors, port: Json, path: str, *, needs_name: bool) -> None:
    name = port.get("name") or ""
    if name:
        label(out, name, f"{path}.name")
    elif needs_name:
        out.append(required(f"{path}.name"))
    port_number(out, port.get("port") or 0, f"{path}.port")
    one_of(out, port.get("protocol") or "", f"{path}.protocol", PROTOCOLS)
    if port.get("appProtocol") is not None:
        qualified(out, port["appProtocol"], f"{path}.appProtocol")


def _slice_ports(out: Errors, ports: list[Json]) -> None:
    if len(ports) > _MOST_PORTS:
        out.append(too_many("ports", len(ports), _MOST_PORTS))
        return
    seen: set[str] = set()
    for index, port in enumerate(ports):
        name = port.get("name") or ""
        if name:
            label(out, name, f"ports[{index}].name")
        if name in seen:
            out.append(duplicate(f"ports[{index}].name", name))
        seen.add(name)
        one_of(out, port.get("protocol") or "", f"ports[{index}].protocol", PROTOCOLS)
        if port.get("appProtocol") is not None:
            qualified(out, port["appProtocol"], f"ports[{index}].appProtocol")


def _endpoint(out: Errors, endpoint: Json, kind: str, path: str, pods: IPv4Network | None) -> None:
    addresses = endpoint.get("addresses") or []
    if not addresses:
        out.append(required(f"{path}.addresses", "must contain at least 1 address"))
    elif len(addresses) > _MOST_ADDRESSES:
        out.append(too_many(f"{path}.addresses", len(addresses), _MOST_ADDRESSES))
    for index, found in enumerate(addresses):
        if kind in ("IPv4", "IPv6"):
            _ip(out, found, kind, (f"{path}.addresses", index), pods)
        elif kind == "FQDN":
            _domain(out, found, f"{path}.addresses[{index}]")
    if endpoint.get("nodeName") is not None:
        subdomain(out, endpoint["nodeName"], f"{path}.nodeName")
    topology = endpoint.get("deprecatedTopology") or {}
    if len(topology) > _MOST_TOPOLOGY:
        out.append(too_many(f"{path}.deprecatedTopology", len(topology), _MOST_TOPOLOGY))
    label_errors(out, topology, f"{path}.deprecatedTopology")
    if endpoint.get("hostname") is not None:
        label(out, endpoint["hostname"], f"{path}.hostname")
    for field, rule in (("forZones", name_rules.label_value_errors), ("forNodes", name_rules.dns1123_subdomain_errors)):
        hints = (endpoint.get("hints") or {}).get(field) or []
        if len(hints) > _MOST_HINTS:
            out.append(too_many(f"{path}.hints.{field}", len(hints), _MOST_HINTS))
            return
        seen: set[str] = set()
        for index, hint in enumerate(hints):
            name, place = hint.get("name") or "", f"{path}.hints.{field}[{index}].name"
            if name in seen:
                out.append(duplicate(place, name))
            seen.add(name)
            named(out, name, place, rule)


def _ip(out: Errors, value: str, kind: str, place: tuple[str, int], pods: IPv4Network | None) -> None:
    path, index = place
    found = parse_address(value)
    if found is None:
        address(out, value, f"{path}[{index}]")
        return
    if kind == "IPv6" and value != str(found):
        detail = "must not have leading 0s" if found.version == 4 else f'must be in canonical form ("{found}")'
        out.append(invalid(f"{path}[{index}]", value, detail))
        return
    if f"IPv{found.version}" != kind:
        out.append(invalid(path, value, f"must be an {kind} address"))
    if pods is None or found not in pods:
        endpoint_address(out, value, f"{path}[{index}]")


def _domain(out: Errors, name: str, path: str) -> None:
    """A fully qualified domain name."""
    if not name:
        out.append(required(path))
        return
    name = name.removesuffix(".")
    if found := name_rules.dns1123_subdomain_errors(name):
        out.append(invalid(path, name, ",".join(found)))
    elif "." not in name:
        out.append(invalid(path, name, "should be a domain with at least two segments separated by dots"))
    else:
        for part in name.split("."):
            if found := name_rules.dns1123_label_errors(part):
                out.append(invalid(path, part, ",".join(found)))
                return
