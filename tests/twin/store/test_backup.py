"""Backups that are damaged, incomplete or were not completed."""

from __future__ import annotations

import gzip
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tracemalloc
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.stores import PODS, durable, put, run, values

from sliceworks.base import clock, files
from sliceworks.base.errors import SliceworksError
from sliceworks.twin import backup
from sliceworks.twin.main import TwinOptions, serve

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

IDENTITY = ("token", "ca.pem", "server.pem", "front-proxy-ca.pem", "front-proxy-client.pem", "service-accounts.pem")


def create_twin(folder: Path, count: int = 20) -> dict[str, int]:
    """A twin's folder with objects and an identity; returns the objects."""
    folder.mkdir()
    for name in IDENTITY:
        (folder / name).write_text(name)

    async def main() -> None:
        store = durable(folder)
        for number in range(count):
            put(store, f"a/{number}", number)
        await store.wait_durable()
        store.close()

    run(main())
    return {f"a/{number}": number for number in range(count)}


def test_damaged_backup_changes_nothing(tmp_path: Path) -> None:
    """Flipped bits, overwritten parts and missing ends: each is noticed, also in parts that the twin does not read."""
    create_twin(tmp_path / "twin")
    file, damaged, random = tmp_path / "backup.tar.gz", tmp_path / "damaged.tar.gz", Random(1)
    backup.create_backup(tmp_path / "twin", file)
    content = file.read_bytes()
    first = content.index(b"\0", 10) + 1  # after the name of the archive, which has no checksum and is not read
    backup.restore_backup(file, tmp_path / "restored")
    expected = {name: (tmp_path / "restored" / name).read_bytes() for name in ("store.db", *IDENTITY)}
    rounds, noticed = 3000 if os.environ.get("SLICEWORKS_FUZZ") else 120, 0
    for number in range(rounds):
        changed, start = bytearray(content), random.randrange(first, len(content))
        if number % 3 == 0:
            changed[start] ^= 1 << random.randrange(8)
        elif number % 3 == 1:
            del changed[start:]
        else:
            changed[start : start + 20] = random.randbytes(20)
        damaged.write_bytes(changed)
        problem = ""
        try:
            backup.restore_backup(damaged, tmp_path / "target")
        except SliceworksError as error:
            problem = error.message
        restored = {name: path.read_bytes() for name in expected if (path := tmp_path / "target" / name).exists()}
        # Some bits of compressed data do not change what it contains.
        assert restored == ({} if problem else expected)
        noticed += "not a backup" in problem or "the backup is damaged" in problem
        shutil.rmtree(tmp_path / "target", ignore_errors=True)
    assert noticed > 0.9 * rounds


def test_large_backup_is_not_read_into_memory(tmp_path: Path) -> None:
    file = tmp_path / "backup.tar.gz"
    with tarfile.open(file, "w:gz", compresslevel=1) as archive:
        member = tarfile.TarInfo("store.db")
        member.size = 64 << 20
        archive.addfile(member, io.BytesIO(bytes(member.size)))
    tracemalloc.start()
    try:
        with pytest.raises(SliceworksError, match="the backup is damaged: cannot open the store: file is not a database"):
            backup.restore_backup(file, tmp_path / "target")
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()
    assert list((tmp_path / "target").iterdir()) == []


def test_sparse_backup_is_refused(tmp_path: Path) -> None:
    """A member whose holes the archive does not contain, so that a small file has any size."""
    member = tarfile.TarInfo("store.db")
    member.type = tarfile.GNUTYPE_SPARSE
    file = tmp_path / "backup.tar.gz"
    with gzip.open(file, "wb") as stream:
        stream.write(member.tobuf(tarfile.GNU_FORMAT).ljust(10240, b"\0"))
    with pytest.raises(SliceworksError, match="not a backup of a twin"):
        backup.restore_backup(file, tmp_path / "target")


def test_empty_store_is_refused(tmp_path: Path) -> None:
    """SQLite opens an empty file as a new database: the twin would lose all its objects without an error."""
    file = tmp_path / "backup.tar.gz"
    with tarfile.open(file, "w:gz") as archive:
        archive.addfile(tarfile.TarInfo("store.db"))
    with pytest.raises(SliceworksError, match="the backup is damaged: its store is empty"):
        backup.restore_backup(file, tmp_path / "target")


def test_killed_backup_leaves_the_older_one(tmp_path: Path) -> None:
    """A backup that is killed at some time: the twin and the last backup are unchanged, and the next one succeeds."""
    expected = create_twin(tmp_path / "twin")
    file = tmp_path / "backup.tar.gz"
    backup.create_backup(tmp_path / "twin", file)
    content = file.read_bytes()
    script = (
        "import sys, pathlib; from sliceworks.twin import backup\n"
        "backup.recovery.copy_journal, copy = lambda *p: (copy(*p), print('copied', flush=True), sys.stdin.read()), "
        "backup.recovery.copy_journal\n"
        "backup.create_backup(*map(pathlib.Path, sys.argv[1:]))"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "twin"), str(file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"copied\n"
        process.kill()
    assert file.read_bytes() == content
    left = [path for path in tmp_path.iterdir() if path.name.startswith(".backup.tar.gz.")]
    assert [path.stat().st_mode & 0o077 for path in left] == [0], "what it leaves is readable by its owner only"
    backup.create_backup(tmp_path / "twin", file)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".backup.tar.gz.")], "the next backup deletes it"
    assert backup.restore_backup(file, tmp_path / "target") == len(expected)
    store = durable(tmp_path / "target")
    assert values(store.scan(PODS)) == expected
    store.close()


def test_killed_restore_is_noticed_until_it_is_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A restore that ends between any two of its writes: the twin does not start with keys of another one."""
    old, new = tmp_path / "old", tmp_path / "new"
    create_twin(old)
    expected = create_twin(new, 30)
    for name in IDENTITY:
        (new / name).write_text(f"new {name}")
    file = tmp_path / "backup.tar.gz"
    backup.create_backup(new, file)
    steps = {name: getattr(files, name) for name in ("write_atomic", "replace_durable")}
    for killed in range(1 + 1 + len(IDENTITY)):
        target, left = tmp_path / f"target-{killed}", iter(range(killed))
        shutil.copytree(old, target)

        def run_or_end(step: Callable[..., None], *arguments: Any, left: Iterator[int] = left, **options: Any) -> None:
            if next(left, None) is None:
                raise KeyboardInterrupt
            step(*arguments, **options)

        for name, step in steps.items():
            monkeypatch.setattr(files, name, partial(run_or_end, step))
        with pytest.raises(KeyboardInterrupt):
            backup.restore_backup(file, target)
        for name, step in steps.items():
            monkeypatch.setattr(files, name, step)
        if killed:
            with pytest.raises(SliceworksError, match="a restore of this twin was interrupted"):
                clock.run(serve(TwinOptions("default", target)))
            with pytest.raises(SliceworksError, match="a restore of this twin was interrupted"):
                backup.create_backup(target, tmp_path / "other.tar.gz")
        assert backup.restore_backup(file, target) == len(expected)
        assert (target / "token").read_text() == "new token"
        backup.require_complete(target)


@pytest.mark.parametrize("name", ["store.db", "store.db-wal"])
def test_restore_replaces_a_store_that_cannot_be_opened(tmp_path: Path, name: str) -> None:
    expected = create_twin(tmp_path / "twin")
    file = tmp_path / "backup.tar.gz"
    backup.create_backup(tmp_path / "twin", file)
    (tmp_path / "twin" / name).write_bytes(b"garbage" * 1000)
    assert backup.restore_backup(file, tmp_path / "twin") == len(expected)
    store = durable(tmp_path / "twin")
    assert values(store.scan(PODS)) == expected
    with pytest.raises(SliceworksError, match="in use by another twin"):
        backup.restore_backup(file, tmp_path / "twin")
    store.close()
