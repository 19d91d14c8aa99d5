"""HTTP/1.1 over TLS for the API, on asyncio's protocols and httptools.

A hand-made server answers several times as many requests as a general one, and owes what those give: limits on sizes, deadlines for
slow clients, and back-pressure towards slow readers. Requests of one connection are answered in order.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import uuid
from collections import deque
from email.utils import formatdate
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import parse_qsl

import httptools
import orjson

from sliceworks.base import clock
from sliceworks.base.errors import ApiError, BadRequest, MethodNotAllowed, RequestEntityTooLarge
from sliceworks.kube.transport import Request, Response
from sliceworks.twin.api.app import LARGEST_BODY
from sliceworks.twin.auth.certificates import user_of

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable

    from sliceworks.twin.auth.identity import User

    Handler = Callable[[Request, User | None], Awaitable[Response]]

log = logging.getLogger("sliceworks.twin.server")

_LONGEST_HEAD = 256 * 1024
_MOST_WAITING = 16
_REQUEST_SECONDS, _IDLE_SECONDS, _DISCARD_SECONDS = 30.0, 300.0, 10.0
_SWEEP_SECONDS, _QUIET_SECONDS = 5.0, 0.2
_REASONS = {
    200: "OK", 201: "Created", 202: "Accepted", 204: "No Content", 304: "Not Modified", 400: "Bad Request",
    401: "Unauthorized", 403: "Forbidden", 404: "Not Found",
    405: "Method Not Allowed", 406: "Not Acceptable", 409: "Conflict", 410: "Gone", 413: "Request Entity Too Large",
    415: "Unsupported Media Type", 422: "Unprocessable Entity", 429: "Too Many Requests", 500: "Internal Server Error",
    503: "Service Unavailable", 504: "Gateway Timeout",
}  # fmt: skip


class Server:
    """Listens, and keeps an eye on every connection."""

    def __init__(self, handler: Handler) -> None:
        self.handler = handler
        self.connections: set[Connection] = set()
        self._server: asyncio.Server | None = None
        self._sweeper: asyncio.Task[None] | None = None

    async def start(self, host: str, port: int, tls: ssl.SSLContext) -> int:
        """Begin to listen; returns the port."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: Connection(self), host, port, ssl=tls, backlog=4096, ssl_handshake_timeout=10.0
        )
        self._sweeper = loop.create_task(self._sweep())
        return int(self._server.sockets[0].getsockname()[1])

    async def _sweep(self) -> None:
        """End the connections whose time is up."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_SWEEP_SECONDS)
            now = loop.time()
            for connection in list(self.connections):
                if connection.deadline < now:
                    connection.end()

    async def stop(self) -> None:
        if self._sweeper is not None:
            self._sweeper.cancel()
        if self._server is not None:
            self._server.close()
        for connection in list(self.connections):
            connection.end()
        await asyncio.sleep(0)


class Connection(asyncio.Protocol):
    """One client: bytes in, requests to the handler one after another, responses out."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpRequestParser(self)
        self._waiting: deque[tuple[Request, bool, bool] | ApiError] = deque()
        self._task: asyncio.Task[None] | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._discarding = False
        self._closing = False
        self._user: User | None = None
        self._last_data = self._loop.time()
        self.deadline = self._loop.time() + _REQUEST_SECONDS
        self._begin()

    def _begin(self) -> None:
        self._url = b""
        self._head = 0
        self._headers: dict[str, str] = {}
        self._body: list[bytes] = []
        self._size = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._server.connections.add(self)
        self._user = user_of(transport.get_extra_info("peercert"))

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.connections.discard(self)
        self._closing = True
        self._writable.set()
        if self._task is not None:
            self._task.cancel()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def data_received(self, data: bytes) -> None:
        if self._closing or self._discarding:
            self._last_data = self._loop.time()
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            pass
        except httptools.HttpParserCallbackError as error:
            self._refuse(error.__context__ if isinstance(error.__context__, ApiError) else BadRequest("malformed request"))
        except httptools.HttpParserInvalidMethodError:
            self._refuse(MethodNotAllowed("the server does not allow this method on the requested resource", details={}))
        except httptools.HttpParserError:
            self._refuse(BadRequest("malformed HTTP request"))

    def on_message_begin(self) -> None:
        self._begin()
        self.deadline = self._loop.time() + _REQUEST_SECONDS

    def on_url(self, url: bytes) -> None:
        self._url += url
        self._count(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value))
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        known = self._headers.get(key)
        # A name to act as may hold a comma, but no header holds a line feed.
        between = "\n" if key.startswith("impersonate-") else ", "
        self._headers[key] = text if known is None else f"{known}{between}{text}"

    def _count(self, size: int) -> None:
        self._head += size
        if self._head > _LONGEST_HEAD:
            raise BadRequest("request header fields are too large", code=431, reason="RequestHeaderFieldsTooLarge")

    def on_headers_complete(self) -> None:
        length = self._headers.get("content-length", "0")
        if length.isdigit() and int(length) > LARGEST_BODY:
            raise RequestEntityTooLarge(f"Request entity too large: limit is {LARGEST_BODY}")
        if self._headers.get("expect", "").lower() == "100-continue":
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        self._size += len(body)
        if self._size > LARGEST_BODY:
            raise RequestEntityTooLarge(f"Request entity too large: limit is {LARGEST_BODY}")
        self._body.append(body)

    def on_message_complete(self) -> None:
        path, _, query = self._url.partition(b"?")
        method = self._parser.get_method().decode("latin-1")
        request = Request(
            method,
            _path(path),
            tuple(parse_qsl(query.decode("latin-1"), keep_blank_values=True, max_num_fields=200)) if query else (),
            self._headers,
            b"".join(self._body),
        )
        keep = self._parser.should_keep_alive() and not self._parser.should_upgrade()
        self._queue((request, keep, self._parser.get_http_version() != "1.0"))

    def _refuse(self, error: ApiError) -> None:
        """Answer what cannot be read, let the rest of it go by, and hang up."""
        self._discarding = True
        self._last_data = self._loop.time()
        self.deadline = self._loop.time() + _DISCARD_SECONDS
        self._queue(error)

    def _queue(self, item: tuple[Request, bool, bool] | ApiError) -> None:
        self._waiting.append(item)
        if self._task is None:
            self._task = self._loop.create_task(self._work())
        elif len(self._waiting) >= _MOST_WAITING:
            self._transport.pause_reading()

    async def _work(self) -> None:
        try:
            while self._waiting and not self._closing:
                item = self._waiting.popleft()
                if len(self._waiting) == _MOST_WAITING - 1:
                    self._transport.resume_reading()
                self.deadline = float("inf")
                if isinstance(item, ApiError):
                    self._send(
                        Response(item.code, {"content-type": "application/json"}, orjson.dumps(item.status())), "GET", keep=False
                    )
                    self.deadline = self._loop.time() + _DISCARD_SECONDS
                    await self._let_go()
                    return
                await self._answer(*item)
            self.deadline = self._loop.time() + _IDLE_SECONDS
        except asyncio.CancelledError:
            raise
        except Exception:
            log.exception("a connection failed")
            self.end()
        finally:
            self._task = None

    async def _let_go(self) -> None:
        """Wait for a client that is still sending, so that it can read the answer before the line drops."""
        while self._loop.time() < min(self._last_data + _QUIET_SECONDS, self.deadline):
            await asyncio.sleep(_QUIET_SECONDS / 4)
        self._closing = True
        self._transport.close()

    async def _answer(self, request: Request, keep: bool, chunked: bool) -> None:
        response = await self._server.handler(request, self._user)
        if response.stream is None:
            self._send(response, request.method, keep=keep)
            if not self._writable.is_set():
                await self._writable.wait()
        else:
            await self._stream(response, keep=keep and chunked, chunked=chunked)
            keep = keep and chunked
        if not keep:
            self._closing = True
            self._transport.close()

    def _send(self, response: Response, method: str, *, keep: bool) -> None:
        length = b"content-length: %d\r\n\r\n" % len(response.body) if response.status not in {204, 304} else b"\r\n"
        head = _head(response, keep) + length
        if method == "HEAD" or not response.body:
            self._transport.write(head)
        elif len(response.body) < 65_536:
            self._transport.write(head + response.body)
        else:
            self._transport.writelines((head, response.body))

    async def _stream(self, response: Response, *, keep: bool, chunked: bool) -> None:
        assert response.stream is not None
        head = _head(response, keep)
        self._transport.write(head + (b"transfer-encoding: chunked\r\n\r\n" if chunked else b"\r\n"))
        stream = cast("Any", response.stream)
        try:
            async for chunk in stream:
                if self._closing:
                    return
                self._transport.write(b"%x\r\n%b\r\n" % (len(chunk), chunk) if chunked else chunk)
                if not self._writable.is_set():
                    await self._writable.wait()
        finally:
            await stream.aclose()
        if chunked:
            self._transport.write(b"0\r\n\r\n")

    def end(self) -> None:
        """Drop the connection."""
        self._closing = True
        self._transport.abort()


def _path(raw: bytes) -> str:
    """The path of a request line, which may hold a whole URL."""
    text = raw.decode("latin-1")
    if not text.startswith("/"):
        _, found, rest = text.partition("://")
        text = "/" + rest.partition("/")[2] if found else "/" + text
    return text


def _head(response: Response, keep: bool) -> bytes:
    lines = [f"HTTP/1.1 {response.status} {_REASONS.get(response.status, '')}"]
    lines += [f"{name}: {_clean(line)}" for name, value in response.headers.items() for line in value.split("\n")]
    lines += [f"audit-id: {_audit_id()}", f"date: {_date()}"]
    if not keep:
        lines.append("connection: close")
    return ("\r\n".join(lines) + "\r\n").encode("utf-8", "replace")


def _clean(value: str) -> str:
    return value.replace("\r", " ")


_serial = itertools.count(1)
_process = uuid.uuid4().hex


def _audit_id() -> str:
    """A UUID for each answer: a random part for this process, then a number."""
    return f"{_process[:8]}-{_process[8:12]}-4{_process[13:16]}-8{_process[17:20]}-{next(_serial):012x}"


_dated: tuple[int, str] = (0, "")


def _date() -> str:
    global _dated  # noqa: PLW0603 - one clock for all answers of a second
    now = int(clock.now().timestamp())
    if _dated[0] != now:
        _dated = (now, formatdate(now, usegmt=True))
    return _dated[1]
