"""An HTTP/1.1 client of one server: connections that are kept alive, responses as streams of chunks, and proxies.

It starts much faster and needs less memory and time per request than a general-purpose client.
"""

from __future__ import annotations

import asyncio
import base64
import socket
import ssl
import zlib
from asyncio.staggered import staggered_race
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote, urlsplit

import httptools

from sliceworks.base import clock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

_BUFFER_BYTES = 1 << 20
"""A stream whose reader is slower stops reading from its connection."""
_MAX_HEAD_BYTES = 1 << 18
_IDLE_SECONDS = 15.0
_NEXT_ADDRESS_SECONDS = 0.25
_SEPARATE_BODY_BYTES = 1 << 16
_GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS
_IDEMPOTENT = frozenset({"GET", "HEAD", "OPTIONS", "PUT", "DELETE"})
_BODILESS = frozenset({"GET", "HEAD", "OPTIONS", "DELETE"})


class InvalidRequest(ValueError):
    """A request that cannot be written as HTTP, such as one with a line break in a header."""


class ConnectFailed(Exception):
    """No connection could be opened; the cause is an OSError."""


class Disconnected(Exception):
    """The connection closed, or carried invalid HTTP, before the response was complete.

    `is_stale`: a reused connection closed before the first byte of the response.
    """

    def __init__(self, reason: str, *, is_stale: bool = False) -> None:
        super().__init__(reason)
        self.is_stale = is_stale


@dataclass(frozen=True, slots=True)
class Address:
    """A server: scheme, host and port of a URL."""

    scheme: str
    host: str
    port: int
    user: str = ""
    """Credentials of a proxy, `name:password`."""

    @classmethod
    def of(cls, url: str) -> Address:
        """The server of a URL."""
        parts = urlsplit(url)
        host = (parts.hostname or "").encode("idna").decode() if not (parts.hostname or "").isascii() else parts.hostname or ""
        user = f"{unquote(parts.username)}:{unquote(parts.password or '')}" if parts.username else ""
        return cls(parts.scheme, host, parts.port or (443 if parts.scheme == "https" else 80), user)

    @property
    def netloc(self) -> str:
        """`host:port`."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def authority(self) -> str:
        """The Host header, without a default port."""
        return self.netloc.removesuffix(":443" if self.scheme == "https" else ":80")


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds to wait for a connection, and for each piece of a response; None for no limit."""

    connect: float
    read: float | None


class IncomingResponse:
    """A response whose head has arrived. Read its chunks to the end, or abort it."""

    def __init__(self, connection: _Connection, read_seconds: float | None, *, has_body: bool) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.has_body = has_body
        self.until_close = self.is_complete = False
        self._connection: _Connection | None = connection
        self._error: Exception | None = None
        self._chunks: deque[bytes] = deque()
        self._size = 0
        self._decoder: _Decoder | None = None
        self._read_seconds = read_seconds
        self._waiter: asyncio.Future[None] | None = None

    async def wait_head(self) -> None:
        """Wait for status and headers."""
        while not self.status and self._error is None:
            await self._wait()
        if self._error is not None:
            raise self._error

    async def read(self) -> bytes:
        """The whole body."""
        return b"".join([chunk async for chunk in self.chunks()])

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body, decompressed, as it arrives."""
        while chunk := await self._next_chunk():
            yield chunk

    async def _next_chunk(self) -> bytes:
        decoder = self._decoder
        while True:
            if decoder is not None and (decoded := self._decode(decoder)):
                return decoded
            if self._chunks:
                chunks, self._size = b"".join(self._chunks), 0
                self._chunks.clear()
                if self._connection is not None:
                    self._connection.resume()
                if decoder is None:
                    return chunks
                decoder.feed(chunks)
            elif self._error is not None:
                raise self._error
            elif self.is_complete:
                if decoder is not None and not decoder.is_complete:
                    raise Disconnected("the compressed response is incomplete")
                return b""
            else:
                await self._wait()

    def _decode(self, decoder: _Decoder) -> bytes:
        try:
            return decoder.read()
        except zlib.error as error:
            self.abort()
            raise Disconnected(f"invalid compressed response: {error}") from error

    async def _wait(self) -> None:
        """Wait for a part of the response; raises TimeoutError if the server neither sends one nor reads the request."""
        unsent = self._unsent_bytes()
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(self._read_seconds):
                await self._waiter
        except TimeoutError:
            if self._unsent_bytes() >= unsent:
                raise
        finally:
            self._waiter = None

    def _unsent_bytes(self) -> int:
        return self._connection.unsent_bytes if self._connection is not None else 0

    def abort(self) -> None:
        """Close the connection unless the response is complete."""
        if self._connection is not None:
            self._connection.abort()

    # Called by the connection.

    def begin(self, status: int, headers: dict[str, str]) -> None:
        """Status and headers have arrived."""
        self.status, self.headers = status, headers
        if headers.get("content-encoding", "").lower() in ("gzip", "x-gzip", "deflate"):
            self._decoder = _Decoder()
        self._notify()

    def feed(self, data: bytes) -> bool:
        """A part of the body; whether the buffer is full."""
        self._chunks.append(data)
        self._size += len(data)
        self._notify()
        return self._size > _BUFFER_BYTES

    def end(self, error: Exception | None = None) -> None:
        """The response is complete, or has failed."""
        if not self.is_complete:
            self._connection, self._error, self.is_complete = None, error, error is None
            self._notify()

    def _notify(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class _Decoder:
    """Decompresses gzip, also of several members, or zlib: in pieces, however small the input is."""

    def __init__(self) -> None:
        self._inflate = zlib.decompressobj(_GZIP_OR_ZLIB)
        self._input = b""
        self._is_full = False
        self.is_complete = True
        """Whether the input so far is complete."""

    def feed(self, data: bytes) -> None:
        """Add input, after all pieces of the previous input have been read."""
        self._input = data

    def read(self) -> bytes:
        """The next piece; empty if more input is needed. Raises zlib.error."""
        while self._input or self._is_full:
            if self._inflate.eof:
                self._inflate = zlib.decompressobj(_GZIP_OR_ZLIB)
            piece = self._inflate.decompress(self._input, _BUFFER_BYTES)
            self._input = self._inflate.unconsumed_tail or self._inflate.unused_data
            self._is_full, self.is_complete = len(piece) == _BUFFER_BYTES and not self._inflate.eof, self._inflate.eof
            if piece:
                return piece
        return b""


class _Connection(asyncio.Protocol):
    """A connection that carries one exchange after another."""

    _transport: asyncio.Transport

    def __init__(self, pool: HttpClient) -> None:
        self._pool = pool
        self._response: IncomingResponse | None = None
        self._headers: list[tuple[bytes, bytes]] = []
        self._received = self._exchanges = 0
        self._is_paused = False
        self.closed = False
        self.idle_since = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._parser = httptools.HttpResponseParser(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        self._pool.forget(self)
        del self._parser  # the parser refers to this connection
        response, self._response = self._response, None
        if response is None:
            return
        if response.until_close and exc is None:
            response.end()
        else:
            is_stale = self._exchanges > 1 and not self._received
            response.end(Disconnected(str(exc or "") or "server disconnected", is_stale=is_stale))

    def start(self, head: bytes, body: bytes, response: IncomingResponse) -> None:
        """Send a request."""
        self._response = response
        self._exchanges += 1
        self._received = 0
        if len(body) < _SEPARATE_BODY_BYTES:
            self._transport.write(head + body)
        else:
            self._transport.write(head)
            self._transport.write(body)

    def data_received(self, data: bytes) -> None:
        if self._response is None:
            self.abort()  # data without a request
            return
        self._received += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self.abort(f"invalid HTTP response: {error}")
        response = self._response
        if response is not None and not response.status and self._received > _MAX_HEAD_BYTES:
            self.abort(_LARGE_HEAD)

    # Callbacks of the parser.

    def on_message_begin(self) -> None:
        self._headers = []
        if self._response is None:
            self.abort()  # a second response to one request

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._response is not None and not self._response.status:  # trailers are ignored
            self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        response, status = self._response, self._parser.get_status_code()
        if response is None or status < 200:
            return
        if sum(len(name) + len(value) for name, value in self._headers) > _MAX_HEAD_BYTES:
            self.abort(_LARGE_HEAD)
            return
        headers = join_headers(self._headers)
        response.until_close = not headers.keys() & {"content-length", "transfer-encoding"} and status not in (204, 304)
        response.begin(status, headers)
        if not response.has_body:
            self._response = None
            response.end()

    def on_body(self, body: bytes) -> None:
        if self._response is not None and self._response.feed(body) and not self._is_paused:
            self._is_paused = True
            self._transport.pause_reading()

    def on_message_complete(self) -> None:
        response = self._response
        if response is None or not response.status:
            return  # an interim response
        self._response = None
        if self._parser.should_keep_alive() and not self._is_paused:
            self._pool.release(self)
        else:
            self.abort()
        response.end()

    # The end, and flow control.

    def resume(self) -> None:
        """Read again, after the buffer was emptied."""
        if self._is_paused and not self.closed:
            self._is_paused = False
            self._transport.resume_reading()

    @property
    def unsent_bytes(self) -> int:
        """How much of the request waits for the server to read."""
        return 0 if self.closed else self._transport.get_write_buffer_size()

    def abort(self, reason: str = "connection closed") -> None:
        """Close without a TLS shutdown, which would outlast the request; a response that is not complete has failed."""
        self._pool.retire(self)
        response, self._response = self._response, None
        if response is not None:
            response.end(Disconnected(reason))
        if not self.closed:
            self._transport.abort()


class HttpClient:
    """Sends requests to one server. There is no limit of connections: each watch holds one, and would starve other requests."""

    def __init__(
        self, server: Address, tls: ssl.SSLContext | None, *, server_hostname: str = "", proxy: Address | None = None
    ) -> None:
        self._server, self._tls = server, tls
        self._server_hostname = server_hostname or server.host
        self._proxy = proxy
        self._idle: list[_Connection] = []
        self._all: set[_Connection] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    async def send(self, method: str, target: str, headers: Mapping[str, str], body: bytes, timeouts: Timeouts) -> IncomingResponse:
        """Send a request and wait for the head of its response."""
        head = self._head(method, target, headers, body)
        while True:
            connection = self._take() or await self._connect(timeouts.connect)
            response = IncomingResponse(connection, timeouts.read, has_body=method != "HEAD")
            connection.start(head, body, response)
            try:
                await response.wait_head()
            except Disconnected as error:
                if not error.is_stale or method not in _IDEMPOTENT:
                    raise
            except BaseException:
                connection.abort()
                raise
            else:
                if method == "HEAD":
                    connection.abort()  # its parser expects a body
                return response

    async def close(self) -> None:
        """Abort all connections."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        for connection in list(self._all):
            connection.abort()
        for _ in range(_CLOSING_TURNS):
            if not self._all:
                return
            await asyncio.sleep(0)

    def release(self, connection: _Connection) -> None:
        """Keep a connection for the next request."""
        if self._closed:
            connection.abort()
            return
        loop = asyncio.get_running_loop()
        connection.idle_since = loop.time()
        self._idle.append(connection)
        if self._timer is None:
            self._timer = loop.call_later(clock.scale_real_seconds(_IDLE_SECONDS), self._close_idle)

    def retire(self, connection: _Connection) -> None:
        """Send no further requests over a connection."""
        with suppress(ValueError):
            self._idle.remove(connection)

    def forget(self, connection: _Connection) -> None:
        """Remove a closed connection."""
        self.retire(connection)
        self._all.discard(connection)

    def _take(self) -> _Connection | None:
        """The idle connection that was used last, so that surplus ones expire."""
        return self._idle.pop() if self._idle else None

    def _close_idle(self) -> None:
        """Close connections that have been idle for too long: each takes 100 KB."""
        loop, seconds = asyncio.get_running_loop(), clock.scale_real_seconds(_IDLE_SECONDS)
        while self._idle and self._idle[0].idle_since <= loop.time() - seconds:
            self._idle.pop(0).abort()
        self._timer = loop.call_at(self._idle[0].idle_since + seconds, self._close_idle) if self._idle else None

    def _head(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> bytes:
        lines = {"host": self._server.authority, "accept": "*/*", **headers}
        if body:
            lines.setdefault("content-type", "application/octet-stream")
        if body or method not in _BODILESS:
            lines["content-length"] = str(len(body))
        if self._proxy is not None and self._server.scheme == "http":
            target = f"http://{self._server.authority}{target}"
            lines |= _proxy_headers(self._proxy)
        return _encode_head(method, target, lines)

    async def _connect(self, seconds: float) -> _Connection:
        async with asyncio.timeout(seconds):
            try:
                if self._proxy is None:
                    return await self._open(self._server, self._tls, self._server_hostname, seconds)
                tls = ssl.create_default_context() if self._proxy.scheme == "https" else None
                connection = await self._open(self._proxy, tls, self._proxy.host, seconds)
                return await self._tunnel(connection, seconds) if self._server.scheme == "https" else connection
            except OSError as error:
                if isinstance(error, TimeoutError):
                    raise
                raise ConnectFailed from error
            except UnicodeError:
                raise ConnectFailed from OSError(0, f"{self._server.host!r} is not a valid host name")

    async def _open(self, server: Address, tls: ssl.SSLContext | None, hostname: str, seconds: float) -> _Connection:
        loop = asyncio.get_running_loop()
        sock = await _connect_socket(server.host, server.port)
        connection = _Connection(self)
        options: dict[str, Any] = {}
        if tls is not None:
            # uvloop keeps a cancelled connection until its TLS handshake times out, after a minute by default.
            options = {"ssl": tls, "server_hostname": hostname, "ssl_handshake_timeout": seconds}
        await loop.create_connection(lambda: connection, sock=sock, **options)
        if connection.closed:
            raise ConnectionResetError("server disconnected")
        self._all.add(connection)
        return connection

    async def _tunnel(self, connection: _Connection, seconds: float) -> _Connection:
        """Have a proxy connect to the server, and start TLS inside that connection."""
        assert self._proxy is not None
        head = _encode_head("CONNECT", self._server.netloc, {"host": self._server.netloc, **_proxy_headers(self._proxy)})
        response = IncomingResponse(connection, None, has_body=False)
        connection.start(head, b"", response)
        try:
            await response.wait_head()
            if response.status != 200:
                raise OSError(0, f"the proxy {self._proxy.netloc} responded with status {response.status}")
            inner = _Connection(self)
            transport = await asyncio.get_running_loop().start_tls(
                connection._transport, inner, cast("Any", self._tls), server_hostname=self._server_hostname,
                ssl_handshake_timeout=seconds,
            )  # fmt: skip
            assert transport is not None
        except BaseException:
            connection.abort()
            raise
        finally:
            self._all.discard(connection)  # TLS has taken its transport over
        inner.connection_made(transport)
        self._all.add(inner)
        return inner


_LARGE_HEAD = "response headers are too large"
_CLOSING_TURNS = 20
"""Turns of the event loop in which aborted connections, also those in TLS, are closed."""


def join_headers(headers: list[tuple[bytes, bytes]]) -> dict[str, str]:
    """Headers by lower-case name; those of the same name are joined."""
    joined: dict[str, str] = {}
    for raw_name, raw_value in headers:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("utf-8", "surrogateescape")
        joined[name] = f"{joined[name]}, {value}" if name in joined else value
    return joined


def _encode_head(method: str, target: str, headers: Mapping[str, str]) -> bytes:
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    if any("\r" in line or "\n" in line or "\0" in line for line in lines):
        raise InvalidRequest("a request header contains a line break")
    if " " in target:
        raise InvalidRequest(f"the path {target!r} contains a space")
    return "\r\n".join((*lines, "\r\n")).encode("utf-8", "surrogateescape")


def _proxy_headers(proxy: Address) -> dict[str, str]:
    return {"proxy-authorization": "Basic " + base64.b64encode(proxy.user.encode()).decode()} if proxy.user else {}


async def _connect_socket(host: str, port: int) -> socket.socket:
    """A connected socket; of several addresses of the host, the one that connects first."""
    loop = asyncio.get_running_loop()
    infos: list[Any] = _literal(host, port) or await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    if len(infos) == 1:
        return await _connect_address(infos[0])
    delay = clock.scale_real_seconds(_NEXT_ADDRESS_SECONDS)
    sock: socket.socket | None
    sock, _, errors = await staggered_race([partial(_connect_address, info) for info in infos], delay)
    if sock is None:
        raise next(error for error in errors if error is not None)
    return sock


def _literal(host: str, port: int) -> list[Any]:
    """The address information of an IPv4 address, without a thread."""
    with suppress(OSError):
        socket.inet_pton(socket.AF_INET, host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", (host, port))]
    return []


async def _connect_address(info: tuple[int, int, int, str, Any]) -> socket.socket:
    family, kind, protocol, _, address = info
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in _KEEP_ALIVE_OPTIONS:
            sock.setsockopt(socket.IPPROTO_TCP, option, value)
        await asyncio.get_running_loop().sock_connect(sock, address)
    except BaseException:
        sock.close()
        raise
    return sock


# Watches, which may be silent for long, notice a lost peer within a minute: after 30 idle seconds, three probes 10 seconds apart.
# Not all platforms have these options.
_KEEP_ALIVE_OPTIONS = [
    (getattr(socket, name), value)
    for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))
    if hasattr(socket, name)
]
