"""gRPC request messages: fields read and replaced in protobuf bytes, and a stream of messages that can be replayed for a retry."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from sliceworks.base import protobuf_wire
from sliceworks.base.protobuf_wire import LENGTH_DELIMITED, VARINT, DecodeError, Field, read_fields

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator


def read_model_name(message: bytes) -> str | None:
    """The string in field 1. As in any protobuf parser, the last occurrence counts."""
    value = None
    for item in _fields(message):
        if item.field == 1:
            value = message[item.start : item.end]
    try:
        return value.decode() if value is not None else None
    except UnicodeDecodeError as error:
        raise DecodeError("field 1: must be a UTF-8 string") from error


def read_number(message: bytes, field: int) -> int | None:
    """The integer in a field. The last occurrence counts."""
    value = None
    for item in _fields(message):
        if item.field == field and item.wire_type == VARINT:
            value = item.number
    return value


def replace_model_name(message: bytes, name: str) -> bytes:
    """The message with another string in field 1."""
    other_fields: list[bytes] = []
    at = 0
    for item in _fields(message):
        if item.field != 1:
            other_fields.append(message[at : item.end])
        at = item.end
    return protobuf_wire.string(1, name) + b"".join(other_fields)


def _fields(message: bytes) -> Iterator[Field]:
    for item in read_fields(message):
        if item.field == 0 or (item.field == 1 and item.wire_type != LENGTH_DELIMITED):
            raise DecodeError("field 1: must be a string")
        yield item


class ReplayableMessages:
    """The messages of a client, read only as fast as an upstream takes them.

    They are kept, up to `max_bytes`, until a response starts: until then another upstream can be sent all of them again.
    """

    def __init__(self, first: bytes, rest: AsyncIterator[bytes], max_bytes: int) -> None:
        self._kept, self._rest = [first], aiter(rest)
        self._capacity = max_bytes - len(first)
        self._next: asyncio.Future[bytes | None] | None = None
        self._reader = 0
        self.replayable = self._capacity >= 0
        """Whether all messages that were read are still kept."""
        self.error: Exception | None = None
        """The error of an invalid message: grpcio cancels a call whose request iterator raises, and drops the error."""

    def settle(self) -> None:
        """Stop keeping messages: a response has started."""
        self.replayable = False

    def replay(self) -> AsyncIterator[bytes]:
        """All messages from the first one on. Earlier iterators end."""
        self._reader += 1
        return self._iterate(self._reader)

    async def _iterate(self, reader: int) -> AsyncIterator[bytes]:
        position = 0
        while reader == self._reader:
            message = self._kept[position] if position < len(self._kept) else await self._wait_for_next()
            if message is None or reader != self._reader:
                return
            position += 1
            yield message

    async def _wait_for_next(self) -> bytes | None:
        # An iterator may be abandoned while it waits; its successor then waits for the same message, so that none is lost.
        if self._next is None:
            self._next = asyncio.ensure_future(self._read())
        return await asyncio.shield(self._next)

    async def _read(self) -> bytes | None:
        """Read the next message and keep it, once for all iterators that wait for it."""
        message = await anext(self._rest, None)
        self._next = None
        if message is not None and self.replayable:
            self._capacity -= len(message)
            self.replayable = self._capacity >= 0
            if self.replayable:
                self._kept.append(message)
        return message

    def close(self) -> None:
        """Stop reading."""
        if self._next is not None:
            self._next.cancel()
