"""The server: accepts connections, enforces their deadlines, and shuts down gracefully."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from sliceworks.base import sockets
from sliceworks.base.http.connection import Connection
from sliceworks.base.http.request_parser import READ_BYTES

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

    from sliceworks.base.http.messages import HttpError, Request
    from sliceworks.base.http.response_writer import ResponseWriter

_DURATIONS = ("handshake", "request", "upload", "idle", "stalled", "discard", "quiet", "grace", "sweep")


class Application:
    """Handles the requests of a server."""

    unjoined_headers: tuple[str, ...] = ()
    """Name prefixes of headers whose repeated values are joined with LF, not with a comma, because the values may contain
    commas."""

    def on_connect(self, transport: asyncio.BaseTransport) -> object:
        """Called for a new connection; the result becomes `Request.peer` of all its requests."""
        return None

    def authenticate(self, method: str, path: str, headers: Mapping[str, str], peer: object = None) -> object:
        """The user of a request, from its head alone, or an HttpError: clients need not send a body that will be rejected."""
        return None

    async def handle(self, request: Request, response: ResponseWriter) -> None:
        """Respond to a request. A raised HttpError is passed to `write_error`."""
        raise NotImplementedError

    def write_error(self, path: str, error: HttpError, response: ResponseWriter) -> None:
        """Write an error response to a request for this path."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one connection, in bytes and seconds. Deadlines are checked every `sweep` seconds."""

    head: int = 64 * 1024
    body: int = 64 * 1024 * 1024
    ahead: int = 8
    """Requests that are read ahead while an earlier one is handled."""
    handshake: float = 10.0
    request: float = 30.0
    """From the first byte of a request to the end of its head, and for each chunk of its body."""
    upload: float = 300.0
    """From the first byte of a request to its last."""
    connections: int = 10_000
    """Connections at the same time; a further one replaces an unused connection, or gets a 429 response."""
    idle: float = 90.0
    """Between requests."""
    stalled: float = 30.0
    """For a client that does not read its response."""
    discard: float = 10.0
    """For a client that keeps sending after an error, until it is quiet for `quiet` seconds."""
    quiet: float = 0.2
    grace: float = 2.0
    """For running requests when the server stops."""
    sweep: float = 1.0
    answer_timeouts: bool = True
    """Whether an incomplete request gets a 408 response before the connection is closed."""

    def at_speed(self, speed: float) -> Self:
        """The same limits for a loop whose clock runs `speed` times as fast as the clients' clocks."""
        return replace(self, **{name: getattr(self, name) * speed for name in _DURATIONS})


class Server:
    """Serves an application on one address."""

    def __init__(self, application: Application, limits: Limits | None = None) -> None:
        self.application = application
        self.limits = limits or Limits()
        self.connections: set[Connection] = set()
        self.buffer = memoryview(bytearray(READ_BYTES))
        self._server: asyncio.Server | None = None
        self._sweeper: asyncio.Task[None] | None = None

    async def start(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> int:
        """Start listening, with TLS or without; returns the port."""
        sockets.raise_open_files_limit()
        sockets.grow_open_files_table()
        loop = asyncio.get_running_loop()
        handshake = self.limits.handshake if tls else None
        self._server = await loop.create_server(
            lambda: Connection(self), host, port, ssl=tls, backlog=4096, ssl_handshake_timeout=handshake
        )
        self._sweeper = loop.create_task(self._sweep())
        return int(self._server.sockets[0].getsockname()[1])

    async def _sweep(self) -> None:
        """Expire connections past their deadline. Skips a round after a stall of the loop, so that received data is read first."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + self.limits.sweep
            await asyncio.sleep(self.limits.sweep)
            now = loop.time()
            if now > due + self.limits.sweep:
                continue
            for connection in list(self.connections):
                if connection.deadline < now:
                    connection.expire()

    def replace_connection(self, new: Connection) -> bool:
        """Close the unused connection that would expire first, so that a new client gets its place; False if all are in use."""
        unused = (connection for connection in self.connections if connection.is_replaceable and connection is not new)
        oldest = min(unused, key=lambda connection: connection.deadline, default=None)
        if oldest is not None:
            oldest.abort()
            self.connections.discard(oldest)
        return oldest is not None

    async def stop(self, grace: float | None = None) -> None:
        """Stop listening, let running requests finish within `grace` seconds, then close all connections."""
        if self._server is not None:
            self._server.close()
        tasks = [task for connection in list(self.connections) if (task := connection.finish()) is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=self.limits.grace if grace is None else grace)
        if self._sweeper is not None:
            self._sweeper.cancel()
        for connection in list(self.connections):
            connection.abort()
        await asyncio.gather(*tasks, return_exceptions=True)
