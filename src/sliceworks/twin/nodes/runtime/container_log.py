"""Container logs: one file per run, one entry per output line.

An entry is `<time> F <line>`, or `<time> P <part>` for a line without a line break, as in CRI logs. A file is rotated at 10 MiB,
and five files are kept; as with the kubelet, only the latest is read.
"""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, BinaryIO

from sliceworks.base import clock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
    from pathlib import Path

_MAX_LINE = 16 * 1024
_POLL = 0.2
_CHUNK = 1 << 16
_MAX_BYTES, _MAX_FILES = 10 << 20, 5  # containerLogMaxSize and containerLogMaxFiles of the kubelet


class LogWriter:
    """Writes the log of one run of a container."""

    def __init__(self, file: Path) -> None:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.file = file
        self._stream = file.open("ab")
        self._size = file.stat().st_size
        self._partial = b""

    async def write_all(self, read: Callable[[], Awaitable[bytes]]) -> None:
        """Write everything until `read` returns nothing."""
        try:
            while chunk := await read():
                self._append(chunk)
            if self._partial:
                self._write([self._partial], b"P")
        finally:
            self.close()

    def close(self) -> None:
        """Close the file."""
        self._stream.close()

    def _append(self, chunk: bytes) -> None:
        *lines, self._partial = (self._partial + chunk).split(b"\n")
        self._write(lines, b"F")
        while len(self._partial) > _MAX_LINE:
            self._write([self._partial[:_MAX_LINE]], b"P")
            self._partial = self._partial[_MAX_LINE:]

    def _write(self, lines: list[bytes], tag: bytes) -> None:
        time = clock.micro_timestamp().encode()
        data = b"".join(b"%s %s %s\n" % (time, tag, line) for line in lines)
        self._stream.write(data)
        self._stream.flush()
        self._size += len(data)
        if self._size >= _MAX_BYTES:
            self._rotate()

    def _rotate(self) -> None:
        self._stream.close()
        for number in range(_MAX_FILES - 1, 0, -1):
            older = self.file.with_name(f"{self.file.name}.{number}")
            newer = self.file.with_name(f"{self.file.name}.{number - 1}") if number > 1 else self.file
            if newer.exists():
                newer.replace(older)
        self._stream, self._size = self.file.open("ab"), 0


@dataclass(frozen=True, slots=True)
class LogOptions:
    """Options of a log request."""

    tail: int | None = None
    since: datetime | None = None
    limit: int | None = None
    timestamps: bool = False


def since_seconds(seconds: int) -> datetime:
    """The time `seconds` ago."""
    return clock.now() - timedelta(seconds=seconds)


def read_log(file: Path, options: LogOptions) -> bytes:
    """The current content of a log."""
    try:
        with file.open("rb") as stream:
            if options.tail is not None:
                stream.seek(_tail_offset(stream, options.tail))
            data = b"".join(_render(stream.read().split(b"\n")[:-1], options))
    except FileNotFoundError:
        return b""
    return data if options.limit is None else data[: options.limit]


async def stream_log(file: Path, options: LogOptions, ended: asyncio.Event | None = None) -> AsyncIterator[bytes]:
    """The content that a log has now in chunks; with `ended`, also everything appended until that is set."""
    left = options.limit
    async for lines in _read_batches(file, options.tail, ended):
        data = b"".join(_render(lines, options))
        if left is not None:
            data, left = data[:left], left - len(data)
        if data:
            yield data
        if left is not None and left <= 0:
            return


async def _read_batches(file: Path, tail: int | None, ended: asyncio.Event | None) -> AsyncIterator[list[bytes]]:
    stream: BinaryIO | None = None
    rest, left = b"", sys.maxsize
    try:
        while True:
            has_ended = ended is None or ended.is_set()
            if stream is None:
                stream = _open(file, tail)
                if ended is None and stream is not None:
                    left = os.fstat(stream.fileno()).st_size - stream.tell()  # a container can write faster than its log is read
            if chunk := stream.read(min(_CHUNK, left)) if stream is not None else b"":
                left -= len(chunk)
                *lines, rest = (rest + chunk).split(b"\n")
                yield lines
                await asyncio.sleep(0)  # a long log must not delay other requests
            elif stream is not None and ended is not None and _is_rotated(stream, file):
                stream.close()
                stream, rest, tail = None, b"", None
            elif has_ended:
                return
            else:
                await clock.sleep(_POLL)
    finally:
        if stream is not None:
            stream.close()


def _open(file: Path, tail: int | None) -> BinaryIO | None:
    try:
        stream = file.open("rb")
    except FileNotFoundError:
        return None
    if tail is not None:
        stream.seek(_tail_offset(stream, tail))
    return stream


def _is_rotated(stream: BinaryIO, file: Path) -> bool:
    try:
        return os.fstat(stream.fileno()).st_ino != file.stat().st_ino
    except FileNotFoundError:
        return False


def _tail_offset(stream: BinaryIO, count: int) -> int:
    """Where the last `count` entries begin; reads backwards, and no further than needed."""
    end = stream.seek(0, os.SEEK_END)
    offset, missing = end, count + 1  # the last entry ends with a line break too
    while offset > 0:
        size = min(_CHUNK, offset)
        offset -= size
        stream.seek(offset)
        block = stream.read(size)
        lines = block.count(b"\n")
        if lines >= missing:
            position = len(block)
            for _ in range(missing):
                position = block.rindex(b"\n", 0, position)
            return offset + position + 1
        missing -= lines
    return 0


def _render(lines: list[bytes], options: LogOptions) -> Iterator[bytes]:
    for line in lines:
        time, tag, content = line.split(b" ", 2)
        if options.since is not None and datetime.fromisoformat(time.decode()) < options.since:
            continue
        end = b"\n" if tag == b"F" else b""
        yield time + b" " + content + end if options.timestamps else content + end
