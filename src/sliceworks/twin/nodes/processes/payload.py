"""The files of a config map or secret in a folder, as a kubelet lays them out: all of them change at once.

`..data` is a link to a hidden folder with the files of the moment, and each file is a link through it.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path, PurePath

_NOW = "..data"


def write(place: Path, files: dict[str, bytes], mode: int) -> None:
    """Have these files in a folder and no others. One that has not changed is not touched: programs look at times."""
    inside = {path: data for path, data in files.items() if ".." not in PurePath(path).parts and not path.startswith("/")}
    now = place / _NOW
    old = place / now.readlink() if now.is_symlink() else None
    if old is not None and _read(old) == inside:
        return
    fresh = Path(tempfile.mkdtemp(prefix="..", dir=place))
    for path, data in inside.items():
        _put(fresh / path, data, mode, None if old is None else old / path)
    _link(now, fresh.name)
    names = {PurePath(path).parts[0] for path in inside}
    for name in names:
        _link(place / name, f"{_NOW}/{name}")
    for each in place.iterdir():
        if each.is_symlink() and each.name != _NOW and each.name not in names:
            each.unlink()
    if old is not None:
        shutil.rmtree(old, ignore_errors=True)


def _read(folder: Path) -> dict[str, bytes]:
    return {str(each.relative_to(folder)): each.read_bytes() for each in folder.rglob("*") if each.is_file()}


def _put(target: Path, data: bytes, mode: int, before: Path | None) -> None:
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if before is not None and before.is_file() and before.read_bytes() == data:
        os.link(before, target)
        return
    target.touch(mode=mode)
    target.write_bytes(data)


def _link(link: Path, to: str) -> None:
    """Set a link in one step."""
    if link.is_symlink() and str(link.readlink()) == to:
        return
    beside = link.with_name("..link")
    beside.unlink(missing_ok=True)
    beside.symlink_to(to)
    beside.replace(link)
