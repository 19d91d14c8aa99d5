"""Streams from model backends through a gateway to clients: the delay of each token.

Each worker process runs a backend and clients on one core; separate processes would spend half a core on context switches. Workers
use all cores but the gateway's. They read commands from stdin, one JSON object per line: open streams, receive tokens, close. All
workers finish a step before the next begins, because closing hundreds of connections at once delays the other streams.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import orjson
from bench.harness.http_load import Streams

from sliceworks.base import clock
from sliceworks.serving.gateway.echo import server as echo_server
from sliceworks.serving.gateway.echo.engine import Settings

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_MAX_WORKERS = 8


@dataclass(frozen=True, slots=True)
class StreamResult:
    """Tokens that all clients received."""

    delays: list[float]
    """Seconds from the backend to the client, for each token."""
    coalesced: int
    """Tokens that arrived in one chunk with another."""


class StreamWorkers:
    """Worker processes; `ports` are those of their backends."""

    def __init__(self, cores: Sequence[int], model: str, token_time: float) -> None:
        settings = orjson.dumps({"model": model, "token_time": token_time}).decode()
        self._workers = [_start(core, settings) for core in cores[:_MAX_WORKERS]]
        self.ports = [int(self._read(worker)["port"]) for worker in self._workers]

    def _read(self, worker: subprocess.Popen[bytes]) -> dict[str, Any]:
        assert worker.stdout is not None
        line = worker.stdout.readline()
        if not line:
            raise RuntimeError("a stream worker exited early")
        response: dict[str, Any] = orjson.loads(line)
        return response

    def open(self, ports: Sequence[int], request: bytes, count: int) -> None:
        """Open `count` streams to these servers in turn."""
        number = len(self._workers)
        shares = [count // number + (index < count % number) for index in range(number)]
        targets = [ports[index % len(ports)] for index in range(number)]
        self._command(
            {"port": port, "count": share, "request": request.decode()} for port, share in zip(targets, shares, strict=True)
        )

    def receive(self, seconds: float) -> StreamResult:
        """Receive tokens of all streams for some seconds."""
        results = self._command({"seconds": seconds} for _ in self._workers)
        return StreamResult([delay for item in results for delay in item["delays"]], sum(item["coalesced"] for item in results))

    def close(self) -> None:
        """Close all streams."""
        self._command({} for _ in self._workers)

    def _command(self, commands: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
        """Send each worker its command, all at once, and wait for all responses."""
        for worker, command in zip(self._workers, commands, strict=True):
            assert worker.stdin is not None
            worker.stdin.write(orjson.dumps({**command, "workers": len(self._workers)}) + b"\n")
            worker.stdin.flush()
        return [self._read(worker) for worker in self._workers]

    def stop(self) -> None:
        """Stop the workers: they exit at the end of their stdin."""
        for worker in self._workers:
            worker.communicate()


def _start(core: int, settings: str) -> subprocess.Popen[bytes]:
    affinity = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        return subprocess.Popen([sys.executable, __file__, settings], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    finally:
        os.sched_setaffinity(0, affinity)


async def _work(model: str, token_time: float) -> None:
    """The main loop of a worker."""
    server, port = await echo_server.start(Settings(models=(model,), token_time=token_time, stamps=True, records=0))
    _write({"port": port})
    while command := await _next_command():
        streams = Streams(command["port"], command["request"].encode(), interval=0.001 * command["workers"])
        await streams.open(command["count"])
        _write({})
        await streams.receive((await _next_command())["seconds"])
        _write({"delays": streams.delays, "coalesced": streams.coalesced})
        await _next_command()
        streams.close()
        _write({})
    await server.stop(0)


async def _next_command() -> dict[str, Any]:
    """The next command; empty at the end of stdin."""
    line = await asyncio.to_thread(sys.stdin.buffer.readline)
    command: dict[str, Any] = orjson.loads(line or b"{}")
    return command


def _write(response: dict[str, Any]) -> None:
    sys.stdout.buffer.write(orjson.dumps(response) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    clock.run(_work(**orjson.loads(sys.argv[1])))
