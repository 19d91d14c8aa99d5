"""SPDY/3.1 as clients of Kubernetes use it: streams with headers over one connection, without flow control of streams."""

from __future__ import annotations

import asyncio
import struct
import zlib
from typing import TYPE_CHECKING

from sliceworks.twin.apiserver.streaming.spdy_dictionary import DICTIONARY

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from sliceworks.base.http.upgrade import ByteStream

_VERSION, _CONTROL = 3, 0x8000
_SYN_STREAM, _SYN_REPLY, _RST_STREAM, _PING, _GOAWAY = 1, 2, 3, 6, 7
_FIN = 1
_REFUSED, _CANCEL = 3, 5
_HEAD = struct.Struct(">IBBH")
_NUMBER = struct.Struct(">I")
_MAX_FRAME, _MAX_HEADERS, _MAX_FIELDS, _MAX_STREAMS = 1 << 20, 16 * 1024, 64, 1000
_CHUNK = 32 * 1024
_MAX_BUFFERED = 1 << 20
_MAX_BUFFERED_IN_ALL = 8 << 20
"""Of all streams of a connection."""


class SpdyError(Exception):
    """Bytes that are not SPDY, or exceed a limit."""


class SpdyStream:
    """One stream that the client opened."""

    def __init__(self, connection: SpdyConnection, number: int, headers: Mapping[str, str]) -> None:
        self.number, self.headers = number, headers
        self._connection = connection
        self._received = bytearray()
        self._changed = asyncio.Event()
        self._ended = self._closed = False

    async def read(self) -> bytes:
        """The next bytes; empty once the client has closed its side."""
        while not self._received and not self._ended:
            self._changed.clear()
            await self._changed.wait()
        data = bytes(self._received)
        self._forget_received()
        return data

    def _forget_received(self) -> None:
        self._connection.buffered -= len(self._received)
        self._received.clear()
        self._connection.consumed.set()

    async def write(self, data: bytes) -> None:
        """Send bytes."""
        for start in range(0, len(data), _CHUNK):
            if self._closed:
                return
            await self._connection.send_data(self.number, data[start : start + _CHUNK])

    async def close(self) -> None:
        """Close this side; what the client still sends is ignored."""
        if not self._closed:
            self._closed = True
            self._forget_received()
            await self._connection.send_end(self.number)

    async def reset(self) -> None:
        """End the stream in both directions."""
        self._closed = True
        self._forget_received()
        self.end()
        await self._connection.send_reset(self.number, _CANCEL)

    async def feed(self, data: bytes) -> None:
        """Take received bytes in; waits while too many are not read."""
        connection = self._connection
        while not self._closed and (len(self._received) > _MAX_BUFFERED or connection.buffered > _MAX_BUFFERED_IN_ALL):
            connection.consumed.clear()
            await connection.consumed.wait()
        if data and not self._ended and not self._closed:
            self._received += data
            connection.buffered += len(data)
            self._changed.set()

    def end(self) -> None:
        """The client sends no more."""
        self._ended = True
        self._changed.set()


class SpdyConnection:
    """The server's side of a connection; `streams` yields what the client opens."""

    def __init__(self, connection: ByteStream) -> None:
        self._connection = connection
        self._streams: dict[int, SpdyStream] = {}
        self._buffer = b""
        self._inflate = zlib.decompressobj(zdict=DICTIONARY)
        self._deflate = zlib.compressobj(zdict=DICTIONARY)
        self._sending = asyncio.Lock()
        self.buffered = 0
        """Received bytes that no stream has read yet."""
        self.consumed = asyncio.Event()

    async def streams(self) -> AsyncIterator[SpdyStream]:
        """The streams that the client opens, until it closes the connection. Iterating also feeds the other streams."""
        try:
            while True:
                head = await self._read(_HEAD.size)
                if len(head) < _HEAD.size:
                    return
                number, flags, high, low = _HEAD.unpack(head)
                length = high << 16 | low
                if length > _MAX_FRAME:
                    raise SpdyError(f"frame of {length} bytes exceeds {_MAX_FRAME}")
                body = await self._read(length)
                if len(body) < length:
                    return
                if number >> 16 & _CONTROL:
                    stream = await self._handle_control(number & 0xFFFF, flags, body)
                    if stream is not None:
                        yield stream
                else:
                    await self._handle_data(number, flags, body)
        finally:
            for stream in self._streams.values():
                stream.end()

    async def _read(self, size: int) -> bytes:
        parts, count = [self._buffer], len(self._buffer)
        while count < size:
            data = await self._connection.read()
            if not data:
                break
            parts.append(data)
            count += len(data)
        data = b"".join(parts)
        self._buffer = data[size:]
        return data[:size]

    async def _handle_data(self, number: int, flags: int, body: bytes) -> None:
        stream = self._streams.get(number)
        if stream is None:
            return
        await stream.feed(body)
        if flags & _FIN:
            stream.end()

    async def _handle_control(self, kind: int, flags: int, body: bytes) -> SpdyStream | None:
        if kind == _SYN_STREAM:
            return await self._open(flags, body)
        if kind == _PING:
            await self._send(_PING, 0, body)
        elif kind == _RST_STREAM and len(body) == 2 * _NUMBER.size:
            stream = self._streams.pop(_NUMBER.unpack_from(body)[0], None)
            if stream is not None:
                stream.end()
        return None

    async def _open(self, flags: int, body: bytes) -> SpdyStream | None:
        if len(body) < 10:
            raise SpdyError("SYN_STREAM frame is too short")
        number, headers = _NUMBER.unpack_from(body)[0], self._read_headers(body[10:])
        if number in self._streams or len(self._streams) >= _MAX_STREAMS:
            await self.send_reset(number, _REFUSED)
            return None
        stream = self._streams[number] = SpdyStream(self, number, headers)
        if flags & _FIN:
            stream.end()
        await self._send(_SYN_REPLY, 0, _NUMBER.pack(number) + self._write_headers())
        return stream

    def _read_headers(self, block: bytes) -> dict[str, str]:
        """Decompress name/value pairs; names become lower case."""
        try:
            data = self._inflate.decompress(block, _MAX_HEADERS)
        except zlib.error as error:
            raise SpdyError(f"cannot decompress headers: {error}") from error
        if self._inflate.unconsumed_tail:
            raise SpdyError(f"headers exceed {_MAX_HEADERS} bytes")
        fields: list[str] = []
        position = _NUMBER.size
        while position + _NUMBER.size <= len(data):
            if len(fields) >= 2 * _MAX_FIELDS:
                raise SpdyError(f"more than {_MAX_FIELDS} headers")
            (length,) = _NUMBER.unpack_from(data, position)
            position += _NUMBER.size
            fields.append(data[position : position + length].decode("latin-1"))
            position += length
        return {name.lower(): value for name, value in zip(fields[::2], fields[1::2], strict=False)}

    def _write_headers(self) -> bytes:
        """A compressed block without headers."""
        return self._deflate.compress(_NUMBER.pack(0)) + self._deflate.flush(zlib.Z_SYNC_FLUSH)

    async def send_data(self, number: int, data: bytes) -> None:
        """Send a data frame."""
        async with self._sending:
            await self._connection.write(_HEAD.pack(number, 0, len(data) >> 16, len(data) & 0xFFFF) + data)

    async def send_end(self, number: int) -> None:
        """Send the last frame of a stream, and forget the stream: one connection may carry any number of them in turn."""
        self._streams.pop(number, None)
        async with self._sending:
            await self._connection.write(_HEAD.pack(number, _FIN, 0, 0))

    async def send_reset(self, number: int, status: int) -> None:
        """End a stream."""
        self._streams.pop(number, None)
        await self._send(_RST_STREAM, 0, _NUMBER.pack(number) + _NUMBER.pack(status))

    async def close(self) -> None:
        """Tell the client that no more streams are accepted."""
        last = max(self._streams, default=0)
        await self._send(_GOAWAY, 0, _NUMBER.pack(last) + _NUMBER.pack(0))

    async def _send(self, kind: int, flags: int, body: bytes) -> None:
        async with self._sending:
            head = _HEAD.pack((_CONTROL | _VERSION) << 16 | kind, flags, len(body) >> 16, len(body) & 0xFFFF)
            await self._connection.write(head + body)
