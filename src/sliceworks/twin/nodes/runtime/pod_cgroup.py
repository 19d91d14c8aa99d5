"""A cgroup per pod that gives its processes the address of the pod, as a network namespace would.

A socket that binds a port of all addresses, or of localhost, gets the address of the pod: pods can listen on the same port. A
connection to localhost reaches the pod if it listens there, and otherwise this machine. Connections to other pods and to
Services come from the address of the pod.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import struct
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from sliceworks.base import clock
from sliceworks.twin.nodes.runtime import bpf
from sliceworks.twin.nodes.runtime.bpf import ALLOW, Hook, Register

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sliceworks.twin.nodes.runtime.bpf import Step

log = logging.getLogger(__name__)
_MOUNTS, _NETWORK_NAMESPACE = Path("/proc/self/mounts"), Path("/proc/self/ns/net")
_REMOVAL_SECONDS = 2.0
_CONTEXT, _A2, _A3, _A4, _A5, _KEPT, _STACK = list(Register)[1:]
_ADDRESS, _ADDRESS6, _PORT, _PROTOCOL = 4, (8, 12, 16, 20), 24, 36
"""Offsets in the context of a program: addresses and port of the system call, in network byte order, and the protocol."""
_BIND, _LOOKUP_TCP, _LOOKUP_UDP, _RELEASE = 64, 84, 85, 86
_TUPLE_SIZE, _SOCKADDR_SIZE = 12, 16


def _word(address: str) -> int:
    """An IPv4 address as the kernel stores it."""
    return int(struct.unpack("<I", socket.inet_aton(address))[0])


_LOCALHOST, _LOCALHOST6 = _word("127.0.0.1"), 0x01000000
_MAPPED = 0xFFFF0000
"""The third word of an IPv4 address in IPv6."""


def bind4(address: str) -> bytes:
    """The program for IPv4 sockets; port 0 keeps its address, because most such sockets are clients."""
    return bpf.assemble(
        [
            bpf.load(_A2, _CONTEXT, _PORT),
            bpf.jump_if(_A2, 0, "end"),
            bpf.load(_A2, _CONTEXT, _ADDRESS),
            bpf.jump_if(_A2, 0, "own"),
            bpf.jump_unless(_A2, _LOCALHOST, "end"),
            "own",
            bpf.put_word(_A2, _word(address)),
            bpf.store(_CONTEXT, _ADDRESS, _A2),
            "end",
            *ALLOW,
        ]
    )


def bind6(address: str) -> bytes:
    """The program for IPv6 sockets that also accept IPv4."""
    first, second, third, fourth = _ADDRESS6
    return bpf.assemble(
        [
            bpf.load(_A2, _CONTEXT, _PORT),
            bpf.jump_if(_A2, 0, "end"),
            *(step for offset in (first, second) for step in (bpf.load(_A2, _CONTEXT, offset), bpf.jump_unless(_A2, 0, "end"))),
            bpf.load(_A3, _CONTEXT, third),
            bpf.load(_A2, _CONTEXT, fourth),
            bpf.jump_if(_A3, _MAPPED, "mapped"),
            bpf.jump_unless(_A3, 0, "end"),
            bpf.jump_if(_A2, _LOCALHOST6, "own"),
            "mapped",
            bpf.jump_if(_A2, 0, "own"),
            bpf.jump_unless(_A2, _LOCALHOST, "end"),
            "own",
            bpf.put_word(_A2, _MAPPED),
            bpf.store(_CONTEXT, third, _A2),
            bpf.put_word(_A2, _word(address)),
            bpf.store(_CONTEXT, fourth, _A2),
            "end",
            *ALLOW,
        ]
    )


def connect4(address: str) -> bytes:
    """The program for connections: localhost becomes the pod if it listens; the source becomes the pod in its network."""
    return bpf.assemble(
        [
            bpf.copy(_KEPT, _CONTEXT),
            bpf.load(_A2, _CONTEXT, _ADDRESS),
            bpf.jump_unless(_A2, _LOCALHOST, "source"),
            *_find_listener(address),
            bpf.jump_if_null(Register.RESULT, "end"),
            bpf.copy(_CONTEXT, Register.RESULT),
            bpf.call(_RELEASE),
            bpf.put_word(_A2, _word(address)),
            bpf.store(_KEPT, _ADDRESS, _A2),
            "source",
            bpf.load(_A2, _KEPT, _ADDRESS),
            bpf.mask(_A2, 0xFF),
            bpf.jump_unless(_A2, _word(address) & 0xFF, "end"),
            *_bind_source(address),
            "end",
            *ALLOW,
        ]
    )


def _find_listener(address: str) -> Iterable[Step]:
    """Look up the socket that listens on the pod's address and the port of the connection."""
    words = ((-16, 0), (-12, _word(address)), (-8, 0))
    yield from (step for offset, word in words for step in (bpf.put_word(_A2, word), bpf.store(_STACK, offset, _A2)))
    yield from (bpf.load(_A2, _KEPT, _PORT), bpf.store(_STACK, -6, _A2, size=2))
    yield from (bpf.load(_A5, _KEPT, _PROTOCOL), bpf.copy(_CONTEXT, _KEPT), bpf.copy(_A2, _STACK), bpf.add(_A2, -16))
    yield from (bpf.put(_A3, _TUPLE_SIZE), bpf.put(_A4, -1), bpf.jump_if(_A5, socket.IPPROTO_UDP, "udp"))
    yield from (bpf.put(_A5, 0), bpf.call(_LOOKUP_TCP), bpf.jump("found"))
    yield from ("udp", bpf.put(_A5, 0), bpf.call(_LOOKUP_UDP), "found")


def _bind_source(address: str) -> Iterable[Step]:
    """Bind the socket to the pod's address; fails for a socket that is bound already, which keeps its address."""
    words = ((-16, socket.AF_INET), (-12, _word(address)), (-8, 0), (-4, 0))
    yield from (step for offset, word in words for step in (bpf.put_word(_A2, word), bpf.store(_STACK, offset, _A2)))
    yield from (bpf.copy(_CONTEXT, _KEPT), bpf.copy(_A2, _STACK), bpf.add(_A2, -16))
    yield from (bpf.put(_A3, _SOCKADDR_SIZE), bpf.call(_BIND))


_PROGRAMS = {Hook.BIND4: bind4, Hook.BIND6: bind6, Hook.CONNECT4: connect4}


def _find_hierarchy() -> Path | None:
    """The mounted cgroup v2 hierarchy; None without one that this process can change."""
    try:
        lines = _MOUNTS.read_text().splitlines()
    except OSError:
        return None  # not Linux
    folders = [Path(columns[1]) for line in lines if (columns := line.split(" "))[2] == "cgroup2"]
    return next((folder for folder in folders if os.access(folder, os.W_OK)), None)


class PodCgroup(NamedTuple):
    """The cgroup of one pod."""

    folder: Path

    @property
    def processes(self) -> Path:
        """The file through which a process enters the cgroup."""
        return self.folder / "cgroup.procs"

    def remove(self) -> None:
        """Kill the processes that are left and remove the cgroup once they have ended; blocks for at most two seconds."""
        clock.wait_until(self._try_to_remove, _REMOVAL_SECONDS)

    def _try_to_remove(self) -> bool:
        try:
            for pid in map(int, self.processes.read_text().split()):
                if pid:  # 0 is a process outside the PID namespace of the twin
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            self.folder.rmdir()
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return True


class PodCgroups:
    """The cgroups of a twin's pods; there are none on machines that do not let it create them or load BPF programs.

    Loopback networks are reserved in a network namespace: a cgroup that exists at the start is that of a twin that was killed.
    """

    def __init__(self, network: int) -> None:
        hierarchy = _find_hierarchy() if network else None
        self._folder = hierarchy and hierarchy / f"sliceworks-{_NETWORK_NAMESPACE.stat().st_ino}-{network}"
        self._has_failed = False
        self.close()

    def create(self, uid: str, address: str) -> PodCgroup | None:
        """Create the cgroup of a pod with an address; None if that fails."""
        if self._folder is None:
            return None
        cgroup = PodCgroup(self._folder / uid)
        try:
            cgroup.folder.mkdir(parents=True, exist_ok=True)
            for hook, program in _PROGRAMS.items():
                bpf.attach(program(address), hook, cgroup.folder)
        except OSError as error:
            cgroup.remove()
            if not self._has_failed:
                log.warning("pods share the ports of this machine: %s", error)
            self._has_failed = True
            return None
        return cgroup

    def close(self) -> None:
        """Remove all cgroups with their processes."""
        if self._folder is None:
            return
        with contextlib.suppress(OSError):
            for folder in self._folder.iterdir():
                if folder.is_dir():
                    PodCgroup(folder).remove()
            self._folder.rmdir()
