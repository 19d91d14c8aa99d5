"""Addresses: of a node, and of the pods on it, from the node's own range."""

from __future__ import annotations

import ipaddress
import zlib
from typing import Any

Obj = dict[str, Any]
_FIRST = 2  # the network's own address and the gateway's are not given out


def host_address(node: Obj) -> str:
    """The address that a node says it has inside the cluster."""
    for item in (node.get("status") or {}).get("addresses") or ():
        if item.get("type") == "InternalIP":
            return str(item["address"])
    return ""


def derived_address(name: str) -> str:
    """An address for a node that nobody gave one: it follows from the name."""
    number = zlib.crc32(name.encode()) & 0xFFFFF
    return f"172.{16 + (number >> 16)}.{number >> 8 & 255}.{number & 255}"


def pod_range(node: Obj) -> str:
    """The range of a node's pods: its own, or one that follows from its name where nobody gave it any."""
    if given := (node.get("spec") or {}).get("podCIDR"):
        return str(given)
    number = zlib.crc32(node["metadata"]["name"].encode()) & 0xFFFF
    return f"10.{number >> 8}.{number & 0xFF}.0/24"


class Range:
    """Gives addresses out, each to one pod at a time; the lowest that is free comes first."""

    __slots__ = ("_base", "_free", "_next", "_size", "_used")

    def __init__(self, cidr: str) -> None:
        network = ipaddress.ip_network(cidr, strict=False)
        self._base, self._size = network.network_address, network.num_addresses
        self._next = _FIRST
        self._used: set[int] = set()
        self._free: list[int] = []

    def take(self) -> str:
        """A free address, or none where all are taken."""
        while self._next in self._used:
            self._next += 1
        if self._next < self._size - 1:
            number = self._next
            self._next += 1
        elif self._free:
            number = self._free.pop(0)
        else:
            return ""
        self._used.add(number)
        return self._text(number)

    def hold(self, address: str) -> None:
        """Know that a pod has this address already."""
        if (number := self._number(address)) is not None:
            self._used.add(number)

    def give_back(self, address: str) -> None:
        """The pod that had it is gone."""
        number = self._number(address)
        if number is not None and number in self._used:
            self._used.discard(number)
            if number < self._next:  # what lies ahead comes in its turn
                self._free.append(number)

    def _text(self, number: int) -> str:
        if self._base.version == 6:
            return str(self._base + number)
        value = int(self._base) + number
        return f"{value >> 24}.{value >> 16 & 255}.{value >> 8 & 255}.{value & 255}"

    def _number(self, address: str) -> int | None:
        try:
            number = int(ipaddress.ip_address(address)) - int(self._base)
        except ValueError:
            return None
        return number if 0 <= number < self._size else None
