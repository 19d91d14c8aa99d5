"""Watch: a stream of events, one JSON line each.

A change is encoded once and shared by all watchers that get objects in the same form.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base import budget, clock
from sliceworks.base.errors import ApiError, Expired
from sliceworks.base.transport import Response
from sliceworks.twin.apiserver import protobuf_encoder
from sliceworks.twin.apiserver.codec import PROTOBUF
from sliceworks.twin.apiserver.handlers.response import CHUNK_BYTES, View, join_chunks, partial_metadata
from sliceworks.twin.apiserver.request_info import check_list_options, revision_param
from sliceworks.twin.apiserver.selection import build_filter
from sliceworks.twin.store.watch_cache import ADDED, DELETED, MODIFIED, Change

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable

    from sliceworks.twin.apiserver.generic_server import ApiServer
    from sliceworks.twin.apiserver.request_info import Call
    from sliceworks.twin.store.entry import Entry
    from sliceworks.twin.store.watch_cache import Watch

Obj = dict[str, Any]
_HEADERS = {"content-type": "application/json", "cache-control": "no-cache, private"}
_BINARY_HEADERS = {**_HEADERS, "content-type": f"{PROTOBUF};stream=watch"}
_BOOKMARK_INTERVAL = 60.0
_MIN_TIMEOUT, _MAX_TIMEOUT = 1800, 3600
_INITIAL_EVENTS_END = {"k8s.io/initial-events-end": "true"}


async def serve_watch(server: ApiServer, call: Call) -> Response:
    """Start a watch. Bad requests fail here; later errors are sent as an ERROR event."""
    check_list_options(call, watch=True)
    view, match, since = View(call), build_filter(call), revision_param(call)
    timeout = call.number("timeoutSeconds") or clock.rng().randrange(_MIN_TIMEOUT, _MAX_TIMEOUT)
    initial = call.flag("sendInitialEvents") if call.params.get("sendInitialEvents") else since == 0
    stream = _Stream(server, call, view, match)
    headers = _BINARY_HEADERS if view.binary else _HEADERS
    try:
        stream.open(since, float(timeout), initial=initial)
        # The initial events may include pending writes: send them once they are durable.
        await server.store.wait_durable()
    except Expired as error:
        return Response(200, headers, stream=_once(_event_of(view, "ERROR", error.status())))
    except BaseException:
        await stream.aclose()
        raise
    return Response(200, headers, stream=stream)


async def _once(event: bytes) -> AsyncIterator[bytes]:
    yield event


def _event(type_: str, data: bytes) -> bytes:
    return b'{"type":"%s","object":%s}\n' % (type_.encode(), data)


def _event_of(view: View, type_: str, obj: Obj) -> bytes:
    """An event with an object that is not stored."""
    if view.binary:
        return protobuf_encoder.watch_event(type_, protobuf_encoder.encode(obj))
    return _event(type_, orjson.dumps(obj))


class _Stream:
    """The event stream of one watch. The caller closes it, even if nothing was read."""

    def __init__(self, server: ApiServer, call: Call, view: View, match: Callable[[Entry], bool] | None) -> None:
        self._server, self._call, self._view, self._match = server, call, view, match
        self._resource = call.resource.storage_key
        self._ready: asyncio.Future[None] | None = None
        self._seen = 0
        self._converted: dict[Entry, Entry] = {}
        """The entries of pending changes in the version of the call, if a webhook converts them."""
        self._header = view.table
        self._bookmarks = call.flag("allowWatchBookmarks")
        self._watch: Watch
        self._chunks: AsyncGenerator[bytes, None] | None = None

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        assert self._chunks is not None
        return await anext(self._chunks)

    async def aclose(self) -> None:
        if self._chunks is not None:
            await self._chunks.aclose()
            self._server.store.unwatch(self._resource, self._watch)

    def open(self, since: int, timeout: float, *, initial: bool) -> None:
        """Start watching the store. With `initial`, the stream starts with the existing objects."""
        store, call = self._server.store, self._call
        namespace = call.namespace or None
        start = store.revision if initial or since == 0 else since
        self._watch = store.watch(self._resource, self._notify, namespace=namespace, name=call.name or None, since=start)
        self._seen = start
        entries: list[Entry] = []
        last = b""
        if initial:
            entries = list(store.scan(self._resource, namespace))
            if self._bookmarks and (since == 0 or call.params.get("sendInitialEvents")):
                last = self._bookmark(_INITIAL_EVENTS_END)
        self._chunks = self._run(entries, last, timeout)

    def _served(self, entry: Entry) -> Entry:
        """An entry in the version of the call."""
        return self._converted.get(entry, entry)

    async def _initial(self, entries: list[Entry], last: bytes) -> AsyncIterator[bytes]:
        steps = budget.Steps()
        for entry in entries:
            if self._match is None or self._match(entry):
                if self._view.binary:
                    await self._view.message_in_steps(entry, steps)
                if self._view.table or self._view.binary or entry.size < CHUNK_BYTES:
                    yield self._encode_event(ADDED, entry)
                else:
                    # The parts of a large event: its object is shared with the store, however many clients do not read it.
                    yield b'{"type":"ADDED","object":'
                    yield self._view.object_bytes(entry)
                    yield b"}\n"
            await steps.take(entry.size)
        if last:
            yield last

    def _notify(self) -> None:
        if self._ready is not None and not self._ready.done():
            self._ready.set_result(None)

    async def _run(self, entries: list[Entry], last: bytes, timeout: float) -> AsyncGenerator[bytes, None]:
        loop = asyncio.get_running_loop()
        end = loop.time() + timeout
        try:
            if self._call.resource.conversion is not None:  # selectors see the fields of the version
                entries = await self._server.served_entries(self._call, entries)
            async for chunk in join_chunks(self._initial(entries, last)):
                yield chunk
            next_bookmark = loop.time() + _BOOKMARK_INTERVAL
            while True:
                if self._call.resource.conversion is not None:
                    await self._convert_changes()
                lines = self._drain()
                if lines:
                    yield b"".join(lines)
                if self._watch.changes:
                    await asyncio.sleep(0)  # other work may run before the next ones are encoded
                if (lines or self._watch.changes) and loop.time() < end:
                    continue
                if self._watch.closed:
                    return
                now = loop.time()
                if now >= end:
                    if self._bookmarks:
                        yield self._bookmark()
                    return
                if self._bookmarks and now >= next_bookmark:
                    next_bookmark = now + _BOOKMARK_INTERVAL
                    yield self._bookmark()
                    continue
                await self._wait(loop, min(end, next_bookmark) if self._bookmarks else end)
        except ApiError as error:
            yield _event_of(self._view, "ERROR", error.status())
        finally:
            self._server.store.unwatch(self._resource, self._watch)

    async def _wait(self, loop: asyncio.AbstractEventLoop, until: float) -> None:
        self._ready = loop.create_future()
        handle = loop.call_at(until, self._notify)
        try:
            await self._ready
        finally:
            handle.cancel()
            self._ready = None

    async def _convert_changes(self) -> None:
        """Convert the objects of all pending changes, also of those that arrive meanwhile."""
        changes, known = self._watch.changes, self._converted
        self._converted = {entry: known[entry] for change in changes for entry in self._entries_of(change) if entry in known}
        while entries := [entry for change in changes for entry in self._entries_of(change) if entry not in self._converted]:
            converted = await self._server.served_entries(self._call, entries)
            self._converted |= dict(zip(entries, converted, strict=True))

    def _entries_of(self, change: Change) -> list[Entry]:
        """The entries that events of a change can contain: without selectors, only the new one."""
        previous = change.previous if self._match is not None else None
        return [change.entry] if previous is None else [change.entry, previous]

    def _drain(self) -> list[bytes]:
        """The events of the first changes: as many as fit into a chunk, or can be encoded in a turn of the event loop."""
        changes = self._watch.changes
        lines: list[bytes] = []
        size = decoded = 0
        while changes and size < CHUNK_BYTES and decoded < budget.BYTES_PER_TURN:
            change = changes.popleft()
            decoded += change.entry.size
            self._seen = change.revision
            line = self._event_of(change)
            if line:
                lines.append(line)
                size += len(line)
        return lines

    def _event_of(self, change: Change) -> bytes:
        if self._match is None:
            return self._shared_event(change, change.type)
        now = change.type != DELETED and self._match(self._served(change.entry))
        before = change.previous is not None and self._match(self._served(change.previous))
        if now:
            return self._shared_event(change, MODIFIED if before else ADDED)
        return self._removal_event(change) if before else b""

    def _removal_event(self, change: Change) -> bytes:
        """DELETED for an object that stopped matching: its last matching state, with the revision of the change."""
        entry, previous = change.entry, change.previous
        if change.type == DELETED or previous is None:
            return self._shared_event(change, DELETED)
        previous = self._served(previous)
        obj = previous.object()
        obj["metadata"]["resourceVersion"] = str(change.revision)
        last = type(previous)(entry.resource, entry.namespace, entry.name, change.revision, orjson.dumps(obj))
        return self._encode_event(DELETED, last)

    def _shared_event(self, change: Change, type_: str) -> bytes:
        if self._header:
            return self._encode_event(type_, change.entry)
        key = (type_, self._view.key)
        line = change.encoded.get(key)
        if line is None:
            line = change.encoded[key] = self._encode_event(type_, change.entry)
        return line

    def _encode_event(self, type_: str, entry: Entry) -> bytes:
        entry = self._served(entry)
        if self._view.binary:
            return protobuf_encoder.watch_event(type_, self._view.binary_object(entry))
        if not self._view.table:
            return _event(type_, self._view.object_bytes(entry))
        table = self._view.convert(entry)
        if not self._header:
            table["columnDefinitions"] = None
        self._header = False
        return _event(type_, orjson.dumps(table))

    def _bookmark(self, annotations: dict[str, str] | None = None) -> bytes:
        revision = self._seen if self._watch.changes else max(self._seen, self._server.store.announced)
        metadata: dict[str, Any] = {"resourceVersion": str(revision), "creationTimestamp": None}
        if annotations:
            metadata["annotations"] = annotations
        obj = {"kind": self._call.resource.kind, "apiVersion": self._call.api_version, "metadata": metadata}
        return _event_of(self._view, "BOOKMARK", partial_metadata(obj) if self._view.partial else obj)
