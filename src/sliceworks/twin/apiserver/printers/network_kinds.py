"""Rows of Services, Ingresses, endpoints and network policies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.twin.apiserver.printers.cells import (
    NONE,
    UNKNOWN,
    UNSET,
    Obj,
    age,
    first_few,
    format_labels,
    format_selector,
    printer,
    spec_of,
    status_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

_SHOWN = 3


def service_cells(obj: Obj, now: datetime) -> list[Any]:
    spec = spec_of(obj)
    addresses = spec.get("clusterIPs") or [spec.get("clusterIP") or NONE]
    ports = ",".join(_port(port) for port in spec.get("ports") or ()) or NONE
    return [addresses[0], _external(obj), ports, format_labels(spec.get("selector"))]


def _port(port: Obj) -> str:
    node = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port.get('port', 0)}{node}/{port.get('protocol', '')}"


def _external(obj: Obj) -> str:
    spec = spec_of(obj)
    service_type, external_ips = spec.get("type"), spec.get("externalIPs") or []
    if service_type in ("ClusterIP", "NodePort"):
        return ",".join(external_ips) or NONE
    if service_type == "LoadBalancer":
        return ",".join([*_load_balancer_addresses(obj), *external_ips]) or "<pending>"
    return str(spec.get("externalName", "")) if service_type == "ExternalName" else UNKNOWN


def _load_balancer_addresses(obj: Obj) -> list[str]:
    entries = (status_of(obj).get("loadBalancer") or {}).get("ingress") or []
    return sorted({entry.get("ip") or entry.get("hostname") or "" for entry in entries} - {""})


def ingress_cells(obj: Obj, now: datetime) -> list[Any]:
    spec = spec_of(obj)
    addresses, ports = ",".join(_load_balancer_addresses(obj)), "80, 443" if spec.get("tls") else "80"
    return [spec.get("ingressClassName") or NONE, _hosts(spec.get("rules") or []), addresses, ports]


def _hosts(rules: list[Obj]) -> str:
    listed: list[str] = []
    for rule in rules:
        if len(listed) == _SHOWN:
            return f"{','.join(listed)} + {len(rules) - _SHOWN} more..."
        if rule.get("host"):
            listed.append(rule["host"])
    return ",".join(listed) or "*"


def ingress_class_cells(obj: Obj, now: datetime) -> list[Any]:
    reference = spec_of(obj).get("parameters")
    parameters = NONE
    if reference:
        group = f".{reference['apiGroup']}" if reference.get("apiGroup") is not None else ""
        parameters = f"{reference.get('kind', '')}{group}/{reference.get('name', '')}"
    return [parameters]


def endpoints_cells(obj: Obj, now: datetime) -> list[Any]:
    subsets = obj.get("subsets") or []
    addresses = (address for subset in subsets for address in _addresses(subset))
    return [first_few(addresses, _SHOWN, empty="") if subsets else NONE]


def _addresses(subset: Obj) -> Iterator[str]:
    addresses = [address.get("ip", "") for address in subset.get("addresses") or ()]
    if not subset.get("ports"):
        yield from addresses
    for port in subset.get("ports") or ():
        yield from (f"[{ip}]:{port.get('port', 0)}" if ":" in ip else f"{ip}:{port.get('port', 0)}" for ip in addresses)


def endpoint_slice_cells(obj: Obj, now: datetime) -> list[Any]:
    ports = (str(port["port"]) if port.get("port") is not None else port.get("name") or "*" for port in obj.get("ports") or ())
    addresses = (address for endpoint in obj.get("endpoints") or () for address in endpoint.get("addresses") or ())
    return [first_few(ports, _SHOWN, empty=UNSET), first_few(addresses, _SHOWN, empty=UNSET)]


def network_policy_cells(obj: Obj, now: datetime) -> list[Any]:
    return [format_selector(spec_of(obj).get("podSelector") or {})]


def ip_address_cells(obj: Obj, now: datetime) -> list[Any]:
    """kube-apiserver adds the age in a cell without a column."""
    parent = spec_of(obj).get("parentRef")
    reference = NONE
    if parent:
        group = f".{parent['group']}" if parent.get("group") else ""
        namespace = f"/{parent['namespace']}" if parent.get("namespace") else ""
        reference = f"{parent.get('resource', '')}{group}".lower() + f"{namespace}/{parent.get('name', '')}"
    return [reference, age(obj, now)]


SERVICE = printer("Name:name | Type=spec.type | Cluster-IP | External-IP | Port(s) | Age | Selector:wide", service_cells)
INGRESS = printer("Name:name | Class | Hosts | Address | Ports | Age", ingress_cells)
INGRESS_CLASS = printer("Name:name | Controller=spec.controller | Parameters | Age", ingress_class_cells)
ENDPOINTS = printer("Name:name | Endpoints | Age", endpoints_cells)
ENDPOINT_SLICE = printer("Name:name | AddressType=addressType | Ports | Endpoints | Age", endpoint_slice_cells)
NETWORK_POLICY = printer("Name:name | Pod-Selector | Age", network_policy_cells)
SERVICE_CIDR = printer("Name:name | CIDRs | Age", lambda obj, now: [",".join(spec_of(obj).get("cidrs") or ())])
IP_ADDRESS = printer("Name:name | ParentRef", ip_address_cells)
