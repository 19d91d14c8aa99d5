"""The answer to one request: sent whole, or piece by piece as the pieces come."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.base.sockets import put, put_both
from sliceworks.serving.gateway.http.messages import head

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from sliceworks.serving.gateway.http.connection import Connection
    from sliceworks.serving.gateway.http.messages import Headers

_LARGE = 128 * 1024


class Reply:
    """What a handler answers with. Writing never waits: look at `full`, and set `on_room` to hear when there is room again."""

    __slots__ = ("_number", "_transport", "chunked", "connection", "ended", "keep", "on_room", "started", "status")

    def __init__(self, connection: Connection, transport: asyncio.Transport, *, keep: bool, chunked: bool) -> None:
        self.connection, self._transport, self._number = connection, transport, connection.number
        self.chunked = chunked
        """Whether pieces carry their lengths; a client of HTTP/1.0 knows the end by the end of the line."""
        self.keep = keep
        self.started = self.ended = False
        self.status = 0
        self.on_room: Callable[[], None] | None = None

    @property
    def full(self) -> bool:
        """Whether the client has much to read still."""
        return self.connection.full

    def send(self, status: int, headers: Headers, body: bytes = b"") -> None:
        """The whole answer."""
        self.started = self.ended = True
        self.status = status
        self.keep = self.keep and not self.connection.finishing
        start = head(status, headers, keep=self.keep)
        start += b"content-length: %d\r\n\r\n" % len(body) if status not in {204, 304} else b"\r\n"
        if len(body) < _LARGE:
            put(self._transport, self._number, start + body)
        else:
            put_both(self._transport, self._number, start, body)

    def begin(self, status: int, headers: Headers) -> None:
        """The head of an answer whose pieces follow."""
        self.started = True
        self.status = status
        self.keep = self.keep and self.chunked and not self.connection.finishing
        start = head(status, headers, keep=self.keep)
        put(self._transport, self._number, start + (b"transfer-encoding: chunked\r\n\r\n" if self.chunked else b"\r\n"))

    def write(self, piece: bytes) -> None:
        """One piece, sent at once; a client who has left gets nothing more."""
        put(self._transport, self._number, b"%x\r\n%b\r\n" % (len(piece), piece) if self.chunked else piece)

    def pass_on(self, chunk: bytes) -> None:
        """One piece that carries its length already, where pieces do."""
        put(self._transport, self._number, chunk)

    def end(self) -> None:
        """No more pieces."""
        if not self.ended:
            self.ended = True
            if self.chunked:
                put(self._transport, self._number, b"0\r\n\r\n")

    def abort(self) -> None:
        """Drop the line: the only way to tell a client that what it got is not whole."""
        self.ended = True
        self.connection.end()
