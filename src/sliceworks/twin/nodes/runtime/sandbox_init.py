"""A standalone program: mounts folders at their mount paths in new namespaces, then executes the command.

It imports only the standard library:
`sandbox_init.py REPORT FOLDER [cgroup FILE -|enter PID -|host NAME -|hide - PATH|open - PATH|scratch - PATH|
ro|rw|image|keep|show SOURCE PATH|read-only-root - -|user UID:GID:GROUPS CAPABILITIES:PRIVILEGES]… -- COMMAND…`.
Errors are written to the descriptor REPORT, which closes when the command starts. `keep` makes a folder visible again below a
volume that hides it, `show` does so read-only; `host` sets the host name; `cgroup` enters the cgroup of a cgroup.procs file; `user`
sets user, groups, the capabilities in hexadecimal, and whether programs can gain privileges (1); `enter` enters the namespaces of a
process instead of creating them; `image` is a read-only mount, or a copy of a small file. Sources of `ro` and `rw` have no links.
`hide` mounts an empty folder, and the command then runs without capabilities in a PID namespace: it cannot unmount the folder, none
of its processes outlives it, and it can write only to `rw`, `keep` and `scratch`, an empty folder for all users. `open` mounts an
empty folder that all users may enter, for the `keep` below it.
Users other than root enter a user namespace first, if the kernel allows it.
A mount path that does not exist is created in a copy of its closest parent folder: a tmpfs with bind mounts of everything in that
folder. The file system of the machine does not change.
"""

# Importing pathlib would double the start time of every container.
# ruff: noqa: PTH101, PTH102, PTH103, PTH110, PTH112, PTH115, PTH116, PTH120, PTH123, PTH211

from __future__ import annotations

import ctypes
import errno
import os
import signal
import stat
import sys

_CLONE_NEWNS, _CLONE_NEWUTS, _CLONE_NEWUSER, _CLONE_NEWPID = 0x00020000, 0x04000000, 0x10000000, 0x20000000
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_REMOUNT = 1, 2, 4, 8, 32
_MS_BIND, _MS_REC, _MS_PRIVATE = 4096, 16384, 1 << 18
_PR_SET_PDEATHSIG, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 1, 24, 38
_CAPABILITY_VERSION, _MAX_CAPABILITIES = 0x20080522, 64
_EXIT_CODE = 128

_MAX_COPY = 1 << 20
_KERNEL = ("/proc", "/sys", "/dev")
_KERNEL_SETTINGS = ("/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs")
_HIDING_MODES = {"hide": "700", "open": "755", "scratch": "1777"}
_MOUNT_MODES, _KEEPING_MODES, _READ_ONLY_MODES = ("ro", "rw", "image", "keep", "show"), ("keep", "show"), ("ro", "image", "show")

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, action: str) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, f"{action}: {os.strerror(number)}")


def _mount(source: str, path: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    arguments = (os.fsencode(argument) or None for argument in (source, path, kind))
    _check(_libc.mount(*arguments, ctypes.c_ulong(flags), options.encode() or None), f"mount {path}")


def _bind(source: str, path: str) -> None:
    _mount(source, path, flags=_MS_BIND | _MS_REC)


def unshare(more: int = 0) -> None:
    """Enter new mount and UTS namespaces, and those of the flags in `more`."""
    user, group, flags = os.geteuid(), os.getegid(), _CLONE_NEWNS | _CLONE_NEWUTS | more
    if _libc.unshare(flags):
        _check(_libc.unshare(flags | _CLONE_NEWUSER), "unshare")
        for name, content in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
                file.write(content)
    _mount("none", "/", flags=_MS_PRIVATE | _MS_REC)


class Mounts:
    """Creates mounts and the missing folders below them."""

    def __init__(self) -> None:
        self._copied: set[str] = set()
        self._volumes: list[str] = []

    def put(self, source: str, path: str) -> str:
        """Bind-mount a folder or file at a path; returns the resolved path."""
        place = os.path.realpath(path)
        self._create(place, folder=os.path.isdir(source))
        _bind(source, place)
        self._volumes.append(place)
        return place

    def copy(self, source: str, path: str) -> bool:
        """Copy a small file to a path that does not exist; returns False for other files and paths."""
        place = os.path.realpath(path)
        if os.path.lexists(place) or os.path.isdir(source) or os.stat(source).st_size > _MAX_COPY:
            return False
        self._create(place, folder=False)
        with open(source, "rb") as original, open(place, "wb") as file:
            file.write(original.read())
        os.chmod(place, stat.S_IMODE(os.stat(source).st_mode))
        return True

    def hide(self, path: str, mode: str) -> None:
        """Mount an empty folder over a folder."""
        _mount("tmpfs", path, "tmpfs", _MS_NOSUID | _MS_NODEV, f"mode={_HIDING_MODES[mode]}")
        self._copied.add(path)
        if mode == "scratch":
            self._volumes.append(path)

    def _create(self, place: str, *, folder: bool) -> None:
        """Create a mount point that does not exist."""
        if os.path.lexists(place):
            return
        above = os.path.dirname(place)
        while not os.path.isdir(above):
            above = os.path.dirname(above)
        if above not in self._copied and not any(above == volume or above.startswith(f"{volume}/") for volume in self._volumes):
            self._copy(above)
        missing = place if folder else os.path.dirname(place)
        os.makedirs(missing, exist_ok=True)
        while missing != above:
            self._copied.add(missing)
            missing = os.path.dirname(missing)
        if not folder:
            _touch(place)

    def _copy(self, folder: str) -> None:
        """Mount a tmpfs over a folder and bind-mount its entries; the working directory keeps the original folder."""
        try:
            os.chdir(folder)
            names = list(os.scandir("."))
        except PermissionError:
            names = []  # not readable before either
        mode = stat.S_IMODE(os.stat(folder).st_mode)
        _mount("tmpfs", folder, "tmpfs", _MS_NOSUID | _MS_NODEV, f"mode={mode:o}")
        at = "/.." if folder == "/" else folder  # the parent of the root is the file system mounted over it
        for entry in names:
            _copy_entry(entry, f"{at}/{entry.name}")
        if folder == "/":
            os.chroot(at)
        self._copied.add(folder)

    def make_read_only(self, path: str) -> None:
        """Remount read-only; the kernel requires the flags of the file system below."""
        flags = os.statvfs(path).f_flag & (_MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
        _mount("none", path, flags=_MS_REMOUNT | _MS_BIND | _MS_RDONLY | flags)

    def make_root_read_only(self, kernel: tuple[str, ...] = _KERNEL) -> None:
        """Remount everything read-only but volumes and file systems of the kernel."""
        with open("/proc/self/mountinfo", encoding="utf-8") as file:
            places = {line.split(" ")[4] for line in file}
        for place in places:
            if not any(place == kept or place.startswith(f"{kept}/") for kept in (*kernel, *self._volumes)):
                try:
                    self.make_read_only(place)
                except OSError:
                    continue  # hidden by another mount


def _touch(path: str) -> None:
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))


def _copy_entry(entry: os.DirEntry[str], path: str) -> None:
    if entry.is_symlink():
        os.symlink(os.readlink(entry.path), path)
        return
    if entry.is_dir():
        os.mkdir(path)
    else:
        _touch(path)
    try:
        _bind(entry.path, path)
    except OSError:
        return  # a file system that only its owner may access: the mount point stays empty


def _hides(path: str, other: str) -> bool:
    """Whether a mount at `path` hides `other`."""
    return f"{os.path.realpath(other)}/".startswith(f"{os.path.realpath(path).rstrip('/')}/")


def mount_all(specs: list[tuple[str, str, str]]) -> None:
    """Create all mounts. Sources are opened first, because a mount may hide the source of another."""
    for mode, file, _ in specs:
        if mode == "cgroup":
            _enter_cgroup(file)
    for mode, pid, _ in specs:
        if mode == "enter":
            _enter_namespaces(pid)
            return
    hidden = {path: mode for mode, _, path in specs if mode in _HIDING_MODES and os.path.isdir(path)}
    is_isolated = _is_isolated(specs)
    unshare(_CLONE_NEWPID if is_isolated else 0)
    for mode, name, _ in specs:
        if mode == "host":
            _check(_libc.sethostname(name.encode(), len(name.encode())), "sethostname")
    reads_root = any(mode == "read-only-root" for mode, _, _ in specs)
    opened = [(mode, _open(source, mode), path) for mode, source, path in specs if mode in _MOUNT_MODES]
    mounts, read_only = Mounts(), []
    for path, mode in hidden.items():
        if os.path.isdir(path):  # not below one that is hidden already
            mounts.hide(path, mode)
    volumes = [*hidden, *(path for mode, _, path in opened if mode not in _KEEPING_MODES)]
    for mode, source, path in sorted(opened, key=lambda spec: (spec[0] in _KEEPING_MODES, spec[2].count("/"))):
        if mode in _KEEPING_MODES and not is_isolated and not any(_hides(volume, path) for volume in volumes):
            continue
        if mode == "image" and mounts.copy(source, path):
            continue
        place = mounts.put(source, path)
        if mode in _READ_ONLY_MODES:
            read_only.append(place)
    for place in read_only:
        mounts.make_read_only(place)
    if is_isolated:
        mounts.make_root_read_only(("/proc", "/dev"))
    elif reads_root:
        mounts.make_root_read_only()


def _open(source: str, mode: str) -> str:
    """The path of a descriptor of a source; another container may have replaced a folder of it by a symbolic link."""
    path = f"/proc/self/fd/{os.open(source, os.O_PATH)}"
    if mode in ("ro", "rw") and os.readlink(path) != source:
        raise OSError(errno.ELOOP, f"{source}: {os.strerror(errno.ELOOP)}")
    return path


def _enter_cgroup(file: str) -> None:
    with open(file, "w", encoding="ascii") as processes:
        processes.write("0")


def _enter_namespaces(pid: str) -> None:
    """Enter the namespaces and the root folder of a process."""
    kinds = ("user", "mnt", "uts", "pid_for_children")
    different = [kind for kind in kinds if os.readlink(f"/proc/{pid}/ns/{kind}") != os.readlink(f"/proc/self/ns/{kind}")]
    opened = [os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY) for kind in different]
    root = os.open(f"/proc/{pid}/root", os.O_PATH)
    for namespace in opened:
        _check(_libc.setns(namespace, 0), "setns")
        os.close(namespace)
    os.fchdir(root)
    os.chroot(".")
    os.close(root)


def _is_isolated(specs: list[tuple[str, str, str]]) -> bool:
    return any(mode == "hide" for mode, _, _ in specs)


def enter_pid_namespace(report: int) -> None:
    """Return in a new process of the PID namespace, with its own /proc.

    This process waits for the first process of the namespace and exits with its code. The first process collects all others; when
    it ends, the kernel kills those that are left.
    """
    if init := os.fork():
        _wait(init, report)
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    _mount("proc", "/proc", "proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
    for path in _KERNEL_SETTINGS:  # a container of root could write them without capabilities
        if os.path.exists(path):
            _bind(path, path)
            Mounts().make_read_only(path)
    if command := os.fork():
        _wait(command, report)


def enter_process(report: int) -> None:
    """Return in a new process, which is in the PID namespace of the container and ends with this one."""
    if child := os.fork():
        _wait(child, report)
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def secure(specs: list[tuple[str, str, str]]) -> None:
    """Become the user of the container, without the capabilities that it does not have."""
    user, privileges = next((spec[1:] for spec in specs if spec[0] == "user"), ("", ""))
    kept, _, can_gain = privileges.partition(":")
    is_isolated = _is_isolated(specs)
    if not (user or is_isolated):
        return
    capabilities = 0 if is_isolated else int(kept, 16)
    for capability in range(_MAX_CAPABILITIES):
        if not capabilities >> capability & 1:
            _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)  # fails for numbers that the kernel does not know
    if user:
        _set_user(*user.split(":"))
    if is_isolated or user.startswith("0:"):
        _set_capabilities(capabilities)
    if is_isolated or can_gain == "0":
        _check(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl")


def _set_user(user: str, group: str, groups: str) -> None:
    os.setgroups([int(number) for number in groups.split(",") if number])
    os.setgid(int(group))
    os.setuid(int(user))


def _set_capabilities(capabilities: int) -> None:
    """Keep those of the given capabilities that this process has."""
    header, data = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0), (ctypes.c_uint32 * 6)()
    _check(_libc.capget(header, data), "capget")
    for half, word in ((0, capabilities & 0xFFFFFFFF), (3, capabilities >> 32)):
        data[half + 1] &= word
        data[half], data[half + 2] = data[half + 1], 0
    _check(_libc.capset(header, data), "capset")


def _wait(child: int, report: int) -> None:
    """Exit like a child; signals are sent to the whole process group, so the child gets them too."""
    os.close(report)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    while True:
        pid, status = os.wait()
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            os._exit(code if code >= 0 else _EXIT_CODE - code)


def _execute(words: list[str]) -> None:
    """Execute a command; the user may not be able to read the modules that `os.execvp` imports."""
    if "/" in words[0]:
        os.execv(words[0], words)
    problem = OSError(errno.ENOENT, os.strerror(errno.ENOENT))
    for folder in os.environ.get("PATH", "").split(":"):
        try:
            os.execv(f"{folder}/{words[0]}", words)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            problem = error
    raise problem


def main(arguments: list[str]) -> None:
    """Create the mounts and execute the command; does not return."""
    report, folder, end = int(arguments[0]), arguments[1], arguments.index("--")
    os.set_inheritable(report, False)
    try:
        specs = [(arguments[at], arguments[at + 1], arguments[at + 2]) for at in range(2, end, 3)]
        mount_all(specs)
        if any(mode == "enter" for mode, _, _ in specs):
            if _is_isolated(specs):
                enter_process(report)
        elif _is_isolated(specs):
            enter_pid_namespace(report)
        os.chdir(folder)
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and the command would inherit that
            signal.signal(number, signal.SIG_DFL)
        secure(specs)
        _execute(arguments[end + 1 :])
    except OSError as error:
        os.write(report, os.fsencode(error.strerror or str(error)))
    os._exit(_EXIT_CODE)


if __name__ == "__main__":
    main(sys.argv[1:])
