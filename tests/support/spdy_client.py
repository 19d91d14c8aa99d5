"""The client's side of SPDY/3.1, as kubectl uses it: opens streams, sends data, collects what it receives."""

from __future__ import annotations

import asyncio
import struct
import zlib
from typing import TYPE_CHECKING

from sliceworks.twin.apiserver.streaming.spdy_dictionary import DICTIONARY

if TYPE_CHECKING:
    from collections.abc import Mapping


class SpdyClient:
    """One connection. `received` has the data of each stream, `closed` the streams that the server has closed."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._deflate = zlib.compressobj(zdict=DICTIONARY)
        self._inflate = zlib.decompressobj(zdict=DICTIONARY)
        self._number = -1
        self.received: dict[int, bytes] = {}
        self.replied: set[int] = set()
        self.closed: set[int] = set()
        self.reset: set[int] = set()
        self.pings: list[bytes] = []
        self.is_going_away = False

    def open(self, headers: Mapping[str, str]) -> int:
        """Open a stream; returns its number."""
        self._number += 2
        pairs = b"".join(struct.pack(">I", len(part)) + part.encode() for pair in headers.items() for part in pair)
        block = self._deflate.compress(struct.pack(">I", len(headers)) + pairs) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
        self._control(1, struct.pack(">IIH", self._number, 0, 0) + block)
        self.received[self._number] = b""
        return self._number

    def send(self, number: int, data: bytes, *, fin: bool = False) -> None:
        """Send data on a stream."""
        self._writer.write(struct.pack(">IBBH", number, fin, len(data) >> 16, len(data) & 0xFFFF) + data)

    def ping(self, body: bytes) -> None:
        """Send a ping."""
        self._control(6, body)

    def _control(self, kind: int, body: bytes) -> None:
        self._writer.write(struct.pack(">IBBH", 0x80030000 | kind, 0, len(body) >> 16, len(body) & 0xFFFF) + body)

    async def receive(self) -> bool:
        """Handle the next frame; False at the end of the connection."""
        try:
            number, flags, high, low = struct.unpack(">IBBH", await self._reader.readexactly(8))
            body = await self._reader.readexactly(high << 16 | low)
        except (asyncio.IncompleteReadError, ConnectionError):
            return False
        if not number & 0x80000000:
            self.received[number] += body
            if flags & 1:
                self.closed.add(number)
            return True
        kind = number & 0xFFFF
        if kind == 2:
            self.replied.add(struct.unpack_from(">I", body)[0])
            assert self._inflate.decompress(body[4:]) == struct.pack(">I", 0)
        elif kind == 3:
            self.reset.add(struct.unpack_from(">I", body)[0])
        elif kind == 6:
            self.pings.append(body)
        elif kind == 7:
            self.is_going_away = True
        return True

    async def receive_all(self) -> None:
        """Handle frames until the server closes the connection."""
        while await self.receive():
            pass
