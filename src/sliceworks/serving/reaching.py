"""Ways to what listens in a cluster: an address on this machine, one that was given, or the API server's own proxy.

The proxy takes the Authorization header for itself, so that keys of a gateway travel as x-api-key.
"""

from __future__ import annotations

import asyncio
import ipaddress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import parse_qsl

import aiohttp
import orjson

from sliceworks.base import clock
from sliceworks.base.errors import SliceworksError, Unreachable
from sliceworks.kube.selectors import from_labels
from sliceworks.kube.sender import error_of
from sliceworks.kube.transport import Request
from sliceworks.kube.well_known import POD, SERVICE
from sliceworks.serving.cluster import is_ready

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from sliceworks.kube import Client
    from sliceworks.kube.transport import Response
    from sliceworks.serving.doors import Door

_LONGEST_WORDS = 300
_LOOKS, _BETWEEN = 8, 0.5
_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=10)


class Way(Protocol):
    """Carries one request to a server."""

    @property
    def place(self) -> str:
        """What it is called."""
        ...

    def pieces(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> AsyncIterator[bytes]:
        """What is answered, as it comes; an answer other than success is an error with the server's words."""
        ...


@dataclass(frozen=True, slots=True)
class Direct:
    """An address that this machine reaches."""

    place: str
    checked: bool = True
    """Whether a certificate must be good for that address."""

    async def pieces(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> AsyncIterator[bytes]:
        try:
            async with (
                aiohttp.ClientSession(timeout=_TIMEOUT) as session,
                session.request(
                    method, f"{self.place.rstrip('/')}{path}", data=body or None, headers=dict(headers), ssl=self.checked
                ) as answer,
            ):
                if answer.status >= 400:
                    raise refused(answer.status, await answer.read(), self.place)
                async for piece in answer.content.iter_any():
                    yield piece
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise Unreachable(f"{self.place} does not answer: {_words(error)}", hint="is that its address?") from error


@dataclass(frozen=True, slots=True)
class Proxied:
    """A Service or a pod behind the API server."""

    client: Client
    path: str
    place: str

    async def pieces(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> AsyncIterator[bytes]:
        where, _, query = path.partition("?")
        request = Request(method, f"{self.path}{where}", tuple(parse_qsl(query)), dict(headers), body)
        response: Response = await self.client.transport.send(request, stream=True)
        if response.status >= 400:
            if b'"kind":"Status"' in response.body.replace(b" ", b""):
                words = error_of(response).message
                raise Unreachable(
                    f"the API server cannot reach {self.place}: {words}",
                    hint="does anything listen there? On a twin only processes do: sliceworks twin start --processes",
                )
            raise refused(response.status, response.body, self.place)
        if response.stream is None:
            yield response.body
            return
        async for piece in response.stream:
            yield piece


async def way_to(client: Client, at: Door) -> Way:
    """The way to the door of a model service; a server that has just become ready is waited for a little."""
    found: list[str] = []
    for _ in range(_LOOKS):
        if found := await _addresses(client, at):
            break
        await clock.sleep(_BETWEEN)
    return to_service(client, at, found)


async def _addresses(client: Client, at: Door) -> list[str]:
    """The pods that are ready; the Service itself where several are, and it answers on this machine, as on a twin it may."""
    spec = (await client.get(SERVICE, at.service, at.namespace))["spec"]
    selected, own = spec.get("selector") or {}, spec.get("clusterIP") or ""
    pods = (await client.list_all(POD, at.namespace, labels=from_labels(selected))).items if selected else []
    found = [each["status"]["podIP"] for each in pods if is_ready(each)]
    return [own] if len(found) > 1 and _here(own) and await _listens(own, at.port) else found


async def _listens(address: str, port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection(address, port)
    except OSError:
        return False
    writer.close()
    return True


def to_service(client: Client, at: Door, addresses: list[str]) -> Way:
    """The way to one of a Service's servers; `addresses` are those that are ready."""
    if not addresses:
        raise SliceworksError(
            f"service/{at.service} in {at.namespace} has no server that is ready", hint="sliceworks models show tells why"
        )
    near = next((each for each in addresses if _here(each)), None)
    if near:
        # Its certificate names the Service, and no API server would look at it: nobody else listens on this machine's loopback.
        return Direct(f"{at.scheme}://{near}:{at.port}", checked=False)
    named = f"{'https:' if at.tls else ''}{at.service}:{at.port}"
    return Proxied(client, f"/api/v1/namespaces/{at.namespace}/services/{named}/proxy", f"service/{at.service}")


def to_pod(client: Client, namespace: str, pod: str, port: int, address: str) -> Way:
    """The way to one pod."""
    if _here(address):
        return Direct(f"http://{address}:{port}")
    return Proxied(client, f"/api/v1/namespaces/{namespace}/pods/{pod}:{port}/proxy", f"pod/{pod}")


async def whole(way: Way, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None) -> bytes:
    """All that is answered."""
    return b"".join([piece async for piece in way.pieces(method, path, body, headers or {})])


def refused(status: int, body: bytes, place: str) -> SliceworksError:
    """The server's own words, whatever shape it gives them."""
    try:
        told: Any = orjson.loads(body)
    except orjson.JSONDecodeError:
        told = body.decode(errors="replace")
    if isinstance(told, dict):
        error = told.get("error", told.get("message", told.get("detail", told)))
        told = error.get("message", error) if isinstance(error, dict) else error
    words = " ".join(str(told).split())[:_LONGEST_WORDS]
    hint = {401: "give a key with --key", 403: "this key may not do that", 404: "is the model published? models show tells"}
    return SliceworksError(f"{place} answered {status}: {words}", hint=hint.get(status, ""))


def _words(error: Exception) -> str:
    """Why there is no answer; what the client library says around the words of the system is left out."""
    below = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    return (below.strerror if isinstance(below, OSError) else "") or str(below) or type(below).__name__


def _here(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False
