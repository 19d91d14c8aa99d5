"""The Endpoints object of a Service. Pure."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from sliceworks.twin.controllers.builtin.endpointslice_reconciler import HEADLESS, endpoint_ports
from sliceworks.twin.controllers.runtime.revisions import fnv128a

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sliceworks.kube.resources import Object
    from sliceworks.twin.controllers.runtime.pod_index import Pod

    _AddressKey = tuple[str, str]

MAX_ADDRESSES = 1000
CONTROLLER = "endpoint-controller"
MANAGED_BY = "endpoints.kubernetes.io/managed-by"
OVER_CAPACITY = "endpoints.kubernetes.io/over-capacity"
TRIGGER_TIME = "endpoints.kubernetes.io/last-change-trigger-time"


def desired_subsets(service: Object, pods: Iterable[Pod], get_pod: Callable[[Pod], Object]) -> list[Object]:
    """The subsets of a Service with these pods; `get_pod` gets the whole pod, for named target ports."""
    spec = service["spec"]
    is_ipv6 = (spec.get("ipFamilies") or ["IPv4"])[0] == "IPv6"
    publish_not_ready = bool(spec.get("publishNotReadyAddresses"))
    subsets: list[Object] = []
    for pod in pods:
        ip = next((ip for ip in pod.ips if (":" in ip) == is_ipv6), None)
        if ip is None or pod.finished or (pod.deleting and not publish_not_ready):
            continue
        address = _pod_address(service, pod, ip)
        field = "addresses" if publish_not_ready or pod.ready else "notReadyAddresses"
        if spec.get("ports"):
            ports = endpoint_ports(service, lambda pod=pod: get_pod(pod))  # type: ignore[misc]
            subsets += [{field: [address], "ports": [_without_empty_name(port)]} for port in ports]
        elif spec.get("clusterIP") == "None":
            subsets.append({field: [address]})
    return repack_subsets(subsets)


def _pod_address(service: Object, pod: Pod, ip: str) -> Object:
    reference = {"kind": "Pod", "namespace": pod.namespace, "name": pod.name, "uid": pod.uid}
    address: Object = {"ip": ip, "nodeName": pod.node, "targetRef": reference}
    if pod.host is not None and pod.host[1] == service["metadata"]["name"]:
        address["hostname"] = pod.host[0]
    return address


def _without_empty_name(port: Object) -> Object:
    return {name: value for name, value in port.items() if name != "name" or value}


def repack_subsets(subsets: Iterable[Object]) -> list[Object]:
    """The subsets in canonical form: addresses with the same ports are in one subset, and ports with the same addresses too."""
    addresses: dict[_AddressKey, Object] = {}
    readiness_by_port: dict[str, dict[_AddressKey, bool]] = {}
    ports: dict[str, Object | None] = {}
    for subset in subsets:
        for port in subset.get("ports") or [None]:
            key = "" if port is None else _describe_port(port)
            ports[key] = port
            readiness = readiness_by_port.setdefault(key, {})
            for field, ready in (("addresses", True), ("notReadyAddresses", False)):
                for address in subset.get(field) or ():
                    address_key = (address["ip"], (address.get("targetRef") or {}).get("uid", ""))
                    addresses.setdefault(address_key, address)
                    # An address that is listed both as ready and as not ready is not ready.
                    readiness[address_key] = readiness.get(address_key, True) and ready
    ports_by_readiness: dict[tuple[tuple[_AddressKey, bool], ...], list[str]] = {}
    for key, readiness in readiness_by_port.items():
        ports_by_readiness.setdefault(tuple(sorted(readiness.items())), []).append(key)
    repacked = []
    for group, keys in sorted(ports_by_readiness.items()):
        subset = {
            "addresses": [addresses[key] for key, ready in group if ready],
            "notReadyAddresses": [addresses[key] for key, ready in group if not ready],
            "ports": [ports[key] for key in sorted(keys, key=lambda key: fnv128a(key.encode())) if key],
        }
        repacked.append({name: value for name, value in subset.items() if value})
    return repacked


def _describe_port(port: Object) -> str:
    """The port as Kubernetes prints it to hash it: the order of ports in a subset is that of their hashes."""
    protocol, application = port.get("protocol", "TCP"), port.get("appProtocol")
    pointer = "<nil>" if application is None else application
    name_and_port = f"Name:(string){port.get('name') or ''} Port:(int32){port['port']}"
    return f"(v1.EndpointPort){{{name_and_port} Protocol:(v1.Protocol){protocol} AppProtocol:(*string){pointer}}}"


def update_endpoints(service: Object, subsets: list[Object], current: Object | None) -> Object | None:
    """The Endpoints object to write; None if the current one is correct."""
    service_labels = service["metadata"].get("labels") or {}
    metadata: Object = current["metadata"] if current else {key: service["metadata"][key] for key in ("name", "namespace")}
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    if (
        current is not None
        and repack_subsets(current.get("subsets") or ()) == subsets
        and labels.get(MANAGED_BY) == CONTROLLER
        and {key: value for key, value in labels.items() if key not in {HEADLESS, MANAGED_BY}} == service_labels
        and OVER_CAPACITY not in annotations
    ):
        return None
    labels = {key: value for key, value in service_labels.items() if key != HEADLESS} | {MANAGED_BY: CONTROLLER}
    if service["spec"].get("clusterIP") in (None, "", "None"):
        labels[HEADLESS] = ""
    annotations = {key: value for key, value in annotations.items() if key not in {TRIGGER_TIME, OVER_CAPACITY}}
    truncated = truncate_subsets(subsets)
    if truncated is not subsets:
        annotations[OVER_CAPACITY] = "truncated"
    metadata = {**metadata, "labels": labels, "annotations": annotations}
    if not annotations:
        del metadata["annotations"]
    desired: Object = {**(current or {"apiVersion": "v1", "kind": "Endpoints"}), "metadata": metadata, "subsets": truncated}
    if not truncated:
        del desired["subsets"]
    return desired if desired != current else None


def truncate_subsets(subsets: list[Object]) -> list[Object]:
    """Subsets with at most 1,000 addresses, ready ones first, in proportion to the size of each subset."""
    ready = sum(len(subset.get("addresses") or ()) for subset in subsets)
    not_ready = sum(len(subset.get("notReadyAddresses") or ()) for subset in subsets)
    if ready + not_ready <= MAX_ADDRESSES:
        return subsets
    field, total, most = "notReadyAddresses", not_ready, MAX_ADDRESSES - ready
    if ready > MAX_ADDRESSES:
        field, total, most = "addresses", ready, MAX_ADDRESSES
    free, truncated = most, []
    for subset in subsets:
        addresses = subset.get(field) or []
        kept = addresses[: min(math.ceil(len(addresses) / total * most), free)]
        free -= len(kept)
        remaining = {**subset, field: kept}
        if field == "addresses":
            remaining.pop("notReadyAddresses", None)
        truncated.append({name: value for name, value in remaining.items() if value})
    return truncated
