"""A connection after `101 Switching Protocols`: bytes in both directions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

_READ_BYTES = 64 * 1024


class ByteStream(Protocol):
    """Bytes in both directions: a connection, or messages over one."""

    async def read(self) -> bytes:
        """The next bytes; empty at the end."""
        ...

    async def write(self, data: bytes) -> None:
        """Send bytes; waits while the other side does not read."""
        ...


class _Writer(Protocol):
    on_finish: Callable[[], object] | None

    async def drain(self) -> None: ...


class UpgradedConnection:
    """The raw connection of an upgraded request; it is closed when the handler returns."""

    def __init__(self, received: asyncio.StreamReader, transport: asyncio.Transport, writer: _Writer) -> None:
        self._received, self._transport, self._writer = received, transport, writer

    async def read(self) -> bytes:
        """The next bytes; empty once the client has closed the connection."""
        return await self._received.read(_READ_BYTES)

    async def write(self, data: bytes) -> None:
        """Send bytes; waits while the client does not read."""
        if not self._transport.is_closing():
            self._transport.write(data)
            await self._writer.drain()
