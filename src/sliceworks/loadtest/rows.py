"""One row for each request, as it happened: written down at once, in a form that costs a hundred bytes and survives a kill.

A worker appends fixed-size rows to one file, and the moments at which the pieces of answers came to another. Both can be read up to
the last whole row whatever became of the worker.
"""

from __future__ import annotations

import fcntl
import os
import struct
from array import array
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Self

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

NEVER = -1
"""The moment of what did not happen."""
USERS_FROM = 1 << 40
"""Requests of users have numbers of their own, far from those of the schedule."""
_FIELDS = (
    ("number", "i8"),  # of the schedule; for users, counted by the worker
    ("intended", "i8"),  # nanoseconds from the beginning, as all moments
    ("sent", "i8"),
    ("first_byte", "i8"),
    ("first_token", "i8"),
    ("ended", "i8"),
    ("pieces_from", "i8"),  # where its pieces begin in the other file
    ("pieces", "u4"),
    ("bytes_out", "u4"),
    ("bytes_in", "u4"),
    ("prompt", "u4"),
    ("tokens_in", "i4"),  # as the server reports them, or -1
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
    """Why a request failed. The numbers stand in files: they do not change."""

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


WORDS = {
    Failure.NONE: "",
    Failure.RESOLVE: "the name was not found",
    Failure.CONNECT: "no connection",
    Failure.TLS: "the certificate or the handshake was refused",
    Failure.CONNECT_TIMEOUT: "no connection in time",
    Failure.IDLE_TIMEOUT: "no further piece of the answer in time",
    Failure.TOTAL_TIMEOUT: "the answer took too long",
    Failure.CLOSED: "the connection ended before the answer did",
    Failure.GARBLED: "the answer was not what the protocol says",
    Failure.STATUS: "the status was an error",
    Failure.REPORTED: "the answer reported an error",
    Failure.INTERRUPTED: "the test was ended first",
}


@dataclass(slots=True)
class Record:
    """One request while it happens. Moments are nanoseconds from the beginning of the test."""

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
    pieces: array[int] | None = None

    def piece(self, moment: int) -> None:
        """A piece of the answer came: kept as microseconds after the request left."""
        if self.pieces is None:
            self.pieces = array("I")
        self.pieces.append(min((moment - self.sent) // 1000, 0xFFFFFFFF))


class Writer:
    """Appends rows and pieces to `NAME.rows` and `NAME.pieces`."""

    def __init__(self, folder: Path, name: str, worker: int) -> None:
        self._worker = worker
        self._rows = (folder / f"{name}.rows").open("wb", buffering=0)
        self._pieces = (folder / f"{name}.pieces").open("wb", buffering=0)
        fcntl.flock(self._rows, fcntl.LOCK_SH)  # whoever reads what a dead run left can see that it is still written to
        self._waiting, self._waiting_pieces = bytearray(), bytearray()
        self._written = 0
        self.problem = ""
        """Why rows cannot be written, such as a full disk. They wait; whoever sends should stop."""

    def add(self, row: Record) -> None:
        """Take down a request that has ended."""
        pieces = row.pieces
        self._waiting += _PACKED.pack(
            row.number,
            row.intended,
            row.sent,
            row.first_byte,
            row.first_token,
            row.ended,
            self._written,
            len(pieces) if pieces else 0,
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
        if pieces:
            self._written += len(pieces)
            self._waiting_pieces += pieces.tobytes()
        if len(self._waiting) + len(self._waiting_pieces) > _FLUSH_AFTER:
            self.flush()

    def flush(self) -> None:
        """Hand everything to the system. What does not fit on the disk is kept for another try, and `problem` says so.

        Pieces go first: a row never speaks of pieces that are not there.
        """
        try:
            for file, waiting in ((self._pieces, self._waiting_pieces), (self._rows, self._waiting)):
                while waiting:
                    del waiting[: file.write(waiting)]
            self.problem = ""
        except OSError as error:
            self.problem = error.strerror or str(error)

    def close(self) -> None:
        """Write what is left, onto the disk."""
        self.flush()
        for file in (self._pieces, self._rows):
            with suppress(OSError):
                os.fsync(file.fileno())
            file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read(file: Path) -> tuple[NDArray[Any], NDArray[np.uint32]]:
    """The whole rows of a worker's file and their pieces; what was cut off by a kill is left out."""
    rows = _whole(file, DTYPE)
    pieces = _whole(file.with_suffix(".pieces"), np.dtype("<u4"))
    there = rows["pieces_from"] + rows["pieces"] <= len(pieces)
    return (rows if there.all() else rows[there]), pieces


def blocks(file: Path, most: int) -> Iterator[tuple[NDArray[Any], NDArray[np.uint32]]]:
    """As above, so many rows at a time at most, each time with their own pieces, which lie in the order of their rows."""
    with file.open("rb") as opened, file.with_suffix(".pieces").open("rb") as other:
        there = os.fstat(other.fileno()).st_size // 4
        while len(rows := np.fromfile(opened, DTYPE, most)):
            rows = rows[rows["pieces_from"] + rows["pieces"] <= there]
            while len(rows):
                ends = rows["pieces_from"] + rows["pieces"]
                first = int(rows["pieces_from"][0])
                # A few long answers can have more pieces than there is room for in memory.
                count = max(int(np.searchsorted(ends, first + 4 * most, side="right")), 1)
                other.seek(4 * first)
                yield rows[:count], np.fromfile(other, "<u4", int(ends[count - 1]) - first)
                rows = rows[count:]


def is_written_to(file: Path) -> bool:
    """Whether a worker still has this file."""
    with file.open("rb") as opened:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _whole(file: Path, dtype: np.dtype[Any]) -> NDArray[Any]:
    size = file.stat().st_size // dtype.itemsize * dtype.itemsize
    return np.memmap(file, dtype, mode="r", shape=(size // dtype.itemsize,)) if size else np.empty(0, dtype)
