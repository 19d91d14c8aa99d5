"""Listens, keeps an eye on every connection, and ends in good order."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from sliceworks.base import sockets
from sliceworks.base.http.connection import Connection

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

    from sliceworks.base.http.messages import Request
    from sliceworks.base.http.refusals import Refusal
    from sliceworks.base.http.reply import Reply

_READ = 256 * 1024
_TIMES = ("handshake", "request", "upload", "idle", "stalled", "discard", "quiet", "grace", "sweep")


class Application:
    """What a server serves."""

    apart: tuple[str, ...] = ()
    """How the names of headers begin whose values, where there are several, are kept in lines of their own: they hold commas."""

    def met(self, transport: asyncio.BaseTransport) -> object:
        """Who is at the other end of a new line, as far as the line itself tells; every request on it knows that."""
        return None

    def screen(self, method: str, path: str, headers: Mapping[str, str]) -> object:
        """Who asks, judged by the head alone, so that nobody sends a body for nothing. Raises the Refusal."""
        return None

    async def handle(self, request: Request, reply: Reply) -> None:
        """Answer. A Refusal that is raised is written as `refuse` has it."""
        raise NotImplementedError

    def refuse(self, path: str, refusal: Refusal, reply: Reply) -> None:
        """Say no to a request of this path."""
        raise NotImplementedError


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
    discard: float = 10.0
    """For a client that goes on sending after it was refused, until it is quiet for `quiet` seconds."""
    quiet: float = 0.2
    grace: float = 2.0
    """For requests under way when the server stops."""
    sweep: float = 1.0
    tell_late: bool = True
    """Whether who does not come to the end of a request is told so, before the line drops."""

    def at_speed(self, speed: float) -> Self:
        """The same limits for a loop whose time runs so much faster than the clients'."""
        return replace(self, **{name: getattr(self, name) * speed for name in _TIMES})


class Server:
    """One address."""

    def __init__(self, application: Application, limits: Limits | None = None) -> None:
        self.application = application
        self.limits = limits or Limits()
        self.connections: set[Connection] = set()
        self.buffer = memoryview(bytearray(_READ))
        self._server: asyncio.Server | None = None
        self._sweeper: asyncio.Task[None] | None = None

    async def start(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> int:
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
        """End the connections whose time is up. Where we were held up ourselves, what came meanwhile is read first."""
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

    async def stop(self, grace: float | None = None) -> None:
        """Listen no more, let requests under way be answered for a while, then hang up."""
        if self._server is not None:
            self._server.close()
        tasks = [task for connection in list(self.connections) if (task := connection.finish()) is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=self.limits.grace if grace is None else grace)
        if self._sweeper is not None:
            self._sweeper.cancel()
        for connection in list(self.connections):
            connection.end()
        await asyncio.gather(*tasks, return_exceptions=True)
