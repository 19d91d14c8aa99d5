"""The answer to one request: sent whole, or piece by piece as the pieces come."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.serving.gateway.http.messages import head

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from sliceworks.serving.gateway.http.connection import Connection
    from sliceworks.serving.gateway.http.messages import Headers

_LARGE = 128 * 1024


class Reply:
    """What a handler answers with. Writing never waits: look at `full`, and set `on_room` to hear when there is room again."""

    __slots__ = ("_chunked", "_transport", "connection", "ended", "keep", "on_room", "started", "status")

    def __init__(self, connection: Connection, transport: asyncio.Transport, *, keep: bool, chunked: bool) -> None:
        self.connection, self._transport = connection, transport
        self._chunked = chunked
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
            self._transport.write(start + body)
        else:
            self._transport.writelines((start, body))

    def begin(self, status: int, headers: Headers) -> None:
        """The head of an answer whose pieces follow."""
        self.started = True
        self.status = status
        self.keep = self.keep and self._chunked and not self.connection.finishing
        start = head(status, headers, keep=self.keep)
        self._transport.write(start + (b"transfer-encoding: chunked\r\n\r\n" if self._chunked else b"\r\n"))

    def write(self, piece: bytes) -> None:
        """One piece, sent at once; a client who has left gets nothing more."""
        if not self._transport.is_closing():
            self._transport.write(b"%x\r\n%b\r\n" % (len(piece), piece) if self._chunked else piece)

    def end(self) -> None:
        """No more pieces."""
        if not self.ended:
            self.ended = True
            if self._chunked:
                self._transport.write(b"0\r\n\r\n")

    def abort(self) -> None:
        """Drop the line: the only way to tell a client that what it got is not whole."""
        self.ended = True
        self.connection.end()
