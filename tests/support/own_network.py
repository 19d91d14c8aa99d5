"""A network namespace for a test."""

from __future__ import annotations

import ctypes
import os
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from ipaddress import IPv4Network

_NEW_NETWORK = 0x40000000


@contextmanager
def own_network(network: IPv4Network | None = None) -> Iterator[None]:
    """A network namespace for this thread and its children with only loopback: every port is free and no other host is reachable.

    All addresses of `network` are those of the loopback interface too. Needs root.
    """
    library = ctypes.CDLL(None, use_errno=True)
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        if library.unshare(_NEW_NETWORK):
            raise OSError(ctypes.get_errno(), "no network of its own")
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        if network is not None:
            subprocess.run(["ip", "address", "add", f"{network[1]}/{network.prefixlen}", "dev", "lo"], check=True)
        yield
    finally:
        library.setns(before, _NEW_NETWORK)
        os.close(before)
