"""Backups of a twin: its objects and its identity in one archive."""

from __future__ import annotations

import glob
import gzip
import io
import os
import shutil
import tarfile
import tempfile
import zlib
from pathlib import Path

from sliceworks.base import files
from sliceworks.base.errors import SliceworksError
from sliceworks.twin.store import recovery
from sliceworks.twin.store.journal import Journal, acquire_lock
from sliceworks.twin.store.store import Store

STORE = "store.db"
_IDENTITY = ("token", "ca.pem", "server.pem", "front-proxy-ca.pem", "front-proxy-client.pem", "service-accounts.pem")
_MAX_BYTES, _READ_BYTES = 16 << 30, 1 << 20
_INCOMPLETE = "restore-incomplete"
"""A file that exists while files are replaced, and after a restore that was killed meanwhile."""


def create_backup(directory: Path, file: Path) -> None:
    """Write the objects, certificates, keys and the token of a twin to an archive, also while it runs. The archive is secret."""
    require_complete(directory)
    temporary = file.with_name(f".{file.name}.new")
    for left in file.parent.glob(f".{glob.escape(file.name)}.*"):  # of a backup that was killed
        shutil.rmtree(left) if left.is_dir() else left.unlink()
    with tempfile.TemporaryDirectory(prefix=f".{file.name}.", dir=file.parent) as folder:
        copy = Path(folder) / STORE
        recovery.copy_journal(directory / STORE, copy)
        try:
            with (
                os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as stream,
                tarfile.open(fileobj=stream, mode="w:gz") as archive,
            ):
                archive.add(copy, STORE)
                for name in _IDENTITY:
                    if (directory / name).is_file():
                        archive.add(directory / name, name)
            temporary.replace(file)
        finally:
            temporary.unlink(missing_ok=True)


def restore_backup(file: Path, directory: Path) -> int:
    """Replace the data of a stopped twin by a backup; returns the number of its objects. Nothing changes if it is invalid."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory) as folder:
        contents = _extract(file, Path(folder))
        count = _verify(contents[STORE], file)
        _replace(directory, contents)
    return count


def _replace(directory: Path, contents: dict[str, Path]) -> None:
    lock = acquire_lock(directory / STORE)  # fails while a twin uses it
    try:
        files.write_atomic(directory / _INCOMPLETE, b"", mode=files.PRIVATE_MODE, fsync=True)
        for name in (f"{STORE}-wal", f"{STORE}-shm"):
            (directory / name).unlink(missing_ok=True)
        for name, path in contents.items():
            files.replace_durable(path, directory / name)
        (directory / _INCOMPLETE).unlink()
    finally:
        os.close(lock)


def require_complete(directory: Path) -> None:
    """Raise SliceworksError if a restore was killed: objects, keys and token of a twin may belong to different backups."""
    if (directory / _INCOMPLETE).exists():
        hint = "run it again: `sliceworks twin restore FILE`, or start with an empty store: `sliceworks twin reset`"
        raise SliceworksError(f"{directory}: a restore of this twin was interrupted", hint=hint)


def _extract(file: Path, folder: Path) -> dict[str, Path]:
    """The files of a backup, written to a folder: a small archive may contain gigabytes."""
    try:
        with tarfile.open(file, "r:gz") as archive:
            members = {member.name: member for member in archive if member.isfile() and member.name in (STORE, *_IDENTITY)}
            if sum(member.size for member in members.values()) > _MAX_BYTES or any(map(tarfile.TarInfo.issparse, members.values())):
                raise SliceworksError(f"{file}: not a backup of a twin: larger than {_MAX_BYTES:,} bytes")
            contents = {name: _write(archive, member, folder / name) for name, member in members.items()}
        with gzip.open(file) as whole:
            while whole.read(_READ_BYTES):
                pass  # to its end, where the checksum of the whole archive is
    except (OSError, tarfile.TarError, EOFError, zlib.error) as error:
        raise SliceworksError(f"{file}: not a backup of a twin: {error}") from error
    if STORE not in contents:
        raise SliceworksError(f"{file}: not a backup of a twin: it contains no {STORE}")
    return contents


def _write(archive: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> Path:
    with (
        archive.extractfile(member) or io.BytesIO() as source,
        os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, files.PRIVATE_MODE), "wb") as stream,
    ):
        shutil.copyfileobj(source, stream, _READ_BYTES)
    return target


def _verify(path: Path, file: Path) -> int:
    """Load a copy of the store of a backup, which checks every row; returns the number of objects."""
    if not path.stat().st_size:
        raise SliceworksError(f"{file}: the backup is damaged: its store is empty")
    copy = path.with_name(f"copy-of-{STORE}")
    shutil.copyfile(path, copy)
    try:
        store = Store(Journal(copy))
    except SliceworksError as error:
        raise SliceworksError(f"{file}: the backup is damaged: {error.message.partition(': ')[2]}") from error
    count = sum(store.count(resource) for resource in store.resources())
    store.close()
    return count
