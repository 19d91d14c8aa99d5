"""How stored objects are returned: bytes, another version, PartialObjectMetadata or a Table; large lists are streamed."""

from __future__ import annotations

import asyncio
import zlib
from collections import OrderedDict
from functools import partial
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base import budget, clock
from sliceworks.base.errors import BadRequest
from sliceworks.base.transport import Response
from sliceworks.schemas.builtins import component_name
from sliceworks.twin.apiserver import codec, protobuf_encoder
from sliceworks.twin.apiserver.printers import table_columns

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping

    from sliceworks.twin.apiserver.request_info import Call
    from sliceworks.twin.store.entry import Entry

Obj = dict[str, Any]
CHUNK_BYTES = 64 * 1024
STREAM_THRESHOLD_BYTES = 1024 * 1024
_GZIP = 16 + zlib.MAX_WBITS
_PARTIAL = {"PartialObjectMetadata", "PartialObjectMetadataList"}
_PARTIAL_KIND = ("meta.k8s.io", "v1", "PartialObjectMetadata")
_MAX_CACHED_BYTES = 16 * 1024 * 1024
_CELLS_PER_TURN = 500
"""Of a table that is rendered without letting the event loop run."""


async def object_response(call: Call, status: int, entry: Entry) -> Response:
    """A response with one object, in the form that the call negotiated."""
    view = View(call)
    if view.binary:
        body = view.envelope(await view.message_in_steps(entry, budget.Steps()))
        return codec.encoded_response(status, body, call.form.media, call.warnings)
    size = 0 if view.plain else entry.size
    return await document_response(call, status, await budget.run_by_size(size, partial(view.object_bytes, entry)))


async def document_response(call: Call, status: int, body: bytes) -> Response:
    """A response with encoded JSON, converted to the media type that the call negotiated."""
    size = 0 if call.form.media == codec.JSON else len(body)
    return await budget.run_by_size(size, partial(codec.json_response, status, body, call.form, call.warnings))


async def binary_list_response(call: Call, view: View, entries: list[Entry], head: Obj) -> Response:
    """The list of these entries in protobuf; it lets the event loop run while it encodes many or large objects."""
    messages, steps = list[bytes](), budget.Steps()
    for entry in entries:
        messages.append(await view.message_in_steps(entry, steps))
    parts = protobuf_encoder.list_parts(head, messages)
    if sum(map(len, parts)) <= STREAM_THRESHOLD_BYTES:
        return codec.encoded_response(200, b"".join(parts), call.form.media, call.warnings)
    headers = codec.encoded_response(200, b"", call.form.media, call.warnings).headers
    return stream_response(headers, _each(parts), compress="gzip" in call.request.headers.get("accept-encoding", ""))


async def _each(parts: Iterable[bytes]) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


async def list_parts(view: View, entries: list[Entry], head: Obj) -> AsyncIterator[bytes]:
    """A list in compact JSON; `head` is the list without items."""
    steps = budget.Steps()
    yield orjson.dumps(head)[:-1] + b',"items":['
    for index, entry in enumerate(entries):
        if index:
            yield b","
        yield view.item_bytes(entry)
        await steps.take(entry.size)
    yield b"]}"


async def pretty_list_parts(view: View, entries: list[Entry], head: Obj) -> AsyncIterator[bytes]:
    """A list in indented JSON."""
    steps = budget.Steps()
    yield orjson.dumps({**head, "items": []}, option=orjson.OPT_INDENT_2).removesuffix(b"]\n}")
    for index, entry in enumerate(entries):
        item = orjson.dumps(orjson.loads(view.item_bytes(entry)), option=orjson.OPT_INDENT_2)
        yield (b",\n    " if index else b"\n    ") + item.replace(b"\n", b"\n    ")
        await steps.take(2 * entry.size)
    yield b"\n  ]\n}"


async def yaml_list_parts(view: View, entries: list[Entry], head: Obj) -> AsyncIterator[bytes]:
    """A list in YAML, which has items; fields in order of their names."""
    from sliceworks.twin.apiserver.yaml_codec import encode

    yield encode({"apiVersion": head["apiVersion"]}) + b"items:\n"
    batch: list[Entry] = []
    size = 0
    for entry in entries:
        batch.append(entry)
        size += entry.size
        if size > budget.BYTES_PER_TURN:
            yield await budget.run_by_size(size, partial(_encode_items, view, batch))
            batch, size = [], 0
    if batch:
        yield await budget.run_by_size(size, partial(_encode_items, view, batch))
    yield encode({"kind": head["kind"], "metadata": head["metadata"]})


def _encode_items(view: View, entries: list[Entry]) -> bytes:
    from sliceworks.twin.apiserver.yaml_codec import encode

    return encode([orjson.loads(view.item_bytes(entry)) for entry in entries])


async def join_chunks(lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The same bytes in chunks of about CHUNK_BYTES; larger lines are not copied."""
    chunk: list[bytes] = []
    size = 0
    async for line in lines:
        if len(line) >= CHUNK_BYTES:
            if chunk:
                yield b"".join(chunk)
            yield line
            chunk, size = [], 0
            continue
        chunk.append(line)
        size += len(line)
        if size >= CHUNK_BYTES:
            yield b"".join(chunk)
            chunk, size = [], 0
    if chunk:
        yield b"".join(chunk)


def stream_response(headers: Mapping[str, str], parts: AsyncIterator[bytes], *, compress: bool) -> Response:
    """A response that streams these parts."""
    if compress:
        headers = {**headers, "content-encoding": "gzip", "vary": "Accept-Encoding"}
        return Response(200, headers, stream=_yielding(_compress(join_chunks(parts))))
    return Response(200, headers, stream=_yielding(join_chunks(parts)))


async def _yielding(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Let the event loop run between chunks."""
    async for chunk in chunks:
        yield chunk
        await asyncio.sleep(0)


async def _compress(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    compressor = zlib.compressobj(1, zlib.DEFLATED, _GZIP)
    async for chunk in chunks:
        if compressed := compressor.compress(chunk):
            yield compressed
    yield compressor.flush()


class _MessageCache:
    """The messages of stored objects that were read last: clients list and get the same objects again.

    An object has one message, that of the entry that was read last. Entries are counted by their messages: most are stored anyway.
    """

    def __init__(self, max_size: int) -> None:
        self._max_size, self._size = max_size, 0
        self._messages: OrderedDict[tuple[str, str], tuple[Entry, bytes]] = OrderedDict()

    def get(self, entry: Entry) -> bytes | None:
        cached = self._messages.get((entry.resource, entry.key))
        return cached[1] if cached is not None and cached[0] is entry else None

    def put(self, entry: Entry, message: bytes) -> None:
        """Keep the message of an entry in its stored version."""
        key = (entry.resource, entry.key)
        if (previous := self._messages.pop(key, None)) is not None:
            self._size -= len(previous[1])
        self._messages[key] = entry, message
        self._size += len(message)
        while self._size > self._max_size:
            _, (_, oldest) = self._messages.popitem(last=False)
            self._size -= len(oldest)


_messages = _MessageCache(_MAX_CACHED_BYTES)


class View:
    """The form in which a call gets objects. `plain` means that stored bytes can be sent unchanged."""

    def __init__(self, call: Call) -> None:
        self._call = call
        form = call.form
        self.converted = codec.needs_conversion(call.resource, call.version)
        self.table = form.view == "Table"
        self.partial = form.view in _PARTIAL
        self.binary = form.binary
        self.plain = not (self.converted or self.table or self.partial)
        self.key = (form, call.version.name, call.resource.key, call.param("includeObject"))
        if self.binary:
            resource = call.resource
            kind = _PARTIAL_KIND if self.partial else (resource.group, call.version.name, resource.kind)
            self._component = component_name(*kind)
        if self.table:
            include = call.param("includeObject") or "Metadata"
            if include not in {"None", "Metadata", "Object"}:
                problem = "must be 'Metadata', 'Object', 'None', or empty"
                raise BadRequest(f'Unable to convert to Table as requested: includeObject: Invalid value: "{include}": {problem}')
            self._include = include
            custom, printer = call.version.printer_columns, call.resource.strategy.printer
            self.columns = table_columns.builtin_columns(printer) if custom is None else table_columns.custom_columns(custom)

    def object_bytes(self, entry: Entry) -> bytes:
        """One object, as GET and watch events return it."""
        if self.plain and entry.revision >= self._call.version.since:
            return entry.data
        return orjson.dumps(self.convert(entry))

    def binary_object(self, entry: Entry) -> bytes:
        """One object in protobuf, with its kind and version."""
        return self.envelope(self.message(entry))

    def envelope(self, message: bytes) -> bytes:
        """A message with its kind and version."""
        if self.partial:
            return protobuf_encoder.envelope("meta.k8s.io/v1", "PartialObjectMetadata", message)
        return protobuf_encoder.envelope(self._call.api_version, self._call.resource.kind, message)

    def message(self, entry: Entry) -> bytes:
        """One object in protobuf, as an item of a list."""
        message = _messages.get(entry) if self.plain else None
        return message if message is not None else self._keep_message(entry, self._encode_message(entry))

    async def message_in_steps(self, entry: Entry, steps: budget.Steps) -> bytes:
        """The same; the event loop runs between many objects, and while a large one is encoded."""
        message = _messages.get(entry) if self.plain else None
        if message is None:
            await steps.take(entry.size)
            message = self._keep_message(entry, await budget.run_by_size(entry.size, partial(self._encode_message, entry)))
        return message

    def _encode_message(self, entry: Entry) -> bytes:
        return protobuf_encoder.encode_message(self._component, entry.object() if self.plain else self.convert(entry))

    def _keep_message(self, entry: Entry, message: bytes) -> bytes:
        if self.plain:
            _messages.put(entry, message)
        return message

    def item_bytes(self, entry: Entry) -> bytes:
        """One item of a list: built-in kinds omit the kind and apiVersion, which the list has."""
        if self.partial or self._call.resource.custom:
            return self.object_bytes(entry)
        data = self.object_bytes(entry)
        return b"{" + data[data.index(b'"metadata":') :]

    def convert(self, entry: Entry) -> Obj:
        """A stored object in the form of this call."""
        obj = codec.to_served(self._call.resource, self._call.version, entry)
        if self.table:
            return self._table([self._row(obj, clock.now())], {"resourceVersion": obj["metadata"].get("resourceVersion", "")})
        return partial_metadata(obj) if self.partial else obj

    async def list_as_table(self, entries: list[Entry], metadata: Obj) -> Obj:
        """The table of a list; it lets the event loop run while it renders many or large rows."""
        now, rows, steps = clock.now(), list[Obj](), budget.Steps()
        cost = len(self.columns.definitions) * budget.BYTES_PER_TURN // _CELLS_PER_TURN
        for entry in entries:
            rows.append(self._row(codec.to_served(self._call.resource, self._call.version, entry), now))
            await steps.take(max(cost, entry.size))
        return self._table(rows, metadata)

    def _table(self, rows: list[Obj], metadata: Obj) -> Obj:
        return {
            "kind": "Table",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": metadata,
            "columnDefinitions": self.columns.definitions,
            "rows": rows,
        }

    def _row(self, obj: Obj, now: Any) -> Obj:
        row: Obj = {"cells": self.columns.row(obj, now), "object": None}
        conditions = self.columns.conditions(obj)
        if conditions:
            row["conditions"] = conditions
        if self._include == "Object":
            row["object"] = obj
        elif self._include == "Metadata":
            row["object"] = partial_metadata(obj)
        return row


def partial_metadata(obj: Obj) -> Obj:
    """The metadata of an object, as PartialObjectMetadata."""
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}
