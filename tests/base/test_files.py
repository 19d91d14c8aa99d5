"""Atomic file writes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from sliceworks.base import files

if TYPE_CHECKING:
    from pathlib import Path


def test_write_atomic_replaces_the_file_and_leaves_no_temporary_file(tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    file.write_bytes(b"old")
    files.write_atomic(file, b"new")
    assert {entry.name: entry.read_bytes() for entry in tmp_path.iterdir()} == {"run.json": b"new"}


@pytest.mark.parametrize("fsync", [False, True])
def test_write_atomic_creates_private_files_with_their_mode(tmp_path: Path, fsync: bool) -> None:
    stale = tmp_path / ".token.new"
    stale.touch(0o644)  # left by a killed process
    files.write_atomic(tmp_path / "token", b"secret", mode=files.PRIVATE_MODE, fsync=fsync)
    assert (tmp_path / "token").stat().st_mode & 0o777 == 0o600
    assert not stale.exists()


def test_write_atomic_ignores_the_umask(tmp_path: Path) -> None:
    files.write_atomic(tmp_path / "shared", b"", mode=0o664)
    assert (tmp_path / "shared").stat().st_mode & 0o777 == 0o664


def test_write_atomic_keeps_the_old_file_on_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "key"
    file.write_bytes(b"old")

    def fail(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space left"):
        files.write_atomic(file, b"new", fsync=True)
    assert {entry.name: entry.read_bytes() for entry in tmp_path.iterdir()} == {"key": b"old"}
