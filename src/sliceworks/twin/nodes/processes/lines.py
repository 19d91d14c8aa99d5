"""A port of a Service on loopback: connections to its cluster IP are passed on to its endpoints in turn.

Bytes are passed on as they come and no faster than the other side takes them, and so is the end of what one side has to say. A
connection that cannot be made, or breaks, is reset on the other side too.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from typing import TYPE_CHECKING, cast

from sliceworks.base import clock

if TYPE_CHECKING:
    from collections.abc import Callable

Target = tuple[str, int]
_RESET = struct.pack("ii", 1, 0)  # nothing is kept for later: the other side is told at once
_WAITING = 1024


class Line:
    """Takes connections at one address and port while it is open. Those that were made go on when it is closed."""

    def __init__(self, address: str, port: int) -> None:
        self.place = (address, port)
        self.targets: tuple[Target, ...] = ()
        self.affinity = 0.0
        """For how long a client stays with its endpoint after its last connection."""
        self._server: asyncio.Server | None = None
        self._turn = 0
        self._kept: dict[str, tuple[Target, float]] = {}
        self._connecting: set[asyncio.Task[None]] = set()
        self._ends: set[_End] = set()

    @property
    def is_open(self) -> bool:
        """Whether it takes connections."""
        return self._server is not None

    @property
    def is_busy(self) -> bool:
        """Whether it has connections."""
        return bool(self._ends or self._connecting)

    async def open(self) -> None:
        """Take connections from now on; OSError when that cannot be done."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _End(self._ends, self._accept), *self.place, backlog=_WAITING)

    def close(self) -> None:
        """Take no more."""
        if self._server is not None:
            self._server.close()
            self._server = None

    def abort(self) -> None:
        """End everything at once."""
        self.close()
        for task in self._connecting:
            task.cancel()
        for end in tuple(self._ends):
            end.reset()

    def _accept(self, near: _End) -> None:
        near.other = far = _End(self._ends)
        far.other = near
        task = asyncio.create_task(self._connect(near, far))
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)

    async def _connect(self, near: _End, far: _End) -> None:
        target = self.choose(near.client)
        try:
            if target is None:
                raise ConnectionRefusedError
            await asyncio.get_running_loop().create_connection(lambda: far, *target)
        except OSError:
            near.reset()
        else:
            near.join()

    def choose(self, client: str) -> Target | None:
        """The endpoint for a client's next connection."""
        if not self.targets:
            return None
        now = clock.loop_time()
        kept, until = self._kept.get(client, (None, 0.0))
        if not self.affinity or kept not in self.targets or now > until:
            kept = self.targets[self._turn % len(self.targets)]
            self._turn += 1
        if self.affinity:
            self._kept[client] = kept, now + self.affinity
        return kept


class _End(asyncio.Protocol):
    """One side of a connection. The one that came in is not read before there is another."""

    other: _End
    client = ""

    def __init__(self, among: set[_End], came_in: Callable[[_End], None] | None = None) -> None:
        self._among = among
        self._came_in = came_in
        self._transport: asyncio.Transport | None = None
        self._silent = False
        self._early: list[bytes] = []
        """What came for it before it was made: not every loop lets a connection wait from its first moment on."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._among.add(self)
        self._transport.writelines(self._early)
        self._early.clear()
        if self._came_in is not None:
            self._transport.pause_reading()
            self.client = str(transport.get_extra_info("peername")[0])
            self._came_in(self)

    def data_received(self, data: bytes) -> None:
        self.other._write(data)

    def eof_received(self) -> bool:
        self._silent = True
        if self.other._silent:
            self._close()
            self.other._close()
        else:
            self.other._write_end()
        return True  # the other side may have more to say

    def connection_lost(self, error: Exception | None) -> None:
        self._among.discard(self)
        if error is None:
            self.other._close()
        else:
            self.other.reset()

    def pause_writing(self) -> None:
        if self.other._transport is not None and not self.other._silent:
            self.other._transport.pause_reading()

    def resume_writing(self) -> None:
        self.other.go_on()

    def join(self) -> None:
        """The other side is there."""
        if self._silent:
            self.other._write_end()
        self.go_on()

    def go_on(self) -> None:
        """Read on."""
        if self._transport is not None and not self._silent:
            self._transport.resume_reading()

    def reset(self) -> None:
        """End it at once, and let the other side know that it did not end well."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            self._transport.abort()

    def _write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)
        else:
            self._early.append(data)
            self.pause_writing()

    def _write_end(self) -> None:
        if self._transport is not None:
            with contextlib.suppress(OSError):  # it is gone, which is told in its own time
                self._transport.write_eof()

    def _close(self) -> None:
        if self._transport is not None:
            self._transport.close()
