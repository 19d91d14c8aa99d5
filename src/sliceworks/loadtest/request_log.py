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


class RecordWriter:
    """Appends rows and chunk times to `NAME.rows` and `NAME.chunks`."""

    def __init__(self, folder: Path, name: str, worker: int) -> None:
        self._worker = worker
        self._rows = (folder / f"{name}.rows").open("wb", buffering=0)
        self._chunks = (folder / f"{name}.chunks").open("wb", buffering=0)
        fcntl.flock(self._rows, fcntl.LOCK_SH)  # lets a reader detect that the file is still being written
        self._waiting, self._waiting_chunks = bytearray(), bytearray()
        self._written = 0
        self.problem = ""
        """Why rows cannot be written, such as a full disk; they stay buffered, and the sender should stop."""

    def add(self, row: RequestRecord) -> None:
        """Adds a finished request."""
        chunks = row.chunks
        self._waiting += _PACKED.pack(
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
            self._waiting_chunks += chunks.tobytes()
        if len(self._waiting) + len(self._waiting_chunks) > _FLUSH_AFTER:
            self.flush()

    def flush(self) -> None:
        """Writes everything to the operating system; what cannot be written stays buffered, and `problem` says why.

        Chunks are written first, so that no row refers to missing chunks.
        """
        try:
            for file, waiting in ((self._chunks, self._waiting_chunks), (self._rows, self._waiting)):
                while waiting:
                    del waiting[: file.write(waiting)]
            self.problem = ""
        except OSError as error:
            self.problem = error.strerror or str(error)

    def close(self) -> None:
        """Writes and syncs the rest."""
        self.flush()
        for file in (self._chunks, self._rows):
            with suppress(OSError):
                os.fsync(file.fileno())
            file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


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
_FLUSH_TEXTS_AFTER = 256 * 1024


class ResponseText(NamedTuple):
    """The response text of one request."""

    number: int
    turn: int
    text: str


class ResponseTextWriter:
    """Appends to `NAME.texts`. What cannot be written stays buffered, and `problem` says why."""

    def __init__(self, folder: Path, name: str) -> None:
        self._file = (folder / f"{name}.texts").open("wb", buffering=0)
        self._waiting = bytearray()
        self.problem = ""

    def add(self, response: ResponseText) -> None:
        """Adds a response text."""
        content = response.text.encode(errors="replace")
        self._waiting += _HEAD.pack(response.number, response.turn, len(content)) + content
        if len(self._waiting) > _FLUSH_TEXTS_AFTER:
            self.flush()

    def flush(self) -> None:
        """Flushes to the operating system."""
        try:
            while self._waiting:
                del self._waiting[: self._file.write(self._waiting)]
            self.problem = ""
        except OSError as error:
            self.problem = error.strerror or str(error)

    def close(self) -> None:
        """Writes the rest."""
        self.flush()
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_texts(file: Path) -> Iterator[ResponseText]:
    """All complete texts of a file, without a truncated tail."""
    with file.open("rb") as source:
        while len(head := source.read(_HEAD.size)) == _HEAD.size:
            number, turn, size = _HEAD.unpack(head)
            content = source.read(size)
            if len(content) < size:
                return
            yield ResponseText(number, turn, content.decode())
