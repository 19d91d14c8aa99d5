"""The protobuf wire format: an encoder per field type, and a reader of fields."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

VARINT, FIXED64, LENGTH_DELIMITED, FIXED32 = 0, 1, 2, 5


class DecodeError(ValueError):
    """The bytes are not a protobuf message."""


class Field(NamedTuple):
    """A field of a message: its value is `message[start:end]`, and `number` for a varint."""

    field: int
    wire_type: int
    start: int
    end: int
    number: int = 0


def read_fields(message: bytes) -> Iterator[Field]:
    """The fields of a message, in order; raises DecodeError."""
    at = 0
    while at < len(message):
        tag, at = _read_varint(message, at)
        field, wire_type, number = tag >> 3, tag & 7, 0
        if wire_type == VARINT:
            number, end = _read_varint(message, at)
        elif wire_type == LENGTH_DELIMITED:
            size, at = _read_varint(message, at)
            end = at + size
        elif wire_type in {FIXED64, FIXED32}:
            end = at + (8 if wire_type == FIXED64 else 4)
        else:
            raise DecodeError(f"proto: illegal wireType {wire_type}")
        if end > len(message):
            raise DecodeError("unexpected EOF")
        yield Field(field, wire_type, at, end, number)
        at = end


def read_varints(packed: bytes) -> Iterator[int]:
    """The numbers of a packed repeated field; raises DecodeError."""
    at = 0
    while at < len(packed):
        number, at = _read_varint(packed, at)
        yield number


def _read_varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(message) or shift > 63:
            raise DecodeError("unexpected EOF")
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & (1 << 64) - 1, at
        shift += 7


def length_delimited(field: int, data: bytes) -> bytes:
    """A length-delimited field: bytes, a string or an embedded message."""
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def string(field: int, value: str) -> bytes:
    return length_delimited(field, value.encode())


def varint(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value & (1 << 64) - 1)


def boolean(field: int, value: bool) -> bytes:
    return varint(field, int(value))


def double(field: int, value: float) -> bytes:
    return _varint(field << 3 | 1) + struct.pack("<d", value)


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
