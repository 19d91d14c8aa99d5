"""All objects of one resource, in key order, with the recent changes to them and those who watch.

History is a window, bounded by a number of changes and by their bytes: once a change has left it, neither a watch nor a list can go
back behind it, and asking for that is Expired.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from dataclasses import dataclass
from heapq import merge
from typing import TYPE_CHECKING

from sliceworks.base.errors import Expired
from sliceworks.twin.store.entries import DELETED, Change, Entry
from sliceworks.twin.store.ordering import Ordered
from sliceworks.twin.store.watches import Watches

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True)
class Window:
    """How much history a bucket keeps. It may run over by a quarter, so that it is not trimmed for every change."""

    changes: int = 8_192
    bytes: int = 32 * 1024 * 1024


class Bucket:
    """One resource's objects, history and watches."""

    def __init__(self, resource: str, window: Window) -> None:
        self.resource = resource
        self.entries: dict[str, Entry] = {}
        self._keys = Ordered()
        self.changes: deque[Change] = deque()
        self.compacted = 0
        self.watches = Watches()
        self._window = window
        self._bytes = 0

    def restore(self, change: Change) -> None:
        """Take in what a journal remembers, oldest first."""
        self._take(change)
        if change.revision > self.compacted:
            self._remember(change)

    def record(self, change: Change) -> None:
        """Take a change in."""
        self._take(change)
        self._remember(change)

    def _take(self, change: Change) -> None:
        key = change.entry.key
        if change.type == DELETED:
            if self.entries.pop(key, None) is not None:
                self._keys.remove(key)
        else:
            if key not in self.entries:
                self._keys.add(key)
            self.entries[key] = change.entry

    def _remember(self, change: Change) -> None:
        self.changes.append(change)
        self._bytes += len(change.entry.data)

    def trim(self, announced: int) -> list[Change]:
        """Bring history back to its window; returns the changes that left it, all of them announced.

        A watch that has not read one of them ends.
        """
        window = self._window
        if len(self.changes) <= window.changes * 5 // 4 and self._bytes <= window.bytes * 5 // 4:
            return []
        left: list[Change] = []
        while len(self.changes) > window.changes or (self._bytes > window.bytes and len(self.changes) > 1):
            if self.changes[0].revision > announced:
                break
            left.append(self._forget())
        if left:
            self.compacted = left[-1].revision
            self.watches.cut_off(self.compacted)
        return left

    def compact(self, revision: int) -> list[Change]:
        """Forget the changes up to a revision; returns them. Watches keep what they have not read."""
        left: list[Change] = []
        while self.changes and self.changes[0].revision <= revision:
            left.append(self._forget())
        self.compacted = max(self.compacted, revision)
        return left

    def _forget(self) -> Change:
        change = self.changes.popleft()
        self._bytes -= len(change.entry.data)
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
        """Entries in key order, of one namespace or all, from behind a key, as they are now or as they were at a revision.

        Nothing is read before it is asked for, and may be written to meanwhile: an entry that is gone by then is left out.
        """
        keys, entries = self._keys.listed(), self.entries
        first, last = _bounds(keys, namespace, after)
        keys = keys[first:last]
        past = self._since_then(at) if at is not None else None
        if not past:
            return (entry for key in keys if (entry := entries.get(key)) is not None)
        gone = sorted(key for key, entry in past.items() if entry is not None and key not in entries)
        first, last = _bounds(gone, namespace, after)
        then = merge(keys, gone[first:last])
        return (entry for key in then if (entry := past[key] if key in past else entries.get(key)) is not None)

    def count(self, namespace: str | None, after: str = "", at: int | None = None) -> int:
        """How many entries a scan would find, without going through them."""
        past = self._since_then(at) if at is not None else {}
        came = sorted(key for key, entry in past.items() if entry is None and key in self.entries)
        gone = sorted(key for key, entry in past.items() if entry is not None and key not in self.entries)
        now, fewer, more = (_within(keys, namespace, after) for keys in (self._keys.listed(), came, gone))
        return now - fewer + more

    def _since_then(self, revision: int) -> dict[str, Entry | None]:
        """The keys that changed after a revision, with what they held then."""
        past: dict[str, Entry | None] = {}
        for change in self.since(revision):
            past.setdefault(change.entry.key, change.previous)
        return past


def _within(keys: list[str], namespace: str | None, after: str) -> int:
    first, last = _bounds(keys, namespace, after)
    return max(0, last - first)


def _bounds(keys: list[str], namespace: str | None, after: str) -> tuple[int, int]:
    """Where the keys of a namespace, or all, begin and end, from behind a key."""
    first, last = (bisect_left(keys, f"{namespace}/"), bisect_left(keys, f"{namespace}0")) if namespace else (0, len(keys))
    # "0" follows "/" in the order of characters: a namespace's keys end where those that begin with it and "0" would.
    return (max(first, bisect_right(keys, after)) if after else first), last
