"""The endpoint of a model service and connections to it: direct, or through the API server's proxy."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import parse_qsl

import orjson

from sliceworks.base import clock
from sliceworks.base.errors import SliceworksError, Unreachable
from sliceworks.base.http_transport import HttpTransport
from sliceworks.base.sockets import is_loopback
from sliceworks.base.transport import Request
from sliceworks.kube.resources import POD, SERVICE
from sliceworks.kube.rest import error_from_response
from sliceworks.kube.selectors import from_labels
from sliceworks.serving import gateway_objects
from sliceworks.serving.cluster import is_ready

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from sliceworks.base.transport import Response
    from sliceworks.kube import Client
    from sliceworks.serving.record import Record


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A Service and its port. `protocol` is the engine whose API it serves; a gateway serves OpenAI's (vllm) for every engine."""

    service: str
    namespace: str
    port: int
    tls: bool
    protocol: str

    @property
    def scheme(self) -> str:
        return "https" if self.tls else "http"

    @property
    def cluster_url(self) -> str:
        """The URL for pods of the cluster."""
        return f"{self.scheme}://{self.service}.{self.namespace}.svc:{self.port}"


def find_endpoint(record: Record) -> Endpoint:
    """The endpoint of a model service: its gateway or its engine."""
    spec, namespace = record.service.spec, record.namespace
    if spec.gateway:
        return Endpoint(spec.gateway.name, namespace, gateway_objects.PORTS["http"], bool(spec.gateway.tls), "vllm")
    if spec.saxml:
        raise SliceworksError(
            "engine saxml requires a gateway for HTTP requests", hint="add spec.gateway, or use saxutil in the shell pod"
        )
    engine = gateway_objects.ENGINES[spec.engine]
    return Endpoint(record.service.metadata.name, namespace, engine.PORTS[engine.PORT], False, spec.engine)


def external_url(record: Record) -> str:
    """The URL of the service's route; empty without a route."""
    route = record.service.spec.route
    return f"{'https' if route.tls else 'http'}://{route.hosts[0]}" if route else ""


_MAX_MESSAGE = 300
_ATTEMPTS, _RETRY_INTERVAL = 8, 0.5


class Connection(Protocol):
    """A way to send requests to a server."""

    @property
    def name(self) -> str:
        """The server's name in messages."""
        ...

    def stream(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> AsyncIterator[bytes]:
        """The chunks of the response; raises SliceworksError with the server's message for an error response."""
        ...


@dataclass(frozen=True, slots=True)
class DirectConnection:
    """A direct connection to a URL."""

    name: str
    verify_tls: bool = True

    async def stream(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> AsyncIterator[bytes]:
        transport = HttpTransport(self.name, verify_tls=self.verify_tls, hint="check the URL")
        try:
            async for chunk in _read_chunks(await transport.send(_request(method, path, body, headers), stream=True), self.name):
                yield chunk
        finally:
            await transport.close()


@dataclass(frozen=True, slots=True)
class ProxyConnection:
    """A connection to a Service or a pod through the API server's proxy."""

    client: Client
    path: str
    name: str

    async def stream(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> AsyncIterator[bytes]:
        response = await self.client.transport.send(_request(method, f"{self.path}{path}", body, headers), stream=True)
        if response.status >= 400 and b'"kind":"Status"' in response.body.replace(b" ", b""):
            raise Unreachable(
                f"the API server cannot connect to {self.name}: {error_from_response(response).message}",
                hint="check that the server runs; a twin runs servers only with `sliceworks twin start --processes`",
            )
        async for chunk in _read_chunks(response, self.name):
            yield chunk


def _request(method: str, path: str, body: bytes, headers: Mapping[str, str]) -> Request:
    route, _, query = path.partition("?")
    return Request(method, route, tuple(parse_qsl(query)), headers, body)


async def _read_chunks(response: Response, name: str) -> AsyncIterator[bytes]:
    if response.status >= 300:
        raise response_error(response.status, response.body, name)
    if response.stream is None:
        yield response.body
        return
    async for chunk in response.stream:
        yield chunk


async def connect(client: Client, endpoint: Endpoint) -> Connection:
    """A connection to an endpoint; waits a few seconds for a ready server."""
    addresses: list[str] = []
    for _ in range(_ATTEMPTS):
        if addresses := await _ready_addresses(client, endpoint):
            break
        await clock.sleep(_RETRY_INTERVAL)
    return connect_service(client, endpoint, addresses)


async def _ready_addresses(client: Client, endpoint: Endpoint) -> list[str]:
    """Addresses of ready pods; with several, the Service's own if it listens on this machine, as it may on a twin."""
    spec = (await client.get(SERVICE, endpoint.service, endpoint.namespace))["spec"]
    selector, cluster_ip = spec.get("selector") or {}, spec.get("clusterIP") or ""
    pods = (await client.list_all(POD, endpoint.namespace, labels=from_labels(selector))).items if selector else []
    addresses = [pod["status"]["podIP"] for pod in pods if is_ready(pod)]
    is_balanced = len(addresses) > 1 and is_loopback(cluster_ip) and await _is_listening(cluster_ip, endpoint.port)
    return [cluster_ip] if is_balanced else addresses


async def _is_listening(address: str, port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection(address, port)
    except OSError:
        return False
    writer.close()
    return True


def connect_service(client: Client, endpoint: Endpoint, addresses: list[str]) -> Connection:
    """A connection to a Service; `addresses` are those of its ready servers."""
    if not addresses:
        problem = f"service/{endpoint.service} in namespace {endpoint.namespace} has no ready server"
        raise SliceworksError(problem, hint="`sliceworks models show` explains why")
    local = next((address for address in addresses if is_loopback(address)), None)
    if local:
        # The certificate is for the Service's name; on loopback, verification adds nothing.
        return DirectConnection(f"{endpoint.scheme}://{local}:{endpoint.port}", verify_tls=False)
    target = f"{'https:' if endpoint.tls else ''}{endpoint.service}:{endpoint.port}"
    return ProxyConnection(client, SERVICE.path(endpoint.namespace, target, "proxy"), f"service/{endpoint.service}")


def connect_pod(client: Client, namespace: str, pod: str, port: int, address: str) -> Connection:
    """A connection to one pod."""
    if is_loopback(address):
        return DirectConnection(f"http://{address}:{port}")
    return ProxyConnection(client, POD.path(namespace, f"{pod}:{port}", "proxy"), f"pod/{pod}")


async def read_all(
    connection: Connection, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None
) -> bytes:
    """The whole body of a response."""
    return b"".join([chunk async for chunk in connection.stream(method, path, body, headers or {})])


def response_error(status: int, body: bytes, name: str) -> SliceworksError:
    """The error of a response, with the server's message in any of the usual formats."""
    try:
        content: Any = orjson.loads(body)
    except orjson.JSONDecodeError:
        content = body.decode(errors="replace")
    if isinstance(content, dict):
        error = content.get("error", content.get("message", content.get("detail", content)))
        content = error.get("message", error) if isinstance(error, dict) else error
    message = " ".join(str(content).split())[:_MAX_MESSAGE]
    hints = {
        401: "pass an API key with --key",
        403: "this key is not allowed to do that",
        404: "check with `sliceworks models show` that the model is published",
    }
    return SliceworksError(f"{name} responded with status {status}: {message}", hint=hints.get(status, ""))
