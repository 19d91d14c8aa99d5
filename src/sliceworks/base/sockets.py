"""Sockets: loopback addresses, the limit of open files, and writes that bypass the event loop's buffering."""

from __future__ import annotations

import contextlib
import ipaddress
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio

_MAX_OPEN_FILES = 65_536
_TABLE_SIZE = 16_384


def is_loopback(host: str) -> bool:
    """Whether a host name or an IP address is on this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def is_ipv4(host: str) -> bool:
    """Whether a host is an IPv4 address."""
    try:
        return ipaddress.ip_address(host).version == 4
    except ValueError:
        return False


def raise_open_files_limit() -> None:
    """Raise the soft limit of open files (often 1,024) towards the hard limit."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    target = _MAX_OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, _MAX_OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < target:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))


def grow_open_files_table() -> None:
    """Let the kernel's table of open files grow now: it doubles at 256 descriptors, at 512 and so on, and blocks all threads then.

    The table is as large as the highest descriptor so far.
    """
    import fcntl
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = (_TABLE_SIZE if limit == resource.RLIM_INFINITY else min(limit, _TABLE_SIZE)) - 1
    file = os.open(os.devnull, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):
            os.close(fcntl.fcntl(file, fcntl.F_DUPFD, highest))
    finally:
        os.close(file)


def find_fileno(transport: asyncio.BaseTransport) -> int:
    """The file descriptor for `write_now`; -1 if the transport encrypts its data."""
    sock = transport.get_extra_info("sslcontext") is None and transport.get_extra_info("socket")
    return int(sock.fileno()) if sock else -1


def write_now(transport: asyncio.WriteTransport, fileno: int, data: bytes | memoryview) -> None:
    """Write directly to the socket: uvloop would buffer the data until it has handled all readable sockets.

    The transport writes what the socket does not accept, and handles errors.
    """
    if transport.is_closing():
        return
    if fileno >= 0 and not transport.get_write_buffer_size():
        try:
            sent = os.write(fileno, data)
        except OSError:
            sent = 0
        if sent == len(data):
            return
        data = data[sent:]
    transport.write(data)


def write_pair_now(transport: asyncio.WriteTransport, fileno: int, head: bytes, body: bytes) -> None:
    """Write two buffers without joining them first."""
    if transport.is_closing():
        return
    sent = 0
    if fileno >= 0 and not transport.get_write_buffer_size():
        with contextlib.suppress(OSError):
            sent = os.writev(fileno, (head, body))
    if sent < len(head):
        transport.writelines((head[sent:], body))
    elif sent < len(head) + len(body):
        transport.write(memoryview(body)[sent - len(head) :])
