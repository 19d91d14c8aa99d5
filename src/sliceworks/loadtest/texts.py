"""Answers that are kept until their tokens have been counted: appended by a worker, read once, and then gone."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple, Self

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_HEAD = struct.Struct("<qHI")
_FLUSH_AFTER = 256 * 1024


class Said(NamedTuple):
    """What was answered to one request."""

    number: int
    turn: int
    text: str


class TextWriter:
    """Appends to `NAME.texts`. What does not fit on the disk waits for another try, and `problem` says so."""

    def __init__(self, folder: Path, name: str) -> None:
        self._file = (folder / f"{name}.texts").open("wb", buffering=0)
        self._waiting = bytearray()
        self.problem = ""

    def add(self, said: Said) -> None:
        """Keep an answer."""
        content = said.text.encode(errors="replace")
        self._waiting += _HEAD.pack(said.number, said.turn, len(content)) + content
        if len(self._waiting) > _FLUSH_AFTER:
            self.flush()

    def flush(self) -> None:
        """Hand everything to the system."""
        try:
            while self._waiting:
                del self._waiting[: self._file.write(self._waiting)]
            self.problem = ""
        except OSError as error:
            self.problem = error.strerror or str(error)

    def close(self) -> None:
        """Write what is left."""
        self.flush()
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read(file: Path) -> Iterator[Said]:
    """All whole answers of a file; what was cut off at its end is left out."""
    with file.open("rb") as source:
        while len(head := source.read(_HEAD.size)) == _HEAD.size:
            number, turn, size = _HEAD.unpack(head)
            content = source.read(size)
            if len(content) < size:
                return
            yield Said(number, turn, content.decode())
