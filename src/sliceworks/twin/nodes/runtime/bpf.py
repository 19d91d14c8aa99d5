"""BPF programs for the addresses of sockets: a small assembler, and the system calls that load and attach programs.

Linux runs such a program in `bind` and `connect` of every process in a cgroup; it may change the address. Requires root.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

_SYSCALLS = {"x86_64": 321, "aarch64": 280}
_PROG_LOAD, _PROG_ATTACH = 5, 8
_CGROUP_SOCK_ADDR = 18
_LICENSE = b"MIT"
_ATTEMPTS = 20
"""The kernel stops verifying a program, with EAGAIN, when a signal arrives, such as that of a child that ended."""


class Hook(IntEnum):
    """Where a program runs."""

    BIND4 = 8
    BIND6 = 9
    CONNECT4 = 10


class Register(IntEnum):
    """Registers: the result, arguments of calls, one that calls keep, and the stack."""

    RESULT = 0
    CONTEXT = 1
    ARGUMENT_2 = 2
    ARGUMENT_3 = 3
    ARGUMENT_4 = 4
    ARGUMENT_5 = 5
    KEPT = 6
    STACK = 10


class Jump(NamedTuple):
    """Jump to a label, always or if the lower half of a register equals, or does not equal, a value."""

    code: int
    register: int
    value: int
    label: str


Step = bytes | Jump | str
"""An instruction, a jump, or a label."""


def _instruction(code: int, target: int = 0, source: int = 0, offset: int = 0, value: int = 0) -> bytes:
    return struct.pack("<BBhI", code, target | source << 4, offset, value & 0xFFFFFFFF)


def load(target: int, source: int, offset: int) -> bytes:
    """Read four bytes at an offset from the address in `source`."""
    return _instruction(0x61, target, source, offset)


def store(target: int, offset: int, source: int, *, size: int = 4) -> bytes:
    """Write two or four bytes at an offset from the address in `target`."""
    return _instruction(0x6B if size == 2 else 0x63, target, source, offset)


def put(target: int, value: int) -> bytes:
    """Set a register to a number."""
    return _instruction(0xB7, target, value=value)


def put_word(target: int, value: int) -> bytes:
    """Set a register to four bytes without sign."""
    return _instruction(0xB4, target, value=value)


def copy(target: int, source: int) -> bytes:
    """Copy a register."""
    return _instruction(0xBF, target, source)


def add(target: int, value: int) -> bytes:
    """Add a number to a register."""
    return _instruction(0x07, target, value=value)


def mask(target: int, value: int) -> bytes:
    """Keep some bits of a register."""
    return _instruction(0x54, target, value=value)


def call(function: int) -> bytes:
    """Call a function of the kernel."""
    return _instruction(0x85, value=function)


def jump(label: str) -> Jump:
    """Jump always."""
    return Jump(0x05, 0, 0, label)


def jump_if(register: int, value: int, label: str) -> Jump:
    """Jump if a register equals a value."""
    return Jump(0x16, register, value, label)


def jump_if_null(register: int, label: str) -> Jump:
    """Jump if a register is null."""
    return Jump(0x15, register, 0, label)


def jump_unless(register: int, value: int, label: str) -> Jump:
    """Jump if a register does not equal a value."""
    return Jump(0x56, register, value, label)


ALLOW = (put(Register.RESULT, 1), _instruction(0x95))
"""Return, and let the system call proceed."""


def assemble(steps: list[Step]) -> bytes:
    """The program with its jumps resolved."""
    places: dict[str, int] = {}
    code: list[bytes | Jump] = []
    for step in steps:
        if isinstance(step, str):
            places[step] = len(code)
        else:
            code.append(step)
    return b"".join(
        step if isinstance(step, bytes) else _instruction(step.code, step.register, 0, places[step.label] - at - 1, step.value)
        for at, step in enumerate(code)
    )


def attach(program: bytes, hook: Hook, cgroup: Path) -> None:
    """Run a program for all processes of a cgroup until the cgroup is removed; raises OSError."""
    code, license_name = ctypes.create_string_buffer(program, len(program)), ctypes.create_string_buffer(_LICENSE)
    attributes = (_CGROUP_SOCK_ADDR, len(program) // 8, ctypes.addressof(code), ctypes.addressof(license_name))
    loaded = _call(_PROG_LOAD, struct.pack("<IIQQIIQII16sII", *attributes, 0, 0, 0, 0, 0, b"", 0, hook))
    try:
        folder = os.open(cgroup, os.O_RDONLY | os.O_DIRECTORY)
        try:
            _call(_PROG_ATTACH, struct.pack("<IIII", folder, loaded, hook, 0))
        finally:
            os.close(folder)
    finally:
        os.close(loaded)


def _call(command: int, attributes: bytes) -> int:
    number = _SYSCALLS.get(platform.machine())
    if number is None:
        raise OSError(f"no BPF on {platform.machine()}")
    for _ in range(_ATTEMPTS):
        result = _syscall(number, command, attributes)
        if result >= 0:
            return result
        error = ctypes.get_errno()
        if error != errno.EAGAIN:
            break
    raise OSError(error, f"bpf: {os.strerror(error)}")


def _syscall(number: int, command: int, attributes: bytes) -> int:
    return int(ctypes.CDLL(None, use_errno=True).syscall(number, command, attributes, len(attributes)))
