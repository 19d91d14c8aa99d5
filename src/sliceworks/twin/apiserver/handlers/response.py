"""How stored objects are returned: bytes, another version, PartialObjectMetadata or a Table; large lists are streamed."""

from __future__ import annotations

import asyncio
import zlib
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base import clock
from sliceworks.base.errors import BadRequest
from sliceworks.base.transport import Response
from sliceworks.schemas.builtins import component_name
from sliceworks.twin.apiserver import codec, protobuf_encoder
from sliceworks.twin.apiserver.printers import table_columns

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator, Mapping

    from sliceworks.twin.apiserver.request_info import Call
    from sliceworks.twin.store.watch_cache import Entry

Obj = dict[str, Any]
CHUNK_BYTES = 64 * 1024
STREAM_THRESHOLD_BYTES = 1024 * 1024
_GZIP = 16 + zlib.MAX_WBITS
_PARTIAL = {"PartialObjectMetadata", "PartialObjectMetadataList"}
_PARTIAL_KIND = ("meta.k8s.io", "v1", "PartialObjectMetadata")
_MAX_CACHED_BYTES = 16 * 1024 * 1024
_CELLS_PER_TURN, _BYTES_PER_TURN = 500, 512 * 1024
"""Of a table that is rendered without letting the event loop run."""


def object_response(call: Call, status: int, entry: Entry) -> Response:
    """A response with one object, in the form that the call negotiated."""
    view = View(call)
    if view.binary:
        return codec.encoded_response(status, view.binary_object(entry), call.form.media, call.warnings)
    return codec.json_response(status, view.object_bytes(entry), call.form, call.warnings)


async def binary_list_response(call: Call, view: View, entries: list[Entry], head: Obj) -> Response:
    """The list of these entries in protobuf; it lets the event loop run while it encodes many or large objects."""
    messages, size = list[bytes](), 0
    for entry in entries:
        messages.append(view.message(entry))
        size += len(entry.data)
        if size > _BYTES_PER_TURN:
            size = 0
            await asyncio.sleep(0)
    parts = protobuf_encoder.list_parts(head, messages)
    if sum(map(len, parts)) <= STREAM_THRESHOLD_BYTES:
        return codec.encoded_response(200, b"".join(parts), call.form.media, call.warnings)
    headers = codec.encoded_response(200, b"", call.form.media, call.warnings).headers
    return stream_response(headers, parts, compress="gzip" in call.request.headers.get("accept-encoding", ""))


def join_chunks(lines: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in chunks of about CHUNK_BYTES; larger lines are not copied."""
    chunk: list[bytes] = []
    size = 0
    for line in lines:
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


def stream_response(headers: Mapping[str, str], parts: Iterable[bytes], *, compress: bool) -> Response:
    """A response that streams these parts."""
    if compress:
        headers = {**headers, "content-encoding": "gzip", "vary": "Accept-Encoding"}
        return Response(200, headers, stream=_yielding(_compress(join_chunks(parts))))
    return Response(200, headers, stream=_yielding(join_chunks(parts)))


async def _yielding(chunks: Iterable[bytes]) -> AsyncIterator[bytes]:
    """Let the event loop run between chunks."""
    for chunk in chunks:
        yield chunk
        await asyncio.sleep(0)


def _compress(chunks: Iterable[bytes]) -> Iterator[bytes]:
    compressor = zlib.compressobj(1, zlib.DEFLATED, _GZIP)
    for chunk in chunks:
        if compressed := compressor.compress(chunk):
            yield compressed
    yield compressor.flush()


class _MessageCache:
    """The newest messages of stored objects: clients list and get the same objects again."""

    def __init__(self, max_size: int) -> None:
        self._max_size, self._size = max_size, 0
        self._messages: OrderedDict[Entry, bytes] = OrderedDict()

    def encode(self, entry: Entry, component: str) -> bytes:
        """The message of an entry in its stored version."""
        message = self._messages.get(entry)
        if message is None:
            message = self._messages[entry] = protobuf_encoder.encode_message(component, entry.object())
            self._size += len(entry.data) + len(message)
            while self._size > self._max_size:
                oldest, old_message = self._messages.popitem(last=False)
                self._size -= len(oldest.data) + len(old_message)
        return message


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
        if self.partial:
            return protobuf_encoder.envelope("meta.k8s.io/v1", "PartialObjectMetadata", self.message(entry))
        return protobuf_encoder.envelope(self._call.api_version, self._call.resource.kind, self.message(entry))

    def message(self, entry: Entry) -> bytes:
        """One object in protobuf, as an item of a list."""
        if self.plain:
            return _messages.encode(entry, self._component)
        return protobuf_encoder.encode_message(self._component, self.convert(entry))

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
        now, rows = clock.now(), list[Obj]()
        cells = size = 0
        for entry in entries:
            rows.append(self._row(codec.to_served(self._call.resource, self._call.version, entry), now))
            cells, size = cells + len(self.columns.definitions), size + len(entry.data)
            if cells > _CELLS_PER_TURN or size > _BYTES_PER_TURN:
                cells = size = 0
                await asyncio.sleep(0)
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
