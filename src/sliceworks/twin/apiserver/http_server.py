"""The API over HTTP/1.1 and TLS."""

from __future__ import annotations

import asyncio
import itertools
import uuid
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import parse_qsl

from sliceworks.base.errors import ApiError, BadRequest, InternalError, RequestEntityTooLarge, TooManyRequests
from sliceworks.base.http import messages, server
from sliceworks.base.transport import Request, Response
from sliceworks.twin.apiserver import codec
from sliceworks.twin.apiserver.auth.certificates import user_from_certificate
from sliceworks.twin.apiserver.generic_server import MAX_BODY_BYTES
from sliceworks.twin.apiserver.request_info import method_not_allowed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from sliceworks.base.http.response_writer import ResponseWriter
    from sliceworks.base.http.upgrade import ByteStream
    from sliceworks.twin.apiserver.auth.authentication import User

    Handler = Callable[[Request, User | None], Awaitable[Response]]
    Admit = Callable[[Request, User | None], None]

_REASONS = {status.value: status.phrase for status in HTTPStatus}
_MAX_CACHED_HEADS, _MAX_CACHED_HEAD_BYTES = 200, 1000
_MAX_QUERY_FIELDS = 200
_CHUNK_BYTES = 256 * 1024
"""Larger bodies are written in chunks: a TLS connection keeps a buffer of its largest write."""
_STREAM_BYTES = 64 * 1024
"""Larger parts of a stream are written in slices: what a client does not read is not copied for it."""
_ANONYMOUS_BODY_BYTES = 64 * 1024
"""A larger body is read only from a client that may make the request."""
_cached_heads: dict[tuple[object, ...], bytes] = {}
_serial = itertools.count(1)
_process_id = uuid.uuid4().hex


def encode_head(response: Response) -> bytes:
    """Status line and headers with an audit ID, without the headers that the server adds and the final empty line."""
    # Most responses share their head: it is encoded once.
    key = (response.status, *response.headers.items())
    head = _cached_heads.get(key)
    if head is None:
        head = _encode_head(response)
        if len(_cached_heads) < _MAX_CACHED_HEADS and len(head) < _MAX_CACHED_HEAD_BYTES:
            _cached_heads[key] = head
    return b"%b%012x\r\n" % (head, next(_serial))


def _encode_head(response: Response) -> bytes:
    """The head up to the last part of the audit ID, which is a UUID: random per process, then a serial number."""
    lines = [f"HTTP/1.1 {response.status} {_REASONS.get(response.status, '')}"]
    lines += [f"{name}: {line.replace(chr(13), ' ')}" for name, value in response.headers.items() for line in value.split("\n")]
    lines.append(f"audit-id: {_process_id[:8]}-{_process_id[8:12]}-4{_process_id[13:16]}-8{_process_id[17:20]}-")
    return "\r\n".join(lines).encode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class Limits(server.Limits):
    """Limits of one client of the API. Like kube-apiserver, it closes slow connections without a response."""

    head: int = 256 * 1024
    body: int = MAX_BODY_BYTES
    ahead: int = 16
    connections: int = 5_000
    upload: float = 30.0
    idle: float = 300.0
    sweep: float = 5.0
    answer_timeouts: bool = False


class _Rejection(messages.HttpError):
    """An error of the API as one of the HTTP server."""

    def __init__(self, error: ApiError) -> None:
        super().__init__(error.code, error.reason, error.message)
        self.error = error


class HttpApplication(server.Application):
    """Runs an API handler on the HTTP server."""

    # Names in these headers may contain commas.
    unjoined_headers = ("impersonate-",)

    def __init__(self, handler: Handler, max_body: int, admit: Admit | None = None) -> None:
        self._handler, self._max_body, self._admit = handler, max_body, admit

    def on_connect(self, transport: asyncio.BaseTransport) -> object:
        """The user of the client's certificate."""
        return user_from_certificate(transport.get_extra_info("peercert"))

    def authenticate(self, method: str, path: str, headers: Mapping[str, str], peer: object = None) -> object:
        """Reject a large body before it is read, if its sender may not make the request at all."""
        is_large = "transfer-encoding" in headers or int(headers.get("content-length") or 0) > _ANONYMOUS_BODY_BYTES
        if is_large and self._admit is not None:
            try:
                self._admit(Request(method, path, (), headers, b""), cast("User | None", peer))
            except ApiError as error:
                raise _Rejection(error) from error
        return None

    async def handle(self, request: messages.Request, reply: ResponseWriter) -> None:
        """Call the handler and send its response."""
        response = await self._handler(_convert(request), cast("User | None", request.peer))
        head = encode_head(response)
        if response.upgrade is not None:
            await _upgrade(reply, response.upgrade, head)
        elif response.stream is not None:
            await _stream(reply, response, head, with_body=request.method != "HEAD")
        elif len(response.body) <= _CHUNK_BYTES or request.method == "HEAD":
            reply.send_encoded(response.status, head, response.body)
            if reply.is_backlogged:
                await reply.drain()
        else:
            await _send_in_chunks(reply, response, head)

    def write_error(self, path: str, error: messages.HttpError, reply: ResponseWriter) -> None:
        """Send an error of the HTTP server as a Status."""
        response = codec.error_response(self._translate(error))
        reply.send_encoded(response.status, encode_head(response), response.body)

    def _translate(self, error: messages.HttpError) -> ApiError:
        if isinstance(error, _Rejection):
            return error.error
        if error.status == 429:
            return TooManyRequests(error.message, details={"retryAfterSeconds": 1})
        if error.code == messages.INVALID_METHOD:
            return method_not_allowed()
        if error.status == 413:
            return RequestEntityTooLarge(f"Request entity too large: limit is {self._max_body}")
        if error.status == 431:
            return BadRequest("request header fields are too large", code=431, reason="RequestHeaderFieldsTooLarge")
        if error.status == 501:
            return BadRequest(error.message, code=501, reason="NotImplemented")
        return InternalError(error.message) if error.status == 500 else BadRequest(error.message)


class Server(server.Server):
    """The HTTP server of an API handler."""

    def __init__(self, handler: Handler, limits: Limits | None = None, *, admit: Admit | None = None) -> None:
        limits = limits or Limits()
        super().__init__(HttpApplication(handler, limits.body, admit), limits)


def _convert(request: messages.Request) -> Request:
    query: tuple[tuple[str, str], ...] = ()
    if request.query:
        try:
            query = tuple(parse_qsl(request.query, keep_blank_values=True, max_num_fields=_MAX_QUERY_FIELDS))
        except ValueError:
            raise messages.bad_request("the request has too many query parameters") from None
    return Request(request.method, request.path, query, request.headers, bytes(request.body))


async def _upgrade(reply: ResponseWriter, serve: Callable[[ByteStream], Awaitable[None]], head: bytes) -> None:
    """Hand the connection over; a session does not outlive the server."""
    connection, task = reply.upgrade(head), asyncio.current_task()
    reply.on_finish = task.cancel if task is not None else None
    await serve(connection)


async def _send_in_chunks(reply: ResponseWriter, response: Response, head: bytes) -> None:
    reply.start_encoded(response.status, head, len(response.body))
    view = memoryview(response.body)
    for offset in range(0, len(view), _CHUNK_BYTES):
        await reply.drain()
        reply.write_raw(view[offset : offset + _CHUNK_BYTES])
    await reply.drain()
    reply.end()


async def _stream(reply: ResponseWriter, response: Response, head: bytes, *, with_body: bool) -> None:
    """Send a stream until it ends; when the server stops, the response ends normally."""
    stream, task = cast("Any", response.stream), asyncio.current_task()
    reply.on_finish = task.cancel if task is not None else None
    try:
        reply.start_encoded(response.status, head)
        if with_body:
            async for chunk in stream:
                view = memoryview(chunk)
                for offset in range(0, len(chunk), _STREAM_BYTES):
                    reply.write(view[offset : offset + _STREAM_BYTES])
                    if reply.is_backlogged:
                        await reply.drain()
    except asyncio.CancelledError:
        if reply.connection.closing or not reply.connection.finishing:
            raise
    finally:
        reply.on_finish = None
        await stream.aclose()
    reply.end()
