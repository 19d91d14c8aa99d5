"""The protobuf wire format, written: one function for each way a field can stand."""

from __future__ import annotations

import struct


def part(field: int, data: bytes) -> bytes:
    """A message, or anything else that has a length."""
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def text(field: int, value: str) -> bytes:
    return part(field, value.encode())


def number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value & (1 << 64) - 1)


def flag(field: int, value: bool) -> bytes:
    return number(field, int(value))


def real(field: int, value: float) -> bytes:
    return _varint(field << 3 | 1) + struct.pack("<d", value)


def _varint(value: int) -> bytes:
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)
