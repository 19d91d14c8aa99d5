"""Pipes and terminals of processes: asynchronous reads and writes of a file descriptor."""

from __future__ import annotations

import asyncio
import fcntl
import os
import struct
import termios
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_READ_BYTES = 64 * 1024


class Descriptor:
    """One end of a pipe or terminal. One task may read and one may write at a time."""

    def __init__(self, number: int) -> None:
        os.set_blocking(number, False)
        self._number = number
        self._loop = asyncio.get_running_loop()
        self._pending: set[asyncio.Future[None]] = set()
        self.is_closed = False

    async def read(self, size: int = _READ_BYTES) -> bytes:
        """The next bytes; empty at the end, and when this end is closed."""
        while not self.is_closed:
            try:
                return os.read(self._number, size)
            except BlockingIOError:
                await self._wait(self._loop.add_reader, self._loop.remove_reader)
            except OSError:  # the other end of a terminal is closed
                break
        return b""

    async def write(self, data: bytes) -> None:
        """Write everything; ignored if nothing reads the other end."""
        view = memoryview(data)
        while view and not self.is_closed:
            try:
                view = view[os.write(self._number, view) :]
            except BlockingIOError:
                await self._wait(self._loop.add_writer, self._loop.remove_writer)
            except OSError:
                return

    async def _wait(self, add: Callable[..., None], remove: Callable[[int], bool]) -> None:
        ready: asyncio.Future[None] = self._loop.create_future()
        self._pending.add(ready)
        add(self._number, _resolve, ready)
        try:
            await ready
        finally:
            self._pending.discard(ready)
            if not self.is_closed:
                remove(self._number)

    def resize(self, columns: int, rows: int) -> None:
        """Set the size of a terminal."""
        with suppress(OSError):
            fcntl.ioctl(self._number, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def close(self) -> None:
        """Close this end; a pending read or write returns."""
        if self.is_closed:
            return
        self.is_closed = True
        self._loop.remove_reader(self._number)
        self._loop.remove_writer(self._number)
        os.close(self._number)
        for ready in self._pending:
            _resolve(ready)


def _resolve(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)


def open_pipe() -> tuple[Descriptor, int]:
    """A pipe from a process: the end to read, and the descriptor that the process writes to."""
    read_end, write_end = os.pipe()
    return Descriptor(read_end), write_end


def open_input() -> tuple[Descriptor, int]:
    """A pipe to a process: the end to write, and the descriptor that the process reads from."""
    read_end, write_end = os.pipe()
    return Descriptor(write_end), read_end


def open_terminal() -> tuple[Descriptor, int]:
    """A terminal: the controlling end, and the descriptor that the process gets."""
    control, terminal = os.openpty()
    return Descriptor(control), terminal
