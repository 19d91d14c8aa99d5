"""One line to a model's server: a request out, its answer in, piece by piece to whoever waits for it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

import httptools

from sliceworks.base import clock, sockets
from sliceworks.serving.gateway.http.exchange import Broken, Exchange

if TYPE_CHECKING:
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
        self.closed = False
        self.idle_since = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._number = sockets.number_of(transport)
        # Not before there is a line: the parser knows its connection, and both go at once only where a line is lost.
        self._parser = httptools.HttpResponseParser(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
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
            if self._exchange is None:
                self._retire()
        except Broken as error:
            exchange.fail(error)
        exchange.wake()

    # What the parser tells.

    def on_message_begin(self) -> None:
        if self._exchange is None:
            self._retire()
        else:
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
        if self._keep and not self._paused:
            self._pool.give_back(self)
        else:
            self.drop()
        exchange.finished()

    # Flow, and the end.

    def pause(self) -> None:
        if not self._paused and not self.closed:
            self._paused = True
            self._transport.pause_reading()

    def resume(self) -> None:
        if self._paused and not self.closed:
            self._paused = False
            self._transport.resume_reading()

    def _retire(self) -> None:
        """More came than was asked for: whoever used the line next would be answered with what is left of that."""
        self._pool.forget(self)
        self.drop()

    def drop(self) -> None:
        """Drop the line."""
        if not self.closed:
            self._transport.abort()
