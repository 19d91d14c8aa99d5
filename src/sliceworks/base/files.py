"""Files that are whole or not there: who reads one sees what it was or what it has become, never half of it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

PRIVATE = 0o600
"""The mode of a file that nobody else may read."""


def put(file: Path, data: bytes, *, mode: int | None = None, lasting: bool = False) -> None:
    """Put a file in its place in one step, with this mode or the usual one. What is to be `lasting` is on the disk before that."""
    beside = file.with_name(f".{file.name}.new")
    beside.unlink(missing_ok=True)
    try:
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666 if mode is None else mode), "wb") as stream:
            if mode is not None:
                os.fchmod(stream.fileno(), mode)
            stream.write(data)
            if lasting:
                stream.flush()
                os.fsync(stream.fileno())
        beside.replace(file)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
