"""A process in its mount and host-name namespaces: start, signal, stop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import signal
import stat
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.twin.nodes.runtime.descriptor import Descriptor, open_input, open_pipe, open_terminal
from sliceworks.twin.nodes.runtime.envvars import MARKER
from sliceworks.twin.nodes.runtime.pod_volumes import delete_memory
from sliceworks.twin.nodes.runtime.security_context import SecurityContext

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sliceworks.twin.nodes.runtime.container_log import LogWriter
    from sliceworks.twin.nodes.runtime.envvars import Command
    from sliceworks.twin.nodes.runtime.pod_cgroup import PodCgroup
Obj = dict[str, Any]
_ALWAYS_READ_ONLY = ("configMap", "secret", "downwardAPI", "projected")
DEFAULT_SECURITY = SecurityContext()
_PROCESS_MODES = ("cgroup", "hide", "user")
"""What the sandbox sets for each process; mounts are those of the container."""
_SCRATCH_FOLDERS, _SESSION_SOCKETS = ("/tmp", "/var/tmp", "/dev/shm"), "/run/user"
"""What an isolated container does not share with this machine: temporary files, and the sockets of the user's session."""
_HOSTS = "/etc/hosts"
_SANDBOX_INIT = Path(__file__).with_name("sandbox_init.py")
_KEPT_FOLDERS = sorted({Path(sys.prefix), Path(sys.base_prefix), Path(__file__).parents[4]})
"""Python and this package, which stay visible below any mount: the machine itself is the image of every container."""


@dataclass(frozen=True, slots=True)
class MountView:
    """The file system of a container: the machine with mounts (mode, source, path), a host name and a working directory."""

    folder: str
    mounts: tuple[tuple[str, str, str], ...] = ()
    hostname: str = ""

    def wrap(self, command: Iterable[str], report: int) -> tuple[str, ...]:
        """The command line that runs a command in this view; errors go to the descriptor `report`."""
        mounts = [word for mount in self.mounts for word in mount]
        host = ("host", self.hostname, "-") if self.hostname else ()
        return (sys.executable, "-I", "-S", str(_SANDBOX_INIT), str(report), self.folder, *host, *mounts, "--", *command)

    def inside(self, pid: int) -> MountView:
        """The view of a running process."""
        if not self.mounts:
            return self
        kept = (mount for mount in self.mounts if mount[0] in _PROCESS_MODES)
        return MountView(self.folder, (("enter", str(pid), "-"), *kept))


def build_view(
    container: Obj,
    volumes: Iterable[Obj],
    sources: dict[str, str],
    pod_folder: Path,
    folder: str,
    *,
    names: tuple[str, Path | None],
    files: Iterable[tuple[str, str, str]] = (),
    hidden: tuple[Path, ...] = (),
    cgroup: PodCgroup | None = None,
    security: SecurityContext = DEFAULT_SECURITY,
    home: Path | None = None,
) -> MountView:
    """The view of a container. `sources` maps mount paths to folders; `pod_folder` stays visible.

    `names` are the host name and hosts file of the pod, `files` more mounts, unless a volume has the same path. A container
    that has `hidden` folders is isolated: outside its volumes it writes only to its `home` and to temporary folders, so that the
    twin, which reads and writes the other files of the pod, follows none of its symbolic links.
    """
    hostname, file = names
    enters = [("cgroup", str(cgroup.processes), "-")] if cgroup else []
    read_only = {volume["name"] for volume in volumes if any(kind in volume for kind in _ALWAYS_READ_ONLY)}
    mounts = [
        ("ro" if mount.get("readOnly") or mount["name"] in read_only else "rw", sources[path], path)
        for mount in container.get("volumeMounts") or ()
        if (path := mount["mountPath"].rstrip("/")) in sources
    ]
    more = (*files, *([("rw", str(file), _HOSTS)] if file is not None else []))
    mounts += [(mode, os.path.realpath(source), path) for mode, source, path in more if path not in sources]
    hides = _hides(hidden) + [("open", "-", path) for path in _private_folders(security, pod_folder)]
    mode = "show" if hidden else "keep"
    kept = [(mode, str(path), str(path)) for path in (pod_folder, *_KEPT_FOLDERS)] if mounts or hides else []
    kept += [("keep", str(home), str(home))] if hidden and home is not None else []
    return MountView(folder, (*enters, *hides, *mounts, *kept, *security.mounts()), hostname)


def _hides(hidden: tuple[Path, ...]) -> list[tuple[str, str, str]]:
    if not hidden:
        return []
    scratch = [("scratch", "-", path) for path in _SCRATCH_FOLDERS]
    return [*(("hide", "-", str(path)) for path in hidden), ("hide", "-", _SESSION_SOCKETS), *scratch]


def _private_folders(security: SecurityContext, pod_folder: Path) -> list[str]:
    """Folders that only the user of the twin may enter, such as its home, with files of the pod, Python or this package."""
    if not security.has_other_user:
        return []
    above = (folder for kept in (pod_folder, *_KEPT_FOLDERS) for folder in reversed(kept.parents))
    private = dict.fromkeys(str(folder) for folder in above if not folder.stat().st_mode & stat.S_IXOTH)
    return [folder for folder in private if not any(folder.startswith(f"{other}/") for other in private)]


@dataclass(frozen=True, slots=True)
class Files:
    """The descriptors of a process; without `error`, its errors go to its output."""

    output: int
    input: int = asyncio.subprocess.DEVNULL
    error: int = asyncio.subprocess.STDOUT


NO_FILES = Files(asyncio.subprocess.DEVNULL)


async def spawn(command: Iterable[str], view: MountView, environment: dict[str, str], files: Files) -> asyncio.subprocess.Process:
    """Start a command in a view and a new process group; raises OSError."""
    if not view.mounts:
        return await _start(command, environment, files, folder=view.folder)
    report, written = os.pipe()
    try:
        inner = await _start(view.wrap(command, written), environment, files, pass_fds=(written,))
    except BaseException:
        os.close(report)
        raise
    finally:
        os.close(written)
    try:
        problem = await _read_report(report)
    except BaseException:
        await kill_group(inner)
        raise
    if problem:
        await inner.wait()
        raise OSError(problem)
    return inner


async def kill_group(inner: asyncio.subprocess.Process) -> None:
    """Kill a process and all others of its group, and wait for its end."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(inner.pid, signal.SIGKILL)
    await inner.wait()


async def _start(
    command: Iterable[str], environment: dict[str, str], files: Files, *, folder: str | None = None, pass_fds: tuple[int, ...] = ()
) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *command,
        env=environment,
        cwd=folder,
        stdin=files.input,
        stdout=files.output,
        stderr=files.error,
        pass_fds=pass_fds,
        start_new_session=True,
    )


async def _read_report(report: int) -> str:
    """The error of the sandbox; empty once the command runs."""
    reader, parts = Descriptor(report), []
    try:
        while part := await reader.read():
            parts.append(part)
    finally:
        reader.close()
    return b"".join(parts).decode(errors="replace")


class NamespaceSupport:
    """Whether processes can have mount namespaces on this machine, tested once; with `hidden` folders, PID namespaces too."""

    def __init__(self, folder: Path, hidden: tuple[Path, ...] = ()) -> None:
        self._folder = folder
        self.hidden = hidden
        self._test_task: asyncio.Task[str] | None = None

    async def unavailable_reason(self) -> str:
        """Why mount namespaces are not available; empty if they are."""
        if self._test_task is None:
            self._test_task = asyncio.create_task(self._test())
        return await asyncio.shield(self._test_task)

    async def _test(self) -> str:
        if sys.platform != "linux":
            return "requires Linux"
        hides, folder = _hides(self.hidden), os.path.realpath(self._folder)
        kept = [("show", str(path), str(path)) for path in (self._folder, *_KEPT_FOLDERS)] if hides else []
        view = MountView(str(self._folder), (*hides, ("ro", folder, "/sliceworks/probe"), *kept), "probe")
        try:
            inner = await spawn((sys.executable, "-I", "-S", "-c", ""), view, {}, NO_FILES)
        except OSError as error:
            return str(error)
        await inner.wait()
        return ""


log = logging.getLogger(__name__)
_SIGNAL_EXIT_BASE = 128
_PID_FILE = "process"
_KILL_ROUNDS = 20
_UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_OUTPUT_TIMEOUT = 2.0
"""Real seconds to read the remaining output of a terminated process."""


class Process:
    """The process of a container. Its output goes to a log, and to `listeners` that attach to it."""

    def __init__(
        self,
        inner: asyncio.subprocess.Process,
        output: Descriptor,
        stdin: Descriptor | None,
        writer: LogWriter,
        pid_file: Path,
        *,
        marker: str = "",
    ) -> None:
        self._inner = inner
        self._pid_file = pid_file
        self._marker = marker
        self._output, self._stdin = output, stdin
        self.listeners: set[Callable[[bytes], None]] = set()
        self.ended = asyncio.Event()
        self._log = asyncio.create_task(writer.write_all(self._read_output))

    @classmethod
    async def start(cls, command: Command, writer: LogWriter, pid_file: Path) -> Process:
        """Start a process; raises OSError."""
        # Explicit descriptors: some event loops do not report the end of a process while a child holds its output open.
        stdin: Descriptor | None = None
        source = asyncio.subprocess.DEVNULL
        if command.tty:
            output, written = open_terminal()
            stdin, source = output, written
        else:
            output, written = open_pipe()
            if command.stdin:
                stdin, source = open_input()
        arguments = terminal_command(command.arguments) if command.tty else command.arguments
        try:
            inner = await spawn(arguments, command.view, command.environment, Files(written, source))
        except BaseException:
            output.close()
            if stdin is not None:
                stdin.close()
            raise
        finally:
            for end in {written, source} - {asyncio.subprocess.DEVNULL}:
                os.close(end)
        pid_file.write_text(f"{inner.pid} {_start_time(inner.pid)}")
        return cls(inner, output, stdin, writer, pid_file, marker=command.environment.get(MARKER, ""))

    async def _read_output(self) -> bytes:
        data = await self._output.read()
        for listener in tuple(self.listeners):
            listener(data)
        return data

    async def write_input(self, data: bytes) -> None:
        """Write to stdin, if the container has one; no data closes it."""
        if self._stdin is None:
            return
        if data:
            await self._stdin.write(data)
        elif self._stdin is not self._output:
            self._stdin.close()

    def resize(self, columns: int, rows: int) -> None:
        """Set the size of the terminal, if there is one."""
        self._output.resize(columns, rows)

    async def wait(self) -> int:
        """Wait for the end, kill all other processes of the container, and return the exit code."""
        code = await self._inner.wait()
        self.send(signal.SIGKILL)
        if self._marker:
            await asyncio.get_running_loop().run_in_executor(None, kill_marked, self._marker)
        # A child that has left the group may hold the output open.
        await asyncio.wait({self._log}, timeout=clock.scale_real_seconds(_OUTPUT_TIMEOUT))
        self._output.close()
        if self._stdin is not None:
            self._stdin.close()
        if not self._log.done():
            self._log.cancel()
        elif not self._log.cancelled() and (error := self._log.exception()) is not None:
            log.warning("cannot write the log of process %d: %s", self._inner.pid, error)
        self._pid_file.unlink(missing_ok=True)
        self.ended.set()
        return exit_code(code)

    @property
    def pid(self) -> int:
        """The PID on this machine."""
        return self._inner.pid

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the process group."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._inner.pid, number)

    async def stop(self, grace: float) -> None:
        """Send SIGTERM, then SIGKILL after the grace period."""
        self.send(signal.SIGTERM)
        try:
            async with asyncio.timeout(grace):
                await self._inner.wait()
        except TimeoutError:
            self.send(signal.SIGKILL)


def exit_code(code: int) -> int:
    """The exit code that a shell reports: 128 plus the number of a signal."""
    return code if code >= 0 else _SIGNAL_EXIT_BASE - code


_TAKE_TERMINAL = """
import fcntl, os, signal, sys, termios
try:
    os.setsid()
except OSError:
    pass
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
try:
    os.execvp(sys.argv[1], sys.argv[1:])
except OSError as error:
    sys.exit(f"{sys.argv[1]}: {error.strerror}")
"""


def terminal_command(arguments: tuple[str, ...]) -> tuple[str, ...]:
    """The command line that makes standard input the controlling terminal and then runs a command."""
    return (sys.executable, "-I", "-S", "-c", _TAKE_TERMINAL, *arguments)


def kill_marked(*owners: str) -> None:
    """Kill the processes of containers (`UID/NAME`) or of whole pods (`UID`), until none is left that could start others."""
    # The separator: container `a` must not kill the processes of container `ab`.
    markers = tuple(f"{MARKER}={owner}/".encode() for owner in owners)
    for _ in range(_KILL_ROUNDS):
        marked = [pid for pid in _pids() if any((entry + b"/").startswith(markers) for entry in _environment(pid))]
        if not marked:
            return
        for pid in marked:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)


def _pids() -> list[int]:
    try:
        return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit() and int(entry.name) != os.getpid()]
    except OSError:
        return []  # not Linux


def _environment(pid: int) -> list[bytes]:
    """The initial environment of a process; empty for a zombie, or one of another user."""
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def pod_uids(folder: Path) -> list[str]:
    """The UIDs of the pods that have files below a folder."""
    return [entry.name for entry in folder.iterdir() if _UID.fullmatch(entry.name)]


def kill_orphans(folder: Path) -> None:
    """Kill the processes of a twin that was killed; reused PIDs are detected by start time."""
    if uids := pod_uids(folder):
        kill_marked(*uids)
    for uid in uids:
        delete_memory(uid)
    for file in folder.glob(f"*/*/{_PID_FILE}"):
        with contextlib.suppress(OSError, ValueError):
            pid, started = map(int, file.read_text().split())
            if started and _start_time(pid) == started and os.getpgid(pid) == pid:
                os.killpg(pid, signal.SIGKILL)
        file.unlink(missing_ok=True)


def _start_time(pid: int) -> int:
    """The start time of a process in ticks since boot; 0 if unknown."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except OSError:
        return 0


def pid_file(folder: Path) -> Path:
    """The PID file of a container."""
    return folder / _PID_FILE
