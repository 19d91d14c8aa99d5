"""Child processes of the tests: started with a log, monitored until they are ready, and killed by their pid."""

from __future__ import annotations

import contextlib
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


PATIENCE = 180.0
"""Timeout in seconds for the start of a program, generous because the machine may be busy."""
_TIED = Path(__file__).with_name("tied.py")
_kept: list[int] = []  # descriptors, closed when this process ends


class NotReady(Exception):
    """A program died or did not answer in time; the message has the end of its log."""


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
        """The pid of the running process."""
        if self._popen is None:
            raise NotReady(f"{self.name} is not running")
        return self._popen.pid

    def start(self) -> None:
        """Start it, or restart it with the same command after `kill`."""
        with self.log.open("ab") as log:
            self.started = time.monotonic()
            self._popen = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self._env)

    def alive(self) -> bool:
        """Whether it still runs."""
        return self._popen is not None and self._popen.poll() is None

    def wait_until(self, ready: Callable[[], bool], seconds: float = PATIENCE) -> None:
        """Wait for `ready`; fails at once if the program has died."""
        deadline = time.monotonic() + seconds
        while not ready():
            if not self.alive():
                raise NotReady(f"{self.name} died while starting:\n{self.tail()}")
            if time.monotonic() > deadline:
                raise NotReady(f"{self.name} was not ready after {seconds:.0f} s:\n{self.tail()}")
            time.sleep(0.02)

    def kill(self) -> None:
        """Kill it and wait for its exit."""
        if self._popen is not None:
            self._popen.kill()
            self._popen.wait()
            self._popen = None

    def terminate(self, seconds: float = PATIENCE) -> None:
        """Ask it to end, and kill it if it does not."""
        if self._popen is not None:
            self._popen.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._popen.wait(seconds)
            self.kill()

    def resident_bytes(self) -> int:
        """Its resident memory."""
        return resident_bytes(self.pid)

    def tail(self, lines: int = 15) -> str:
        """The end of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])


def tied(command: Sequence[str]) -> tuple[str, ...]:
    """The command, so that it and its process group end with the thread that starts it, even by SIGKILL (Linux)."""
    return (sys.executable, "-I", str(_TIED), *command)


def resident_bytes(pid: int) -> int:
    """The resident set size of a process."""
    with open(f"/proc/{pid}/status") as status:  # noqa: PTH123  (read often; a Path is three times slower)
        for line in status:
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
    return 0


def cpu_seconds(pid: int) -> float:
    """The CPU time of a process, in nanosecond resolution from its CPU clock."""
    return time.clock_gettime((~pid << 3) | 2)


def free_port() -> int:
    """A free TCP port on loopback for a program that is started later.

    A socket that never listens reserves it while this process lives; on Linux that does not prevent a server with SO_REUSEADDR from
    listening.
    """
    probe = socket.socket()
    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    probe.bind(("127.0.0.1", 0))
    port = int(probe.getsockname()[1])
    if sys.platform == "linux":
        _kept.append(probe.detach())
    else:
        probe.close()
    return port


def serves(url: str) -> bool:
    """Whether a server listens and knows the path; a webhook answers an empty request with an error."""
    try:
        with urllib.request.urlopen(url, timeout=2, context=ssl._create_unverified_context()) as response:
            return bool(response.status == 200)
    except urllib.error.HTTPError as error:
        return error.code not in (404, 500)
    except (urllib.error.URLError, OSError):
        return False
