"""Readers of changes: each has a queue of what it has not read yet."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.twin.store.entries import Change


class Watch:
    """A reader of the changes after a revision, all or those of a namespace or a name; `wake` is called when there are some."""

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
        """End it; what has not been read can still be."""
        self.closed = True
        self.wake()


class Watches:
    """The watches of one bucket, by what they cover."""

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
        """Hand a change to those whose watch covers it."""
        if not self._groups:
            return
        namespace, name = change.entry.namespace or None, change.entry.name
        for key in {(None, None): 0, (namespace, None): 0, (None, name): 0, (namespace, name): 0}:
            for watch in tuple(self._groups.get(key, ())):
                watch.push(change)

    def close(self) -> None:
        """End them all."""
        for watch in self._all():
            watch.close()

    def cut_off(self, revision: int) -> None:
        """End those that have not read a change of this revision yet: nobody can be kept further behind than history reaches."""
        for watch in self._all():
            if watch.changes and watch.changes[0].revision <= revision:
                watch.changes.clear()
                watch.close()

    def _all(self) -> list[Watch]:
        return [watch for group in self._groups.values() for watch in group]
