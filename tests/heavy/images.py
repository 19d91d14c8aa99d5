"""Builds our images without Docker, with Buildah, into a store below the cache.

No registry is used. The substitute for `python:3.13-slim` consists of Debian packages: the release with this Python, with a
`python` and a `pip` below /usr/local as in the official image. The package index configuration of this machine is mounted into a
build and does not stay in the image. Layers are cached by content, so a second build of the same sources takes seconds.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
from tests.real.build import locked

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
OURS = ("gateway", "load-worker", "controllers")
TRUSTED = "etc/ssl/certs/ca-certificates.crt"
_PROGRAMS = {"buildah": "buildah", "crun": "crun", "debootstrap": "debootstrap", "ip": "iproute2"}
_RELEASE = "trixie"
_BASE = """\
python3 -m venv /usr/local
: > /etc/pip.conf
rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/*.log /var/log/apt
"""
_BASE_FILE = """\
FROM scratch
ADD root.tar /
ENV PATH=/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin
CMD ["python3"]
"""
_MOST_BYTES = 8 * 1024**3
_LENT = ("index-url", "extra-index-url", "trusted-host", "timeout", "default-timeout", "proxy")


class CannotBuildImage(Exception):
    """A missing program, or the end of a failed build's output."""


def folder() -> Path:
    """The folder of the image store."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sliceworks" / "heavy" / "images"


def build(target: str) -> str:
    """Build one of our images; returns its name."""
    _install()
    with locked(folder()), tempfile.TemporaryDirectory() as work:
        base, name = _base(), f"localhost/sliceworks-{target}:built"
        lent = _lent(Path(work))
        given = ("--build-arg", f"PYTHON={base}", "--file", "deploy/Dockerfile", "--target", target, "--tag", name)
        _buildah("build", "--isolation", "chroot", "--network", "host", "--layers", *lent, *given, str(ROOT))
    return name


def base() -> str:
    """Build the base image; returns its name."""
    _install()
    with locked(folder()):
        return _base()


def described(image: str) -> dict[str, Any]:
    """The OCI configuration of an image."""
    result: dict[str, Any] = orjson.loads(_buildah("inspect", "--type", "image", image))["OCIv1"]
    return result


@contextmanager
def unpacked(image: str) -> Iterator[Path]:
    """The root filesystem of an image."""
    name = _buildah("from", "--pull-never", image).strip()
    try:
        yield Path(_buildah("mount", name).strip())
    finally:
        _buildah("rm", name)


def _base() -> str:
    digest = hashlib.sha256(f"{_RELEASE}{_BASE}{_BASE_FILE}".encode()).hexdigest()[:12]
    name = f"localhost/sliceworks-python:{digest}"
    if _size(folder()) > _MOST_BYTES:
        _buildah("rmi", "--all", "--force")
    if _buildah("images", "--quiet", "--filter", f"reference={name}").strip():
        return name
    with tempfile.TemporaryDirectory(dir=folder()) as work:
        root = Path(work) / "root"
        packages = "--include=python3,python3-venv,ca-certificates"
        _run("debootstrap", "--variant=minbase", packages, _RELEASE, str(root))
        _run("chroot", str(root), "/bin/sh", "-ec", _BASE)
        _run("tar", "-C", str(root), "-cf", f"{work}/root.tar", ".")
        (Path(work) / "Dockerfile").write_text(_BASE_FILE)
        _buildah("build", "--isolation", "chroot", "--tag", name, work)
    return name


def _lent(work: Path) -> list[str]:
    """Volumes that configure the package index for a build; the base image has a file at each mount point."""
    listed = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True).stdout
    settings = dict(re.findall(r"^\S+\.([a-z-]+)='(.*)'$", listed, re.MULTILINE))
    lines = [f"{name} = {value}" for name, value in settings.items() if name in _LENT]
    (work / "pip.conf").write_text("\n".join(["[global]", *lines, ""]))
    trusted = next((path for name in ("PIP_CERT", "SSL_CERT_FILE") if (path := os.environ.get(name))), None)
    volumes = {work / "pip.conf": "/etc/pip.conf", **({Path(trusted): f"/{TRUSTED}"} if trusted else {})}
    return [word for source, target in volumes.items() for word in ("--volume", f"{source}:{target}:ro")]


def _install() -> None:
    """Install missing programs from Debian packages."""
    missing = sorted({package for program, package in _PROGRAMS.items() if shutil.which(program) is None})
    if not missing:
        return
    if os.geteuid() or shutil.which("apt-get") is None:
        raise CannotBuildImage(f"images are built as root, with programs of Debian: apt-get install {' '.join(missing)}")
    _run("apt-get", "update", "-qq")
    _run("apt-get", "install", "-qq", "--yes", "--no-install-recommends", *missing)


def _buildah(*arguments: str) -> str:
    store = ("--root", str(folder() / "storage"), "--runroot", str(folder() / "run"), "--storage-driver", "overlay")
    return _run("buildah", *store, *arguments)


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    if done.returncode:
        output = "\n".join((done.stdout + done.stderr).splitlines()[-20:])
        raise CannotBuildImage(f"{' '.join(command[:8])} … ended with {done.returncode}:\n{output}")
    return done.stdout


def _size(place: Path) -> int:
    if not place.exists():
        return 0
    return int(_run("du", "--summarize", "--bytes", "--one-file-system", str(place)).split()[0])
