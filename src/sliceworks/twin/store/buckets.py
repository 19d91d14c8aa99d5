"""All objects of one resource, in key order, with the recent changes to them and those who watch.

History is a window: once a change has left it, neither a watch nor a list can go back behind it, and asking for that is Expired.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import deque
from typing import TYPE_CHECKING

from sliceworks.base.errors import Expired
from sliceworks.twin.store.entries import DELETED, Change, Entry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_LONGEST_BACKLOG = 50_000


class Watch:
    """A reader of one bucket's changes, all or those of a namespace or a name; `wake` is called when there is something to read."""

    __slots__ = ("changes", "closed", "name", "namespace", "wake")

    def __init__(self, namespace: str | None, name: str | None, wake: Callable[[], None]) -> None:
        self.namespace = namespace
        self.name = name
        self.wake = wake
        self.changes: deque[Change] = deque()
        self.closed = False

    def push(self, change: Change) -> None:
        if len(self.changes) >= _LONGEST_BACKLOG:
            self.close()
            return
        self.changes.append(change)
        if len(self.changes) == 1:
            self.wake()

    def close(self) -> None:
        """End it: a reader that fell too far behind starts again from its last revision."""
        self.closed = True
        self.wake()


class Bucket:
    """One resource's objects, history and watches."""

    def __init__(self, resource: str, history: int) -> None:
        self.resource = resource
        self.entries: dict[str, Entry] = {}
        self.keys: list[str] = []
        self.changes: deque[Change] = deque()
        self.compacted = 0
        self._history = history
        self._watches: dict[tuple[str | None, str | None], dict[Watch, None]] = {}

    def record(self, change: Change) -> list[Change]:
        """Take a change in; returns the changes that left the window for it."""
        entry = change.entry
        if change.type == DELETED:
            self.entries.pop(entry.key, None)
            at = bisect_left(self.keys, entry.key)
            if at < len(self.keys) and self.keys[at] == entry.key:
                del self.keys[at]
        else:
            if entry.key not in self.entries:
                insort(self.keys, entry.key)
            self.entries[entry.key] = entry
        self.changes.append(change)
        if len(self.changes) > self._history * 5 // 4:
            return self.compact(self.changes[-self._history].revision - 1)
        return []

    def compact(self, revision: int) -> list[Change]:
        """Forget the changes up to a revision; returns them."""
        left: list[Change] = []
        while self.changes and self.changes[0].revision <= revision:
            left.append(self.changes.popleft())
        self.compacted = max(self.compacted, revision)
        return left

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
        """Entries in key order, of one namespace or all, from behind a key, as they are now or as they were at a revision."""
        entries, keys = (self.entries, self.keys) if at is None else self._as_of(at)
        prefix = f"{namespace}/" if namespace else ""
        start = bisect_right(keys, after) if after else bisect_left(keys, prefix)
        for index in range(start, len(keys)):
            key = keys[index]
            if prefix and not key.startswith(prefix):
                return
            yield entries[key]

    def _as_of(self, revision: int) -> tuple[dict[str, Entry], list[str]]:
        newer = self.since(revision)
        if not newer:
            return self.entries, self.keys
        entries = dict(self.entries)
        for change in reversed(newer):
            if change.previous is None:
                entries.pop(change.entry.key, None)
            else:
                entries[change.entry.key] = change.previous
        return entries, sorted(entries)

    def watch(self, watch: Watch) -> None:
        self._watches.setdefault((watch.namespace, watch.name), {})[watch] = None

    def unwatch(self, watch: Watch) -> None:
        key = (watch.namespace, watch.name)
        group = self._watches.get(key, {})
        group.pop(watch, None)
        if not group:
            self._watches.pop(key, None)

    def announce(self, change: Change) -> None:
        """Hand a change to those whose watch covers it."""
        if not self._watches:
            return
        namespace, name = change.entry.namespace or None, change.entry.name
        for key in {(None, None): 0, (namespace, None): 0, (None, name): 0, (namespace, name): 0}:
            for watch in self._watches.get(key, ()):
                watch.push(change)

    def close_watches(self) -> None:
        for group in list(self._watches.values()):
            for watch in list(group):
                watch.close()
