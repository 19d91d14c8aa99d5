"""The twin's memory: every object, one revision counter, recent history, and those who watch.

A write takes effect in memory at once and is announced once it is durable. Writers and readers wait for that with `settled()`
before they answer, so nobody is told of a write that a crash could take back. All writes of one turn of the event loop share a
commit.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base.errors import ServiceUnavailable
from sliceworks.twin.store.buckets import Bucket, Watch
from sliceworks.twin.store.entries import ADDED, DELETED, MODIFIED, Change, Entry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sliceworks.twin.store.journal import Journal

_HISTORY = 8_192


class Store:
    """Objects by resource, namespace and name. Cluster-scoped objects have the namespace ""."""

    def __init__(self, journal: Journal | None = None, *, history: int = _HISTORY) -> None:
        self.revision = 1
        self._history = history
        self._journal = journal
        self._buckets: dict[str, Bucket] = {}
        self._subscribers: list[Callable[[Change], None]] = []
        self._pending: list[Change] = []
        self._left: list[Change] = []
        self._settled: asyncio.Future[None] | None = None
        self.broken: Callable[[Exception], None] = lambda _: None
        if journal is not None:
            self._load(journal)
        self.announced = self.revision
        """The newest revision that others may know of."""

    def _load(self, journal: Journal) -> None:
        for resource, revision in journal.compactions().items():
            self._bucket(resource).compacted = revision
            self.revision = max(self.revision, revision)
        for change in journal.load():
            bucket = self._bucket(change.resource)
            self.revision = max(self.revision, change.revision)
            floor = bucket.compacted
            self._left += bucket.record(change)
            if change.revision <= floor:
                bucket.changes.pop()

    def _bucket(self, resource: str) -> Bucket:
        bucket = self._buckets.get(resource)
        if bucket is None:
            bucket = self._buckets[resource] = Bucket(resource, self._history)
        return bucket

    def get(self, resource: str, namespace: str, name: str) -> Entry | None:
        bucket = self._buckets.get(resource)
        return bucket.entries.get(f"{namespace}/{name}" if namespace else name) if bucket else None

    def count(self, resource: str) -> int:
        return len(self._bucket(resource).keys)

    def resources(self) -> list[str]:
        """The resources that hold an object."""
        return [name for name, bucket in self._buckets.items() if bucket.keys]

    def scan(self, resource: str, namespace: str | None = None, *, after: str = "", at: int | None = None) -> Iterator[Entry]:
        """Entries in key order; see Bucket.scan."""
        return self._bucket(resource).scan(namespace, after, at)

    def compacted(self, resource: str) -> int:
        return self._bucket(resource).compacted

    def put(self, resource: str, namespace: str, name: str, obj: dict[str, Any]) -> Entry:
        """Write an object; it gets the next revision as its resourceVersion. The dict must not be changed afterwards."""
        self.revision += 1
        obj["metadata"]["resourceVersion"] = str(self.revision)
        entry = Entry(resource, namespace, name, self.revision, orjson.dumps(obj))
        previous = self.get(resource, namespace, name)
        self._record(Change(ADDED if previous is None else MODIFIED, entry, previous, obj))
        return entry

    def remove(self, resource: str, namespace: str, name: str, obj: dict[str, Any]) -> Entry:
        """Delete an object whose last state is `obj`."""
        self.revision += 1
        obj["metadata"]["resourceVersion"] = str(self.revision)
        entry = Entry(resource, namespace, name, self.revision, orjson.dumps(obj))
        self._record(Change(DELETED, entry, self.get(resource, namespace, name), obj))
        return entry

    def _record(self, change: Change) -> None:
        left = self._bucket(change.resource).record(change)
        if self._journal is None:
            self.announced = change.revision
            self._announce(change)
            return
        self._left += left
        self._pending.append(change)
        if len(self._pending) == 1:
            loop = asyncio.get_running_loop()
            self._settled = loop.create_future()
            loop.call_soon(self._flush)

    def _flush(self) -> None:
        changes, left, settled = self._pending, self._left, self._settled
        self._pending, self._left, self._settled = [], [], None
        assert self._journal is not None
        assert settled is not None
        compacted = {change.resource: self._bucket(change.resource).compacted for change in left}
        try:
            self._journal.commit(changes, left, compacted)
        except Exception as error:
            # What is in memory can no longer be trusted to survive: answer nobody, and let the process end.
            settled.set_exception(ServiceUnavailable(f"the store cannot be written: {error}"))
            settled.exception()
            self.broken(error)
            return
        settled.set_result(None)
        self.announced = changes[-1].revision
        for change in changes:
            self._announce(change)

    def _announce(self, change: Change) -> None:
        self._bucket(change.resource).announce(change)
        for subscriber in self._subscribers:
            subscriber(change)
        change.announced()

    async def settled(self) -> None:
        """Return once everything written so far is durable and announced."""
        if self._settled is not None:
            await self._settled

    def watch(
        self, resource: str, wake: Callable[[], None], *, namespace: str | None = None, name: str | None = None, since: int
    ) -> Watch:
        """Follow the changes after a revision; raises Expired when history does not reach back so far."""
        bucket = self._bucket(resource)
        watch = Watch(namespace, name, wake)
        pending = {id(change) for change in self._pending}
        watch.changes.extend(
            change
            for change in bucket.since(since)
            if id(change) not in pending and (not namespace or change.namespace == namespace) and (not name or change.name == name)
        )
        bucket.watch(watch)
        return watch

    def unwatch(self, resource: str, watch: Watch) -> None:
        self._bucket(resource).unwatch(watch)

    def subscribe(self, subscriber: Callable[[Change], None]) -> None:
        """Call it with every object there is, as ADDED, and then with every change as soon as it is durable."""
        for bucket in list(self._buckets.values()):
            for entry in list(bucket.entries.values()):
                subscriber(Change(ADDED, entry, None))
        self._subscribers.append(subscriber)

    def compact(self) -> None:
        """Forget all history behind the present."""
        if self._pending:
            self._flush()
        for bucket in self._buckets.values():
            left = bucket.compact(self.revision)
            if self._journal is not None:
                self._journal.commit([], left, {bucket.resource: bucket.compacted})

    def close_watches(self, resource: str | None = None) -> None:
        """End the watches of a resource, or all."""
        for name, bucket in self._buckets.items():
            if resource is None or name == resource:
                bucket.close_watches()

    def close(self) -> None:
        if self._journal is not None:
            if self._pending:
                self._flush()
            self._journal.close()
