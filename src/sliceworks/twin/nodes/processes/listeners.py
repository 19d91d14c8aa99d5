"""Who listens on this machine, as the kernel tells it: whether a pod's port is open can be seen without a connection to it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_LISTENING = "0A"
_MAPPED = "0000000000000000FFFF0000"
EVERYWHERE = "0.0.0.0"


def listening() -> set[tuple[str, int]]:
    """The IPv4 addresses and ports at which programs listen; `EVERYWHERE` stands for all addresses."""
    return {found for table in _TABLES for found in _read(table)}


def _read(table: Path) -> Iterator[tuple[str, int]]:
    try:
        file = table.open()
    except OSError:
        return  # no IPv6, for instance
    with file:
        next(file, "")
        for line in file:
            words = line.split()
            if words[3] != _LISTENING:
                continue
            address, _, port = words[1].rpartition(":")
            if (text := _text(address)) is not None:
                yield text, int(port, 16)


def _text(address: str) -> str | None:
    if not address.strip("0"):
        return EVERYWHERE
    if len(address) == 32:
        if not address.startswith(_MAPPED):
            return None
        address = address.removeprefix(_MAPPED)
    return ".".join(str(byte) for byte in int(address, 16).to_bytes(4, sys.byteorder))
