"""HTTP/1.1 to one server, with the moments of what happens: as little as possible between the system and the record."""

from __future__ import annotations

import socket as plain
import ssl as plain_ssl
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import gevent
from gevent import socket, ssl
from gevent.lock import RLock
from gevent.pool import Group

from sliceworks.loadtest.generator.connections import Connection
from sliceworks.loadtest.rows import Failure

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.loadtest.generator.answers import Answer
    from sliceworks.loadtest.generator.connections import Ended
    from sliceworks.specs.load_test import Times

_LOOK_EVERY = 0.25
_IN_A_ROW = 256
_SPARE = 4
"""Connections that are kept open beyond those in use, and one more for each eighth in use: a request that is due does not wait for
a handshake."""
_KNOWN_FOR = 5_000_000_000
"""How long an address is used before its name is looked up again, in nanoseconds."""


class Wire:
    """Connections to one server, kept and used again. Time-outs are looked after by one greenlet for all: a timer for each read
    would cost as much as the read. `first` is called with the moment of each read, before what was read is looked at."""

    def __init__(
        self, url: str, times: Times, now: Callable[[], int], authority: str = "", first: Callable[[int], None] = lambda _: None
    ) -> None:
        parts = urlsplit(url)
        self._host = parts.hostname or ""
        self._tls: Any = None
        if parts.scheme == "https":
            self._tls = _trusting(authority)
        self._port = parts.port or (443 if self._tls else 80)
        self._times, self._now, self._first = times, now, first
        self._idle: deque[Connection] = deque()
        self._busy: dict[int, Connection] = {}
        self._greenlets = Group()
        self._opening = 0
        self._spare = 0
        self._closed = False
        self._addresses: tuple[list[Any], int] = ([], 0)
        self._resolving = RLock()
        self._watchman = gevent.spawn(self._look)

    def keep_ready(self) -> None:
        """Have connections open before they are needed, from now on."""
        self._spare = _SPARE
        self._open_ahead()

    def send(self, request: bytes, answer: Answer, ended: Ended) -> None:
        """Send a request, without waiting for anything. Its answer, and whatever goes wrong, is written to its record; then `ended`
        is called, once."""
        while self._idle:
            connection = self._idle.pop()
            if connection.quiet():
                self._send(connection, request, answer, ended)
                self._open_ahead()
                return
            connection.close()
        self._greenlets.spawn(self._send_anew, request, answer, ended)

    def _send(self, connection: Connection, request: bytes, answer: Answer, ended: Ended) -> None:
        self._busy[id(connection)] = connection
        connection.send(request, answer, ended)

    def _send_anew(self, request: bytes, answer: Answer, ended: Ended) -> None:
        try:
            connection = self._connect()
        except TimeoutError:
            failure = Failure.CONNECT_TIMEOUT
        except plain.gaierror:
            failure = Failure.RESOLVE
        except plain_ssl.SSLError:
            failure = Failure.TLS
        except OSError:
            failure = Failure.CONNECT
        else:
            self._send(connection, request, answer, ended)
            return
        answer.wrong(failure)
        answer.record.ended = self._now()
        ended(answer)

    def _free(self, connection: Connection) -> None:
        """A connection's exchange is over."""
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
            return  # those who are really sent will tell what is wrong
        finally:
            self._opening -= 1
        # Those that are used come from the other end: a server that ends what is idle ends these first.
        if self._closed:
            connection.close()
        else:
            self._idle.appendleft(connection)
            self._open_ahead()

    def _look(self) -> None:
        """End what takes too long."""
        total, idle = int(self._times.total * 1e9), int(self._times.idle * 1e9)
        while True:
            gevent.sleep(_LOOK_EVERY)
            for number, connection in enumerate(list(self._busy.values())):
                if number % _IN_A_ROW == 0:
                    now = self._now()
                    self._first(now)
                if connection.answer is None:
                    continue
                if now - connection.began > total:
                    connection.fail(Failure.TOTAL_TIMEOUT)
                elif now - connection.moment > idle:
                    connection.fail(Failure.IDLE_TIMEOUT)

    def _connect(self) -> Connection:
        with gevent.Timeout(self._times.connect, TimeoutError):
            found = self._reach()
            try:
                found.setsockopt(plain.IPPROTO_TCP, plain.TCP_NODELAY, 1)
                if self._tls is not None:
                    found = self._tls.wrap_socket(found, server_hostname=self._host)
                return Connection(found, self._now, self._first, self._free, secure=self._tls is not None)
            except BaseException:
                found.close()
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
        """Give up what is under way, and let go of all connections. What has no connection yet ends without a word."""
        self._closed = True
        self._watchman.kill()
        self._greenlets.kill()
        for connection in (*self._busy.values(), *self._idle):
            connection.fail(Failure.INTERRUPTED)
        self._idle.clear()


def _trusting(authority: str) -> Any:
    """A context that asks for certificates of this authority, or of those that the machine knows."""
    context = ssl.SSLContext(plain_ssl.PROTOCOL_TLS_CLIENT)
    if authority:
        context.load_verify_locations(authority)
    else:
        context.load_default_certs()
    return context
