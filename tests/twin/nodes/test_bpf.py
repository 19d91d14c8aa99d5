"""System calls for BPF programs."""

from __future__ import annotations

import ctypes
import errno
import platform

import pytest

from sliceworks.twin.nodes.runtime import bpf


@pytest.mark.parametrize("interruptions", [0, 1, 5])
def test_a_call_that_a_signal_interrupts_is_repeated(monkeypatch: pytest.MonkeyPatch, interruptions: int) -> None:
    """The kernel stops verifying a program, with EAGAIN, when a signal arrives, such as that of a child that ended."""
    left = [errno.EAGAIN] * interruptions

    def call(number: int, command: int, attributes: bytes) -> int:
        if left:
            ctypes.set_errno(left.pop())
            return -1
        return 7

    monkeypatch.setattr(bpf, "_syscall", call)
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    assert bpf._call(5, b"") == 7


def test_other_errors_are_raised_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def call(number: int, command: int, attributes: bytes) -> int:
        calls.append(command)
        ctypes.set_errno(errno.EPERM)
        return -1

    monkeypatch.setattr(bpf, "_syscall", call)
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    with pytest.raises(PermissionError):
        bpf._call(5, b"")
    assert calls == [5]
