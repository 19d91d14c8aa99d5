"""HTTP clients with little overhead of their own: closed loop, open loop at a constant rate, and many concurrent streams."""

from __future__ import annotations

import asyncio
import gc
import random
import re
import time
from collections import deque
from typing import cast

KEY = "sk-" + "9f3c1ab27d60e845" * 4
"""The API key of all gateways."""
_LENGTH = re.compile(rb"content-length: *([0-9]+)", re.IGNORECASE)
_TIMEOUT = 60.0
_STAMP = re.compile(rb'"content":"([0-9]+\.[0-9]+)"')


def request(path: str, body: bytes) -> bytes:
    """A POST request as bytes."""
    head = f"POST {path} HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\nauthorization: Bearer {KEY}\r\n"
    return f"{head}content-length: {len(body)}\r\n\r\n".encode() + body


class Connection(asyncio.Protocol):
    """One connection that sends the same request repeatedly and reports each response to its load."""

    def __init__(self, load: HttpLoad) -> None:
        self._load = load
        self._buffer = b""
        self._due = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._load.stopped:
            self._load.failed += 1

    def send(self, due: float) -> None:
        """Send the request; its latency counts from `due`."""
        self._due = due
        self._transport.write(self._load.request)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        length = _LENGTH.search(self._buffer, 0, end)
        if length is None or len(self._buffer) < end + 4 + int(length[1]):
            return
        success, self._buffer = self._buffer.startswith(b"HTTP/1.1 200"), b""
        self._load.record(self, time.perf_counter() - self._due, success)

    def close(self) -> None:
        """Close the connection."""
        self._transport.close()


class HttpLoad:
    """Requests to one server, and their latencies."""

    def __init__(self, port: int, request: bytes) -> None:
        self.port, self.request = port, request
        self.latencies: list[float] = []
        self.failed = 0
        self.count = 0
        """All responses, including those of the warm-up."""
        self.stopped = False
        self._idle: deque[Connection] = deque()
        self._open_loop = False

    async def _connect(self, count: int) -> list[Connection]:
        loop = asyncio.get_running_loop()
        return [(await loop.create_connection(lambda: Connection(self), "127.0.0.1", self.port))[1] for _ in range(count)]

    def record(self, connection: Connection, seconds: float, success: bool) -> None:
        """Record a response; in a closed loop the connection sends its next request."""
        self.count += 1
        if success:
            self.latencies.append(seconds)
        else:
            self.failed += 1
        if self._open_loop:
            self._idle.append(connection)
        elif not self.stopped:
            connection.send(time.perf_counter())

    async def closed_loop(self, connections: int, seconds: float) -> float:
        """Throughput in requests per second, after a warm-up of two responses per connection."""
        opened = await self._connect(connections)
        for connection in opened:
            connection.send(time.perf_counter())
        async with asyncio.timeout(_TIMEOUT):
            while len(self.latencies) + self.failed < 2 * connections:
                await asyncio.sleep(0.05)
        self.latencies.clear()
        started = time.perf_counter()
        await asyncio.sleep(seconds)
        rate = len(self.latencies) / (time.perf_counter() - started)
        self._stop(opened)
        return rate

    async def open_loop(self, rate: float, seconds: float, connections: int = 64, *, warm_up: float = 0.0) -> None:
        """Send at a constant rate, independently of responses; latencies of the first `warm_up` seconds are discarded."""
        self._open_loop = True
        opened = await self._connect(connections)
        self._idle.extend(opened)
        await self._send(rate, warm_up)
        self.latencies.clear()
        await self._send(rate, seconds)
        await asyncio.sleep(0.2)
        self._stop(opened)

    async def _send(self, rate: float, seconds: float) -> None:
        started = time.perf_counter()
        for number in range(int(rate * seconds)):
            due = started + number / rate
            wait = due - time.perf_counter()
            if wait > 0.0005:
                await asyncio.sleep(wait)
            while not self._idle:
                await asyncio.sleep(0.0005)
            self._idle.popleft().send(due)

    def _stop(self, connections: list[Connection]) -> None:
        self.stopped = True
        for connection in connections:
            connection.close()


class StreamConnection(asyncio.Protocol):
    """One stream: records chunks and the times at which they arrive."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.write(self._streams.request)

    def data_received(self, data: bytes) -> None:
        # Chunks are parsed later: the backend runs on the same core.
        self._streams.chunks.append((time.perf_counter(), data))

    def close(self) -> None:
        """Close the connection."""
        self._transport.abort()


class Streams:
    """Concurrent streams: the delay of each token, and the number of tokens that were coalesced with another in one chunk."""

    def __init__(self, port: int, request: bytes, interval: float = 0.001) -> None:
        self.port, self.request, self._interval = port, request, interval
        self._connections: list[StreamConnection] = []
        self.chunks: list[tuple[float, bytes]] = []
        self.delays: list[float] = []
        self.coalesced = 0

    async def open(self, count: int) -> None:
        """Open streams at random intervals, and wait until all send tokens."""
        loop = asyncio.get_running_loop()
        for _ in range(count):
            self._connections.append((await loop.create_connection(lambda: StreamConnection(self), "127.0.0.1", self.port))[1])
            # Real streams start at any time. Streams that start together would send their tokens in bursts.
            await asyncio.sleep(random.uniform(0, 2 * self._interval))
        await asyncio.sleep(1.0)

    async def receive(self, seconds: float) -> None:
        """Record tokens for some seconds."""
        self.chunks.clear()
        gc.disable()  # It would scan all recorded chunks repeatedly.
        await asyncio.sleep(seconds)
        chunks, self.chunks = self.chunks, []
        gc.enable()
        self._parse(chunks)

    def close(self) -> None:
        """Close all streams at once."""
        for connection in self._connections:
            connection.close()

    def _parse(self, chunks: list[tuple[float, bytes]]) -> None:
        for now, data in chunks:
            self.delays += [now - float(stamp) for stamp in _STAMP.findall(data)]
            self.coalesced += data.count(b"}\n\ndata: {")
