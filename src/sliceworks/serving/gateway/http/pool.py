"""Lines to one server, used again and again."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from sliceworks.serving.gateway.http.exchange import Broken
from sliceworks.serving.gateway.http.upstream import UpstreamConnection

if TYPE_CHECKING:
    import ssl

    from sliceworks.serving.gateway.http.exchange import Exchange

_MOST_IDLE = 512


class Pool:
    """Idle lines, the last one used first, so that those beyond need grow old and go."""

    def __init__(self, host: str, port: int, tls: ssl.SSLContext | None = None, *, oldest: float = 60.0) -> None:
        self.host, self.port, self.tls = host, port, tls
        self._oldest = oldest
        self._idle: list[UpstreamConnection] = []
        self._all: set[UpstreamConnection] = set()
        self.closed = False

    async def begin(self, head: bytes, body: bytes, exchange: Exchange, timeout: float, *, fresh: bool = False) -> None:
        """Send a request on an idle line, or on a new one."""
        connection = None if fresh else self._take()
        if connection is None:
            connection = await self._connect(timeout)
        if exchange.over:
            self.give_back(connection)  # Its time was up before there was a line.
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
        # uvloop keeps a line that was given up until the time for its handshake is up, a minute unless told otherwise.
        shake = (timeout or None) if self.tls is not None else None
        try:
            async with asyncio.timeout(timeout):
                _, connection = await loop.create_connection(
                    lambda: UpstreamConnection(self), self.host, self.port, ssl=self.tls, ssl_handshake_timeout=shake
                )
        except TimeoutError as error:
            raise Broken(f"no connection within {timeout:g} s") from error
        except OSError as error:
            raise Broken(error.strerror or str(error) or type(error).__name__) from error
        self._all.add(connection)
        return connection

    def give_back(self, connection: UpstreamConnection) -> None:
        """A line whose exchange is over."""
        if self.closed or len(self._idle) >= _MOST_IDLE:
            connection.drop()
            return
        connection.idle_since = asyncio.get_running_loop().time()
        self._idle.append(connection)

    def forget(self, connection: UpstreamConnection) -> None:
        """A line that ended."""
        self._all.discard(connection)
        with contextlib.suppress(ValueError):
            self._idle.remove(connection)

    def sweep(self, now: float) -> None:
        """Let go of lines that nobody used for long."""
        old = [connection for connection in self._idle if connection.idle_since + self._oldest < now]
        for connection in old:
            self._idle.remove(connection)
            connection.drop()

    @property
    def open(self) -> int:
        """Lines there are."""
        return len(self._all)

    def close(self) -> None:
        """Take no lines back, and drop the idle ones; those in use go when their exchange is over."""
        self.closed = True
        for connection in self._idle:
            connection.drop()
        self._idle.clear()
