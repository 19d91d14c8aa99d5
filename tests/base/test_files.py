"""Files that are whole or not there."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from sliceworks.base import files

if TYPE_CHECKING:
    from pathlib import Path


def test_a_file_is_replaced_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    file.write_bytes(b"old")
    files.put(file, b"new")
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == {"run.json": b"new"}


@pytest.mark.parametrize("lasting", [False, True])
def test_what_is_private_was_never_readable_by_others(tmp_path: Path, lasting: bool) -> None:
    left = tmp_path / ".token.new"
    left.touch(0o644)  # by one who was killed
    files.put(tmp_path / "token", b"secret", mode=files.PRIVATE, lasting=lasting)
    assert (tmp_path / "token").stat().st_mode & 0o777 == 0o600
    assert not left.exists()


def test_a_mode_is_had_whatever_the_mask_of_the_process(tmp_path: Path) -> None:
    files.put(tmp_path / "shared", b"", mode=0o664)
    assert (tmp_path / "shared").stat().st_mode & 0o777 == 0o664


def test_what_cannot_be_written_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "key"
    file.write_bytes(b"old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        files.put(file, b"new", lasting=True)
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == {"key": b"old"}
