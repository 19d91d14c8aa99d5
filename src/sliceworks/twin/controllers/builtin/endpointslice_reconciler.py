"""The endpoints of a Service, and the fewest changes to its EndpointSlices. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.kube.pod_requests import sidecars
from sliceworks.kube.resources import owner_reference
from sliceworks.twin.controllers.builtin.pod_control import generate_name
from sliceworks.twin.controllers.runtime.revisions import fnv128a

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sliceworks.kube.resources import Object
    from sliceworks.twin.controllers.runtime.pod_index import Pod

MAX_ENDPOINTS = 100
SERVICE_NAME = "kubernetes.io/service-name"
MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
HEADLESS = "service.kubernetes.io/headless"
MANAGER = "endpointslice-controller.k8s.io"
ZONE = "topology.kubernetes.io/zone"


@dataclass(slots=True)
class SliceChanges:
    """EndpointSlices to create, update and delete."""

    create: list[Object] = field(default_factory=list)
    update: list[Object] = field(default_factory=list)
    delete: list[Object] = field(default_factory=list)


def address_types(service: Object) -> list[str]:
    """The address types of a Service."""
    return [str(family) for family in service["spec"].get("ipFamilies") or ["IPv4"]]


def pod_to_endpoint(service: Object, pod: Pod, addresses: list[str], zone: str) -> Object:
    """The endpoint of a pod."""
    publish_not_ready = bool(service["spec"].get("publishNotReadyAddresses"))
    endpoint: Object = {
        "addresses": addresses,
        "conditions": {
            "ready": publish_not_ready or (pod.ready and not pod.deleting),
            "serving": pod.ready,
            "terminating": bool(pod.deleting),
        },
        "targetRef": {"kind": "Pod", "namespace": pod.namespace, "name": pod.name, "uid": pod.uid},
    }
    if pod.node:
        endpoint["nodeName"] = pod.node
    if zone:
        endpoint["zone"] = zone
    if pod.host is not None and pod.host[1] == service["metadata"]["name"]:
        endpoint["hostname"] = pod.host[0]
    return endpoint


def endpoint_ports(service: Object, get_pod: Callable[[], Object]) -> list[Object]:
    """The endpoint ports of a Service's pod; `get_pod` gets the whole pod, for named target ports."""
    ports = []
    for port in service["spec"].get("ports") or ():
        number = _find_port(port, get_pod)
        if number is None:
            continue
        endpoint_port = {"name": port.get("name", ""), "port": number, "protocol": port.get("protocol", "TCP")}
        if port.get("appProtocol") is not None:
            endpoint_port["appProtocol"] = port["appProtocol"]
        ports.append(endpoint_port)
    return ports


def _find_port(port: Object, get_pod: Callable[[], Object]) -> int | None:
    target = port.get("targetPort", port["port"])
    if isinstance(target, int):
        return target or int(port["port"])
    spec = get_pod().get("spec") or {}
    for container in (*(spec.get("containers") or ()), *sidecars(spec)):
        for candidate in container.get("ports") or ():
            if candidate.get("name") == target and candidate.get("protocol", "TCP") == port.get("protocol", "TCP"):
                return int(candidate["containerPort"])
    return None


def slice_labels(service: Object) -> Object:
    """The labels of a Service's EndpointSlices."""
    reserved = {SERVICE_NAME, MANAGED_BY, HEADLESS}
    labels = {name: value for name, value in (service["metadata"].get("labels") or {}).items() if name not in reserved}
    if service["spec"].get("clusterIP") in (None, "", "None"):
        labels[HEADLESS] = ""
    return {**labels, SERVICE_NAME: service["metadata"]["name"], MANAGED_BY: MANAGER}


def plan_slices(
    service: Object, family: str, desired: Iterable[tuple[list[Object], Object]], existing: list[Object]
) -> SliceChanges:
    """The changes after which the slices of one address type hold the desired endpoints, given with their ports."""
    changes = SliceChanges()
    endpoints_by_ports: dict[bytes, dict[Any, Object]] = {}
    ports_by_key: dict[bytes, list[Object]] = {}
    for ports, endpoint in desired:
        key = port_key(ports)
        ports_by_key[key] = ports
        endpoints_by_ports.setdefault(key, {})[_endpoint_key(endpoint)] = endpoint
    existing_by_ports: dict[bytes, list[Object]] = {}
    for endpoint_slice in existing:
        existing_by_ports.setdefault(port_key(endpoint_slice.get("ports") or []), []).append(endpoint_slice)
    for key, endpoints in endpoints_by_ports.items():
        _plan_port_group(changes, service, (family, ports_by_key[key]), endpoints, existing_by_ports.pop(key, []))
    changes.delete += [endpoint_slice for slices in existing_by_ports.values() for endpoint_slice in slices]
    if len(changes.delete) == len(existing) and not changes.create:
        _add_placeholder(changes, service, family)
    return _reuse_deleted(changes)


def _add_placeholder(changes: SliceChanges, service: Object, family: str) -> None:
    """A Service without endpoints has one empty slice."""
    placeholder = _new_slice(service, family, [], [])
    if len(changes.delete) == 1 and _is_equal(changes.delete[0], placeholder):
        changes.delete.clear()
    else:
        changes.create.append(placeholder)


def _is_equal(endpoint_slice: Object, other: Object) -> bool:
    same = all((endpoint_slice.get(name) or []) == (other.get(name) or []) for name in ("endpoints", "ports"))
    return same and endpoint_slice["metadata"].get("labels") == other["metadata"]["labels"]


def _plan_port_group(
    changes: SliceChanges,
    service: Object,
    group: tuple[str, list[Object]],
    endpoints: dict[Any, Object],
    existing: list[Object],
) -> None:
    """Distribute the endpoints of one address type and list of ports over slices."""
    missing, labels = dict(endpoints), slice_labels(service)
    unchanged: list[Object] = []
    changed: list[Object] = []
    for endpoint_slice in existing:
        current = endpoint_slice.get("endpoints") or ()
        kept = [missing.pop(key) for key in map(_endpoint_key, current) if key in missing]
        if not kept:
            changes.delete.append(endpoint_slice)
        elif kept == [_without_hints(endpoint) for endpoint in current] and endpoint_slice["metadata"].get("labels") == labels:
            unchanged.append(endpoint_slice)
        else:
            changed.append(_with_endpoints(endpoint_slice, kept, labels))
    new = list(missing.values())
    # 1. Fill slices that change anyway, the fullest first.
    for endpoint_slice in sorted(changed, key=lambda endpoint_slice: -len(endpoint_slice["endpoints"])):
        free = MAX_ENDPOINTS - len(endpoint_slice["endpoints"])
        endpoint_slice["endpoints"] += new[:free]
        del new[:free]
    # 2. Else add all to the fullest unchanged slice that has room.
    if new and not changed:
        fitting = [
            endpoint_slice for endpoint_slice in unchanged if len(new) + len(endpoint_slice.get("endpoints") or ()) <= MAX_ENDPOINTS
        ]
        if fitting:
            fullest = max(fitting, key=lambda endpoint_slice: len(endpoint_slice.get("endpoints") or ()))
            changed.append(_with_endpoints(fullest, [*(fullest.get("endpoints") or ()), *new], labels))
            new = []
    changes.update += changed
    # 3. Create slices for the rest.
    while new:
        changes.create.append(_new_slice(service, *group, new[:MAX_ENDPOINTS]))
        del new[:MAX_ENDPOINTS]


def _reuse_deleted(changes: SliceChanges) -> SliceChanges:
    """Update slices that would be deleted instead of creating new ones."""
    while changes.create and changes.delete:
        new, old = changes.create.pop(), changes.delete.pop()
        metadata = {**old["metadata"], "labels": new["metadata"]["labels"], "ownerReferences": new["metadata"]["ownerReferences"]}
        changes.update.append({**new, "metadata": metadata})
    return changes


def _with_endpoints(endpoint_slice: Object, endpoints: list[Object], labels: Object) -> Object:
    return {**endpoint_slice, "metadata": {**endpoint_slice["metadata"], "labels": labels}, "endpoints": endpoints}


def _new_slice(service: Object, family: str, ports: list[Object], endpoints: list[Object]) -> Object:
    metadata = service["metadata"]
    owner = owner_reference({"apiVersion": "v1", "kind": "Service", "metadata": metadata})
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "generateName": generate_name(metadata["name"]),
            "namespace": metadata["namespace"],
            "labels": slice_labels(service),
            "ownerReferences": [owner],
        },
        "addressType": family,
        "ports": ordered_ports(ports),
        "endpoints": endpoints,
    }


def _without_hints(endpoint: Object) -> Object:
    return {name: value for name, value in endpoint.items() if name != "hints"}


def _endpoint_key(endpoint: Object) -> Any:
    return (*endpoint["addresses"], endpoint.get("hostname", ""), (endpoint.get("targetRef") or {}).get("uid", ""))


def ordered_ports(ports: list[Object]) -> list[Object]:
    """The ports in the order in which Kubernetes writes them: that of the hashes of their printed fields."""
    return sorted(ports, key=lambda port: fnv128a(_describe_port(port).encode())) if len(ports) > 1 else ports


def _describe_port(port: Object) -> str:
    name_and_protocol = f"Name:(*string){port['name']} Protocol:(*v1.Protocol){port['protocol']}"
    application = port.get("appProtocol") or "<nil>"
    return f"(v1.EndpointPort){{{name_and_protocol} Port:(*int32){port['port']} AppProtocol:(*string){application}}}"


def port_key(ports: list[Object]) -> bytes:
    """A key of a list of ports, whatever their order."""
    return orjson.dumps(sorted(orjson.dumps(port, option=orjson.OPT_SORT_KEYS).decode() for port in ports))
