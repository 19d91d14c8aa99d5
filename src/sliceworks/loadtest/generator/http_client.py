"""HTTP/1.1 client on gevent's event loop that timestamps what happens: one connection, and the connections to one server."""

from __future__ import annotations

import socket as std_socket
import ssl as std_ssl
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import gevent
from gevent import socket, ssl
from gevent.lock import RLock
from gevent.pool import Group
from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from sliceworks.loadtest.request_log import NEVER, Failure

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.loadtest.generator.response_reader import ResponseReader
    from sliceworks.specs.load_test import RequestTimeouts

    OnEnded = Callable[[ResponseReader], None]

_READ, _WRITE = 1, 2
_READ_SIZE = 64 * 1024
_WOULD_BLOCK = (BlockingIOError, std_ssl.SSLWantReadError, std_ssl.SSLWantWriteError)
_LENGTH_HEADERS = frozenset((b"content-length", b"transfer-encoding"))


class Connection:
    """Carries one exchange at a time.

    `now` is the test's clock; `on_read` is called between reading and parsing, `on_free` when an exchange ends or when the server
    closes the connection.
    """

    def __init__(
        self,
        socket: Any,
        now: Callable[[], int],
        on_read: Callable[[int], None],
        on_free: Callable[[Connection], None],
        *,
        secure: bool = False,
    ) -> None:
        self._socket, self._now, self._on_read, self._on_free = socket, now, on_read, on_free
        socket.setblocking(False)
        # The socket below gevent's never blocks; TLS sockets have none that could be used.
        raw = socket if secure else socket._sock
        self._recv, self._write = raw.recv, raw.send
        self._pending: Callable[[], int] | None = socket.pending if secure else None
        self._parser = HttpResponseParser(self)
        loop = gevent.get_hub().loop
        self._reads: Any = loop.io(socket.fileno(), _READ)
        self._writes: Any = loop.io(socket.fileno(), _WRITE)
        self._unsent: memoryview | None = None
        self.reader: ResponseReader | None = None
        self._ended: OnEnded | None = None
        self.started, self.last_activity = 0, 0
        """When the exchange started, and its last activity."""
        self._complete, self._keep, self._has_length = False, False, False
        self._reads.start(self._readable)

    @property
    def open(self) -> bool:
        return self._socket is not None

    def is_reusable(self) -> bool:
        """Whether the connection is reusable: unexpected data means that it was closed or broken."""
        if self._socket is None or self._pending is not None:
            return self._socket is not None
        try:
            self._recv(1, std_socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except OSError:
            pass
        return False

    def send(self, request: bytes, reader: ResponseReader, ended: OnEnded) -> None:
        """Send a request; call `ended` once, on the complete response or a failure."""
        self.reader, self._ended = reader, ended
        self._complete, self._keep, self._has_length = False, False, False
        record = reader.record
        self.started = self.last_activity = record.sent = self._now()
        record.bytes_out = len(request)
        self._unsent = memoryview(request)
        self._writable()

    def _writable(self) -> None:
        """Write until the socket buffer is full."""
        assert self._unsent is not None
        try:
            self._unsent = self._unsent[self._write(self._unsent) :]
            self.last_activity = self._now()
        except _WOULD_BLOCK:
            pass
        except OSError:
            self.fail(Failure.CLOSED)
            return
        if not self._unsent:
            self._unsent = None
            self._writes.stop()
        elif not self._writes.active:
            self._writes.start(self._writable)

    def _readable(self) -> None:
        try:
            data = self._recv(_READ_SIZE)
        except _WOULD_BLOCK:
            return
        except OSError:
            self.fail(Failure.CLOSED)
            return
        self.last_activity = self._now()
        self._on_read(self.last_activity)
        if self.reader is None:
            self.fail(Failure.CLOSED)
        elif not data:
            self._eof()
        else:
            self._feed(self.reader, data)
            # TLS may have buffered data that the socket does not report.
            if self._pending is not None and self._socket is not None and self._pending():
                self._readable()

    def _feed(self, reader: ResponseReader, data: bytes) -> None:
        record = reader.record
        if record.first_byte == NEVER:
            record.first_byte = self.last_activity
        record.bytes_in += len(data)
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade):
            self.fail(Failure.GARBLED)
            return
        if self._complete:
            reader.finish(self.last_activity)
            self._end(keep=self._keep and self._unsent is None)

    def _eof(self) -> None:
        """A response without a length ends with the connection."""
        assert self.reader is not None
        if self.reader.record.status and not self._has_length:
            self.reader.finish(self.last_activity)
            self._end(keep=False)
        else:
            self.fail(Failure.CLOSED)

    def fail(self, failure: Failure) -> None:
        """Abort the exchange in flight."""
        if self.reader is not None:
            self.reader.fail(failure)
            self._end(keep=False)
        else:
            self.close()
            self._on_free(self)

    def _end(self, *, keep: bool) -> None:
        reader, ended = self.reader, self._ended
        assert reader is not None
        assert ended is not None
        self.reader = self._ended = self._unsent = None
        record = reader.record
        record.ended = self._now()
        if record.failure is Failure.NONE and record.status >= 400:
            record.failure = Failure.STATUS
        if not keep:
            self.close()
        self._on_free(self)
        ended(reader)

    def close(self) -> None:
        """Close the connection."""
        if self._socket is None:
            return
        for watcher in (self._reads, self._writes):
            watcher.stop()
            watcher.close()
        socket, self._socket = self._socket, None
        socket.close()
        # Break the reference cycle with the parser: the garbage collector is disabled during a test.
        del self._parser

    def on_header(self, name: bytes, _value: bytes) -> None:
        """Parser callback."""
        if name.lower() in _LENGTH_HEADERS:
            self._has_length = True

    def on_headers_complete(self) -> None:
        """Parser callback."""
        if self.reader is not None:
            self.reader.record.status = self._parser.get_status_code()

    def on_body(self, data: bytes) -> None:
        """Parser callback."""
        if self.reader is not None:
            self.reader.feed(data, self.last_activity)

    def on_message_complete(self) -> None:
        """Parser callback."""
        if self._complete:
            self._keep = False  # data after the response
        elif self.reader is not None and self.reader.record.status >= 200:
            # Informational responses such as 100 Continue precede the response.
            self._complete, self._keep = True, self._parser.should_keep_alive()


_TIMEOUT_INTERVAL = 0.25
_CLOCK_BATCH = 256
_SPARE = 4
"""Idle connections to keep open, plus one for every eight in use, so that a due request does not wait for a handshake."""

_ADDRESS_TTL = 5_000_000_000
"""Time to live of a resolved address, in nanoseconds."""


class HttpClient:
    """Keep-alive connections to one server. One greenlet enforces all timeouts, because a timer per read would cost as much as the
    read. `on_read` is called with the time of each read, before the data is parsed."""

    def __init__(
        self,
        url: str,
        timeouts: RequestTimeouts,
        now: Callable[[], int],
        authority: str = "",
        on_read: Callable[[int], None] = lambda _: None,
    ) -> None:
        parts = urlsplit(url)
        self._host = parts.hostname or ""
        self._tls: Any = None
        if parts.scheme == "https":
            self._tls = _tls_context(authority)
        self._port = parts.port or (443 if self._tls else 80)
        self._timeouts, self._now, self._on_read = timeouts, now, on_read
        self._idle: deque[Connection] = deque()
        self._busy: dict[int, Connection] = {}
        self._greenlets = Group()
        self._opening = 0
        self._spare = 0
        self._closed = False
        self._addresses: tuple[list[Any], int] = ([], 0)
        self._resolving = RLock()
        self._timeout_greenlet = gevent.spawn(self._enforce_timeouts)

    def keep_ready(self) -> None:
        """Keep spare connections open from now on."""
        self._spare = _SPARE
        self._open_ahead()

    def send(self, request: bytes, reader: ResponseReader, ended: OnEnded) -> None:
        """Send a request without blocking.

        The response or the failure is written to its record; then `ended` is called, once.
        """
        while self._idle:
            connection = self._idle.pop()
            if connection.is_reusable():
                self._send(connection, request, reader, ended)
                self._open_ahead()
                return
            connection.close()
        self._greenlets.spawn(self._connect_and_send, request, reader, ended)

    def _send(self, connection: Connection, request: bytes, reader: ResponseReader, ended: OnEnded) -> None:
        self._busy[id(connection)] = connection
        connection.send(request, reader, ended)

    def _connect_and_send(self, request: bytes, reader: ResponseReader, ended: OnEnded) -> None:
        try:
            connection = self._connect()
        except TimeoutError:
            failure = Failure.CONNECT_TIMEOUT
        except std_socket.gaierror:
            failure = Failure.RESOLVE
        except std_ssl.SSLError:
            failure = Failure.TLS
        except OSError:
            failure = Failure.CONNECT
        else:
            self._send(connection, request, reader, ended)
            return
        reader.fail(failure)
        reader.record.ended = self._now()
        ended(reader)

    def _free(self, connection: Connection) -> None:
        """Called when an exchange has ended."""
        self._busy.pop(id(connection), None)
        if connection.open and not self._closed:
            self._idle.append(connection)
        else:
            connection.close()
            with suppress(ValueError):
                self._idle.remove(connection)

    def _open_ahead(self) -> None:
        if self._spare and len(self._idle) + self._opening < self._spare + len(self._busy) // 8:
            self._opening += 1
            self._greenlets.spawn(self._open_one)

    def _open_one(self) -> None:
        try:
            connection = self._connect()
        except OSError:
            return  # real requests will report the error
        finally:
            self._opening -= 1
        # Reuse the most recent ones: the server closes the longest idle first.
        if self._closed:
            connection.close()
        else:
            self._idle.appendleft(connection)
            self._open_ahead()

    def _enforce_timeouts(self) -> None:
        """Enforce the timeouts."""
        total, idle = int(self._timeouts.total * 1e9), int(self._timeouts.idle * 1e9)
        while True:
            gevent.sleep(_TIMEOUT_INTERVAL)
            for number, connection in enumerate(list(self._busy.values())):
                if number % _CLOCK_BATCH == 0:
                    now = self._now()
                    self._on_read(now)
                if connection.reader is None:
                    continue
                if now - connection.started > total:
                    connection.fail(Failure.TOTAL_TIMEOUT)
                elif now - connection.last_activity > idle:
                    connection.fail(Failure.IDLE_TIMEOUT)

    def _connect(self) -> Connection:
        with gevent.Timeout(self._timeouts.connect, TimeoutError):
            connection = self._open_socket()
            try:
                connection.setsockopt(std_socket.IPPROTO_TCP, std_socket.TCP_NODELAY, 1)
                if self._tls is not None:
                    connection = self._tls.wrap_socket(connection, server_hostname=self._host)
                return Connection(connection, self._now, self._on_read, self._free, secure=self._tls is not None)
            except BaseException:
                connection.close()
                raise

    def _open_socket(self) -> Any:
        """Connect to the first address that accepts."""
        with self._resolving:  # share one lookup between all requests at the start of a test
            addresses, resolved_at = self._addresses
            if not addresses or self._now() - resolved_at > _ADDRESS_TTL:
                addresses = socket.getaddrinfo(self._host, self._port, type=std_socket.SOCK_STREAM)
                self._addresses = (addresses, self._now())
        problem: OSError | None = None
        for family, kind, protocol, _, address in addresses:
            connection = socket.socket(family, kind, protocol)
            try:
                connection.connect(address)
            except OSError as error:
                connection.close()
                problem = error
            except BaseException:
                connection.close()
                raise
            else:
                return connection
        raise problem or OSError("no address")

    def close(self) -> None:
        """Abort all exchanges and close all connections; requests without a connection are dropped."""
        self._closed = True
        self._timeout_greenlet.kill()
        self._greenlets.kill()
        for connection in (*self._busy.values(), *self._idle):
            connection.fail(Failure.INTERRUPTED)
        self._idle.clear()


def _tls_context(authority: str) -> Any:
    """A TLS context that trusts the given authority, or the system's."""
    context = ssl.SSLContext(std_ssl.PROTOCOL_TLS_CLIENT)
    if authority:
        context.load_verify_locations(authority)
    else:
        context.load_default_certs()
    return context
