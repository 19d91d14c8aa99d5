"""Our own sources, as a build of our images wants them: what `deploy/Dockerfile` copies, packed in one file."""

from __future__ import annotations

import gzip
import tarfile
from pathlib import Path

from sliceworks.base.errors import UsageError
from sliceworks.infra.contents import IMAGES, belonging

_FILES = ("pyproject.toml", "README.md", "LICENSE", "deploy/Dockerfile")


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
        for path in belonging(sources, IMAGES):
            archive.add(path, path.relative_to(sources).as_posix(), recursive=False, filter=_plain)


def _is_checkout(folder: Path) -> bool:
    return all((folder / name).is_file() for name in _FILES)


def _plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Nobody's, from no time: whose machine it was packed on says nothing about the sources."""
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mtime = 0
    return entry
