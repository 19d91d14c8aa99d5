"""Atomic file writes, and the home directory."""

from __future__ import annotations

import os
from pathlib import Path

PRIVATE_MODE = 0o600
"""Readable and writable by the owner only."""


def write_atomic(file: Path, data: bytes, *, mode: int | None = None, fsync: bool = False) -> None:
    """Write a file in one step: readers see the old or the new content. With `fsync`, the data is on disk before it is visible."""
    temporary = file.with_name(f".{file.name}.new")
    temporary.unlink(missing_ok=True)
    try:
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666 if mode is None else mode), "wb") as stream:
            if mode is not None:
                os.fchmod(stream.fileno(), mode)
            stream.write(data)
            if fsync:
                stream.flush()
                os.fsync(stream.fileno())
        temporary.replace(file)
        if fsync:
            _sync_directory(file.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def replace_durable(source: Path, file: Path) -> None:
    """Move a file of the same file system over another one: on disk before it is visible."""
    with source.open("rb") as stream:
        os.fsync(stream.fileno())
    source.replace(file)
    _sync_directory(file.parent)


def _sync_directory(folder: Path) -> None:
    """Make a rename durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def find_home() -> Path | None:
    """The home directory; None for a user without one, as in containers that run with an arbitrary user ID."""
    try:
        return Path.home()
    except RuntimeError:
        return None
