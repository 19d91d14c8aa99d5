"""The address behind a Service: one given with `twin expose`, its external name, or a ready pod that runs as a process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.twin.apiserver.admission.chain import EXPOSED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.twin.apiserver.generic_server import ApiServer

Obj = dict[str, Any]
ENDPOINT_SLICES = "discovery.k8s.io/endpointslices"
SERVICE_NAME = "kubernetes.io/service-name"
"""The label of an EndpointSlice with the name of its Service."""


class NoEndpoint(Exception):
    """A Service that does not exist, lacks the port, or has no ready endpoint that accepts connections."""


def resolve(server: ApiServer, namespace: str, name: str, port: str) -> tuple[str, int]:
    """The host and port behind a port of a Service, given by number or name; an empty name is the only port. Raises NoEndpoint."""
    if exposed := server.view.get(EXPOSED, namespace, name):
        host, _, exposed_port = exposed["address"].rpartition(":")
        return host.strip("[]"), int(exposed_port)
    service = server.view.get("/services", namespace, name)
    if service is None:
        raise NoEndpoint(f'service "{name}" not found')
    ports: list[Obj] = service["spec"].get("ports") or []
    served = next((item for item in ports if port in {str(item["port"]), item.get("name") or ""}), None)
    if served is None and not port and len(ports) == 1:
        (served,) = ports
    if served is None:
        raise NoEndpoint(f'no service port {port} found for service "{name}"')
    if server.pod_network is not None:
        for endpoints in endpoint_slices(server, namespace, name):
            for address in _ready_addresses(endpoints, served.get("name") or ""):
                return address
    raise NoEndpoint(f'no endpoints available for service "{name}"')


def resolve_server(server: ApiServer, namespace: str, name: str, port: int) -> tuple[str, int]:
    """Like `resolve`, for a webhook or an aggregated API: a Service may also be an external name. Raises NoEndpoint."""
    spec = (server.view.get("/services", namespace, name) or {}).get("spec") or {}
    if spec.get("type") == "ExternalName" and server.view.get(EXPOSED, namespace, name) is None:
        return spec["externalName"], port
    return resolve(server, namespace, name, str(port))


def endpoint_slices(server: ApiServer, namespace: str, name: str) -> Iterator[Obj]:
    """The EndpointSlices of a Service."""
    for obj in server.view.list(ENDPOINT_SLICES, namespace):
        if (obj["metadata"].get("labels") or {}).get(SERVICE_NAME) == name:
            yield obj


def _ready_addresses(endpoints: Obj, port_name: str) -> Iterator[tuple[str, int]]:
    for port in endpoints.get("ports") or ():
        if (port.get("name") or "") == port_name and port.get("port"):
            for endpoint in endpoints.get("endpoints") or ():
                if (endpoint.get("conditions") or {}).get("ready") is not False:
                    yield endpoint["addresses"][0], port["port"]
