"""HTTP/1.1 client for upstreams on asyncio and httptools: one exchange, one connection, and a connection pool."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from typing import TYPE_CHECKING, cast
from weakref import WeakKeyDictionary

import httptools

from sliceworks.base import clock, sockets

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable


class ConnectionBroken(Exception):
    """The connection closed, or carried invalid HTTP, before the response was complete.

    `is_stale`: a reused connection closed before the first byte, so the request can be sent again on a new one.
    """

    def __init__(self, reason: str, *, is_stale: bool = False) -> None:
        super().__init__(reason)
        self.is_stale = is_stale


class DeadlineExceeded(Exception):
    """The upstream exceeded a timeout."""


HEAD, FIRST_CHUNK, COMPLETE = range(3)
"""Stages of a response that `Exchange.wait` can wait for."""


class Exchange:
    """One request and its response. Chunks of the body collect in `chunks` until `sink` is set, which then receives them.

    Where `raw_sink` is set, it receives data that is exactly one HTTP chunk, framing included.
    """

    __slots__ = (
        "_awaited_stage",
        "_loop",
        "_waiter",
        "chunks",
        "complete",
        "connection",
        "error",
        "head_received_at",
        "headers",
        "last_activity",
        "on_end",
        "raw_sink",
        "sink",
        "size",
        "started_at",
        "status",
        "until_close",
    )

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.chunks: list[bytes] = []
        self.size = 0
        self.complete = self.until_close = False
        self.error: BaseException | None = None
        self.sink: Callable[[bytes], None] | None = None
        self.raw_sink: Callable[[bytes], None] | None = None
        self.on_end: Callable[[], None] | None = None
        self.connection: UpstreamConnection | None = None
        self.started_at = self.last_activity = self._loop.time()
        self.head_received_at = 0.0
        """On `clock.perf_counter`, to measure the gateway's overhead."""
        self._waiter: asyncio.Future[None] | None = None
        self._awaited_stage = HEAD

    @property
    def is_over(self) -> bool:
        return self.complete or self.error is not None

    def header(self, name: bytes) -> bytes:
        """A header of the response; empty if absent."""
        return next((value for key, value in self.headers if key == name), b"")

    def has_reached(self, stage: int) -> bool:
        """Whether the response has reached a stage, or is over."""
        return self.is_over or (stage < COMPLETE and bool(self.status) and (stage == HEAD or self.size > 0))

    async def wait(self, stage: int) -> None:
        """Wait until the response has reached a stage; raises the exchange's error."""
        if not self.has_reached(stage):
            self._awaited_stage = stage
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        if self.error is not None:
            raise self.error

    def notify(self) -> None:
        """Resume `wait` if its stage has been reached."""
        waiter = self._waiter
        if waiter is not None and self.has_reached(self._awaited_stage) and not waiter.done():
            waiter.set_result(None)

    def fail(self, error: BaseException) -> None:
        """End with an error and abort the connection."""
        if not self.is_over:
            self.error = error
            if self.connection is not None:
                self.connection.abort()
            self._end()

    def succeed(self) -> None:
        """End with a complete response."""
        self.complete = True
        self._end()

    def _end(self) -> None:
        if self.on_end is not None:
            self.on_end()
        self.notify()

    def cancel(self) -> None:
        """Discard the response; aborting the connection stops the upstream's work."""
        if not self.is_over:
            self.error = asyncio.CancelledError()
            self.detach()
            if self.connection is not None:
                self.connection.abort()

    def detach(self) -> None:
        """Drop the callbacks and the raised error, whose traceback refers to this exchange: no reference cycle remains."""
        self.sink = self.raw_sink = self.on_end = None
        if self.error is not None:
            self.error = asyncio.CancelledError()

    def pause(self) -> None:
        if self.connection is not None:
            self.connection.pause()

    def resume(self) -> None:
        self.last_activity = self._loop.time()
        if self.connection is not None:
            self.connection.resume()


_SEPARATE_BODY_SIZE = 128 * 1024
_MAX_HEAD_SIZE = 256 * 1024
_MAX_RAW_CHUNK = 8192
_chunk_starts: dict[int, tuple[bytes, bytes] | None] = {}


def _is_single_chunk(data: bytes) -> bool:
    """Whether the data is exactly one HTTP chunk with its framing. Its size line follows from the length of the data."""
    size = len(data)
    try:
        start = _chunk_starts[size]
    except KeyError:
        if size > _MAX_RAW_CHUNK:
            return False
        start = _chunk_starts[size] = _chunk_start(size)
    return start is not None and data.startswith(start) and data.endswith(b"\r\n")


def _chunk_start(size: int) -> tuple[bytes, bytes] | None:
    """The size line of a chunk that takes `size` bytes with its framing, in lower and upper case hexadecimal."""
    for digits in range(1, 5):
        length = size - digits - 4
        if length > 0 and len(f"{length:x}") == digits:
            return b"%x\r\n" % length, b"%X\r\n" % length
    return None


class UpstreamConnection(asyncio.Protocol):
    """A keep-alive connection that carries one exchange after another."""

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool
        self._loop = asyncio.get_running_loop()
        self._now = self._loop.time
        self._exchange: Exchange | None = None
        self._keep_alive = self._paused = self._in_chunk = self._between_chunks = False
        self._requests = 0
        self._head_size = 0
        self.closed = False
        self.idle_since = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._fileno = sockets.find_fileno(transport)
        # The parser and its connection refer to each other; connection_lost breaks that cycle.
        self._parser = httptools.HttpResponseParser(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        del self._parser
        self._pool.discard(self)
        exchange, self._exchange = self._exchange, None
        if exchange is None or exchange.is_over:
            return
        if exchange.until_close and exc is None:
            exchange.succeed()
        else:
            is_stale = self._requests > 1 and not exchange.status and not self._head_size
            exchange.connection = None
            exchange.fail(ConnectionBroken(str(exc) if exc else "connection closed", is_stale=is_stale))

    def start(self, exchange: Exchange, head: bytes, body: bytes) -> None:
        """Send a request; the exchange receives its response."""
        self._exchange, exchange.connection = exchange, self
        self._requests += 1
        self._head_size = 0
        if len(body) < _SEPARATE_BODY_SIZE:
            sockets.write_now(self._transport, self._fileno, head + body)
        else:
            sockets.write_pair_now(self._transport, self._fileno, head, body)

    def data_received(self, data: bytes) -> None:
        exchange = self._exchange
        if exchange is None:
            self.abort()  # Data without a request.
            return
        exchange.last_activity = self._now()
        if exchange.raw_sink is not None and self._between_chunks and _is_single_chunk(data):
            exchange.raw_sink(data)  # The parser need not see it: it stays between two chunks.
            return
        try:
            self._parser.feed_data(data)
            self._between_chunks = not self._in_chunk and data.endswith(b"\n")
            if exchange.sink is not None:
                return
            if not exchange.status:
                self._head_size += len(data)
                if self._head_size > _MAX_HEAD_SIZE:
                    raise ConnectionBroken("response headers are too large")
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            exchange.fail(ConnectionBroken(f"invalid HTTP response: {type(error).__name__}"))
            if self._exchange is None:
                self._retire()
        except ConnectionBroken as error:
            exchange.fail(error)
        exchange.notify()

    # Callbacks of the parser.

    def on_message_begin(self) -> None:
        if self._exchange is None:
            self._retire()
        else:
            self._exchange.headers = []

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._exchange is not None and not self._exchange.status:
            self._exchange.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        exchange, status = self._exchange, self._parser.get_status_code()
        if exchange is None or status < 200:
            return
        exchange.status = status
        exchange.head_received_at = clock.perf_counter()
        self._keep_alive = self._parser.should_keep_alive()
        names = {name for name, _ in exchange.headers}
        self._in_chunk = False
        exchange.until_close = b"content-length" not in names and b"transfer-encoding" not in names and status not in {204, 304}

    def on_chunk_header(self) -> None:
        self._in_chunk = True

    def on_chunk_complete(self) -> None:
        self._in_chunk = False

    def on_body(self, body: bytes) -> None:
        exchange = self._exchange
        if exchange is None:
            return
        exchange.size += len(body)
        if exchange.sink is not None:
            exchange.sink(body)
        else:
            exchange.chunks.append(body)

    def on_message_complete(self) -> None:
        exchange = self._exchange
        if exchange is None or not exchange.status:
            return  # An interim (1xx) response.
        self._exchange = exchange.connection = None
        if self._keep_alive and not self._paused:
            self._pool.release(self)
        else:
            self.abort()
        exchange.succeed()

    # Flow control and the end.

    def pause(self) -> None:
        if not self._paused and not self.closed:
            self._paused = True
            self._transport.pause_reading()

    def resume(self) -> None:
        if self._paused and not self.closed:
            self._paused = False
            self._transport.resume_reading()

    def _retire(self) -> None:
        """Close a connection with surplus data, which the next request would take for its response."""
        self._pool.discard(self)
        self.abort()

    def abort(self) -> None:
        if not self.closed:
            self._transport.abort()


_CONNECTS_PER_TURN = 8


class ConnectPacer:
    """Lets a few connections start per turn of the event loop: a thousand at once would delay all streams by 30 ms."""

    def __init__(self) -> None:
        self._left = _CONNECTS_PER_TURN
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def wait(self) -> None:
        """Wait for a turn with less than the maximum number of connects, in the order of the calls."""
        loop = asyncio.get_running_loop()
        if self._left == _CONNECTS_PER_TURN:
            loop.call_soon(self._next_turn)
        if self._left:
            self._left -= 1
            return
        waiter = loop.create_future()
        self._waiting.append(waiter)
        await waiter

    def _next_turn(self) -> None:
        self._left = _CONNECTS_PER_TURN
        while self._left and self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():  # it is done if the request was cancelled
                waiter.set_result(None)
                self._left -= 1
        if self._left < _CONNECTS_PER_TURN:
            asyncio.get_running_loop().call_soon(self._next_turn)


_pacers: WeakKeyDictionary[asyncio.AbstractEventLoop, ConnectPacer] = WeakKeyDictionary()
"""One for the pools of all upstreams."""


def _pacer() -> ConnectPacer:
    return _pacers.setdefault(asyncio.get_running_loop(), ConnectPacer())


_MAX_IDLE = 512


class ConnectionPool:
    """Keep-alive connections to one upstream. The most recently used one is reused first, so that surplus ones expire."""

    def __init__(self, host: str, port: int, tls: ssl.SSLContext | None = None, *, idle_timeout: float = 60.0) -> None:
        self.host, self.port, self.tls = host, port, tls
        self._idle_timeout = idle_timeout
        self._idle: list[UpstreamConnection] = []
        self._all: set[UpstreamConnection] = set()
        self.closed = False

    async def start(self, head: bytes, body: bytes, exchange: Exchange, timeout: float, *, fresh: bool = False) -> None:
        """Send a request on an idle connection or on a new one; on a new one if `fresh`."""
        connection = None if fresh else self._take()
        if connection is None:
            await _pacer().wait()
            # A connection may have become idle meanwhile.
            connection = (None if fresh else self._take()) or await self._connect(timeout)
        if exchange.is_over:
            self.release(connection)  # The exchange's deadline passed while connecting.
        else:
            connection.start(exchange, head, body)

    def _take(self) -> UpstreamConnection | None:
        while self._idle:
            connection = self._idle.pop()
            if not connection.closed:
                return connection
        return None

    async def _connect(self, timeout: float) -> UpstreamConnection:
        loop = asyncio.get_running_loop()
        # uvloop keeps a cancelled connection until its TLS handshake times out, after a minute by default.
        handshake_timeout = (timeout or None) if self.tls is not None else None
        connection: UpstreamConnection | None = None
        try:
            async with asyncio.timeout(timeout):
                _, connection = await loop.create_connection(
                    lambda: UpstreamConnection(self), self.host, self.port, ssl=self.tls, ssl_handshake_timeout=handshake_timeout
                )
        except TimeoutError:
            pass
        except OSError as error:
            raise ConnectionBroken(error.strerror or str(error) or type(error).__name__) from error
        if connection is None:
            # Not caused by the TimeoutError, whose traceback refers to this task: with its exception, that is a reference cycle.
            raise ConnectionBroken(f"no connection within {timeout:g} s")
        self._all.add(connection)
        return connection

    def release(self, connection: UpstreamConnection) -> None:
        """Keep a connection for reuse after its exchange."""
        if self.closed or len(self._idle) >= _MAX_IDLE:
            connection.abort()
            return
        connection.idle_since = asyncio.get_running_loop().time()
        self._idle.append(connection)

    def discard(self, connection: UpstreamConnection) -> None:
        """Remove a closed connection."""
        self._all.discard(connection)
        with contextlib.suppress(ValueError):
            self._idle.remove(connection)

    def close_idle(self, now: float) -> None:
        """Close connections that have been idle for longer than the idle timeout."""
        for connection in [idle for idle in self._idle if idle.idle_since + self._idle_timeout < now]:
            self._idle.remove(connection)
            connection.abort()

    @property
    def open_connections(self) -> int:
        """Number of open connections."""
        return len(self._all)

    def close(self) -> None:
        """Close idle connections now, and the others when their exchange is over."""
        self.closed = True
        for connection in self._idle:
            connection.abort()
        self._idle.clear()
