"""Writes the response to one request, whole or chunk by chunk."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from sliceworks.base.http.messages import bad_request, date_header, encode_head
from sliceworks.base.http.upgrade import UpgradedConnection
from sliceworks.base.sockets import write_now, write_pair_now

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.base.http.connection import Connection
    from sliceworks.base.http.messages import Headers

_LARGE = 128 * 1024


class ResponseWriter:
    """Writes one response. Writing never blocks: check `is_backlogged`, await `drain`, or set `on_drain` for back-pressure."""

    __slots__ = (
        "_bare",
        "_fileno",
        "_transport",
        "chunked",
        "connection",
        "ended",
        "keep",
        "on_drain",
        "on_finish",
        "started",
        "status",
        "streaming",
    )  # fmt: skip

    def __init__(
        self, connection: Connection, transport: asyncio.Transport, *, keep: bool, chunked: bool, bare: bool = False
    ) -> None:
        self.connection, self._transport, self._fileno = connection, transport, connection.fileno
        self.chunked = chunked
        """Whether the body is sent in chunks; for HTTP/1.0 clients it ends with the connection."""
        self._bare = bare
        self.keep = keep
        self.started = self.ended = self.streaming = False
        self.status = 0
        self.on_drain: Callable[[], None] | None = None
        self.on_finish: Callable[[], object] | None = None
        """Called when the server shuts down; long-running streams set it to end themselves."""

    @property
    def is_backlogged(self) -> bool:
        """Whether the send buffer is full because the client reads slowly."""
        return self.connection.is_backlogged

    async def drain(self) -> None:
        """Wait until the client has read enough of the send buffer."""
        if not self.connection.is_backlogged:
            return
        drained = asyncio.Event()
        self.on_drain = drained.set
        try:
            await drained.wait()
        finally:
            self.on_drain = None

    def send(self, status: int, headers: Headers, body: bytes = b"") -> None:
        """Send a complete response."""
        self.send_encoded(status, encode_head(status, headers), body)

    def send_encoded(self, status: int, head: bytes, body: bytes) -> None:
        """Send a complete response whose head was encoded with `encode_head`."""
        self.started = self.ended = True
        encoded = self._finish_head(
            status, head, b"content-length: %d\r\n\r\n" % len(body) if status not in {204, 304} else b"\r\n"
        )
        if self._bare:
            write_now(self._transport, self._fileno, encoded)
        elif len(body) < _LARGE:
            write_now(self._transport, self._fileno, encoded + body)
        else:
            write_pair_now(self._transport, self._fileno, encoded, body)

    def start(self, status: int, headers: Headers) -> None:
        """Send the head of a streamed response; `write` sends its chunks."""
        self.start_encoded(status, encode_head(status, headers))

    def start_encoded(self, status: int, head: bytes, length: int | None = None) -> None:
        """Send a head encoded with `encode_head`, with the length of the whole body if it is known."""
        self.started, self.streaming = True, length is None
        if length is not None:
            self.chunked, framing = False, b"content-length: %d\r\n\r\n" % length
        else:
            self.keep = self.keep and self.chunked
            framing = b"transfer-encoding: chunked\r\n\r\n" if self.chunked else b"\r\n"
            self.connection.resume_reading()
        write_now(self._transport, self._fileno, self._finish_head(status, head, framing))
        self.chunked = self.chunked and not self._bare

    def _finish_head(self, status: int, head: bytes, framing: bytes) -> bytes:
        self.status = status
        if self.keep and not self.connection.finishing:
            return b"%bdate: %b\r\n%b" % (head, date_header(), framing)
        self.keep = False
        return b"%bdate: %b\r\nconnection: close\r\n%b" % (head, date_header(), framing)

    def write(self, data: bytes | memoryview) -> None:
        """Send one chunk at once; ignored if the client has disconnected."""
        # An empty chunk would end the body.
        if self.chunked and data:
            write_now(self._transport, self._fileno, b"".join((b"%x\r\n" % len(data), data, b"\r\n")))
        elif not self._bare:
            write_now(self._transport, self._fileno, data)

    def write_raw(self, data: bytes | memoryview) -> None:
        """Send bytes that are already framed as chunks where that is needed."""
        write_now(self._transport, self._fileno, data)

    def upgrade(self, head: bytes) -> UpgradedConnection:
        """Switch protocols: send a head with status 101, encoded with `encode_head`, and return the connection."""
        received = self.connection.upgraded
        if received is None:
            raise bad_request("the request does not ask for an upgrade of the connection")
        self.started = self.ended = True
        self.status, self.keep = 101, False
        write_now(self._transport, self._fileno, head + b"\r\n")
        return UpgradedConnection(received, self._transport, self)

    def end(self) -> None:
        """End a streamed response."""
        if not self.ended:
            self.ended, self.streaming = True, False
            if self.chunked:
                write_now(self._transport, self._fileno, b"0\r\n\r\n")

    def abort(self) -> None:
        """Abort the connection, which tells the client that the response is incomplete."""
        self.ended, self.streaming = True, False
        self.connection.abort()
