"""What a container sees of the machine: its volumes at their mount paths, and names, in namespaces of its own, as with a kubelet.

Not every machine has such namespaces for everybody. Without them paths are replaced in texts (see `volumes`), and pods are told so.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

Obj = dict[str, Any]
_ALWAYS_READ_ONLY = ("configMap", "secret", "downwardAPI", "projected")
_NAMES = "/etc/hosts"
_MOUNTING = Path(__file__).with_name("mounting.py")
_PROGRAMS = sorted({Path(sys.prefix), Path(sys.base_prefix), Path(__file__).parents[4]})
"""The machine is every pod's image: what runs there stays to be seen, whatever is mounted above it."""


@dataclass(frozen=True, slots=True)
class View:
    """Folders and files at their mount paths, the name of the host, and the folder to start in. Else it is the machine as it is."""

    folder: str
    mounts: tuple[tuple[str, str, str], ...] = ()
    hostname: str = ""

    def line(self, line: Iterable[str], report: int) -> tuple[str, ...]:
        """A command line that runs another one in this view."""
        words = [word for mount in self.mounts for word in mount]
        named = ("host", self.hostname, "-") if self.hostname else ()
        return (sys.executable, "-I", "-S", str(_MOUNTING), str(report), self.folder, *named, *words, "--", *line)


def view_of(
    container: Obj, volumes: Iterable[Obj], places: dict[str, str], own: Path, folder: str, *, names: tuple[str, Path | None]
) -> View:
    """The view of a container. `places` says which mount path is which folder; `own` is the pod's, which stays to be seen.

    `names` are the pod's host name and its /etc/hosts, unless it has a volume there.
    """
    hostname, file = names
    closed = {volume["name"] for volume in volumes if any(kind in volume for kind in _ALWAYS_READ_ONLY)}
    mounts = [
        ("ro" if mount.get("readOnly") or mount["name"] in closed else "rw", places[path], path)
        for mount in container.get("volumeMounts") or ()
        if (path := mount["mountPath"].rstrip("/")) in places
    ]
    if file is not None and _NAMES not in places:
        mounts.append(("rw", str(file), _NAMES))
    kept = [("keep", str(path), str(path)) for path in (own, *_PROGRAMS)] if mounts else []
    return View(folder, (*mounts, *kept), hostname)


async def spawn(line: Iterable[str], view: View, environment: dict[str, str], *, output: int) -> asyncio.subprocess.Process:
    """Start a command in a view, in a group of its own; OSError when that cannot be done."""
    if not view.mounts:
        return await _start(line, environment, output, folder=view.folder)
    report, written = os.pipe()
    try:
        inner = await _start(view.line(line, written), environment, output, kept=(written,))
    except BaseException:
        os.close(report)
        raise
    finally:
        os.close(written)
    try:
        problem = await _told(report)
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(inner.pid, signal.SIGKILL)
        raise
    if problem:
        await inner.wait()
        raise OSError(problem)
    return inner


async def _start(
    line: Iterable[str], environment: dict[str, str], output: int, *, folder: str | None = None, kept: tuple[int, ...] = ()
) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *line,
        env=environment,
        cwd=folder,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=output,
        stderr=asyncio.subprocess.STDOUT,
        pass_fds=kept,
        start_new_session=True,
    )


async def _told(report: int) -> str:
    """What went wrong; nothing once the command runs."""
    reader, pipe = await reading(report)
    try:
        return (await reader.read()).decode(errors="replace")
    finally:
        pipe.close()


async def reading(end: int) -> tuple[asyncio.StreamReader, asyncio.ReadTransport]:
    """Read from this end of a pipe, which is closed with what comes back."""
    reader = asyncio.StreamReader()
    file = os.fdopen(end, "rb", 0)
    try:
        pipe, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), file)
    except BaseException:
        file.close()
        raise
    return reader, pipe


class Namespaces:
    """Whether this machine gives processes mounts of their own. It is tried once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._asked: asyncio.Task[str] | None = None

    async def refusal(self) -> str:
        """Why it does not; empty where it does."""
        if self._asked is None:
            self._asked = asyncio.create_task(self._ask())
        return await asyncio.shield(self._asked)

    async def _ask(self) -> str:
        if sys.platform != "linux":
            return "only Linux has them"
        view = View(str(self._folder), (("ro", str(self._folder), "/sliceworks/probe"),), "probe")
        try:
            inner = await spawn((sys.executable, "-I", "-S", "-c", ""), view, {}, output=asyncio.subprocess.DEVNULL)
        except OSError as error:
            return str(error)
        await inner.wait()
        return ""
