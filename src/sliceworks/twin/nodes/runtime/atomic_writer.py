"""Files of a volume, replaced in one step as the kubelet does."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from pathlib import Path, PurePath
from typing import NamedTuple

_DATA_LINK = "..data"
_FOLDER_MODE = 0o755
_GROUP_READS, _GROUP_ENTERS = 0o440, 0o2550


class VolumeFile(NamedTuple):
    """The content and permissions of a file."""

    data: bytes
    mode: int


def write_atomically(folder: Path, files: dict[str, VolumeFile], *, group: int | None = None) -> None:
    """Replace the files of a folder in one step, or raise OSError; unchanged files keep their modification time.

    Members of `group`, the fsGroup of the pod, may read all files.
    """
    if group is not None:
        files = {path: file._replace(mode=file.mode | _GROUP_READS) for path, file in files.items()}
    content = {path: file for path, file in files.items() if ".." not in PurePath(path).parts and not path.startswith("/")}
    link = folder / _DATA_LINK
    old = folder / link.readlink() if link.is_symlink() else None
    if old is not None and _read(old) == content:
        return
    new = Path(tempfile.mkdtemp(prefix="..", dir=folder))
    try:
        for path, file in content.items():
            _write(new / path, file, None if old is None else old / path)
        _set_access(new, group)
        _link(link, new.name)
    except OSError:
        shutil.rmtree(new, ignore_errors=True)
        raise
    names = {PurePath(path).parts[0] for path in content}
    for name in names:
        _link(folder / name, f"{_DATA_LINK}/{name}")
    for entry in folder.iterdir():
        if entry.is_symlink() and entry.name != _DATA_LINK and entry.name not in names:
            entry.unlink()
    if old is not None:
        shutil.rmtree(old, ignore_errors=True)


def _read(folder: Path) -> dict[str, VolumeFile]:
    files = (file for file in folder.rglob("*") if file.is_file())
    return {str(file.relative_to(folder)): VolumeFile(file.read_bytes(), stat.S_IMODE(file.stat().st_mode)) for file in files}


def _write(target: Path, file: VolumeFile, before: Path | None) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if before is not None and before.is_file() and before.read_bytes() == file.data:
        os.link(before, target)
    else:
        target.write_bytes(file.data)
    target.chmod(file.mode)


def _set_access(folder: Path, group: int | None) -> None:
    """Let all users enter the folders, and give everything to the group."""
    for path in (folder, *folder.rglob("*")):
        if path.is_dir():
            path.chmod(_FOLDER_MODE)
        if group is not None:
            give_to_group(path, group, _GROUP_ENTERS if path.is_dir() else _GROUP_READS)


def give_to_group(path: Path, group: int, mode: int) -> None:
    """Give a file or folder to a group with more permissions; only root can."""
    if os.geteuid() == 0:
        os.chown(path, -1, group)
        path.chmod(stat.S_IMODE(path.stat().st_mode) | mode)


def _link(link: Path, target: str) -> None:
    """Set a symbolic link atomically."""
    if link.is_symlink() and str(link.readlink()) == target:
        return
    temporary = link.with_name("..link")
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(target)
    temporary.replace(link)
