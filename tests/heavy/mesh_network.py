"""A pod network on this machine: addresses that the API accepts, and network namespaces for programs that need their own ports.

It needs root. One run at a time uses it, and first deletes what a killed run left behind.
"""

from __future__ import annotations

import fcntl
import ipaddress
import itertools
import os
import shutil
import subprocess
from typing import IO, TYPE_CHECKING

from tests.real.build import CannotBuild
from tests.real.programs import cache_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

RANGE = ipaddress.ip_network("10.231.0.0/20")
_MARK = "swmesh"


class Network:
    """`home` is the address of this machine for pods."""

    def __init__(self) -> None:
        if os.geteuid() or shutil.which("ip") is None:
            raise CannotBuild("a network of pods needs root and iproute2: apt-get install iproute2")
        self._lock = _lock()
        self._free: Iterator[ipaddress.IPv4Address | ipaddress.IPv6Address] = RANGE.hosts()
        self._numbers = itertools.count(1)
        self.clean()
        self.home = self.address()

    def close(self) -> None:
        """Delete everything and release the lock."""
        self.clean()
        self._lock.close()

    def address(self) -> str:
        """An address that servers of this process can listen on."""
        result = str(next(self._free))
        _ip("address", "add", f"{result}/32", "dev", "lo")
        return result

    def namespace(self) -> tuple[str, str]:
        """The name of a new network namespace, and its address."""
        name, result = f"{_MARK}{next(self._numbers)}", str(next(self._free))
        _ip("netns", "add", name)
        _ip("link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name)
        _ip("link", "set", name, "up")
        _ip("route", "add", f"{result}/32", "dev", name, "src", self.home)
        _ip("-n", name, "link", "set", "lo", "up")
        _ip("-n", name, "link", "set", "eth0", "up")
        _ip("-n", name, "address", "add", f"{result}/32", "dev", "eth0")
        _ip("-n", name, "route", "add", self.home, "dev", "eth0")
        _ip("-n", name, "route", "add", "default", "via", self.home)
        return name, result

    def clean(self) -> None:
        """Delete all namespaces and addresses."""
        for line in _ip("netns", "list").splitlines():
            name = line.split()[0]
            if name.startswith(_MARK):
                _ip("netns", "delete", name)
        for line in _ip("-oneline", "-4", "address", "show", "dev", "lo").splitlines():
            result = line.split()[3]
            if ipaddress.ip_interface(result).ip in RANGE:
                _ip("address", "delete", result, "dev", "lo")


def _lock() -> IO[str]:
    """Wait until no other run uses the network."""
    folder = cache_folder().parent / "heavy"
    folder.mkdir(parents=True, exist_ok=True)
    lock = (folder / "network.lock").open("w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    return lock


def _ip(*arguments: str) -> str:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise CannotBuild(f"ip {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout
