"""Requests of clients to an aggregated API: passed on with the user's identity, and answered with what the backend sends."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import aiohttp
import orjson

from sliceworks.base import clock, duration
from sliceworks.base.errors import BadRequest
from sliceworks.base.http.messages import HttpError
from sliceworks.base.transport import Response
from sliceworks.twin.apiserver.aggregation.backend import InvalidBundle, Unavailable, identity
from sliceworks.twin.apiserver.aggregation.upgrade import is_upgrade, open_upgraded
from sliceworks.twin.apiserver.service_endpoints import NoEndpoint
from sliceworks.twin.apiserver.streaming.proxy import request_headers, response_headers

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from sliceworks.base.transport import Request
    from sliceworks.twin.apiserver.aggregation.backend import Backend
    from sliceworks.twin.apiserver.auth.authentication import User
    from sliceworks.twin.apiserver.request_info import RequestInfo

_LONG_RUNNING_VERBS = frozenset({"watch", "proxy"})
_LONG_RUNNING = frozenset({"attach", "exec", "proxy", "log", "portforward"})
_MAX_SECONDS, _DISCOVERY_SECONDS = 60.0, 5.0
_DISCOVERY_SEGMENTS = 3
_MAX_HOPS = 8
_CHUNK = 64 * 1024
_NO_BODY = (204, 304)


def plain_error(status: int, message: str) -> Response:
    """An error as Go's `http.Error` writes it."""
    headers = {"content-type": "text/plain; charset=utf-8", "x-content-type-options": "nosniff"}
    return Response(status, headers, f"{message}\n".encode())


def unavailable() -> Response:
    """The response while an APIService is not available."""
    return plain_error(503, "service unavailable")


def _deadline_exceeded() -> Response:
    """A Status as kube-apiserver's timeout filter writes it: without kind and apiVersion."""
    message = "Timeout: request did not complete within the allotted timeout"
    status = {"metadata": {}, "status": "Failure", "message": message, "reason": "Timeout", "details": {}, "code": 504}
    return Response(504, {"content-type": "application/json"}, orjson.dumps(status))


async def forward(backend: Backend, request: Request, target: RequestInfo, user: User) -> Response:
    """Send a request to the backend; the body of the response is streamed."""
    hops = request.headers.get("x-forwarded-for", "")
    if hops.count(",") >= _MAX_HOPS:
        return unavailable()  # the API server is its own backend
    seconds, is_discovery = _limit(request, target)
    loop = asyncio.get_running_loop()
    deadline = None if seconds is None else loop.time() + clock.scale_real_seconds(seconds)
    try:
        async with asyncio.timeout_at(deadline):
            if is_upgrade(request):
                return await open_upgraded(backend, request, _target(request), _headers(request, user, hops))
            response = await backend.send(request.method, _target(request), _headers(request, user, hops), request.body)
    except TimeoutError:
        if is_discovery:
            return plain_error(503, "error trying to reach service: context deadline exceeded")
        return _deadline_exceeded()
    except NoEndpoint:
        return unavailable()
    except InvalidBundle as error:
        return plain_error(500, str(error))
    except Unavailable as error:
        return plain_error(503, f"error trying to reach service: {error}")
    return _convert(request, response, deadline)


def _limit(request: Request, target: RequestInfo) -> tuple[float | None, bool]:
    """The seconds that a request may take (None: no limit), and whether it asks for the discovery document of a version."""
    if target.verb in _LONG_RUNNING_VERBS or target.subresource in _LONG_RUNNING:
        return None, False
    if not target.resource and len(request.path.strip("/").split("/")) == _DISCOVERY_SEGMENTS:
        return _DISCOVERY_SECONDS, True
    value = dict(request.query).get("timeout")
    try:
        seconds = duration.parse(value) if value else 0.0
    except ValueError as error:
        raise BadRequest(f"invalid timeout specified in the request URL - {error}") from error
    return (seconds if 0 < seconds < _MAX_SECONDS else _MAX_SECONDS), False


def _target(request: Request) -> str:
    """The path with the query in the order of its names, as Go encodes it."""
    query = urlencode(sorted(request.query, key=lambda item: item[0]))
    return f"{request.path}?{query}" if query else request.path


def _headers(request: Request, user: User, hops: str) -> list[tuple[str, str]]:
    kept = [(name, value) for name, value in request_headers(request).items() if not name.startswith("x-forwarded-")]
    forwarded = [
        ("X-Forwarded-For", f"{hops}, 127.0.0.1" if hops else "127.0.0.1"),
        ("X-Forwarded-Uri", request.path),
        ("X-Forwarded-Proto", "https"),
    ]
    return [*kept, *forwarded, *identity(user)]


def _convert(request: Request, response: aiohttp.ClientResponse, deadline: float | None) -> Response:
    if 300 <= response.status < 400 and response.headers.get("Location"):
        response.close()
        plain = {"content-type": "text/plain; charset=utf-8"}
        return Response(502, plain, b"the backend attempted to redirect this request, which is not permitted")
    headers = response_headers(response)
    if request.method == "HEAD" or response.status in _NO_BODY:
        response.close()
        return Response(response.status, headers)
    return Response(response.status, headers, stream=_stream(response, deadline))


async def _stream(response: aiohttp.ClientResponse, deadline: float | None) -> AsyncIterator[bytes]:
    """The body as it arrives. Raises HttpError if it is cut or takes too long, which ends the connection of the client."""
    try:
        while True:
            async with asyncio.timeout_at(deadline):
                chunk = await response.content.read(_CHUNK)
            if not chunk:
                return
            yield chunk
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        raise HttpError(502, "bad_gateway", "the response of the backend was cut") from error
    finally:
        response.close()
