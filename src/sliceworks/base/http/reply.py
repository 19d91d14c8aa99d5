"""The answer to one request: sent whole, or piece by piece as the pieces come."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from sliceworks.base.http.messages import date, head
from sliceworks.base.sockets import put, put_both

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.base.http.connection import Connection
    from sliceworks.base.http.messages import Headers

_LARGE = 128 * 1024


class Reply:
    """What a handler answers with. Writing never waits: look at `full`, wait for `room`, or set `on_room` to hear of it."""

    __slots__ = (
        "_bare", "_number", "_transport", "chunked", "connection", "ended", "keep", "on_finish", "on_room", "started", "status",
        "streaming",
    )  # fmt: skip

    def __init__(
        self, connection: Connection, transport: asyncio.Transport, *, keep: bool, chunked: bool, bare: bool = False
    ) -> None:
        self.connection, self._transport, self._number = connection, transport, connection.number
        self.chunked = chunked
        """Whether pieces carry their lengths; a client of HTTP/1.0 knows the end by the end of the line."""
        self._bare = bare
        self.keep = keep
        self.started = self.ended = self.streaming = False
        self.status = 0
        self.on_room: Callable[[], None] | None = None
        self.on_finish: Callable[[], object] | None = None
        """Called when the server ends, by an answer that would go on for long."""

    @property
    def full(self) -> bool:
        """Whether the client has much to read still."""
        return self.connection.full

    async def room(self) -> None:
        """Wait for a client that has not read yet what it was sent."""
        if not self.connection.full:
            return
        read = asyncio.Event()
        self.on_room = read.set
        try:
            await read.wait()
        finally:
            self.on_room = None

    def send(self, status: int, headers: Headers, body: bytes = b"") -> None:
        """The whole answer."""
        self.whole(status, head(status, headers), body)

    def whole(self, status: int, start: bytes, body: bytes) -> None:
        """The same with a head that is made already."""
        self.started = self.ended = True
        sent = self._head(status, start, b"content-length: %d\r\n\r\n" % len(body) if status not in {204, 304} else b"\r\n")
        if self._bare:
            put(self._transport, self._number, sent)
        elif len(body) < _LARGE:
            put(self._transport, self._number, sent + body)
        else:
            put_both(self._transport, self._number, sent, body)

    def begin(self, status: int, headers: Headers) -> None:
        """The head of an answer whose pieces follow."""
        self.open(status, head(status, headers))

    def open(self, status: int, start: bytes, length: int | None = None) -> None:
        """The same with a head that is made already, and with the length of all pieces together where that is known."""
        self.started, self.streaming = True, length is None
        if length is not None:
            self.chunked, framing = False, b"content-length: %d\r\n\r\n" % length
        else:
            self.keep = self.keep and self.chunked
            framing = b"transfer-encoding: chunked\r\n\r\n" if self.chunked else b"\r\n"
            self.connection.listen()
        put(self._transport, self._number, self._head(status, start, framing))
        self.chunked = self.chunked and not self._bare

    def _head(self, status: int, start: bytes, framing: bytes) -> bytes:
        self.status = status
        if self.keep and not self.connection.finishing:
            return b"%bdate: %b\r\n%b" % (start, date(), framing)
        self.keep = False
        return b"%bdate: %b\r\nconnection: close\r\n%b" % (start, date(), framing)

    def write(self, piece: bytes) -> None:
        """One piece, sent at once; a client who has left gets nothing more. One without a byte would look like the end."""
        if self.chunked and piece:
            put(self._transport, self._number, b"%x\r\n%b\r\n" % (len(piece), piece))
        elif not self._bare:
            put(self._transport, self._number, piece)

    def pass_on(self, piece: bytes | memoryview) -> None:
        """One piece as it is: it carries its length already where pieces do."""
        put(self._transport, self._number, piece)

    def end(self) -> None:
        """No more pieces."""
        if not self.ended:
            self.ended, self.streaming = True, False
            if self.chunked:
                put(self._transport, self._number, b"0\r\n\r\n")

    def abort(self) -> None:
        """Drop the line: the only way to tell a client that what it got is not whole."""
        self.ended, self.streaming = True, False
        self.connection.end()
