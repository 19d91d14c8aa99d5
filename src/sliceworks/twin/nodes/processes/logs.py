"""What containers write: one file for each run of a container, one line for each line, with the time in front.

Each stored line is `<time> F <text>`, or `P` where the text ended without a new line.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from sliceworks.base import clock

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

_LONGEST = 16 * 1024
_POLL = 0.2


class LogWriter:
    """Stores what one run of a container writes."""

    def __init__(self, file: Path) -> None:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.file = file
        self._stream = file.open("ab")
        self._rest = b""

    async def take_all(self, source: asyncio.StreamReader) -> None:
        """Store everything until the source ends."""
        try:
            while piece := await source.read(1 << 16):
                self._take(piece)
            if self._rest:
                self._write([self._rest], b"P")
        finally:
            self.close()

    def close(self) -> None:
        """Store no more."""
        self._stream.close()

    def _take(self, piece: bytes) -> None:
        *lines, self._rest = (self._rest + piece).split(b"\n")
        self._write(lines, b"F")
        while len(self._rest) > _LONGEST:
            self._write([self._rest[:_LONGEST]], b"P")
            self._rest = self._rest[_LONGEST:]

    def _write(self, lines: list[bytes], mark: bytes) -> None:
        moment = clock.micro_timestamp().encode()
        self._stream.write(b"".join(b"%s %s %s\n" % (moment, mark, line) for line in lines))
        self._stream.flush()


@dataclass(frozen=True, slots=True)
class LogOptions:
    """Which part of a log, and how."""

    tail: int | None = None
    since: datetime | None = None
    limit: int | None = None
    timestamps: bool = False


def since_seconds(seconds: int) -> datetime:
    """The moment so many seconds ago."""
    return clock.now() - timedelta(seconds=seconds)


def read_log(file: Path, options: LogOptions) -> bytes:
    """What a log holds by now."""
    lines = _lines(file)
    chosen = _shown(lines, options) if options.tail is None else _shown(deque(lines, options.tail), options)
    data = b"".join(chosen)
    return data if options.limit is None else data[: options.limit]


async def follow_log(file: Path, options: LogOptions, ended: asyncio.Event) -> AsyncIterator[bytes]:
    """What a log holds, and then what comes, until the container has ended."""
    data = read_log(file, options)
    place, left = file.stat().st_size if file.exists() else 0, options.limit
    if data:
        yield data
    while left is None or left > 0:
        last = ended.is_set()
        new, place = _new_lines(file, place)
        if new:
            data = b"".join(_shown(new, options))
            if left is not None:
                data, left = data[:left], left - len(data)
            yield data
        elif last:
            return
        else:
            await clock.sleep(_POLL)


def _new_lines(file: Path, place: int) -> tuple[list[bytes], int]:
    try:
        with file.open("rb") as stream:
            stream.seek(place)
            whole, newline, _ = stream.read().rpartition(b"\n")
    except FileNotFoundError:
        return [], place
    return (whole.split(b"\n"), place + len(whole) + 1) if newline else ([], place)


def _lines(file: Path) -> Iterator[bytes]:
    try:
        with file.open("rb") as stream:
            for line in stream:
                yield line.rstrip(b"\n")
    except FileNotFoundError:
        return


def _shown(lines: Iterator[bytes] | deque[bytes] | list[bytes], options: LogOptions) -> Iterator[bytes]:
    for line in lines:
        moment, mark, text = line.split(b" ", 2)
        if options.since is not None and datetime.fromisoformat(moment.decode()) < options.since:
            continue
        end = b"\n" if mark == b"F" else b""
        yield moment + b" " + text + end if options.timestamps else text + end
