"""Streams under way, read by one look at all that have something: a thousand of them speak fifty times a second each.

The loop's own way through a transport costs more for each token than everything that the gateway does with it. So while a stream is
under way its transport rests, and its socket is read here. Whatever else may happen on a line is left to its transport.
"""

from __future__ import annotations

import asyncio
import os
import select
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_PIECE = 8 * 1024
"""More than a token takes. The rest of what is longer is read in the next turn."""
_AT_ONCE = 64
"""So many are read before others have their turn: requests that come, and answers that are not streams."""

possible = hasattr(select, "epoll")
"""Whether the system can do it."""


class Lanes:
    """Sockets, each with what is called with the bytes that came, and with none at the end. Nothing is held while there is none."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._streams: dict[int, Callable[[bytes], None]] = {}
        self._ready: select.epoll | None = None

    def add(self, number: int, came: Callable[[bytes], None]) -> None:
        """Read from a socket."""
        if self._ready is None:
            self._ready = select.epoll()
            self._loop.add_reader(self._ready.fileno(), self._turn)
        self._ready.register(number, select.EPOLLIN)
        self._streams[number] = came

    def remove(self, number: int) -> None:
        """Read from it no more, before it is closed."""
        del self._streams[number]
        assert self._ready is not None
        self._ready.unregister(number)
        if not self._streams:
            self._loop.remove_reader(self._ready.fileno())
            self._ready.close()
            self._ready = None

    def _turn(self) -> None:
        streams, read = self._streams, os.read
        assert self._ready is not None
        for number, _ in self._ready.poll(0, _AT_ONCE):
            came = streams.get(number)
            if came is None:
                continue  # It left when another was read.
            try:
                data = read(number, _PIECE)
            except BlockingIOError:
                continue
            except OSError:
                data = b""
            came(data)
