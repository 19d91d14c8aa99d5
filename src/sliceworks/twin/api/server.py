"""HTTP/1.1 over TLS for the API, on asyncio's protocols and httptools.

A hand-made server answers several times as many requests as a general one, and owes what those give: limits on sizes, deadlines for
slow clients, and back-pressure towards slow readers.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sliceworks.base import sockets
from sliceworks.twin.api.app import LARGEST_BODY
from sliceworks.twin.api.connections import Connection

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable

    from sliceworks.kube.transport import Request, Response
    from sliceworks.twin.auth.identity import User

    Handler = Callable[[Request, User | None], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Limits:
    """What one client may take: bytes, and seconds. Deadlines are looked at every `sweep` seconds."""

    head: int = 256 * 1024
    body: int = LARGEST_BODY
    ahead: int = 16
    """Requests that are read while an earlier one is answered."""
    handshake: float = 10.0
    request: float = 30.0
    """From the first byte of a request to its last."""
    idle: float = 300.0
    """Between requests."""
    stalled: float = 30.0
    """For a client that does not read what it is sent."""
    discard: float = 10.0
    """For a client that goes on sending after it was refused, until it is quiet for `quiet` seconds."""
    quiet: float = 0.2
    grace: float = 2.0
    """For requests under way when the server stops."""
    sweep: float = 5.0

    def at_speed(self, speed: float) -> Limits:
        """The same limits for a loop whose time runs so much faster than the clients'."""
        times = ("handshake", "request", "idle", "stalled", "discard", "quiet", "grace", "sweep")
        return replace(self, **{name: getattr(self, name) * speed for name in times})


class Server:
    """Listens, and keeps an eye on every connection."""

    def __init__(self, handler: Handler, limits: Limits | None = None) -> None:
        self.handler = handler
        self.limits = limits or Limits()
        self.connections: set[Connection] = set()
        self._server: asyncio.Server | None = None
        self._sweeper: asyncio.Task[None] | None = None

    async def start(self, host: str, port: int, tls: ssl.SSLContext | None) -> int:
        """Begin to listen, with TLS or without; returns the port."""
        sockets.allow_many()
        loop = asyncio.get_running_loop()
        handshake = self.limits.handshake if tls else None
        self._server = await loop.create_server(
            lambda: Connection(self), host, port, ssl=tls, backlog=4096, ssl_handshake_timeout=handshake
        )
        self._sweeper = loop.create_task(self._sweep())
        return int(self._server.sockets[0].getsockname()[1])

    async def _sweep(self) -> None:
        """End the connections whose time is up."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(self.limits.sweep)
            now = loop.time()
            for connection in list(self.connections):
                if connection.deadline < now:
                    connection.expire()

    async def stop(self) -> None:
        """Listen no more, end watches in good order, let requests under way be answered, then hang up."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        if self._server is not None:
            self._server.close()
        tasks = [task for connection in list(self.connections) if (task := connection.finish()) is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=self.limits.grace)
        for connection in list(self.connections):
            connection.end()
        await asyncio.gather(*tasks, return_exceptions=True)
