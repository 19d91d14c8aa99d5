"""One process: started with a clean environment in a group of its own, stopped by signals to the whole group."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

from sliceworks.twin.nodes.processes.views import spawn

if TYPE_CHECKING:
    from sliceworks.twin.nodes.processes.environment import Command
    from sliceworks.twin.nodes.processes.logs import LogWriter

_BY_SIGNAL = 128
_MARK = "process"


class Process:
    """A container's process while it runs, and its exit code afterwards."""

    def __init__(self, inner: asyncio.subprocess.Process, log: LogWriter, mark: Path) -> None:
        self._inner = inner
        self._mark = mark
        self._log = asyncio.create_task(self._pump(log))

    @classmethod
    async def start(cls, command: Command, log: LogWriter, mark: Path) -> Process:
        """Start it; OSError when that cannot be done."""
        inner = await spawn(command.arguments, command.view, command.environment, output=asyncio.subprocess.PIPE)
        mark.write_text(f"{inner.pid} {_born(inner.pid)}")
        return cls(inner, log, mark)

    async def _pump(self, log: LogWriter) -> None:
        assert self._inner.stdout is not None
        await log.take_all(self._inner.stdout)

    async def wait(self) -> int:
        """The exit code, once it has ended; what it left behind in its group ends with it."""
        code = await self._inner.wait()
        self.send(signal.SIGKILL)
        await self._log
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
