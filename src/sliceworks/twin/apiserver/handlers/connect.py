"""exec, attach, port-forward and proxy: requests that become a session with a container, or a connection to a pod or Service."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import orjson

from sliceworks.base.errors import BadRequest, NotFound, ServiceUnavailable
from sliceworks.base.transport import Response
from sliceworks.catalog.labels import NODE_RUNTIME, SIMULATED
from sliceworks.twin.apiserver import service_endpoints
from sliceworks.twin.apiserver.request_info import container_name
from sliceworks.twin.apiserver.streaming import port_forward, proxy, remote_command
from sliceworks.twin.apiserver.streaming.remote_command import StreamOptions
from sliceworks.twin.apiserver.streaming.websocket import is_websocket_request

if TYPE_CHECKING:
    from sliceworks.twin.apiserver.generic_server import ApiServer
    from sliceworks.twin.apiserver.request_info import Call
    from sliceworks.twin.apiserver.streaming.remote_command import OpenSession

Obj = dict[str, Any]
_MAX_PORT, _PORT_DIGITS, _SHOWN = 65535, 5, 20
_KUBELET_PORT = 10250
_TEXT = {"content-type": "text/plain; charset=utf-8"}


class Kubelet(Protocol):
    """Runs the pods of this cluster as processes."""

    def runs(self, pod: Obj) -> bool:
        """Whether a pod runs as processes; others are simulated."""
        ...

    def logs(self, call: Call, pod: Obj, container: str) -> Response:
        """The response to a log request."""
        ...

    def exec(self, pod: Obj, container: str, command: list[str], options: StreamOptions) -> OpenSession:
        """How to run a command in a container; raises BadRequest if the container does not run."""
        ...

    def attach(self, pod: Obj, container: str) -> OpenSession:
        """How to attach to the process of a container; raises BadRequest if the container does not run."""
        ...

    async def find_address(self, pod: Obj, port: int) -> tuple[str, int]:
        """Where a port of a pod accepts connections; raises OSError."""
        ...


async def handle(server: ApiServer, call: Call, obj: Obj) -> Response:
    """Handle a request whose sender is authorized for the subresource."""
    if call.target.subresource == "proxy":
        return await _proxy(server, call, obj)
    if call.request.method == "GET" and is_websocket_request(call.request.headers):
        server.authorize(call.user, call.target, verb="create")
    if call.target.subresource == "portforward":
        kubelet = _kubelet(server, call, obj)
        find_address = partial(kubelet.find_address, obj)
        return port_forward.respond(call.request.method, call.request.headers, call.params.get("ports", []), find_address)
    container = container_name(call, obj)
    kubelet = _kubelet(server, call, obj)
    options = StreamOptions(*(call.flag(name) for name in ("stdin", "stdout", "stderr", "tty")))
    if not (options.stdin or options.stdout or options.stderr):
        raise BadRequest("you must specify at least 1 of stdin, stdout, stderr")
    if call.target.subresource == "attach":
        session = kubelet.attach(obj, container)
    else:
        command = call.params.get("command", [])
        if not command:
            raise BadRequest("you must specify at least 1 command for the container")
        session = kubelet.exec(obj, container, command, options)
    return remote_command.respond(call.request.method, call.request.headers, options, session)


def _kubelet(server: ApiServer, call: Call, pod: Obj) -> Kubelet:
    """The kubelet of a pod; raises BadRequest if the pod has no node or no processes."""
    if not pod["spec"].get("nodeName"):
        raise BadRequest(f"pod {call.name} does not have a host assigned")
    if server.kubelet is None or not server.kubelet.runs(pod):
        raise BadRequest(
            f"pod {call.name} has no processes: the twin simulates its containers; "
            "pods whose containers have a command run as processes on a twin started with --processes"
        )
    return server.kubelet


async def _proxy(server: ApiServer, call: Call, obj: Obj) -> Response:
    scheme, _, port = _split_name(call.name)
    if call.resource.key == "/services":
        try:
            address = service_endpoints.resolve(server, call.namespace, obj["metadata"]["name"], port)
        except service_endpoints.NoEndpoint as error:
            raise ServiceUnavailable(str(error)) from error
    elif call.resource.key == "/pods":
        number = _pod_port(obj, port)
        try:
            address = await _kubelet(server, call, obj).find_address(obj, number)
        except OSError as error:
            raise proxy.unreachable(obj.get("status", {}).get("podIP") or "", number, error) from error
    else:
        return _kubelet_api(server, call, obj, port)
    if call.request.method in ("GET", "HEAD") and call.request.path.endswith("/proxy") and _path_after(call) == "/":
        location = replace(call.request, path=f"{call.request.path}/").target
        return Response(301, {"location": location})  # so that relative links of the page work
    return await proxy.forward(call.request, scheme or "http", address, _path_after(call))


def _kubelet_api(server: ApiServer, call: Call, node: Obj, port: str) -> Response:
    """The part of the kubelet's API that the twin has: `/healthz` and `/pods`."""
    name = node["metadata"]["name"]
    number = _port_number(port) if port else _KUBELET_PORT
    if number is None:
        raise BadRequest(f"port {port[:_SHOWN]!r} of node {name}: must be a number")
    if number != _KUBELET_PORT or (node["metadata"].get("labels") or {}).get(NODE_RUNTIME) != SIMULATED:
        addresses = (node.get("status") or {}).get("addresses") or [{}]
        error = ConnectionRefusedError()
        raise proxy.unreachable(addresses[0].get("address") or name, number, error)
    path = "/" + "/".join(call.request.path.split("/")[6:])
    if call.request.method in ("GET", "HEAD") and path.rstrip("/") == "/healthz":
        return Response(200, _TEXT, b"ok")
    if call.request.method in ("GET", "HEAD") and path.rstrip("/") == "/pods":
        pods = [pod for pod in server.view.search("/pods", name) if pod["spec"].get("nodeName") == name]
        listing = {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": pods}
        return Response(200, {"content-type": "application/json"}, orjson.dumps(listing))
    return Response(404, _TEXT, b"404 page not found\n")


def object_name(name: str) -> str:
    """The name of the object in the name of a proxy request: `[SCHEME:]NAME[:PORT]`."""
    return _split_name(name)[1]


def _split_name(name: str) -> tuple[str, str, str]:
    parts = name.split(":")
    if len(parts) == 1:
        return "", name, ""
    if len(parts) == 2:
        return "", parts[0], parts[1]
    if len(parts) == 3 and parts[0] in {"", "http", "https"}:
        return parts[0], parts[1], parts[2]
    raise BadRequest(f'invalid pod or service request "{name}"')


def _pod_port(pod: Obj, port: str) -> int:
    """A port given by number or name; the first of the pod by default."""
    ports = [item for container in pod["spec"]["containers"] for item in container.get("ports") or ()]
    if (requested := _port_number(port)) is not None:
        return requested
    number = next((item["containerPort"] for item in ports if not port or item.get("name") == port), None)
    if number is None and port:
        raise NotFound(f'pod {pod["metadata"]["name"]} has no port named "{port}"', details={})
    return int(number or 80)


def _port_number(port: str) -> int | None:
    """A port given by number; None for a name."""
    if not (port.isascii() and port.isdigit()):
        return None
    if len(port) > _PORT_DIGITS or int(port) > _MAX_PORT:
        raise BadRequest(f"port {port[: _PORT_DIGITS + 1]}: must be at most {_MAX_PORT}")
    return int(port)


def _path_after(call: Call) -> str:
    """The path after `/api/v1/namespaces/NAMESPACE/pods/NAME/proxy`, percent-encoded."""
    return "/" + "/".join(call.request.path.split("/")[8:])


def connect_options(call: Call) -> Obj:
    """The options of the request, as admission sees them."""
    kind = call.version.subresources[call.target.subresource].kind
    flags = {"true": True, "1": True, "false": False, "0": False}
    options: Obj = {
        name: flags.get(values[0], values[0]) for name, values in call.params.items() if name not in ("command", "ports")
    }
    if "command" in call.params:
        options["command"] = call.params["command"]
    return {"kind": kind, "apiVersion": "v1", **options}
