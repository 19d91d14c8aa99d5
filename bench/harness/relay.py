"""A TCP relay that only copies bytes: its latencies show how long the machine takes to run a process on the gateway's core.

python bench/harness/relay.py PORT BACKEND_PORT
"""

from __future__ import annotations

import asyncio
import sys
from typing import cast

import uvloop


class Pipe(asyncio.Protocol):
    """One side of a relayed connection; what it receives before the other side is connected is kept."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.other: Pipe | None = None
        self.pending = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self.other is None or self.other.transport is None:
            self.pending += data
        else:
            self.other.transport.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.close()


class Client(Pipe):
    """The side of the client; connects to the backend."""

    def __init__(self, backend: int) -> None:
        super().__init__()
        self._backend = backend

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._task = asyncio.get_running_loop().create_task(self._connect())

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        _, self.other = await loop.create_connection(Pipe, "127.0.0.1", self._backend)
        self.other.other = self
        assert self.other.transport is not None
        self.other.transport.write(self.pending)


async def main(port: int, backend: int) -> None:
    """Serve until the process is terminated."""
    server = await asyncio.get_running_loop().create_server(lambda: Client(backend), "127.0.0.1", port, backlog=4096)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1]), int(sys.argv[2])))
