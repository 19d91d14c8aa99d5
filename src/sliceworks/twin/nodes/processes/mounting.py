"""A small program: puts folders at their mount paths in namespaces of its own, and becomes the command that is given to it.

It runs before anything of the product is loaded, with Python's own library alone:
`mounting.py REPORT FOLDER [host NAME -|ro|rw|keep SOURCE PATH]… -- COMMAND…`. What goes wrong is written to the descriptor REPORT,
which closes with the start of the command. `keep` shows a folder where it always was, should a volume hide it; `host` is the name
that the machine has for the command.
Root needs nothing more; anybody else becomes the same user in a user namespace first, as far as the kernel allows that.
A mount path that the machine does not have is made in a copy of the closest folder above: a small file system in memory with
everything that is in that folder put there too. The machine itself is not touched.
"""

# pathlib would double the time of every container's start.
# ruff: noqa: PTH102, PTH103, PTH112, PTH115, PTH116, PTH120, PTH123, PTH211

from __future__ import annotations

import ctypes
import os
import signal
import stat
import sys

_NEW_MOUNTS, _NEW_NAME, _NEW_USER = 0x00020000, 0x04000000, 0x10000000
_READ_ONLY, _NO_SUID, _NO_DEVICES, _NO_PROGRAMS, _AGAIN = 1, 2, 4, 8, 32
_BIND, _ALL_BELOW, _PRIVATE = 4096, 16384, 1 << 18
_FAILED = 128

_library = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def _mount(source: str, path: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    words = (os.fsencode(word) or None for word in (source, path, kind))
    _check(_library.mount(*words, ctypes.c_ulong(flags), options.encode() or None), f"mount {path}")


def _bind(source: str, path: str) -> None:
    _mount(source, path, flags=_BIND | _ALL_BELOW)


def leave() -> None:
    """Have mounts and a host name of one's own from now on."""
    user, group = os.geteuid(), os.getegid()
    if _library.unshare(_NEW_MOUNTS | _NEW_NAME):
        _check(_library.unshare(_NEW_MOUNTS | _NEW_NAME | _NEW_USER), "unshare")
        for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
                file.write(text)
    _mount("none", "/", flags=_PRIVATE | _ALL_BELOW)


class Mounts:
    """The mounts that were made."""

    def __init__(self) -> None:
        self._copied: set[str] = set()
        self._volumes: list[str] = []

    def put(self, source: str, path: str) -> str:
        """Show a folder or file at a path; returns where that really is."""
        place = os.path.realpath(path)
        self._make(place, folder=os.path.isdir(source))
        _bind(source, place)
        self._volumes.append(place)
        return place

    def _make(self, place: str, *, folder: bool) -> None:
        """A place to mount at, where there is none."""
        if os.path.lexists(place):
            return
        above = os.path.dirname(place)
        while not os.path.isdir(above):
            above = os.path.dirname(above)
        if above not in self._copied and not any(above == each or above.startswith(f"{each}/") for each in self._volumes):
            self._copy(above)
        missing = place if folder else os.path.dirname(place)
        os.makedirs(missing, exist_ok=True)
        while missing != above:
            self._copied.add(missing)
            missing = os.path.dirname(missing)
        if not folder:
            _touch(place)

    def _copy(self, folder: str) -> None:
        """Lay a folder in memory over one, with all that was there. The current folder stays the one below."""
        try:
            os.chdir(folder)
            names = list(os.scandir("."))
        except PermissionError:
            names = []  # nothing of it could be seen anyway
        mode = stat.S_IMODE(os.stat(folder).st_mode)
        _mount("tmpfs", folder, "tmpfs", _NO_SUID | _NO_DEVICES, f"mode={mode:o}")
        at = "/.." if folder == "/" else folder  # the way up from the root leads to what is mounted over it
        for entry in names:
            _show(entry, f"{at}/{entry.name}")
        if folder == "/":
            os.chroot(at)
        self._copied.add(folder)

    def close(self, path: str) -> None:
        """Let nobody write there. What the file system below forbids stays forbidden: the kernel insists on it."""
        kept = os.statvfs(path).f_flag & (_NO_SUID | _NO_DEVICES | _NO_PROGRAMS)
        _mount("none", path, flags=_AGAIN | _BIND | _READ_ONLY | kept)


def _touch(path: str) -> None:
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))


def _show(entry: os.DirEntry[str], path: str) -> None:
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
        return  # a file system that lets nobody in but its owner: the place stays empty


def _hides(path: str, other: str) -> bool:
    """Whether a folder that is mounted at `path` lies over `other`."""
    return f"{os.path.realpath(other)}/".startswith(f"{os.path.realpath(path).rstrip('/')}/")


def arrange(wanted: list[tuple[str, str, str]]) -> None:
    """Make all mounts. Whatever they need is opened first: one may lie over what another needs."""
    leave()
    for how, name, _ in wanted:
        if how == "host":
            _check(_library.sethostname(name.encode(), len(name.encode())), "sethostname")
    wanted = [each for each in wanted if each[0] != "host"]
    opened = [(how, f"/proc/self/fd/{os.open(source, os.O_PATH)}", path) for how, source, path in wanted]
    mounts, closed = Mounts(), []
    shown = [path for how, _, path in wanted if how != "keep"]
    for how, source, path in sorted(opened, key=lambda each: (each[0] == "keep", each[2].count("/"))):
        if how == "keep" and not any(_hides(other, path) for other in shown):
            continue
        place = mounts.put(source, path)
        if how == "ro":
            closed.append(place)
    for place in closed:
        mounts.close(place)


def main(words: list[str]) -> None:
    """Arrange the mounts and start the command; does not return."""
    report, folder, end = int(words[0]), words[1], words.index("--")
    os.set_inheritable(report, False)
    try:
        arrange([(words[at], words[at + 1], words[at + 2]) for at in range(2, end, 3)])
        os.chdir(folder)
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and the command would go on doing so
            signal.signal(number, signal.SIG_DFL)
        os.execvp(words[end + 1], words[end + 1 :])
    except OSError as error:
        os.write(report, os.fsencode(error.strerror or str(error)))
    os._exit(_FAILED)


if __name__ == "__main__":
    main(sys.argv[1:])
