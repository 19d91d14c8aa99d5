"""Load on an HTTP server by hand-made clients, which are quicker than it: as fast as it goes, at a pace, and in streams."""

from __future__ import annotations

import asyncio
import gc
import random
import re
import time
from collections import deque
from typing import cast

KEY = "sk-" + "9f3c1ab27d60e845" * 4
"""The key that every gateway asks for."""
_LENGTH = re.compile(rb"content-length: *([0-9]+)", re.IGNORECASE)
_PATIENCE = 60.0
_STAMP = re.compile(rb'"content":"([0-9]+\.[0-9]+)"')


def request(path: str, body: bytes) -> bytes:
    """A POST as bytes."""
    head = f"POST {path} HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\nauthorization: Bearer {KEY}\r\n"
    return f"{head}content-length: {len(body)}\r\n\r\n".encode() + body


class Line(asyncio.Protocol):
    """One connection that sends the same request again and again; `then` is called with how long the answer took."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._seen = b""
        self._began = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._load.over:
            self._load.failed += 1

    def ask(self, meant: float) -> None:
        """Send; the time counts from when it was meant to be sent."""
        self._began = meant
        self._transport.write(self._load.sent)

    def data_received(self, data: bytes) -> None:
        self._seen += data
        end = self._seen.find(b"\r\n\r\n")
        if end < 0:
            return
        length = _LENGTH.search(self._seen, 0, end)
        if length is None or len(self._seen) < end + 4 + int(length[1]):
            return
        good, self._seen = self._seen.startswith(b"HTTP/1.1 200"), b""
        self._load.answered(self, time.perf_counter() - self._began, good)

    def close(self) -> None:
        """Hang up."""
        self._transport.close()


class Load:
    """Requests to one server for a while."""

    def __init__(self, port: int, sent: bytes) -> None:
        self.port, self.sent = port, sent
        self.times: list[float] = []
        self.failed = 0
        self.count = 0
        """All that were answered, those before the times are noted too."""
        self.over = False
        self._idle: deque[Line] = deque()
        self._pace = False

    async def _open(self, count: int) -> list[Line]:
        loop = asyncio.get_running_loop()
        return [(await loop.create_connection(lambda: Line(self), "127.0.0.1", self.port))[1] for _ in range(count)]

    def answered(self, line: Line, seconds: float, good: bool) -> None:
        """One came back."""
        self.count += 1
        if good:
            self.times.append(seconds)
        else:
            self.failed += 1
        if self._pace:
            self._idle.append(line)
        elif not self.over:
            line.ask(time.perf_counter())

    async def full(self, connections: int, seconds: float) -> float:
        """As many as go on so many connections; requests a second, once each connection has had an answer."""
        lines = await self._open(connections)
        for line in lines:
            line.ask(time.perf_counter())
        async with asyncio.timeout(_PATIENCE):
            while len(self.times) + self.failed < 2 * connections:
                await asyncio.sleep(0.05)
        self.times.clear()
        began = time.perf_counter()
        await asyncio.sleep(seconds)
        rate = len(self.times) / (time.perf_counter() - began)
        self._end(lines)
        return rate

    async def paced(self, rate: float, seconds: float, connections: int = 64, *, settling: float = 0.0) -> None:
        """So many a second, each at its own time whatever became of the one before. Those of the first `settling` seconds are sent
        and answered like the others, but their times are not kept."""
        self._pace = True
        lines = await self._open(connections)
        self._idle.extend(lines)
        await self._send(rate, settling)
        self.times.clear()
        await self._send(rate, seconds)
        await asyncio.sleep(0.2)
        self._end(lines)

    async def _send(self, rate: float, seconds: float) -> None:
        began = time.perf_counter()
        for number in range(int(rate * seconds)):
            meant = began + number / rate
            wait = meant - time.perf_counter()
            if wait > 0.0005:
                await asyncio.sleep(wait)
            while not self._idle:
                await asyncio.sleep(0.0005)
            self._idle.popleft().ask(meant)

    def _end(self, lines: list[Line]) -> None:
        self.over = True
        for line in lines:
            line.close()


class Listener(asyncio.Protocol):
    """One stream: keeps what comes, and when."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.write(self._streams.sent)

    def data_received(self, data: bytes) -> None:
        # What it says is looked at later: the model has the same core, and needs it.
        self._streams.came.append((time.perf_counter(), data))

    def close(self) -> None:
        """Hang up."""
        self._transport.abort()


class Streams:
    """Many streams at once: how late each token came, and how many came in the same piece as another."""

    def __init__(self, port: int, sent: bytes, apart: float = 0.001) -> None:
        self.port, self.sent, self._apart = port, sent, apart
        self._lines: list[Listener] = []
        self.came: list[tuple[float, bytes]] = []
        self.late: list[float] = []
        self.joined = 0

    async def open(self, count: int) -> None:
        """Open so many one after the other, and wait until all talk."""
        loop = asyncio.get_running_loop()
        for _ in range(count):
            self._lines.append((await loop.create_connection(lambda: Listener(self), "127.0.0.1", self.port))[1])
            # Streams of people begin at any time. In step with the tokens they would speak in groups for ever.
            await asyncio.sleep(random.uniform(0, 2 * self._apart))
        await asyncio.sleep(1.0)

    async def listen(self, seconds: float) -> None:
        """Note what comes for a while."""
        self.came.clear()
        gc.disable()  # It would look at all that is kept, again and again.
        await asyncio.sleep(seconds)
        came, self.came = self.came, []
        gc.enable()
        self._note(came)

    def close(self) -> None:
        """Hang up, all at once: who still listens meanwhile hears of it."""
        for line in self._lines:
            line.close()

    def _note(self, came: list[tuple[float, bytes]]) -> None:
        for now, data in came:
            self.late += [now - float(stamp) for stamp in _STAMP.findall(data)]
            self.joined += data.count(b"}\n\ndata: {")


def at(values: list[float], share: float) -> float:
    """The value below which this share of them lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")
