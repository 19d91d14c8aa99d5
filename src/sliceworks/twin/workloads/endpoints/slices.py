"""Which endpoints a Service has, and how few changes bring its slices there. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.kube.resources import owner_reference
from sliceworks.twin.workloads.hands import generate_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sliceworks.twin.workloads.pods import Pod

MOST = 100
SERVICE_NAME = "kubernetes.io/service-name"
MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
HEADLESS = "service.kubernetes.io/headless"
MANAGER = "endpointslice-controller.k8s.io"
ZONE = "topology.kubernetes.io/zone"

Obj = dict[str, Any]


@dataclass(slots=True)
class Plan:
    """Slices to make, to write anew and to delete."""

    create: list[Obj] = field(default_factory=list)
    update: list[Obj] = field(default_factory=list)
    delete: list[Obj] = field(default_factory=list)


def families(service: Obj) -> list[str]:
    """The kinds of addresses that a Service has."""
    return [str(family) for family in service["spec"].get("ipFamilies") or ["IPv4"]]


def endpoint(service: Obj, pod: Pod, addresses: list[str], zone: str) -> Obj:
    """A pod as one of a Service's endpoints."""
    early = bool(service["spec"].get("publishNotReadyAddresses"))
    found: Obj = {
        "addresses": addresses,
        "conditions": {
            "ready": early or (pod.ready and not pod.deleting),
            "serving": pod.ready,
            "terminating": bool(pod.deleting),
        },
        "targetRef": {"kind": "Pod", "namespace": pod.namespace, "name": pod.name, "uid": pod.uid},
    }
    if pod.node:
        found["nodeName"] = pod.node
    if zone:
        found["zone"] = zone
    if pod.host is not None and pod.host[1] == service["metadata"]["name"]:
        found["hostname"] = pod.host[0]
    return found


def ports(service: Obj, look: Callable[[], Obj]) -> list[Obj]:
    """The ports by which a pod is reached; `look` gets the whole pod, for those that go by name."""
    found = []
    for port in service["spec"].get("ports") or ():
        number = _number(port, look)
        if number is None:
            continue
        made = {"name": port.get("name", ""), "port": number, "protocol": port.get("protocol", "TCP")}
        if port.get("appProtocol") is not None:
            made["appProtocol"] = port["appProtocol"]
        found.append(made)
    return found


def _number(port: Obj, look: Callable[[], Obj]) -> int | None:
    target = port.get("targetPort", port["port"])
    if isinstance(target, int):
        return target or int(port["port"])
    spec = look().get("spec") or {}
    sidecars = [each for each in spec.get("initContainers") or () if each.get("restartPolicy") == "Always"]
    for container in (*(spec.get("containers") or ()), *sidecars):
        for each in container.get("ports") or ():
            if each.get("name") == target and each.get("protocol", "TCP") == port.get("protocol", "TCP"):
                return int(each["containerPort"])
    return None


def labels(service: Obj) -> Obj:
    """The labels of a Service's slices."""
    reserved = {SERVICE_NAME, MANAGED_BY, HEADLESS}
    own = {name: value for name, value in (service["metadata"].get("labels") or {}).items() if name not in reserved}
    if service["spec"].get("clusterIP") in (None, "", "None"):
        own[HEADLESS] = ""
    return {**own, SERVICE_NAME: service["metadata"]["name"], MANAGED_BY: MANAGER}


def plan(service: Obj, family: str, wanted: Iterable[tuple[list[Obj], Obj]], there: list[Obj]) -> Plan:
    """Bring the slices of one kind of address to hold these endpoints, each with its ports."""
    found, groups, ports_of = Plan(), dict[bytes, dict[Any, Obj]](), dict[bytes, list[Obj]]()
    for its_ports, each in wanted:
        key = _port_key(its_ports)
        ports_of[key] = its_ports
        groups.setdefault(key, {})[_identity(each)] = each
    by_ports: dict[bytes, list[Obj]] = {}
    for each in there:
        by_ports.setdefault(_port_key(each.get("ports") or []), []).append(each)
    for key, endpoints in groups.items():
        _fill(found, service, (family, ports_of[key]), endpoints, by_ports.pop(key, []))
    found.delete += [each for left in by_ports.values() for each in left]
    if len(found.delete) == len(there) and not found.create:
        _hold_place(found, service, family)
    return _reuse(found)


def _hold_place(found: Plan, service: Obj, family: str) -> None:
    """A Service without endpoints has one empty slice."""
    empty = _new(service, family, [], [])
    if len(found.delete) == 1 and _is_like(found.delete[0], empty):
        found.delete.clear()
    else:
        found.create.append(empty)


def _is_like(each: Obj, other: Obj) -> bool:
    same = all((each.get(name) or []) == (other.get(name) or []) for name in ("endpoints", "ports"))
    return same and each["metadata"].get("labels") == other["metadata"]["labels"]


def _fill(found: Plan, service: Obj, kind: tuple[str, list[Obj]], endpoints: dict[Any, Obj], there: list[Obj]) -> None:
    left, own, kept = dict(endpoints), labels(service), list[Obj]()
    changed: list[Obj] = []
    for each in there:
        staying = [left.pop(key) for key in map(_identity, each.get("endpoints") or ()) if key in left]
        if not staying:
            found.delete.append(each)
        elif staying == [_plain(one) for one in each.get("endpoints") or ()] and each["metadata"].get("labels") == own:
            kept.append(each)
        else:
            changed.append(_with(each, staying, own))
    new = list(left.values())
    for each in sorted(changed, key=lambda each: -len(each["endpoints"])):
        room = MOST - len(each["endpoints"])
        each["endpoints"] += new[:room]
        del new[:room]
    if new and not changed:
        fitting = [each for each in kept if len(new) + len(each.get("endpoints") or ()) <= MOST]
        if fitting:
            chosen = max(fitting, key=lambda each: len(each.get("endpoints") or ()))
            changed.append(_with(chosen, [*(chosen.get("endpoints") or ()), *new], own))
            new = []
    found.update += changed
    while new:
        found.create.append(_new(service, kind[0], kind[1], new[:MOST]))
        del new[:MOST]


def _reuse(found: Plan) -> Plan:
    """Write what is to be made into slices that would be deleted, where it can be."""
    while found.create and found.delete:
        made, old = found.create.pop(), found.delete.pop()
        metadata = {**old["metadata"], "labels": made["metadata"]["labels"], "ownerReferences": made["metadata"]["ownerReferences"]}
        found.update.append({**made, "metadata": metadata})
    return found


def _with(each: Obj, endpoints: list[Obj], own: Obj) -> Obj:
    return {**each, "metadata": {**each["metadata"], "labels": own}, "endpoints": endpoints}


def _new(service: Obj, family: str, its_ports: list[Obj], endpoints: list[Obj]) -> Obj:
    metadata = service["metadata"]
    owner = owner_reference({"apiVersion": "v1", "kind": "Service", "metadata": metadata})
    place = {"generateName": generate_name(metadata["name"]), "namespace": metadata["namespace"]}
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {**place, "labels": labels(service), "ownerReferences": [owner]},
        "addressType": family,
        "ports": its_ports,
        "endpoints": endpoints,
    }


def _plain(each: Obj) -> Obj:
    return {name: value for name, value in each.items() if name != "hints"}


def _identity(each: Obj) -> Any:
    return (*each["addresses"], each.get("hostname", ""), (each.get("targetRef") or {}).get("uid", ""))


def _port_key(its_ports: list[Obj]) -> bytes:
    return orjson.dumps(sorted(orjson.dumps(port, option=orjson.OPT_SORT_KEYS).decode() for port in its_ports))
