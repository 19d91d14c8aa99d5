"""What a worker writes while it runs: one fixed-size row per request, chunk times, and response texts until their tokens are
counted.
"""

from __future__ import annotations

import fcntl
import os
import struct
from array import array
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

NEVER = -1
"""The timestamp of events that did not happen."""

USER_REQUESTS_FROM = 1 << 40
"""First number of closed-loop requests; scheduled requests have smaller numbers."""

_FIELDS = (
    ("number", "i8"),  # of the schedule; for users, counted by the worker
    ("intended", "i8"),  # nanoseconds from the start, as all timestamps
    ("sent", "i8"),
    ("first_byte", "i8"),
    ("first_token", "i8"),
    ("ended", "i8"),
    ("chunks_from", "i8"),  # offset of its chunks in the other file
    ("chunks", "u4"),
    ("bytes_out", "u4"),
    ("bytes_in", "u4"),
    ("prompt", "u4"),
    ("tokens_in", "i4"),  # as reported by the server, or -1
    ("tokens_out", "i4"),
    ("status", "u2"),
    ("phase", "u2"),
    ("worker", "u2"),
    ("failure", "u1"),
    ("turn", "u1"),
)

DTYPE = np.dtype([(name, f"<{kind}") for name, kind in _FIELDS])
_CODES = {"i8": "q", "u4": "I", "i4": "i", "u2": "H", "u1": "B"}
_PACKED = struct.Struct("<" + "".join(_CODES[kind] for _, kind in _FIELDS))


assert _PACKED.size == DTYPE.itemsize

_FLUSH_AFTER = 256 * 1024
"""Bytes that are buffered before they are written."""


class Failure(IntEnum):
    """Why a request failed. The values are stored in files: never change them."""

    NONE = 0
    RESOLVE = 1
    CONNECT = 2
    TLS = 3
    CONNECT_TIMEOUT = 4
    IDLE_TIMEOUT = 5
    TOTAL_TIMEOUT = 6
    CLOSED = 7
    GARBLED = 8
    STATUS = 9
    REPORTED = 10
    INTERRUPTED = 11


FAILURE_NAMES = {
    Failure.NONE: "",
    Failure.RESOLVE: "host name not found",
    Failure.CONNECT: "connection failed",
    Failure.TLS: "TLS handshake failed",
    Failure.CONNECT_TIMEOUT: "connection timed out",
    Failure.IDLE_TIMEOUT: "no data before the idle timeout",
    Failure.TOTAL_TIMEOUT: "response timed out",
    Failure.CLOSED: "connection closed before the end of the response",
    Failure.GARBLED: "malformed response",
    Failure.STATUS: "error status",
    Failure.REPORTED: "error in the response",
    Failure.INTERRUPTED: "interrupted by the end of the test",
}


@dataclass(slots=True)
class RequestRecord:
    """One request in flight. Timestamps are nanoseconds from the start of the test."""

    number: int
    intended: int
    phase: int
    prompt: int = 0
    turn: int = 0
    sent: int = NEVER
    first_byte: int = NEVER
    first_token: int = NEVER
    ended: int = NEVER
    bytes_out: int = 0
    bytes_in: int = 0
    tokens_in: int = -1
    tokens_out: int = -1
    status: int = 0
    failure: Failure = Failure.NONE
    chunks: array[int] | None = None

    def chunk(self, now: int) -> None:
        """Records a chunk, in microseconds after the request was sent."""
        if self.chunks is None:
            self.chunks = array("I")
        self.chunks.append(min((now - self.sent) // 1000, 0xFFFFFFFF))


class _LogWriter:
    """Appends to files, each with a buffer."""

    def __init__(self, *files: Path) -> None:
        self._files = [(file.open("wb", buffering=0), bytearray()) for file in files]
        self.problem = ""
        """Why the buffers cannot be written, such as a full disk; the worker should stop."""

    def flush(self) -> None:
        """Write the buffers to the operating system, in the order of the files; what cannot be written stays buffered."""
        try:
            for file, buffer in self._files:
                while buffer:
                    del buffer[: file.write(buffer)]
            self.problem = ""
        except OSError as error:
            self.problem = error.strerror or str(error)

    def close(self) -> None:
        """Write and sync the rest."""
        self.flush()
        for file, _ in self._files:
            with suppress(OSError):
                os.fsync(file.fileno())
            file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class RecordWriter(_LogWriter):
    """Appends rows and chunk times to `NAME.rows` and `NAME.chunks`."""

    def __init__(self, folder: Path, name: str, worker: int) -> None:
        # Chunks are written first, so that no row refers to missing chunks.
        super().__init__(folder / f"{name}.chunks", folder / f"{name}.rows")
        (_, self._chunks), (rows, self._rows) = self._files
        fcntl.flock(rows, fcntl.LOCK_SH)  # lets a reader detect that the file is still being written
        self._worker, self._written = worker, 0

    def add(self, row: RequestRecord) -> None:
        """Add a finished request."""
        chunks = row.chunks
        self._rows += _PACKED.pack(
            row.number,
            row.intended,
            row.sent,
            row.first_byte,
            row.first_token,
            row.ended,
            self._written,
            len(chunks) if chunks else 0,
            row.bytes_out,
            row.bytes_in,
            row.prompt,
            row.tokens_in,
            row.tokens_out,
            row.status,
            row.phase,
            self._worker,
            row.failure,
            row.turn,
        )
        if chunks:
            self._written += len(chunks)
            self._chunks += chunks.tobytes()
        if len(self._rows) + len(self._chunks) > _FLUSH_AFTER:
            self.flush()


def read_records(file: Path) -> tuple[NDArray[Any], NDArray[np.uint32]]:
    """The complete rows of a worker's file and their chunks, without a truncated tail."""
    rows = _complete_items(file, DTYPE)
    chunks = _complete_items(file.with_suffix(".chunks"), np.dtype("<u4"))
    is_complete = rows["chunks_from"] + rows["chunks"] <= len(chunks)
    return (rows if is_complete.all() else rows[is_complete]), chunks


def read_blocks(file: Path, max_rows: int) -> Iterator[tuple[NDArray[Any], NDArray[np.uint32]]]:
    """The same in blocks of at most `max_rows` rows, each with its own chunks."""
    with file.open("rb") as rows_file, file.with_suffix(".chunks").open("rb") as chunks:
        chunk_count = os.fstat(chunks.fileno()).st_size // 4
        while len(rows := np.fromfile(rows_file, DTYPE, max_rows)):
            rows = rows[rows["chunks_from"] + rows["chunks"] <= chunk_count]
            while len(rows):
                ends = rows["chunks_from"] + rows["chunks"]
                first = int(rows["chunks_from"][0])
                # The chunks of a few long responses may not fit into memory.
                count = max(int(np.searchsorted(ends, first + 4 * max_rows, side="right")), 1)
                chunks.seek(4 * first)
                yield rows[:count], np.fromfile(chunks, "<u4", int(ends[count - 1]) - first)
                rows = rows[count:]


def is_locked(file: Path) -> bool:
    """Whether a worker still writes this file."""
    with file.open("rb") as opened:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _complete_items(file: Path, dtype: np.dtype[Any]) -> NDArray[Any]:
    size = file.stat().st_size // dtype.itemsize * dtype.itemsize
    return np.memmap(file, dtype, mode="r", shape=(size // dtype.itemsize,)) if size else np.empty(0, dtype)


_HEAD = struct.Struct("<qHI")


class ResponseText(NamedTuple):
    """The response text of one request."""

    number: int
    turn: int
    text: str


class ResponseTextWriter(_LogWriter):
    """Appends to `NAME.texts`."""

    def __init__(self, folder: Path, name: str) -> None:
        super().__init__(folder / f"{name}.texts")
        [(_, self._buffer)] = self._files

    def add(self, response: ResponseText) -> None:
        """Add a response text."""
        content = response.text.encode(errors="replace")
        self._buffer += _HEAD.pack(response.number, response.turn, len(content)) + content
        if len(self._buffer) > _FLUSH_AFTER:
            self.flush()


def read_all_texts(folder: Path) -> Iterator[ResponseText]:
    """The texts of all workers."""
    for file in sorted(folder.glob("worker-*.texts")):
        yield from read_texts(file)


def read_texts(file: Path) -> Iterator[ResponseText]:
    """All complete texts of a file, without a truncated tail."""
    with file.open("rb") as source:
        while len(head := source.read(_HEAD.size)) == _HEAD.size:
            number, turn, size = _HEAD.unpack(head)
            content = source.read(size)
            if len(content) < size:
                return
            yield ResponseText(number, turn, content.decode())
