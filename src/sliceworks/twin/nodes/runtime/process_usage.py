"""CPU time and memory of containers, from the processes in /proc that their environment marks."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from sliceworks.twin.nodes.runtime.envvars import MARKER

_PROC = Path("/proc")
_PREFIX = f"{MARKER}=".encode()
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
# Positions in /proc/PID/stat after the name of the program.
_UTIME, _CUTIME_END, _START = 11, 15, 19


class Usage(NamedTuple):
    """What the processes of a container have used: CPU seconds since its start, and bytes of memory that are theirs alone."""

    cpu: float = 0.0
    memory: int = 0


class ProcessUsage:
    """Reads the usage of all containers; remembers which container a process belongs to."""

    def __init__(self) -> None:
        self._owners: dict[tuple[int, bytes], str] = {}

    @staticmethod
    def is_available() -> bool:
        """Whether this machine has /proc."""
        return (_PROC / "self" / "stat").exists()

    def read(self) -> dict[str, Usage]:
        """The usage by container (`UID/NAME`); includes what children used that have ended."""
        usages: dict[str, Usage] = {}
        owners: dict[tuple[int, bytes], str] = {}
        for folder in _PROC.iterdir():
            if not folder.name.isdigit():
                continue
            try:
                fields = (folder / "stat").read_bytes().rpartition(b")")[2].split()
                key = (int(folder.name), fields[_START])
                if not (owner := self._owners.get(key) or _owner(folder)):
                    continue  # possibly a process that has yet to execute the command of a container
                owners[key] = owner
                resident, shared = (folder / "statm").read_bytes().split()[1:3]
            except (OSError, IndexError, ValueError):
                continue  # it has ended, or belongs to another user
            cpu = sum(map(int, fields[_UTIME:_CUTIME_END])) / _TICKS
            before = usages.get(owner, Usage())
            usages[owner] = Usage(before.cpu + cpu, before.memory + (int(resident) - int(shared)) * _PAGE)
        self._owners = owners
        return usages


def _owner(folder: Path) -> str:
    """The container of a process; empty for processes of no container."""
    entries = (folder / "environ").read_bytes().split(b"\0")
    return next((entry[len(_PREFIX) :].decode(errors="replace") for entry in entries if entry.startswith(_PREFIX)), "")
