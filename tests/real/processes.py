"""Child processes of the tests: started with a log, watched while they get ready, and always killed by their own id."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path


PATIENCE = 180.0
"""Seconds that a program may take to start: how many it takes says how busy the machine is, and nothing else."""
_kept: list[int] = []  # descriptors, closed when this process ends


class NotReady(Exception):
    """A program died or did not answer in time; the message carries the end of its log."""


class Process:
    """One running program and its log file."""

    def __init__(self, name: str, command: Sequence[str], log: Path, *, env: Mapping[str, str] | None = None) -> None:
        self.name = name
        self.command = tuple(command)
        self.log = log
        self._env = env
        self._popen: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def pid(self) -> int:
        """The id of the running process."""
        if self._popen is None:
            raise NotReady(f"{self.name} is not running")
        return self._popen.pid

    def start(self) -> None:
        """Start it; once more after `kill` with the same command."""
        with self.log.open("ab") as log:
            self.started = time.monotonic()
            self._popen = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self._env)

    def alive(self) -> bool:
        """Whether it still runs."""
        return self._popen is not None and self._popen.poll() is None

    def wait_until(self, ready: Callable[[], bool], seconds: float = PATIENCE) -> None:
        """Wait for `ready`, failing at once when the program has died."""
        deadline = time.monotonic() + seconds
        while not ready():
            if not self.alive():
                raise NotReady(f"{self.name} died while starting:\n{self.tail()}")
            if time.monotonic() > deadline:
                raise NotReady(f"{self.name} was not ready after {seconds:.0f} s:\n{self.tail()}")
            time.sleep(0.02)

    def kill(self) -> None:
        """End it at once, and wait until it is gone."""
        if self._popen is not None:
            self._popen.kill()
            self._popen.wait()
            self._popen = None

    def resident_bytes(self) -> int:
        """The memory that it holds now."""
        return resident_bytes(self.pid)

    def tail(self, lines: int = 15) -> str:
        """The end of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])


def resident_bytes(pid: int) -> int:
    """The resident set of a process, from the kernel."""
    with open(f"/proc/{pid}/status") as status:  # noqa: PTH123  (read often; a Path is three times slower)
        for line in status:
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
    return 0


def cpu_seconds(pid: int) -> float:
    """The processors' time that a process has used, to the nanosecond: its own clock, whose id is made of the process's."""
    return time.clock_gettime((~pid << 3) | 2)


def free_port() -> int:
    """A TCP port on loopback for a program that is started later. Nobody else is given it for as long as this process lives: a
    socket that never listens keeps it, which on Linux hinders no server that may reuse an address, and all may."""
    probe = socket.socket()
    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    probe.bind(("127.0.0.1", 0))
    port = int(probe.getsockname()[1])
    if sys.platform == "linux":
        _kept.append(probe.detach())
    else:
        probe.close()
    return port
