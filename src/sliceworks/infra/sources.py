"""Our own sources, as a build of our images wants them: what `deploy/Dockerfile` copies, packed in one file."""

from __future__ import annotations

import gzip
import tarfile
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING

from sliceworks.base.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

_FILES = ("pyproject.toml", "README.md", "LICENSE", "deploy/Dockerfile")
_FOLDERS = ("src", "terraform", "deploy", "examples")
LEFT_OUT = ("__pycache__", ".terraform", "*.tfstate*", ".env")
"""What is made or kept beside sources and is nobody else's: states of Terraform have secrets in them."""


def own() -> Path | None:
    """The checkout that this program runs from; None where it was installed without one."""
    found = Path(__file__).parents[3]
    return found if _is_checkout(found) else None


def given(folder: Path) -> Path:
    """A folder that somebody says has our sources."""
    if not _is_checkout(folder):
        raise UsageError(f"{folder} has no sources of Sliceworks", hint=f"a checkout has {', '.join(_FILES)}")
    return folder


def pack(sources: Path, file: Path) -> None:
    """All that a build needs, in a compressed archive: the same sources make the same file."""
    with (
        file.open("wb") as output,
        gzip.GzipFile(fileobj=output, mode="wb", compresslevel=4, mtime=0, filename="") as packed,
        tarfile.open(fileobj=packed, mode="w") as archive,
    ):
        for path in _wanted(sources):
            archive.add(path, path.relative_to(sources).as_posix(), recursive=False, filter=_plain)


def _is_checkout(folder: Path) -> bool:
    return all((folder / name).is_file() for name in _FILES)


def _wanted(sources: Path) -> Iterator[Path]:
    found = {sources / name for name in _FILES}
    for folder in _FOLDERS:
        found.update(path for path in (sources / folder).rglob("*") if path.is_file())
    return (path for path in sorted(found) if not any(map(_left_out, path.relative_to(sources).parts)))


def _left_out(name: str) -> bool:
    return any(fnmatch(name, pattern) for pattern in LEFT_OUT)


def _plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Nobody's, from no time: whose machine it was packed on says nothing about the sources."""
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mtime = 0
    return entry
