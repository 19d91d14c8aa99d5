"""Rows of services and what leads to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.twin.api.cells.shared import NONE, UNKNOWN, UNSET, Obj, age, kind, labels, more_than, name, selector, spec, status

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

_SHOWN = 3


def service_row(obj: Obj, now: datetime) -> list[Any]:
    wanted = spec(obj)
    addresses = wanted.get("clusterIPs") or [wanted.get("clusterIP") or NONE]
    ports = ",".join(_port(port) for port in wanted.get("ports") or ()) or NONE
    kind_of = wanted.get("type", "")
    return [name(obj), kind_of, addresses[0], _external(obj), ports, age(obj, now), labels(wanted.get("selector"))]


def _port(port: Obj) -> str:
    node = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port.get('port', 0)}{node}/{port.get('protocol', '')}"


def _external(obj: Obj) -> str:
    wanted = spec(obj)
    kind_of, given = wanted.get("type"), wanted.get("externalIPs") or []
    if kind_of in ("ClusterIP", "NodePort"):
        return ",".join(given) or NONE
    if kind_of == "LoadBalancer":
        return ",".join([*_balanced(obj), *given]) or "<pending>"
    return str(wanted.get("externalName", "")) if kind_of == "ExternalName" else UNKNOWN


def _balanced(obj: Obj) -> list[str]:
    """The addresses of a load balancer."""
    entries = (status(obj).get("loadBalancer") or {}).get("ingress") or []
    return sorted({entry.get("ip") or entry.get("hostname") or "" for entry in entries} - {""})


def ingress_row(obj: Obj, now: datetime) -> list[Any]:
    wanted = spec(obj)
    ports = "80, 443" if wanted.get("tls") else "80"
    hosts = _hosts(wanted.get("rules") or [])
    return [name(obj), wanted.get("ingressClassName") or NONE, hosts, ",".join(_balanced(obj)), ports, age(obj, now)]


def _hosts(rules: list[Obj]) -> str:
    listed: list[str] = []
    for position, rule in enumerate(rules):
        if len(listed) == _SHOWN:
            return f"{','.join(listed)} + {len(rules) - _SHOWN} more..." if position < len(rules) else ""
        if rule.get("host"):
            listed.append(rule["host"])
    return ",".join(listed) or "*"


def ingress_class_row(obj: Obj, now: datetime) -> list[Any]:
    wanted = spec(obj)
    given = wanted.get("parameters")
    shown = NONE
    if given:
        group = f".{given['apiGroup']}" if given.get("apiGroup") is not None else ""
        shown = f"{given.get('kind', '')}{group}/{given.get('name', '')}"
    return [name(obj), wanted.get("controller", ""), shown, age(obj, now)]


def endpoints_row(obj: Obj, now: datetime) -> list[Any]:
    subsets = obj.get("subsets") or []
    text = more_than((address for subset in subsets for address in _addresses(subset)), _SHOWN, empty="") if subsets else NONE
    return [name(obj), text, age(obj, now)]


def _addresses(subset: Obj) -> Iterator[str]:
    addresses = [address.get("ip", "") for address in subset.get("addresses") or ()]
    if not subset.get("ports"):
        yield from addresses
    for port in subset.get("ports") or ():
        yield from (f"[{ip}]:{port.get('port', 0)}" if ":" in ip else f"{ip}:{port.get('port', 0)}" for ip in addresses)


def endpoint_slice_row(obj: Obj, now: datetime) -> list[Any]:
    ports = (str(port["port"]) if port.get("port") is not None else port.get("name") or "*" for port in obj.get("ports") or ())
    addresses = (address for endpoint in obj.get("endpoints") or () for address in endpoint.get("addresses") or ())
    return [
        name(obj),
        obj.get("addressType", ""),
        more_than(ports, _SHOWN, empty=UNSET),
        more_than(addresses, _SHOWN, empty=UNSET),
        age(obj, now),
    ]


def network_policy_row(obj: Obj, now: datetime) -> list[Any]:
    return [name(obj), selector(spec(obj).get("podSelector") or {}), age(obj, now)]


def service_cidr_row(obj: Obj, now: datetime) -> list[Any]:
    return [name(obj), ",".join(spec(obj).get("cidrs") or ()), age(obj, now)]


def ip_address_row(obj: Obj, now: datetime) -> list[Any]:
    """The server gives the age of an address too, in a cell that has no column."""
    parent = spec(obj).get("parentRef")
    shown = NONE
    if parent:
        group = f".{parent['group']}" if parent.get("group") else ""
        place = f"/{parent['namespace']}" if parent.get("namespace") else ""
        shown = f"{parent.get('resource', '')}{group}".lower() + f"{place}/{parent.get('name', '')}"
    return [name(obj), shown, age(obj, now)]


KINDS = {
    "/services": kind("Name:name | Type | Cluster-IP | External-IP | Port(s) | Age | Selector:wide", service_row),
    "networking.k8s.io/ingresses": kind("Name:name | Class | Hosts | Address | Ports | Age", ingress_row),
    "networking.k8s.io/ingressclasses": kind("Name:name | Controller | Parameters | Age", ingress_class_row),
    "/endpoints": kind("Name:name | Endpoints | Age", endpoints_row),
    "discovery.k8s.io/endpointslices": kind("Name:name | AddressType | Ports | Endpoints | Age", endpoint_slice_row),
    "networking.k8s.io/networkpolicies": kind("Name:name | Pod-Selector | Age", network_policy_row),
    "networking.k8s.io/servicecidrs": kind("Name:name | CIDRs | Age", service_cidr_row),
    "networking.k8s.io/ipaddresses": kind("Name:name | ParentRef", ip_address_row),
}
