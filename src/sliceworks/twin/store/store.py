"""The twin's memory: every object, one revision counter, recent history, and those who watch.

A write takes effect in memory at once and is announced once it is durable. Writers and readers wait for that with `settled()`
before they answer, so nobody is told of a write that a crash could take back. All writes of one turn of the event loop share a
commit.

A reader takes what it wants first and waits then: what it waits for covers all that it took.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base.errors import ServiceUnavailable
from sliceworks.twin.store.buckets import Bucket, Window
from sliceworks.twin.store.entries import ADDED, DELETED, MODIFIED, Change, Entry
from sliceworks.twin.store.watches import Watch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sliceworks.twin.store.journal import Journal

log = logging.getLogger("sliceworks.twin.store")


class Store:
    """Objects by resource, namespace and name. Cluster-scoped objects have the namespace ""."""

    def __init__(self, journal: Journal | None = None, *, window: Window | None = None) -> None:
        self.revision = 1
        self._window = window or Window()
        self._journal = journal
        self._buckets: dict[str, Bucket] = {}
        self._subscribers: list[Callable[[Change], None]] = []
        self._pending: list[Change] = []
        self._waiting: list[asyncio.Future[None]] = []
        self._left: list[Change] = []
        self._outbox: deque[Change] = deque()
        self._failure = ""
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
            self._bucket(change.resource).restore(change)
            self.revision = max(self.revision, change.revision)
        for bucket in self._buckets.values():
            self._left += bucket.trim(self.revision)

    def _bucket(self, resource: str) -> Bucket:
        bucket = self._buckets.get(resource)
        if bucket is None:
            bucket = self._buckets[resource] = Bucket(resource, self._window)
        return bucket

    def get(self, resource: str, namespace: str, name: str) -> Entry | None:
        bucket = self._buckets.get(resource)
        return bucket.entries.get(f"{namespace}/{name}" if namespace else name) if bucket else None

    def count(self, resource: str, namespace: str | None = None, *, after: str = "", at: int | None = None) -> int:
        """How many entries `scan` would find."""
        return self._bucket(resource).count(namespace, after, at)

    def resources(self) -> list[str]:
        """The resources that hold an object."""
        return [name for name, bucket in self._buckets.items() if bucket.entries]

    def holds(self, resource: str) -> bool:
        """Whether there is any object of a resource."""
        bucket = self._buckets.get(resource)
        return bucket is not None and bool(bucket.entries)

    def scan(self, resource: str, namespace: str | None = None, *, after: str = "", at: int | None = None) -> Iterator[Entry]:
        """Entries in key order; see Bucket.scan."""
        return self._bucket(resource).scan(namespace, after, at)

    def compacted(self, resource: str) -> int:
        return self._bucket(resource).compacted

    def put(self, resource: str, namespace: str, name: str, obj: dict[str, Any]) -> Entry:
        """Write an object; it gets the next revision as its resourceVersion. The dict must not be changed afterwards."""
        previous = self.get(resource, namespace, name)
        entry = self._next_entry(resource, namespace, name, obj)
        self._record(Change(ADDED if previous is None else MODIFIED, entry, previous, obj))
        return entry

    def remove(self, resource: str, namespace: str, name: str, obj: dict[str, Any]) -> Entry:
        """Delete an object whose last state is `obj`."""
        previous = self.get(resource, namespace, name)
        entry = self._next_entry(resource, namespace, name, obj)
        self._record(Change(DELETED, entry, previous, obj))
        return entry

    def _next_entry(self, resource: str, namespace: str, name: str, obj: dict[str, Any]) -> Entry:
        self._check()
        obj["metadata"]["resourceVersion"] = str(self.revision + 1)
        # A copy of the exact size: what orjson returns keeps the memory around it from being used again, several times its size.
        data = bytes(memoryview(orjson.dumps(obj)))
        entry = Entry(resource, namespace, name, self.revision + 1, data)
        self.revision += 1
        return entry

    def _record(self, change: Change) -> None:
        self._bucket(change.resource).record(change)
        if self._journal is None:
            self._publish([change])
            return
        self._pending.append(change)
        if len(self._pending) == 1:
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        """Write down what is pending, then tell those who wait and those who watch."""
        if not self._pending:
            return
        changes, waiting = self._pending, self._waiting
        self._pending, self._waiting = [], []
        committed = self._commit(changes)
        for waiter in waiting:
            if waiter.done():
                continue
            if committed:
                waiter.set_result(None)
            else:
                waiter.set_exception(ServiceUnavailable(self._failure))
        if committed:
            self._publish(changes)

    def _commit(self, changes: list[Change]) -> bool:
        """Make changes durable; False when that failed, and then nothing works any more."""
        assert self._journal is not None
        left, self._left = self._left, []
        floors = {change.resource: self._bucket(change.resource).compacted for change in left}
        try:
            self._journal.commit(changes, left, floors)
        except Exception as error:
            # What is in memory can no longer be trusted to survive: answer nobody, and let the process end.
            self._failure = f"the store cannot be written: {error}"
            self.broken(error)
            return False
        return True

    def _publish(self, changes: list[Change]) -> None:
        """Announce changes in their order, also when a subscriber writes while it is told of one."""
        outbox = self._outbox
        busy = bool(outbox)
        outbox.extend(changes)
        if busy:
            return
        touched: dict[str, None] = {}
        while outbox:
            touched[outbox[0].resource] = None
            try:
                self._announce(outbox[0])
            finally:
                outbox.popleft()
        for resource in touched:
            left = self._bucket(resource).trim(self.announced)
            if self._journal is not None:
                self._left += left

    def _announce(self, change: Change) -> None:
        self.announced = change.revision
        self._bucket(change.resource).watches.announce(change)
        for subscriber in self._subscribers:
            _tell(subscriber, change)
        change.announced()

    def _check(self) -> None:
        if self._failure:
            raise ServiceUnavailable(self._failure)

    async def settled(self) -> None:
        """Return once everything written so far is durable and announced; raises ServiceUnavailable when it will never be."""
        self._check()
        if self._pending:
            # One future for each: a waiter that is cancelled takes its future with it.
            waiter = asyncio.get_running_loop().create_future()
            self._waiting.append(waiter)
            await waiter

    def watch(
        self, resource: str, wake: Callable[[], None], *, namespace: str | None = None, name: str | None = None, since: int
    ) -> Watch:
        """Follow the changes after a revision; raises Expired when history does not reach back so far."""
        bucket = self._bucket(resource)
        watch = Watch(namespace, name, since, wake)
        known = self.announced
        watch.changes.extend(change for change in bucket.since(since) if change.revision <= known and watch.covers(change))
        bucket.watches.add(watch)
        return watch

    def unwatch(self, resource: str, watch: Watch) -> None:
        self._bucket(resource).watches.remove(watch)

    def watchers(self, resource: str) -> int:
        """How many watches of a resource are open."""
        return len(self._bucket(resource).watches)

    def subscribe(self, subscriber: Callable[[Change], None]) -> None:
        """Call it with every object that is durable, as ADDED, and then with every change as soon as it is."""
        for bucket in list(self._buckets.values()):
            for entry in list(bucket.scan(None, at=self.announced)):
                _tell(subscriber, Change(ADDED, entry, None))
        self._subscribers.append(subscriber)

    def unsubscribe(self, subscriber: Callable[[Change], None]) -> None:
        """Call it no more."""
        self._subscribers.remove(subscriber)

    def compact(self) -> None:
        """Forget all history behind the present."""
        self._flush()
        self._check()
        left = [change for bucket in self._buckets.values() for change in bucket.compact(self.announced)]
        if self._journal is not None:
            self._left += left
            self._commit([])
            self._check()

    def close_watches(self, resource: str | None = None) -> None:
        """End the watches of a resource, or all."""
        for name, bucket in self._buckets.items():
            if resource is None or name == resource:
                bucket.watches.close()

    def close(self) -> None:
        if self._journal is not None:
            self._flush()
            self._journal.close()


def _tell(subscriber: Callable[[Change], None], change: Change) -> None:
    """One who cannot make sense of a change must not keep others from hearing of it, nor a twin from starting."""
    try:
        subscriber(change)
    except Exception:
        log.exception("a subscriber failed on revision %d of %s", change.revision, change.resource)
