"""One process: started with a clean environment in a group of its own, stopped by signals to the whole group."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

from sliceworks.base import clock
from sliceworks.twin.nodes.processes.views import reading, spawn

if TYPE_CHECKING:
    from sliceworks.twin.nodes.processes.environment import Command
    from sliceworks.twin.nodes.processes.logs import LogWriter

    Output = tuple[asyncio.StreamReader, asyncio.ReadTransport]

log = logging.getLogger(__name__)
_BY_SIGNAL = 128
_MARK = "process"
_LAST_WORDS = 2.0
"""Seconds of the machine's own time for what a process wrote to be read when it has ended."""


class Process:
    """A container's process while it runs, and its exit code afterwards."""

    def __init__(self, inner: asyncio.subprocess.Process, output: Output, kept: LogWriter, mark: Path) -> None:
        self._inner = inner
        self._mark = mark
        reader, self._pipe = output
        self._log = asyncio.create_task(kept.take_all(reader))

    @classmethod
    async def start(cls, command: Command, kept: LogWriter, mark: Path) -> Process:
        """Start it; OSError when that cannot be done."""
        # A pipe of our own: not every loop says that a process has ended as long as somebody holds the other end of its output.
        end, written = os.pipe()
        try:
            output = await reading(end)
            try:
                inner = await spawn(command.arguments, command.view, command.environment, output=written)
            except BaseException:
                output[1].close()
                raise
        finally:
            os.close(written)
        mark.write_text(f"{inner.pid} {_born(inner.pid)}")
        return cls(inner, output, kept, mark)

    async def wait(self) -> int:
        """The exit code, once it has ended; what it left behind in its group ends with it."""
        code = await self._inner.wait()
        self.send(signal.SIGKILL)
        # A child that has left the group may hold the output open for as long as it lives, which is no matter of the container's.
        await asyncio.wait({self._log}, timeout=clock.of_the_machine(_LAST_WORDS))
        self._pipe.close()
        if not self._log.done():
            self._log.cancel()
        elif not self._log.cancelled() and (error := self._log.exception()) is not None:
            log.warning("what process %d wrote could not be kept: %s", self._inner.pid, error)
        self._mark.unlink(missing_ok=True)
        return code if code >= 0 else _BY_SIGNAL - code

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the whole group."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._inner.pid, number)

    async def stop(self, grace: float) -> None:
        """Ask it to end, and make it end when it has not after a while."""
        self.send(signal.SIGTERM)
        try:
            async with asyncio.timeout(grace):
                await self._inner.wait()
        except TimeoutError:
            self.send(signal.SIGKILL)


def end_leftovers(folder: Path) -> None:
    """End the processes of a twin that could not do so itself. A number that meanwhile is another's process is left alone."""
    for mark in folder.glob(f"*/*/{_MARK}"):
        with contextlib.suppress(OSError, ValueError):
            number, born = map(int, mark.read_text().split())
            if born and _born(number) == born and os.getpgid(number) == number:
                os.killpg(number, signal.SIGKILL)
        mark.unlink(missing_ok=True)


def _born(number: int) -> int:
    """When a process began, in ticks since the machine did; 0 where nothing tells, and then nothing is ended by its number."""
    try:
        return int(Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[19])
    except OSError:
        return 0


def mark_in(folder: Path) -> Path:
    """Where the number of a container's process is written down."""
    return folder / _MARK
