"""Incremental decoders for streamed bodies: lines, concatenated JSON objects, and server-sent events."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterable

_JSON_TOKENS = re.compile(rb'["{}\\]')
_QUOTE, _BACKSLASH, _OPEN_BRACE = 0x22, 0x5C, 0x7B


async def read_lines(chunks: AsyncIterable[bytes]) -> AsyncGenerator[list[bytes], None]:
    """The lines of a stream, in the batches in which they arrive; the last one may be incomplete."""
    rest = b""
    async for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        if lines:
            yield lines
    if rest:
        yield [rest]


class JsonStreamDecoder:
    """Splits a byte stream, fed in any chunks, into the bytes of each complete JSON object."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._depth = self._escape_end = 0
        self._in_string = False

    def has_partial(self) -> bool:
        """Whether bytes of an incomplete object are buffered."""
        return bool(self._rest.strip())

    def feed(self, data: bytes) -> list[bytes]:
        """The objects that these bytes complete. Bytes between two objects are part of the second one."""
        buffer, scanned, start = self._rest, len(self._rest), 0
        buffer += data
        objects: list[bytes] = []
        for token in _JSON_TOKENS.finditer(buffer, scanned):
            if self._ends_object(buffer[token.start()], token.start()):
                objects.append(bytes(buffer[start : token.end()]))
                start = token.end()
        # Appending to a bytearray and deleting its start do not copy the rest, so tiny chunks cost no more than large ones.
        del buffer[:start]
        self._escape_end -= start
        return objects

    def _ends_object(self, byte: int, position: int) -> bool:
        if self._in_string:
            if position < self._escape_end:
                return False
            if byte == _BACKSLASH:
                self._escape_end = position + 2
            elif byte == _QUOTE:
                self._in_string = False
            return False
        if byte == _QUOTE:
            self._in_string = True
        elif byte == _OPEN_BRACE:
            self._depth += 1
        elif byte != _BACKSLASH:
            self._depth -= 1
            return self._depth == 0
        return False


class SseDecoder:
    """Splits a `text/event-stream` body, fed in any chunks, into the data of each event.

    A line ends with LF, CRLF or CR, and an empty line ends an event. Several `data` lines of one event are joined with LF. Comments
    and the fields `event`, `id` and `retry` are ignored.
    """

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        self._data: list[bytes] = []
        self._after_cr = False

    def has_partial(self) -> bool:
        """Whether bytes of an incomplete line or event are buffered."""
        return bool(self._rest or self._data)

    def feed(self, chunk: bytes) -> list[bytes]:
        """The data of each event that these bytes complete."""
        if not chunk:
            return []
        if self._after_cr and chunk.startswith(b"\n"):
            chunk = chunk[1:]
        self._after_cr = chunk.endswith(b"\r")
        if b"\r" in chunk:
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *lines, rest = chunk.split(b"\n")
        if lines and self._rest:
            lines[0] = b"".join((*self._rest, lines[0]))
            self._rest.clear()
        if rest:
            self._rest.append(rest)
        return [event for line in lines if (event := self._read_line(line)) is not None]

    def flush(self) -> list[bytes]:
        """The data of the last event of a body that ended without an empty line."""
        line = b"".join(self._rest)
        self._rest.clear()
        events = (self._read_line(line), self._read_line(b""))
        return [event for event in events if event is not None]

    def _read_line(self, line: bytes) -> bytes | None:
        if line.startswith(b"data:"):
            self._data.append(line[6:] if line.startswith(b"data: ") else line[5:])
        elif line == b"data":
            self._data.append(b"")
        elif not line and self._data:
            event = b"\n".join(self._data)
            self._data.clear()
            return event
        return None
