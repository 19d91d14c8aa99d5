"""The API over HTTP/1.1 and TLS: the project's own server, and how requests to the twin and its answers go through it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import parse_qsl

from sliceworks.base.errors import ApiError, BadRequest, InternalError, MethodNotAllowed, RequestEntityTooLarge
from sliceworks.base.http import refusals, server
from sliceworks.kube.transport import Request, Response
from sliceworks.twin.api import media
from sliceworks.twin.api.app import LARGEST_BODY
from sliceworks.twin.api.heads import start_of
from sliceworks.twin.auth.certificates import user_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from sliceworks.base.http import messages
    from sliceworks.base.http.reply import Reply
    from sliceworks.twin.auth.identity import User

    Handler = Callable[[Request, User | None], Awaitable[Response]]

_SLICE = 256 * 1024
"""What is longer goes out in pieces: a line with TLS keeps room for the longest that it ever encrypted."""
_MOST_OPTIONS = 200


@dataclass(frozen=True, slots=True)
class Limits(server.Limits):
    """What one client of the API may take. The real server drops a line that is too slow without a word."""

    head: int = 256 * 1024
    body: int = LARGEST_BODY
    ahead: int = 16
    upload: float = 30.0
    idle: float = 300.0
    sweep: float = 5.0
    tell_late: bool = False


class Served(server.Application):
    """A handler of requests as an application."""

    # A name to act as may hold a comma.
    apart = ("impersonate-",)

    def __init__(self, handler: Handler, largest: int) -> None:
        self._handler, self._largest = handler, largest

    def met(self, transport: asyncio.BaseTransport) -> object:
        """The user of the client's certificate."""
        return user_of(transport.get_extra_info("peercert"))

    async def handle(self, request: messages.Request, reply: Reply) -> None:
        """Ask the handler, and send what it answers."""
        response = await self._handler(_asked(request), cast("User | None", request.peer))
        start = start_of(response)
        if response.stream is not None:
            await _stream(reply, response, start, bare=request.method == "HEAD")
        elif len(response.body) <= _SLICE or request.method == "HEAD":
            reply.whole(response.status, start, response.body)
            if reply.full:
                await reply.room()
        else:
            await _sliced(reply, response, start)

    def refuse(self, path: str, refusal: refusals.Refusal, reply: Reply) -> None:
        """Say no as a Status."""
        response = media.error_response(self._error(refusal))
        reply.whole(response.status, start_of(response), response.body)

    def _error(self, refusal: refusals.Refusal) -> ApiError:
        if refusal.code == refusals.UNKNOWN_METHOD:
            return MethodNotAllowed("the server does not allow this method on the requested resource", details={})
        if refusal.status == 413:
            return RequestEntityTooLarge(f"Request entity too large: limit is {self._largest}")
        if refusal.status == 431:
            return BadRequest("request header fields are too large", code=431, reason="RequestHeaderFieldsTooLarge")
        if refusal.status == 501:
            return BadRequest(refusal.message, code=501, reason="NotImplemented")
        return InternalError(refusal.message) if refusal.status == 500 else BadRequest(refusal.message)


class Server(server.Server):
    """A handler that listens."""

    def __init__(self, handler: Handler, limits: Limits | None = None) -> None:
        limits = limits or Limits()
        super().__init__(Served(handler, limits.body), limits)


def _asked(request: messages.Request) -> Request:
    query: tuple[tuple[str, str], ...] = ()
    if request.query:
        try:
            query = tuple(parse_qsl(request.query, keep_blank_values=True, max_num_fields=_MOST_OPTIONS))
        except ValueError:
            raise refusals.malformed("the request has too many options") from None
    return Request(request.method, request.path, query, request.headers, bytes(request.body))


async def _sliced(reply: Reply, response: Response, start: bytes) -> None:
    reply.open(response.status, start, len(response.body))
    view = memoryview(response.body)
    for at in range(0, len(view), _SLICE):
        await reply.room()
        reply.pass_on(view[at : at + _SLICE])
    await reply.room()
    reply.end()


async def _stream(reply: Reply, response: Response, start: bytes, *, bare: bool) -> None:
    """Send what comes until it ends; when the server ends, it does so as if it had come to its end."""
    stream, task = cast("Any", response.stream), asyncio.current_task()
    reply.on_finish = task.cancel if task is not None else None
    try:
        reply.open(response.status, start)
        if not bare:
            async for chunk in stream:
                reply.write(chunk)
                if reply.full:
                    await reply.room()
    except asyncio.CancelledError:
        if reply.connection.closing or not reply.connection.finishing:
            raise
    finally:
        reply.on_finish = None
        await stream.aclose()
    reply.end()
