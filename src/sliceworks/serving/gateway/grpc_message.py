"""gRPC request messages: fields read and replaced in protobuf bytes, and a stream of messages that can be replayed for a retry."""

from __future__ import annotations

import asyncio
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from sliceworks.base import protobuf_wire
from sliceworks.base.http.messages import HttpError
from sliceworks.base.protobuf_wire import LENGTH_DELIMITED, VARINT, DecodeError, Field, read_fields, read_varints

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator

    from sliceworks.serving.gateway.token_limit import Tensor


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


_INTEGER_BYTES = {"INT8": 1, "INT16": 2, "INT32": 4, "INT64": 8, "UINT8": 1, "UINT16": 2, "UINT32": 4, "UINT64": 8}
_INTEGER_CONTENTS, _STRING_CONTENTS = (2, 3, 4, 5), 8
_MAX_FIELDS = 10_000


def read_tensors(message: bytes) -> Iterator[Tensor]:
    """The parameters and tensors in a ModelInferRequest; only values that are integers or strings can be read."""
    tensors, raw = list[bytes](), list[bytes]()
    for item in read_fields(message):
        part = message[item.start : item.end]
        if item.field == 4:
            yield _read_parameter(part)
        elif item.field == 5:
            tensors.append(part)
        elif item.field == 7:
            raw.append(part)
    for index, tensor in enumerate(tensors):
        yield _read_tensor(tensor, raw[index] if index < len(raw) else None)


def _read_parameter(pair: bytes) -> Tensor:
    name, values = "", list[Any]()
    for item in read_fields(pair):
        if item.field == 1:
            name = pair[item.start : item.end].decode("utf-8", "replace")
        elif item.field == 2:
            value = pair[item.start : item.end]
            values = [known for inner in read_fields(value) if (known := _parameter_value(value, inner)) is not None]
    return name, lambda: values or None


def _parameter_value(value: bytes, item: Field) -> Any:
    if item.field == 3:
        return value[item.start : item.end].decode("utf-8", "replace")
    return item.number if item.wire_type == VARINT else None


def _read_tensor(tensor: bytes, raw: bytes | None) -> Tensor:
    texts, contents = {1: "", 2: ""}, list[bytes]()
    for item in read_fields(tensor):
        part = tensor[item.start : item.end]
        if item.field in texts:
            texts[item.field] = part.decode("utf-8", "replace")
        elif item.field == 5:
            contents.append(part)
    return texts[1], partial(_read_contents, contents) if raw is None else partial(_read_raw, texts[2], raw)


def _read_raw(kind: str, raw: bytes) -> Iterator[Any] | None:
    size = _INTEGER_BYTES.get(kind)
    if size is not None:
        return (int.from_bytes(raw[at : at + size], "little") for at in range(0, len(raw), size))
    return _read_strings(raw) if kind == "BYTES" else None


def _read_contents(contents: list[bytes]) -> Iterator[Any] | None:
    fields = list(islice(((message, item) for message in contents for item in read_fields(message)), _MAX_FIELDS + 1))
    if len(fields) > _MAX_FIELDS or any(item.field not in (*_INTEGER_CONTENTS, _STRING_CONTENTS) for _, item in fields):
        return None
    return (value for message, item in fields for value in _read_items(message, item))


def _read_items(message: bytes, item: Field) -> Iterable[Any]:
    if item.field in _INTEGER_CONTENTS and item.wire_type == VARINT:
        return (item.number,)
    part = message[item.start : item.end]
    return read_varints(part) if item.field in _INTEGER_CONTENTS else (part.decode("utf-8", "replace"),)


def _read_strings(raw: bytes) -> Iterator[str]:
    """Strings, each after its length in four bytes."""
    at = 0
    while at + 4 <= len(raw):
        end = at + 4 + int.from_bytes(raw[at : at + 4], "little")
        yield raw[at + 4 : end].decode("utf-8", "replace")
        at = end


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
        """The error of a message that was refused: grpcio cancels a call whose request iterator raises, and drops the error."""

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
        try:
            message = await anext(self._rest, None)
        except (DecodeError, HttpError) as error:
            self.error = error
            raise
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
