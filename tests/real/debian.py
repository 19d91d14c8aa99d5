"""Programs of Debian packages: those of this machine, else unpacked into the cache."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

from tests.real.build import CannotBuild, locked
from tests.real.programs import cache_folder

if TYPE_CHECKING:
    from pathlib import Path


def unpacked(package: str, *, dependencies: bool = False) -> Path:
    """The folder with the files of a package, and of those that it depends on and this machine does not have."""
    folder = cache_folder() / package
    done = folder / "unpacked"
    if not done.exists():
        if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
            raise CannotBuild(f"{package} is not installed, and this machine has no apt-get to download it from Debian")
        with locked(folder):
            if not done.exists():
                _download(_with_dependencies(package) if dependencies else [package], folder)
                done.touch()
    return folder


def _with_dependencies(package: str) -> list[str]:
    """A package and those that its installation would add."""
    output = _apt_get("-qq", "--print-uris", "--yes", "--no-install-recommends", "install", package)
    return sorted({line.split()[1].partition("_")[0] for line in output.splitlines() if line.startswith("'")})


def _download(packages: list[str], folder: Path) -> None:
    _apt_get("download", *packages, folder=folder)
    for file in folder.glob("*.deb"):
        subprocess.run(["dpkg", "--extract", str(file), str(folder)], check=True)
        file.unlink()


def _apt_get(*words: str, folder: Path | None = None) -> str:
    result = subprocess.run(["apt-get", *words], cwd=folder, capture_output=True, text=True, check=False)
    if result.returncode:
        raise CannotBuild(f"apt-get {' '.join(words)} failed: {result.stderr.strip()}")
    return result.stdout
