"""Listens, keeps an eye on every connection, and ends in good order."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from sliceworks.base import sockets
from sliceworks.serving.gateway.http.connection import Connection

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

    from sliceworks.serving.gateway.http.messages import Request
    from sliceworks.serving.gateway.http.reply import Reply
    from sliceworks.serving.gateway.refusals import Refusal

_READ = 256 * 1024


class Application(Protocol):
    """What a server serves."""

    def screen(self, method: str, path: str, headers: Mapping[str, str]) -> object:
        """Who asks, judged by the head alone, so that nobody sends a body for nothing. Raises the Refusal."""
        ...

    async def handle(self, request: Request, reply: Reply) -> None:
        """Answer. A Refusal that is raised is written in the shape of the path."""
        ...

    def refuse(self, path: str, refusal: Refusal) -> bytes:
        """The body that says no to a request of this path."""
        ...


@dataclass(frozen=True, slots=True)
class Limits:
    """What one client may take: bytes, and seconds. Deadlines are looked at every `sweep` seconds."""

    head: int = 64 * 1024
    body: int = 64 * 1024 * 1024
    ahead: int = 8
    """Requests that are read while an earlier one is answered."""
    handshake: float = 10.0
    request: float = 30.0
    """From the first byte of a request to the end of its head; and for each piece of its body."""
    upload: float = 300.0
    """From the first byte of a request to its last."""
    idle: float = 90.0
    """Between requests."""
    stalled: float = 30.0
    """For a client that does not read what it is sent."""
    quiet: float = 0.2
    """How long one that was refused must send nothing before the line is dropped."""
    sweep: float = 1.0


class Server:
    """One address."""

    def __init__(self, application: Application, limits: Limits | None = None) -> None:
        self.application = application
        self.limits = limits or Limits()
        self.connections: set[Connection] = set()
        self.finishing = False
        self.buffer = memoryview(bytearray(_READ))
        self._server: asyncio.Server | None = None
        self._sweeper: asyncio.Task[None] | None = None

    async def start(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> int:
        """Begin to listen; returns the port."""
        sockets.allow_many()
        loop = asyncio.get_running_loop()
        handshake = self.limits.handshake if tls else None
        self._server = await loop.create_server(
            lambda: Connection(self), host, port, ssl=tls, backlog=4096, ssl_handshake_timeout=handshake
        )
        self._sweeper = loop.create_task(self._sweep())
        return int(self._server.sockets[0].getsockname()[1])

    async def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(self.limits.sweep)
            now = loop.time()
            for connection in list(self.connections):
                if connection.deadline < now:
                    connection.expire()

    @property
    def busy(self) -> int:
        """Connections with a request under way."""
        return sum(connection.busy for connection in self.connections)

    async def stop(self, grace: float = 2.0) -> None:
        """Listen no more, let requests under way be answered for a while, then hang up."""
        self.finishing = True
        if self._server is not None:
            self._server.close()
        tasks = [task for connection in list(self.connections) if (task := connection.finish()) is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=grace)
        if self._sweeper is not None:
            self._sweeper.cancel()
        for connection in list(self.connections):
            connection.end()
        await asyncio.gather(*tasks, return_exceptions=True)
