"""The objects of one resource in key order, their recent changes, and the watches that follow them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from dataclasses import dataclass
from heapq import merge
from typing import TYPE_CHECKING, Any

from sliceworks.base.errors import Expired
from sliceworks.twin.store.entry import RecentEntries

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sliceworks.twin.store.entry import Entry

ADDED, MODIFIED, DELETED = "ADDED", "MODIFIED", "DELETED"
_MAX_ENCODED_BYTES = 16 * 1024 * 1024


class EncodedEvents(dict[object, bytes]):
    """The encoded watch events of a change, by the form that watchers get.

    Watchers read a change at about the same time, so only the newest few megabytes of all events of a process are kept.
    """

    __slots__ = ()

    def __setitem__(self, key: object, event: bytes) -> None:
        super().__setitem__(key, event)
        _recent.add(self, key, len(event))


class _RecentEvents:
    """The encoded events that are kept, oldest first."""

    def __init__(self, max_size: int) -> None:
        self.max_size = max_size
        self.size = 0
        self._order: deque[tuple[EncodedEvents, object, int]] = deque()

    def add(self, encoded: EncodedEvents, key: object, size: int) -> None:
        self._order.append((encoded, key, size))
        self.size += size
        while self.size > self.max_size:
            oldest, old_key, old_size = self._order.popleft()
            oldest.pop(old_key, None)
            self.size -= old_size


_recent = _RecentEvents(_MAX_ENCODED_BYTES)


class Change:
    """One change of an object. `previous` is the entry before; the `entry` of a deletion is the last state."""

    __slots__ = ("_object", "encoded", "entry", "name", "namespace", "previous", "resource", "revision", "type")

    def __init__(self, type: str, entry: Entry, previous: Entry | None, obj: dict[str, Any] | None = None) -> None:  # noqa: A002
        self.type = type
        self.entry = entry
        # Plain attributes, not properties: all watches and subscribers read them.
        self.revision, self.resource, self.namespace, self.name = entry.revision, entry.resource, entry.namespace, entry.name
        self.previous = previous
        self._object = obj
        self.encoded = EncodedEvents()

    @property
    def obj(self) -> dict[str, Any]:
        """The object after the change; callers must not change it."""
        return self._object if self._object is not None else self.entry.object()

    @property
    def old(self) -> dict[str, Any] | None:
        """The object before the change."""
        return self.previous.object() if self.previous else None

    def release_object(self) -> None:
        """Drop the decoded object, after all subscribers have been called."""
        self._object = None


class ExistingObject(Change):
    """An object that exists when a subscriber starts, decoded once however often the subscriber reads it."""

    __slots__ = ()

    @property
    def obj(self) -> dict[str, Any]:
        if self._object is None:
            self._object = self.entry.object()
        return self._object


class SortedKeys:
    """A set of keys in order."""

    def __init__(self) -> None:
        self._keys: list[str] = []
        self._added: list[str] = []
        self._removed: set[str] = set()

    def add(self, key: str) -> None:
        """Add a key that is not in the set."""
        if key in self._removed:
            self._removed.discard(key)
        else:
            self._added.append(key)

    def remove(self, key: str) -> None:
        """Remove a key that is in the set."""
        self._removed.add(key)

    def in_order(self) -> list[str]:
        """All keys in order. Callers must not change the list; later changes of the set do not change it either."""
        if self._added or self._removed:
            removed = self._removed
            # Sorting is linear here: Python's sort merges runs that are already in order.
            keys = sorted(self._keys + self._added) if self._added else self._keys
            self._keys = [key for key in keys if key not in removed] if removed else keys
            self._added, self._removed = [], set()
        return self._keys


class Watch:
    """A reader of the changes after a revision, of all objects, a namespace or a name. `wake` is called on new changes."""

    __slots__ = ("changes", "closed", "name", "namespace", "since", "wake")

    def __init__(self, namespace: str | None, name: str | None, since: int, wake: Callable[[], None]) -> None:
        self.namespace = namespace
        self.name = name
        self.since = since
        self.wake = wake
        self.changes: deque[Change] = deque()
        self.closed = False

    def covers(self, change: Change) -> bool:
        return (not self.namespace or change.namespace == self.namespace) and (not self.name or change.name == self.name)

    def push(self, change: Change) -> None:
        if self.closed or change.revision <= self.since:
            return
        self.changes.append(change)
        if len(self.changes) == 1:
            self.wake()

    def close(self) -> None:
        """Close the watch; changes that it has not read stay readable."""
        self.closed = True
        self.wake()


class Watches:
    """The watches of one resource, by namespace and name."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str | None, str | None], dict[Watch, None]] = {}

    def add(self, watch: Watch) -> None:
        self._groups.setdefault((watch.namespace, watch.name), {})[watch] = None

    def remove(self, watch: Watch) -> None:
        key = (watch.namespace, watch.name)
        group = self._groups.get(key, {})
        group.pop(watch, None)
        if not group:
            self._groups.pop(key, None)

    def __len__(self) -> int:
        return sum(len(group) for group in self._groups.values())

    def announce(self, change: Change) -> None:
        """Push a change to all watches that cover it."""
        if not self._groups:
            return
        namespace, name = change.entry.namespace or None, change.entry.name
        for key in {(None, None): 0, (namespace, None): 0, (None, name): 0, (namespace, name): 0}:
            for watch in tuple(self._groups.get(key, ())):
                watch.push(change)

    def close(self) -> None:
        """Close all watches."""
        for watch in self._all():
            watch.close()

    def close_behind(self, revision: int) -> None:
        """Close watches that have not read the changes up to a revision: that history is dropped."""
        for watch in self._all():
            if watch.changes and watch.changes[0].revision <= revision:
                watch.changes.clear()
                watch.close()

    def _all(self) -> list[Watch]:
        return [watch for group in self._groups.values() for watch in group]


@dataclass(frozen=True, slots=True)
class HistoryWindow:
    """How much history is kept per resource. It may exceed this by a quarter, so that not every change trims it.

    Objects that were written before the last `uncompressed_bytes` are compressed, unless only the history needs them.
    """

    changes: int = 8_192
    bytes: int = 32 * 1024 * 1024
    uncompressed_bytes: int = 8 * 1024 * 1024


class WatchCache:
    """The objects, history and watches of one resource."""

    def __init__(self, resource: str, window: HistoryWindow) -> None:
        self.resource = resource
        self.entries: dict[str, Entry] = {}
        self._keys = SortedKeys()
        self.changes: deque[Change] = deque()
        self.compacted = 0
        self.watches = Watches()
        self._window = window
        self._bytes = 0
        self._recent = RecentEntries(window.uncompressed_bytes)

    def restore(self, change: Change) -> None:
        """Apply a change from the journal; changes come oldest first."""
        self._apply(change)
        if change.revision > self.compacted:
            self._append(change)

    def record(self, change: Change) -> None:
        """Apply a new change."""
        self._apply(change)
        self._append(change)

    def _apply(self, change: Change) -> None:
        key = change.entry.key
        if change.type == DELETED:
            if self.entries.pop(key, None) is not None:
                self._keys.remove(key)
        else:
            if key not in self.entries:
                self._keys.add(key)
            self.entries[key] = change.entry
            self._recent.add(change.entry, self.entries)

    def _append(self, change: Change) -> None:
        self.changes.append(change)
        self._bytes += change.entry.size

    def trim(self, announced: int) -> list[Change]:
        """Trim history to its window; returns the dropped changes, which have all been announced.

        Watches that have not read one of them are closed.
        """
        window = self._window
        if len(self.changes) <= window.changes * 5 // 4 and self._bytes <= window.bytes * 5 // 4:
            return []
        dropped: list[Change] = []
        while len(self.changes) > window.changes or (self._bytes > window.bytes and len(self.changes) > 1):
            if self.changes[0].revision > announced:
                break
            dropped.append(self._drop_oldest())
        if dropped:
            self.compacted = dropped[-1].revision
            self.watches.close_behind(self.compacted)
        return dropped

    def compact(self, revision: int) -> list[Change]:
        """Drop the changes up to a revision and return them. Watches keep what they have not read."""
        dropped: list[Change] = []
        while self.changes and self.changes[0].revision <= revision:
            dropped.append(self._drop_oldest())
        self.compacted = max(self.compacted, revision)
        return dropped

    def _drop_oldest(self) -> Change:
        change = self.changes.popleft()
        self._bytes -= change.entry.size
        return change

    def since(self, revision: int) -> list[Change]:
        """The changes after a revision, oldest first."""
        if revision < self.compacted:
            raise Expired(f"too old resource version: {revision} ({self.compacted})")
        newer: list[Change] = []
        for change in reversed(self.changes):
            if change.revision <= revision:
                break
            newer.append(change)
        newer.reverse()
        return newer

    def scan(self, namespace: str | None, after: str = "", at: int | None = None) -> Iterator[Entry]:
        """Entries in key order, of one namespace or all, after a key, now or at a revision.

        The iterator is lazy: an entry that is deleted before it is reached is left out.
        """
        keys, entries = self._keys.in_order(), self.entries
        first, last = _bounds(keys, namespace, after)
        keys = keys[first:last]
        changed = self._entries_at(at) if at is not None else None
        if not changed:
            return (entry for key in keys if (entry := entries.get(key)) is not None)
        deleted = sorted(key for key, entry in changed.items() if entry is not None and key not in entries)
        first, last = _bounds(deleted, namespace, after)
        keys_at = merge(keys, deleted[first:last])
        return (entry for key in keys_at if (entry := changed[key] if key in changed else entries.get(key)) is not None)

    def count(self, namespace: str | None, after: str = "", at: int | None = None) -> int:
        """The number of entries that `scan` would return, without reading them."""
        changed = self._entries_at(at) if at is not None else {}
        created = sorted(key for key, entry in changed.items() if entry is None and key in self.entries)
        deleted = sorted(key for key, entry in changed.items() if entry is not None and key not in self.entries)
        current, later, earlier = (_count(keys, namespace, after) for keys in (self._keys.in_order(), created, deleted))
        return current - later + earlier

    def _entries_at(self, revision: int) -> dict[str, Entry | None]:
        """The keys that changed after a revision, with their entries at that revision."""
        entries: dict[str, Entry | None] = {}
        for change in self.since(revision):
            entries.setdefault(change.entry.key, change.previous)
        return entries


def _count(keys: list[str], namespace: str | None, after: str) -> int:
    first, last = _bounds(keys, namespace, after)
    return max(0, last - first)


def _bounds(keys: list[str], namespace: str | None, after: str) -> tuple[int, int]:
    """The start and end index of the keys of a namespace, or all, after a key."""
    # "0" is the character after "/".
    first, last = (bisect_left(keys, f"{namespace}/"), bisect_left(keys, f"{namespace}0")) if namespace else (0, len(keys))
    return (max(first, bisect_right(keys, after)) if after else first), last
