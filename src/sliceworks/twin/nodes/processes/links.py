"""The variables by which a kubelet tells a container of Services: those of its namespace, and the API's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

Obj = dict[str, Any]
API = ("default", "kubernetes")


def variables(pod: Obj, services: Iterable[Obj], api: tuple[str, int] | None) -> dict[str, str]:
    """What the containers of a pod are told of these Services. `api` is where the API really is: few may
    listen at its Service's port.

    A Service of the pod's own namespace that is called as the API's comes before that.
    """
    namespace, wanted = pod["metadata"]["namespace"], pod["spec"].get("enableServiceLinks", True)
    found: dict[str, Obj] = {}
    for service in services:
        own = (service["metadata"]["namespace"], service["metadata"]["name"])
        if service["spec"].get("clusterIP") in (None, "", "None"):
            continue
        if own == API:
            if api is not None:
                found.setdefault(own[1], _at(service, *api))
        elif own[0] == namespace and wanted:
            found[own[1]] = service
    return {name: value for service in found.values() for name, value in _of(service).items()}


def _at(service: Obj, address: str, port: int) -> Obj:
    return {**service, "spec": {"clusterIP": address, "ports": [{**service["spec"]["ports"][0], "port": port}]}}


def _of(service: Obj) -> dict[str, str]:
    spec, prefix = service["spec"], _name(service["metadata"]["name"])
    address, first = spec["clusterIP"], spec["ports"][0]
    found = {f"{prefix}_SERVICE_HOST": address, f"{prefix}_SERVICE_PORT": str(first["port"])}
    found |= {f"{prefix}_SERVICE_PORT_{_name(port['name'])}": str(port["port"]) for port in spec["ports"] if port.get("name")}
    found[f"{prefix}_PORT"] = _url(address, first)
    for port in spec["ports"]:
        protocol = port.get("protocol") or "TCP"
        own = f"{prefix}_PORT_{port['port']}_{protocol.upper()}"
        found |= {
            own: _url(address, port),
            f"{own}_PROTO": protocol.lower(),
            f"{own}_PORT": str(port["port"]),
            f"{own}_ADDR": address,
        }
    return found


def _url(address: str, port: Obj) -> str:
    return f"{(port.get('protocol') or 'TCP').lower()}://{address}:{port['port']}"


def _name(text: str) -> str:
    return text.replace("-", "_").upper()
