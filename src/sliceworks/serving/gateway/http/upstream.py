"""One line to a model's server: a request out, its answer in, piece by piece to whoever waits for it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

import httptools

from sliceworks.base import clock, sockets

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.serving.gateway.http.lanes import Lanes
    from sliceworks.serving.gateway.http.pool import Pool

_LARGE = 128 * 1024
_MOST_HEAD = 256 * 1024
_MOST_FRAMED = 8192
_frames: dict[int, tuple[bytes, bytes] | None] = {}


def _is_chunk(data: bytes) -> bool:
    """Whether this is one chunk with its length before it, and nothing else. What the length must be follows from the size."""
    size = len(data)
    try:
        start = _frames[size]
    except KeyError:
        if size > _MOST_FRAMED:
            return False
        start = _frames[size] = _start_of_chunk(size)
    return start is not None and data.startswith(start) and data.endswith(b"\r\n")


def _start_of_chunk(size: int) -> tuple[bytes, bytes] | None:
    """How a chunk begins that takes so many bytes with all that belongs to it: servers write letters large or small."""
    for digits in range(1, 5):
        length = size - digits - 4
        if length > 0 and len(f"{length:x}") == digits:
            return b"%x\r\n" % length, b"%X\r\n" % length
    return None


class Broken(Exception):
    """The line ended, or carried no HTTP, before the answer was whole. `clean`: before a single byte, on a line used before."""

    def __init__(self, reason: str, *, clean: bool = False) -> None:
        super().__init__(reason)
        self.clean = clean


class Late(Exception):
    """It took longer than allowed."""


HEAD, FIRST, WHOLE = range(3)
"""How much of an answer is waited for: its head, its first piece, all of it."""


class Exchange:
    """One request and its answer. Pieces gather in `pieces` until `sink` is set; from then on they go there as they come.

    Where `framed` is set, a piece that comes as one chunk goes there as it is, with its length.
    """

    __slots__ = (
        "_loop",
        "_waiter",
        "_wanted",
        "arrived",
        "began",
        "complete",
        "connection",
        "error",
        "framed",
        "headers",
        "last",
        "on_end",
        "pieces",
        "sink",
        "size",
        "status",
        "until_close",
    )

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.pieces: list[bytes] = []
        self.size = 0
        self.complete = self.until_close = False
        self.error: BaseException | None = None
        self.sink: Callable[[bytes], None] | None = None
        self.framed: Callable[[bytes], None] | None = None
        self.on_end: Callable[[], None] | None = None
        self.connection: UpstreamConnection | None = None
        self.began = self.last = self._loop.time()
        self.arrived = 0.0
        """When the head had come, on the clock of efforts."""
        self._waiter: asyncio.Future[None] | None = None
        self._wanted = HEAD

    @property
    def over(self) -> bool:
        return self.complete or self.error is not None

    def header(self, name: bytes) -> bytes:
        """A header of the answer, or nothing."""
        return next((value for key, value in self.headers if key == name), b"")

    def reached(self, stage: int) -> bool:
        """Whether so much of the answer is there, or no more will come."""
        return self.over or (stage < WHOLE and bool(self.status) and (stage == HEAD or self.size > 0))

    async def wait(self, stage: int) -> None:
        """Wait for so much of the answer; raises what went wrong."""
        if not self.reached(stage):
            self._wanted = stage
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        if self.error is not None:
            raise self.error

    def wake(self) -> None:
        """Tell who waits, if what it waits for is there."""
        waiter = self._waiter
        if waiter is not None and self.reached(self._wanted) and not waiter.done():
            waiter.set_result(None)

    def fail(self, error: BaseException) -> None:
        """End without an answer, or without the rest of it."""
        if not self.over:
            self.error = error
            if self.connection is not None:
                self.connection.drop()
            self._finish()

    def finished(self) -> None:
        """The answer is whole."""
        self.complete = True
        self._finish()

    def _finish(self) -> None:
        if self.on_end is not None:
            self.on_end()
        self.wake()

    def cancel(self) -> None:
        """Nobody wants the answer any more: the server sees the line drop and stops its work."""
        if not self.over:
            self.error = asyncio.CancelledError()
            self.let_go()
            if self.connection is not None:
                self.connection.drop()

    def let_go(self) -> None:
        """Know nobody any more who takes the answer."""
        self.sink = self.framed = self.on_end = None

    def pause(self) -> None:
        if self.connection is not None:
            self.connection.pause()

    def resume(self) -> None:
        self.last = self._loop.time()
        if self.connection is not None:
            self.connection.resume()


class UpstreamConnection(asyncio.Protocol):
    """A line that carries one exchange after another."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._loop = asyncio.get_running_loop()
        self._now = self._loop.time
        self._exchange: Exchange | None = None
        self._keep = self._paused = self._in_chunk = self._between = False
        self._used = 0
        self._head_size = 0
        self._lanes: Lanes | None = None
        self.closed = False
        self.idle_since = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._number = sockets.number_of(transport)
        # Not before there is a line: the parser knows its connection, and both go at once only where a line is lost.
        self._parser = httptools.HttpResponseParser(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        self._leave_lane()
        del self._parser
        self._pool.forget(self)
        exchange, self._exchange = self._exchange, None
        if exchange is None or exchange.over:
            return
        if exchange.until_close and exc is None:
            exchange.finished()
        else:
            clean = self._used > 1 and not exchange.status and not self._head_size
            exchange.connection = None
            exchange.fail(Broken(str(exc) if exc else "it hung up", clean=clean))

    def start(self, exchange: Exchange, head: bytes, body: bytes) -> None:
        """Send a request; its answer goes to the exchange."""
        self._exchange, exchange.connection = exchange, self
        self._used += 1
        self._head_size = 0
        if len(body) < _LARGE:
            sockets.put(self._transport, self._number, head + body)
        else:
            sockets.put_both(self._transport, self._number, head, body)

    def data_received(self, data: bytes) -> None:
        exchange = self._exchange
        if exchange is None:
            self.drop()  # Nobody asked.
            return
        exchange.last = self._now()
        if exchange.framed is not None and self._between and _is_chunk(data):
            exchange.framed(data)  # The parser stands where it stood: between two chunks.
            return
        try:
            self._parser.feed_data(data)
            self._between = not self._in_chunk and data.endswith(b"\n")
            if exchange.sink is not None:
                return
            if not exchange.status:
                self._head_size += len(data)
                if self._head_size > _MOST_HEAD:
                    raise Broken("the head of its answer has no end")
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            exchange.fail(Broken(f"its answer is not HTTP: {type(error).__name__}"))
        except Broken as error:
            exchange.fail(error)
        exchange.wake()

    # What the parser tells.

    def on_message_begin(self) -> None:
        if self._exchange is not None:
            self._exchange.headers = []

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._exchange is not None and not self._exchange.status:
            self._exchange.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        exchange, status = self._exchange, self._parser.get_status_code()
        if exchange is None or status < 200:
            return
        exchange.status = status
        exchange.arrived = clock.effort()
        self._keep = self._parser.should_keep_alive()
        lengths = {name for name, _ in exchange.headers}
        self._in_chunk = False
        exchange.until_close = b"content-length" not in lengths and b"transfer-encoding" not in lengths and status not in {204, 304}

    def on_chunk_header(self) -> None:
        self._in_chunk = True

    def on_chunk_complete(self) -> None:
        self._in_chunk = False

    def on_body(self, body: bytes) -> None:
        exchange = self._exchange
        if exchange is None:
            return
        exchange.size += len(body)
        if exchange.sink is not None:
            exchange.sink(body)
        else:
            exchange.pieces.append(body)

    def on_message_complete(self) -> None:
        exchange = self._exchange
        if exchange is None or not exchange.status:
            return  # An interim answer.
        self._exchange = exchange.connection = None
        self._leave_lane()
        if self._keep and not self._paused:
            self._pool.give_back(self)
        else:
            self.drop()
        exchange.finished()

    # Flow, and the end.

    def take_lane(self, lanes: Lanes) -> None:
        """Have the rest of an answer read together with all other streams. What is encrypted cannot be."""
        if self._number >= 0 and not self._paused and not self.closed:
            self._transport.pause_reading()
            self._lanes = lanes
            lanes.add(self._number, self._came)

    def _came(self, data: bytes) -> None:
        if data:
            self.data_received(data)
        else:
            self._leave_lane()  # The transport finds the same end, and knows what to do.

    def _leave_lane(self) -> None:
        if self._lanes is not None:
            self._lanes.remove(self._number)
            self._lanes = None
            if not self._paused and not self._transport.is_closing():
                self._transport.resume_reading()

    def pause(self) -> None:
        if not self._paused and not self.closed:
            self._leave_lane()
            self._paused = True
            self._transport.pause_reading()

    def resume(self) -> None:
        if self._paused and not self.closed:
            self._paused = False
            self._transport.resume_reading()

    def drop(self) -> None:
        """Drop the line."""
        if not self.closed:
            self._leave_lane()
            self._transport.abort()
