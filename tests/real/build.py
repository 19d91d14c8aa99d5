"""Builds the real programs from their Go modules into a cache outside the tree.

    python -m tests.real.build [PROGRAM …]

Prints the path of each. A program is rebuilt only when its module, its checksums or its flags change; concurrent runs are safe.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tests.real.programs import PROGRAMS, Program, cache_folder

if TYPE_CHECKING:
    from collections.abc import Iterator


class CannotBuild(Exception):
    """A program could not be built; the message is for a person."""


def build(program: Program) -> Path:
    """The path of the executable, built on first use."""
    target = cache_folder() / _digest(program) / program.name
    if target.exists():
        return target
    with locked(target.parent):
        if not target.exists():
            _compile(program, target)
    return target


def module_folder(program: Program, module: str) -> Path:
    """The folder of a Go module that `program` requires; manifests such as CRDs are read from it."""
    where = ("list", "-m", "-f", "{{.Dir}}", module)
    result = ask_go(program, *where).stdout.strip()
    if not result:  # only a downloaded module is listed
        ask_go(program, "mod", "download", module)
        result = (done := ask_go(program, *where)).stdout.strip()
        if not result:
            raise CannotBuild(f"go does not know the folder of {module}: {done.stderr.strip()}")
    return Path(result)


def ask_go(program: Program, *words: str) -> subprocess.CompletedProcess[str]:
    """The result of a Go command in the module of a program."""
    return subprocess.run([go(), *words], cwd=program.folder, env=go_environment(), capture_output=True, text=True, check=False)


def _compile(program: Program, target: Path) -> None:
    started = time.monotonic()
    print(f"building {program.name} from its Go module (minutes the first time) …", file=sys.stderr, flush=True)
    unfinished = target.with_name(f"{target.name}.{os.getpid()}.tmp")
    try:
        done = subprocess.run(_command(program, unfinished), cwd=program.folder, env=go_environment(), check=False)
        if done.returncode:
            raise CannotBuild(f"go build of {program.package} failed with {done.returncode}; its own words are above")
        unfinished.rename(target)
    finally:
        unfinished.unlink(missing_ok=True)
    print(f"built {program.name} in {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)


def _command(program: Program, output: Path) -> list[str]:
    verb = ("test", "-c", "-vet=off") if program.is_test else ("build",)
    return [go(), *verb, "-trimpath", "-buildvcs=false", "-ldflags", program.ldflags, "-o", str(output), program.package]


def go_environment() -> dict[str, str]:
    """The environment of Go commands."""
    return {**os.environ, "GOWORK": "off"}


def _digest(program: Program) -> str:
    own = sorted(path.name for path in program.folder.glob("*.go"))  # a program of the tests
    parts = [(program.folder / name).read_bytes() for name in ("go.mod", "go.sum", *own)]
    parts.append(f"{program.package} {program.ldflags}".encode())
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


def go() -> str:
    """The path of Go."""
    path = shutil.which("go")
    if path is None:
        raise CannotBuild(
            "Go is not installed: the real programs are built from Go modules. Get Go 1.25 or newer from https://go.dev/dl"
        )
    return path


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a lock, so that one process at a time fills a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def main() -> int:
    """Build the named programs, or all of them."""
    names = sys.argv[1:] or list(PROGRAMS)
    unknown = [name for name in names if name not in PROGRAMS]
    if unknown:
        print(f"no such program: {', '.join(unknown)}; there are {', '.join(PROGRAMS)}", file=sys.stderr)
        return 2
    try:
        for name in names:
            print(build(PROGRAMS[name]))
    except CannotBuild as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
