"""The object store: one revision counter, durable writes, watches and subscribers.

A write takes effect in memory at once, and is announced to watches and subscribers once it is durable. Handlers call
`wait_durable()` before they respond, so no client learns of a write that a crash could undo. All writes of one turn of the event
loop share a commit.

A reader reads first and waits then: the wait covers all that it read.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base import budget
from sliceworks.base.errors import ServiceUnavailable
from sliceworks.base.memory import exact_size
from sliceworks.twin.store.entry import Entry
from sliceworks.twin.store.watch_cache import ADDED, DELETED, MODIFIED, Change, ExistingObject, HistoryWindow, Watch, WatchCache

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from sliceworks.twin.store.journal import Journal

log = logging.getLogger("sliceworks.twin.store")


class Store:
    """Objects by resource, namespace and name. Cluster-scoped objects have the namespace ""."""

    def __init__(self, journal: Journal | None = None, *, window: HistoryWindow | None = None) -> None:
        self.revision = 1
        self._window = window or HistoryWindow()
        self._journal = journal
        self._caches: dict[str, WatchCache] = {}
        self._subscribers: list[tuple[Callable[[Change], None], Collection[str] | None]] = []
        self._interested: dict[str, tuple[Callable[[Change], None], ...]] = {}
        self._pending: list[Change] = []
        self._waiting: list[asyncio.Future[None]] = []
        self._trimmed: list[Change] = []
        self._outbox: deque[Change] = deque()
        self._failure = ""
        self.broken: Callable[[Exception], None] = lambda _: None
        if journal is not None:
            try:
                self._load(journal)
            except BaseException:
                journal.close()
                raise
        self.announced = self.revision
        """The newest announced revision."""

    def _load(self, journal: Journal) -> None:
        for resource, revision in journal.compactions().items():
            self._cache(resource).compacted = revision
            self.revision = max(self.revision, revision)
        for change in journal.load():
            self._cache(change.resource).restore(change)
            self.revision = max(self.revision, change.revision)
        for cache in self._caches.values():
            self._trimmed += cache.trim(self.revision)

    def _cache(self, resource: str) -> WatchCache:
        cache = self._caches.get(resource)
        if cache is None:
            cache = self._caches[resource] = WatchCache(resource, self._window)
        return cache

    def get(self, resource: str, namespace: str, name: str) -> Entry | None:
        cache = self._caches.get(resource)
        return cache.entries.get(f"{namespace}/{name}" if namespace else name) if cache else None

    def count(self, resource: str, namespace: str | None = None, *, after: str = "", at: int | None = None) -> int:
        """The number of entries that `scan` would return."""
        return self._cache(resource).count(namespace, after, at)

    def resources(self) -> list[str]:
        """The resources that have objects."""
        return [name for name, cache in self._caches.items() if cache.entries]

    def has_objects(self, resource: str) -> bool:
        """Whether a resource has objects."""
        cache = self._caches.get(resource)
        return cache is not None and bool(cache.entries)

    def scan(self, resource: str, namespace: str | None = None, *, after: str = "", at: int | None = None) -> Iterator[Entry]:
        """Entries in key order; see WatchCache.scan."""
        return self._cache(resource).scan(namespace, after, at)

    def compacted(self, resource: str) -> int:
        return self._cache(resource).compacted

    def put(self, resource: str, namespace: str, name: str, obj: dict[str, Any]) -> Entry:
        """Write an object with the next revision as its resourceVersion. The caller must not change the dict afterwards."""
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
        budget.end()
        self._check_failure()
        obj["metadata"]["resourceVersion"] = str(self.revision + 1)
        data = exact_size(orjson.dumps(obj))
        entry = Entry(resource, namespace, name, self.revision + 1, data)
        self.revision += 1
        return entry

    def _record(self, change: Change) -> None:
        self._cache(change.resource).record(change)
        if self._journal is None:
            self._publish([change])
            return
        self._pending.append(change)
        if len(self._pending) == 1:
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        """Commit pending changes, then resume waiters and publish the changes."""
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
        """Make changes durable; after a failure returns False, and the store rejects all further writes."""
        assert self._journal is not None
        trimmed, self._trimmed = self._trimmed, []
        compacted = {change.resource: self._cache(change.resource).compacted for change in trimmed}
        try:
            self._journal.commit(changes, trimmed, compacted)
        except Exception as error:
            # Changes in memory are lost at exit: respond to no request, and let the process end.
            self._failure = f"the store cannot be written: {error}"
            self.broken(error)
            return False
        return True

    def _publish(self, changes: list[Change]) -> None:
        """Announce changes in order, also when a subscriber writes during an announcement."""
        outbox = self._outbox
        busy = bool(outbox)
        outbox.extend(changes)
        if busy:
            return
        resources: dict[str, None] = {}
        while outbox:
            resources[outbox[0].resource] = None
            try:
                self._announce(outbox[0])
            finally:
                outbox.popleft()
        for resource in resources:
            trimmed = self._cache(resource).trim(self.announced)
            if self._journal is not None:
                self._trimmed += trimmed

    def _announce(self, change: Change) -> None:
        self.announced = change.revision
        self._cache(change.resource).watches.announce(change)
        interested = self._interested.get(change.resource)
        for subscriber in interested if interested is not None else self._find_interested(change.resource):
            _notify(subscriber, change)
        change.release_object()

    def _check_failure(self) -> None:
        if self._failure:
            raise ServiceUnavailable(self._failure)

    async def wait_durable(self) -> None:
        """Return once all writes so far are durable and announced; raises ServiceUnavailable after a failed commit."""
        self._check_failure()
        if self._pending:
            # One future per waiter: cancelling a waiter cancels its future.
            waiter = asyncio.get_running_loop().create_future()
            self._waiting.append(waiter)
            await waiter

    def watch(
        self, resource: str, wake: Callable[[], None], *, namespace: str | None = None, name: str | None = None, since: int
    ) -> Watch:
        """Watch the changes after a revision; `wake` is called when there are some. Raises Expired for a compacted revision."""
        cache = self._cache(resource)
        watch = Watch(namespace, name, since, wake)
        announced = self.announced
        watch.changes.extend(change for change in cache.since(since) if change.revision <= announced and watch.covers(change))
        cache.watches.add(watch)
        return watch

    def unwatch(self, resource: str, watch: Watch) -> None:
        self._cache(resource).watches.remove(watch)

    def watchers(self, resource: str) -> int:
        """The number of open watches of a resource."""
        return len(self._cache(resource).watches)

    def subscribe(self, subscriber: Callable[[Change], None], resources: Collection[str] | None = None) -> None:
        """Call a function with every durable object of these resources, or of all, as ADDED, and then with every change once it is
        durable."""
        for resource, cache in list(self._caches.items()):
            if resources is None or resource in resources:
                for entry in list(cache.scan(None, at=self.announced)):
                    _notify(subscriber, ExistingObject(ADDED, entry, None))
        self._subscribers.append((subscriber, resources))
        self._interested.clear()

    def unsubscribe(self, subscriber: Callable[[Change], None]) -> None:
        """Stop calling a function; ValueError if it is not called."""
        self._subscribers.pop([other for other, _ in self._subscribers].index(subscriber))
        self._interested.clear()

    def _find_interested(self, resource: str) -> tuple[Callable[[Change], None], ...]:
        """The subscribers of a resource."""
        interested = tuple(subscriber for subscriber, resources in self._subscribers if resources is None or resource in resources)
        self._interested[resource] = interested
        return interested

    def compact(self) -> None:
        """Drop all history before the current revision."""
        self._flush()
        self._check_failure()
        trimmed = [change for cache in self._caches.values() for change in cache.compact(self.announced)]
        if self._journal is not None:
            self._trimmed += trimmed
            self._commit([])
            self._check_failure()

    def close_watches(self, resource: str | None = None) -> None:
        """Close the watches of a resource, or all watches."""
        for name, cache in self._caches.items():
            if resource is None or name == resource:
                cache.watches.close()

    def close(self) -> None:
        if self._journal is not None:
            self._flush()
            self._journal.close()


def _notify(subscriber: Callable[[Change], None], change: Change) -> None:
    """Call a subscriber; its failure must not block other subscribers or the start of the twin."""
    try:
        subscriber(change)
    except Exception:
        log.exception("subscriber failed on revision %d of %s", change.revision, change.resource)
