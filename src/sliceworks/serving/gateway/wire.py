"""As much of protobuf's wire format as it takes to find and change a field of a message, without knowing the message."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.schemas import wire_writer

if TYPE_CHECKING:
    from collections.abc import Iterator

_VARINT, _EIGHT, _TEXT, _FOUR = 0, 1, 2, 5


class NotProtobuf(ValueError):
    """The bytes are no message."""


def name_of(message: bytes) -> str | None:
    """The text in field 1, as whoever reads the message would find it: the last one counts."""
    found = None
    for number, start, end in _fields(message):
        if number == 1:
            found = message[start:end]
    try:
        return found.decode() if found is not None else None
    except UnicodeDecodeError as error:
        raise NotProtobuf("field 1 is no text") from error


def number_of(message: bytes, field: int) -> int | None:
    """The number in a field, as whoever reads the message would find it: the last one counts."""
    found = None
    for number, start, _ in _fields(message):
        if number == field:
            found, _ = _read(message, start)
    return found


def renamed(message: bytes, name: str) -> bytes:
    """The message with another text in field 1."""
    kept: list[bytes] = []
    at = 0
    for number, _, end in _fields(message):
        if number != 1:
            kept.append(message[at:end])
        at = end
    return wire_writer.text(1, name) + b"".join(kept)


def _fields(message: bytes) -> Iterator[tuple[int, int, int]]:
    """Number, and where the value begins and ends. Field 1 must be a text."""
    at = 0
    while at < len(message):
        tag, at = _read(message, at)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            _, end = _read(message, at)
        elif kind == _TEXT:
            size, at = _read(message, at)
            end = at + size
        elif kind in {_EIGHT, _FOUR}:
            end = at + (8 if kind == _EIGHT else 4)
        else:
            raise NotProtobuf("there is no such kind of field")
        if end > len(message) or number == 0 or (number == 1 and kind != _TEXT):
            raise NotProtobuf("the message is cut short or its first field is no text")
        yield number, at, end
        at = end


def _read(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(message) or shift > 63:
            raise NotProtobuf("the message is cut short")
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
