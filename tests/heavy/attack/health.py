"""A process that sends health probes to several servers and prints their latencies.

The attackers must not delay the probes, so they have their own process. On a busy machine a server also waits for a CPU: the CPU
time that its process used meanwhile tells how long it made a probe wait, and a server that is not attacked what the machine costs.
Commands on stdin: `pause NAME` and `resume NAME PID` leave out a server while it is restarted; the end of stdin ends the process.
"""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import orjson
from tests.real.processes import cpu_seconds

if TYPE_CHECKING:
    from collections.abc import Mapping

_INTERVAL, _TIMEOUT = 0.025, 60.0


class Probe(threading.Thread):
    """Sends GET requests on one connection, one after the other; records their starts, latencies and the server's CPU time."""

    def __init__(self, url: str, pid: int) -> None:
        super().__init__(daemon=True)
        self.pid = pid
        scheme, _, rest = url.partition("://")
        address, _, path = rest.partition("/")
        host, _, port = address.partition(":")
        self._address, self._secure = (host, int(port)), scheme == "https"
        self._request = f"GET /{path} HTTP/1.1\r\nhost: {address}\r\n\r\n".encode()
        self.paused, self.ending = threading.Event(), threading.Event()
        self.results: list[tuple[float, float, float]] = []
        self.failures: list[str] = []

    def run(self) -> None:
        connection: socket.socket | None = None
        while not self.ending.wait(_INTERVAL):
            if self.paused.is_set():
                connection = None
                continue
            started = time.monotonic()
            try:
                cpu = cpu_seconds(self.pid)
                connection = connection or self._connect()
                connection.sendall(self._request)
                status = _read_status(connection)
                cpu = cpu_seconds(self.pid) - cpu
            except OSError as error:
                connection, cpu, status = None, 0.0, repr(error)
            if self.paused.is_set():
                continue
            self.results.append((started, time.monotonic() - started, cpu))
            if status != "200":
                self.failures.append(status)

    def _connect(self) -> socket.socket:
        plain = socket.create_connection(self._address, timeout=_TIMEOUT)
        if not self._secure:
            return plain
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return context.wrap_socket(plain)


def _read_status(connection: socket.socket) -> str:
    """The status of a response whose length is known."""
    received = b""
    while b"\r\n\r\n" not in received:
        received += _receive(connection)
    head, _, body = received.partition(b"\r\n\r\n")
    lengths = [line.split(b":")[1] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    while len(body) < int(lengths[0] if lengths else 0):
        body += _receive(connection)
    if b"connection: close" in head.lower():
        connection.close()
    return head.split(b" ")[1].decode()


def _receive(connection: socket.socket) -> bytes:
    part = connection.recv(65536)
    if not part:
        raise ConnectionResetError("closed")
    return part


@dataclass
class Latency:
    """Latencies of the probes of a server in milliseconds, and the longest CPU times of its process with their starts."""

    probes: int
    failures: list[str]
    median: float
    p99: float
    longest: float
    cpu_p99: float
    longest_cpu: list[tuple[float, float]]

    @classmethod
    def of(cls, results: list[tuple[float, float, float]], failures: list[str]) -> Self:
        results = results or [(0.0, 0.0, 0.0)]
        ordered, cpu = (sorted(1000 * result[place] for result in results) for place in (1, 2))
        median, p99 = (ordered[int(share * len(ordered))] for share in (0.5, 0.99))
        slowest = sorted(results, key=lambda result: -result[2])[:10]
        gaps = [(1000 * result[2], result[0]) for result in slowest]
        return cls(len(results), failures, median, p99, ordered[-1], cpu[int(0.99 * len(cpu))], gaps)

    def show(self) -> str:
        return (
            f"{self.probes:,} probes, {len(self.failures)} failed, median {self.median:.1f} ms, p99 {self.p99:.1f} ms, "
            f"longest {self.longest:.0f} ms; its CPU time p99 {self.cpu_p99:.1f} ms, longest {self.longest_cpu[0][0]:.0f} ms"
        )


class Health:
    """The probing process."""

    def __init__(self, servers: Mapping[str, tuple[str, int]]) -> None:
        command = [sys.executable, "-m", "tests.heavy.attack.health", orjson.dumps(servers).decode()]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def send(self, command: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command}\n".encode())
        self._process.stdin.flush()

    def end(self) -> dict[str, Latency]:
        output, _ = self._process.communicate()
        return {name: Latency.of(*figures) for name, figures in orjson.loads(output).items()}


def main() -> None:
    with contextlib.suppress(PermissionError):
        os.nice(-5)
    probes = {name: Probe(*server) for name, server in orjson.loads(sys.argv[1]).items()}
    for probe in probes.values():
        probe.start()
    for line in sys.stdin:
        command, name, *pid = line.split()
        if command == "pause":
            probes[name].paused.set()
        else:
            probes[name].pid = int(pid[0])
            probes[name].paused.clear()
    for probe in probes.values():
        probe.ending.set()
    sys.stdout.buffer.write(orjson.dumps({name: [probe.results, probe.failures] for name, probe in probes.items()}))
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
