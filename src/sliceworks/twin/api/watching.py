"""Watch: the changes of a resource as an endless answer, one line of JSON for each.

The line of a change is made once and shared by every watcher that shows objects in the same way.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base import clock
from sliceworks.base.errors import ApiError, Expired
from sliceworks.kube.transport import Response
from sliceworks.twin.api.large import PIECE, joined
from sliceworks.twin.api.reads import check_list_options, revision_param
from sliceworks.twin.api.selecting import matcher
from sliceworks.twin.api.views import View
from sliceworks.twin.store.entries import ADDED, DELETED, MODIFIED, Change, Entry

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator

    from sliceworks.twin.api.calls import Call
    from sliceworks.twin.api.core import Core
    from sliceworks.twin.store.watches import Watch

_HEADERS = {"content-type": "application/json", "cache-control": "no-cache, private"}
_BOOKMARK_EVERY = 60.0
_SHORTEST, _LONGEST = 1800, 3600
_INITIAL_END = {"k8s.io/initial-events-end": "true"}


async def watch(core: Core, call: Call) -> Response:
    """Start a watch; what can be refused is refused here, what goes wrong later comes as an ERROR event."""
    check_list_options(call, watch=True)
    view, match, since = View(call), matcher(call), revision_param(call)
    timeout = call.number("timeoutSeconds") or clock.randomness().randrange(_SHORTEST, _LONGEST)
    initial = call.flag("sendInitialEvents") if call.params.get("sendInitialEvents") else since == 0
    stream = _Stream(core, call, view, match)
    try:
        stream.open(since, float(timeout), initial=initial)
        # What it begins with may be a moment old: it is shown once that is durable.
        await core.store.settled()
    except Expired as error:
        return Response(200, _HEADERS, stream=_once(_line("ERROR", orjson.dumps(error.status()))))
    except BaseException:
        await stream.aclose()
        raise
    return Response(200, _HEADERS, stream=stream)


async def _once(line: bytes) -> AsyncIterator[bytes]:
    yield line


def _line(type_: str, data: bytes) -> bytes:
    return b'{"type":"%s","object":%s}\n' % (type_.encode(), data)


class _Stream:
    """The lines of one watch. Who has it closes it, also when nothing was read."""

    def __init__(self, core: Core, call: Call, view: View, match: Callable[[Entry], bool] | None) -> None:
        self._core, self._call, self._view, self._match = core, call, view, match
        self._resource = call.resource.stored_as
        self._ready: asyncio.Future[None] | None = None
        self._seen = 0
        self._header = view.table
        self._bookmarks = call.flag("allowWatchBookmarks")
        self._watch: Watch
        self._pieces: AsyncGenerator[bytes, None] | None = None

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        assert self._pieces is not None
        return await anext(self._pieces)

    async def aclose(self) -> None:
        if self._pieces is not None:
            await self._pieces.aclose()
            self._core.store.unwatch(self._resource, self._watch)

    def open(self, since: int, timeout: float, *, initial: bool) -> None:
        """Join the store's watchers; the first lines are of what is there already, if the watch begins with that."""
        store, call = self._core.store, self._call
        namespace = call.namespace or None
        start = store.revision if initial or since == 0 else since
        self._watch = store.watch(self._resource, self._wake, namespace=namespace, name=call.name or None, since=start)
        self._seen = start
        entries, last = [], b""
        if initial:
            entries = [entry for entry in store.scan(self._resource, namespace) if self._match is None or self._match(entry)]
            if self._bookmarks and (since == 0 or call.params.get("sendInitialEvents")):
                last = self._bookmark(_INITIAL_END)
        self._pieces = self._run(self._initial(entries, last), timeout)

    def _initial(self, entries: list[Entry], last: bytes) -> Iterator[bytes]:
        for entry in entries:
            yield self._object_line(ADDED, entry)
        if last:
            yield last

    def _wake(self) -> None:
        if self._ready is not None and not self._ready.done():
            self._ready.set_result(None)

    async def _run(self, first: Iterator[bytes], timeout: float) -> AsyncGenerator[bytes, None]:
        loop = asyncio.get_running_loop()
        end = loop.time() + timeout
        try:
            for piece in joined(first):
                yield piece
            next_bookmark = loop.time() + _BOOKMARK_EVERY
            while True:
                lines = self._drain()
                if lines:
                    yield b"".join(lines)
                    if loop.time() < end:
                        continue
                if self._watch.closed:
                    return
                now = loop.time()
                if now >= end:
                    if self._bookmarks:
                        yield self._bookmark()
                    return
                if self._bookmarks and now >= next_bookmark:
                    next_bookmark = now + _BOOKMARK_EVERY
                    yield self._bookmark()
                    continue
                await self._wait(loop, min(end, next_bookmark) if self._bookmarks else end)
        except ApiError as error:
            yield _line("ERROR", orjson.dumps(error.status()))
        finally:
            self._core.store.unwatch(self._resource, self._watch)

    async def _wait(self, loop: asyncio.AbstractEventLoop, until: float) -> None:
        self._ready = loop.create_future()
        handle = loop.call_at(until, self._wake)
        try:
            await self._ready
        finally:
            handle.cancel()
            self._ready = None

    def _drain(self) -> list[bytes]:
        changes = self._watch.changes
        lines: list[bytes] = []
        size = 0
        while changes and size < PIECE:
            change = changes.popleft()
            self._seen = change.revision
            line = self._change_line(change)
            if line:
                lines.append(line)
                size += len(line)
        return lines

    def _change_line(self, change: Change) -> bytes:
        if self._match is None:
            return self._shared_line(change, change.type)
        now = change.type != DELETED and self._match(change.entry)
        before = change.previous is not None and self._match(change.previous)
        if now:
            return self._shared_line(change, MODIFIED if before else ADDED)
        return self._left_line(change) if before else b""

    def _left_line(self, change: Change) -> bytes:
        """An object that no longer matches is shown as it last matched, at the revision of the change."""
        entry, previous = change.entry, change.previous
        if change.type == DELETED or previous is None:
            return self._shared_line(change, DELETED)
        obj = previous.object()
        obj["metadata"]["resourceVersion"] = str(change.revision)
        last = Entry(entry.resource, entry.namespace, entry.name, change.revision, orjson.dumps(obj))
        return self._object_line(DELETED, last)

    def _shared_line(self, change: Change, type_: str) -> bytes:
        if self._header:
            return self._object_line(type_, change.entry)
        key = (type_, self._view.key)
        line = change.lines.get(key)
        if line is None:
            line = change.lines[key] = self._object_line(type_, change.entry)
        return line

    def _object_line(self, type_: str, entry: Entry) -> bytes:
        if not self._view.table:
            return _line(type_, self._view.object_bytes(entry))
        table = self._view.shown(entry)
        if not self._header:
            table["columnDefinitions"] = None
        self._header = False
        return _line(type_, orjson.dumps(table))

    def _bookmark(self, annotations: dict[str, str] | None = None) -> bytes:
        revision = self._seen if self._watch.changes else max(self._seen, self._core.store.announced)
        metadata: dict[str, Any] = {"resourceVersion": str(revision), "creationTimestamp": None}
        if annotations:
            metadata["annotations"] = annotations
        obj = {"kind": self._call.resource.kind, "apiVersion": self._call.api_version, "metadata": metadata}
        return _line("BOOKMARK", orjson.dumps(obj))
