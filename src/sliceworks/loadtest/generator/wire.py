"""HTTP/1.1 on gevent's sockets, with the moments of what happens: as little as possible between the system and the record."""

from __future__ import annotations

import socket as plain
import ssl as plain_ssl
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import gevent
from gevent import socket, ssl
from gevent.lock import RLock
from httptools import HttpParserError, HttpResponseParser

from sliceworks.loadtest.rows import NEVER, Failure

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.loadtest.generator.answers import Answer
    from sliceworks.specs.load_test import Times

_SIZE = 256 * 1024
_LOOK_EVERY = 0.25
_KNOWN_FOR = 5_000_000_000
"""How long an address is used before its name is looked up again, in nanoseconds."""


class _Late(Exception):
    """The whole answer took too long."""


class _Idle(Exception):
    """The next piece of the answer took too long."""


class _Exchange:
    """One request under way; what its parser tells goes to the answer."""

    def __init__(self, answer: Answer, began: int) -> None:
        self.answer, self.began, self.moment = answer, began, began
        self.greenlet: Any = gevent.getcurrent()
        self.parser = HttpResponseParser(self)
        self.whole, self.keep = False, False

    def on_headers_complete(self) -> None:
        self.answer.record.status = self.parser.get_status_code()

    def on_body(self, data: bytes) -> None:
        self.answer.feed(data, self.moment)

    def on_message_complete(self) -> None:
        # 100 Continue and its like come before the answer.
        self.whole = self.answer.record.status >= 200
        self.keep = self.parser.should_keep_alive()


class Wire:
    """Connections to one server, kept and used again. Time-outs are looked after by one greenlet for all: a timer for each read
    would cost as much as the read."""

    def __init__(self, url: str, times: Times, now: Callable[[], int], authority: str = "") -> None:
        parts = urlsplit(url)
        self._host = parts.hostname or ""
        self._tls: Any = None
        if parts.scheme == "https":
            self._tls = ssl.create_default_context(cafile=authority or None)
        self._port = parts.port or (443 if self._tls else 80)
        self._times, self._now = times, now
        self._idle: list[Any] = []
        self._addresses: tuple[list[Any], int] = ([], 0)
        self._resolving = RLock()
        self._under_way: dict[int, _Exchange] = {}
        self._watchman = gevent.spawn(self._look)

    def exchange(self, request: bytes, answer: Answer) -> None:
        """Send a request and read its answer into the record. Whatever goes wrong is written there too."""
        record = answer.record
        exchange = _Exchange(answer, self._now())
        self._under_way[id(exchange)] = exchange
        try:
            self._exchange(request, exchange)
        except _Late:
            answer.wrong(Failure.TOTAL_TIMEOUT)
        except _Idle:
            answer.wrong(Failure.IDLE_TIMEOUT)
        except TimeoutError:
            answer.wrong(Failure.CONNECT_TIMEOUT)
        except plain.gaierror:
            answer.wrong(Failure.RESOLVE)
        except plain_ssl.SSLError:
            answer.wrong(Failure.TLS)
        except HttpParserError:
            answer.wrong(Failure.GARBLED)
        except OSError:
            answer.wrong(Failure.CLOSED if record.sent != NEVER else Failure.CONNECT)
        finally:
            del self._under_way[id(exchange)]
        record.ended = self._now()
        if record.failure is Failure.NONE and record.status >= 400:
            record.failure = Failure.STATUS

    def _exchange(self, request: bytes, exchange: _Exchange) -> None:
        record = exchange.answer.record
        connection = self._kept() or self._connect()
        try:
            exchange.moment = record.sent = self._now()
            record.bytes_out = len(request)
            connection.sendall(request)
            self._read(connection, exchange)
        finally:
            if exchange.keep:
                self._idle.append(connection)
            else:
                connection.close()

    def _read(self, connection: Any, exchange: _Exchange) -> None:
        record, answer = exchange.answer.record, exchange.answer
        while not exchange.whole:
            data = connection.recv(_SIZE)
            exchange.moment = self._now()
            if not data:
                # An answer without a length ends with its connection.
                if record.status and not exchange.parser.should_keep_alive():
                    break
                answer.wrong(Failure.CLOSED)
                return
            if record.first_byte == NEVER:
                record.first_byte = exchange.moment
            record.bytes_in += len(data)
            exchange.parser.feed_data(data)
        answer.finish(exchange.moment)

    def _look(self) -> None:
        """End what takes too long."""
        total, idle = int(self._times.total * 1e9), int(self._times.idle * 1e9)
        while True:
            gevent.sleep(_LOOK_EVERY)
            now = self._now()
            for exchange in list(self._under_way.values()):
                late = _Late if now - exchange.began > total else _Idle if now - exchange.moment > idle else None
                if late is not None and exchange.answer.record.sent != NEVER:
                    exchange.greenlet.kill(late, block=False)

    def _kept(self) -> Any:
        """A connection that is still open and has nothing to say."""
        while self._idle:
            connection = self._idle.pop()
            try:
                # The socket below gevent's never waits. What has come unasked is the end, or a surprise.
                connection._sock.recv(1, plain.MSG_PEEK)
            except BlockingIOError:
                return connection
            except OSError:
                pass
            connection.close()
        return None

    def _connect(self) -> Any:
        with gevent.Timeout(self._times.connect, TimeoutError):
            connection = self._reach()
            try:
                connection.setsockopt(plain.IPPROTO_TCP, plain.TCP_NODELAY, 1)
                if self._tls is None:
                    return connection
                return self._tls.wrap_socket(connection, server_hostname=self._host)
            except BaseException:
                connection.close()
                raise

    def _reach(self) -> Any:
        """A connection to the first address of the name that takes one."""
        with self._resolving:  # many ask at once when a test begins; one answer does for all
            addresses, known = self._addresses
            if not addresses or self._now() - known > _KNOWN_FOR:
                addresses = socket.getaddrinfo(self._host, self._port, type=plain.SOCK_STREAM)
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
        """Let go of all connections."""
        self._watchman.kill()
        while self._idle:
            self._idle.pop().close()
