"""Sockets of servers and load generators: how many a process may hold, and how bytes get out without delay."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio

_MOST = 65_536


def allow_many() -> None:
    """Raise the limit of open files, often 1,024, as far as the system lets us."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST if hard == resource.RLIM_INFINITY else min(hard, _MOST)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def number_of(transport: asyncio.BaseTransport) -> int:
    """The number of a transport's socket, for `put`; -1 where what is written must be encrypted first."""
    plain = transport.get_extra_info("sslcontext") is None and transport.get_extra_info("socket")
    return int(plain.fileno()) if plain else -1


def put(transport: asyncio.WriteTransport, number: int, data: bytes | memoryview) -> None:
    """Write at once, while uvloop would gather what is written until everything that came has been read.

    The socket is the transport's own until that is closing. What does not fit, and what goes wrong, is left to the transport.
    """
    if transport.is_closing():
        return
    if number >= 0 and not transport.get_write_buffer_size():
        try:
            sent = os.write(number, data)
        except OSError:
            sent = 0
        if sent == len(data):
            return
        data = data[sent:]
    transport.write(data)


def put_both(transport: asyncio.WriteTransport, number: int, head: bytes, body: bytes) -> None:
    """The same for two pieces that are too long to be joined first."""
    if transport.is_closing():
        return
    sent = 0
    if number >= 0 and not transport.get_write_buffer_size():
        with contextlib.suppress(OSError):
            sent = os.writev(number, (head, body))
    if sent < len(head):
        transport.writelines((head[sent:], body))
    elif sent < len(head) + len(body):
        transport.write(memoryview(body)[sent - len(head) :])
