"""Workloads that wait: a heap of those to try and a parking place for those that wait for something to change.

Many alike are a crowd: when the first of a crowd cannot be admitted, the others need not be tried before something changes.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any

from sliceworks.twin.workloads.kueue.core.model import BEST_EFFORT, STRICT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sliceworks.twin.workloads.kueue.core.model import Item, Key

# Why a workload goes back to its queue.
GENERIC, FAILED, NAMESPACE, PREEMPTING = "", "FailedAfterNomination", "NamespaceMismatch", "PendingPreemption"
CROWD = 16
"""So many alike are tried one by one."""


class Line:
    """Items by priority and time; an item that is added again replaces itself."""

    __slots__ = ("_heap", "_live", "_serial", "asleep")

    def __init__(self) -> None:
        self._heap: list[tuple[int, Any, int, Item]] = []
        self._live: dict[Key, int] = {}
        self._serial = 0
        self.asleep = False

    def __len__(self) -> int:
        return len(self._live)

    def __contains__(self, key: Key) -> bool:
        return key in self._live

    def push(self, item: Item) -> None:
        self._serial += 1
        self._live[item.key] = self._serial
        heapq.heappush(self._heap, (-item.priority, item.time, self._serial, item))

    def discard(self, key: Key) -> None:
        self._live.pop(key, None)

    def first(self) -> Item | None:
        heap, live = self._heap, self._live
        while heap:
            if live.get(heap[0][3].key) == heap[0][2]:
                return heap[0][3]
            heapq.heappop(heap)
        return None

    def items(self) -> Iterator[Item]:
        return (item for _, _, serial, item in self._heap if self._live.get(item.key) == serial)


class Pending:
    """The queue of one ClusterQueue. In a best-effort queue the one that preempts stays first."""

    def __init__(self, strategy: str = BEST_EFFORT) -> None:
        self.strategy = strategy
        self._line = Line()
        self._crowds: dict[Any, Line] = {}
        self._parked: dict[Key, Item] = {}
        self._sizes: dict[Any, int] = {}
        self._known: dict[Key, Item] = {}
        self._sticky: Key | None = None
        self._popped = 0
        self._woken = -1

    def __len__(self) -> int:
        return len(self._known)

    def __bool__(self) -> bool:
        """Whether there is one to try."""
        return bool(self._line) or any(crowd and not crowd.asleep for crowd in self._crowds.values())

    def push(self, item: Item) -> None:
        """Add a workload, or bring it up to date."""
        waiting = item.waits and item.key not in self._line
        self._forget(item.key)
        self._learn(item)
        if waiting:
            self._parked[item.key] = item
        else:
            self._line.push(item)

    def drop(self, key: Key) -> None:
        self._forget(key)
        if self._sticky == key:
            self._sticky = None

    def pop(self) -> Item | None:
        """Take the first one out."""
        self._popped += 1
        item = self._known.get(self._sticky) if self._sticky is not None else None
        if item is None or item.key not in self._line:
            item = self._first()
        if item is not None:
            self._forget(item.key)
        return item

    def _first(self) -> Item | None:
        firsts = [self._line.first(), *(crowd.first() for crowd in self._crowds.values() if not crowd.asleep)]
        return min((item for item in firsts if item is not None), key=lambda item: (-item.priority, item.time), default=None)

    def give_back(self, item: Item, reason: str) -> bool:
        """Put one back that was not admitted; tells whether it will be tried again without anything changing."""
        if reason == PREEMPTING and self.strategy == BEST_EFFORT:
            self._sticky = item.key
        at_once = reason != NAMESPACE if self.strategy == STRICT else reason in (FAILED, PREEMPTING)
        more = item.tried is not None and item.tried.more
        if not item.waits and (at_once or more or self._woken >= self._popped):
            self.push(item)
            return True
        self._learn(item)
        if self._crowded(item):
            crowd = self._crowds.setdefault((item.shape, item.priority), Line())
            crowd.push(item)
            crowd.asleep = True
        else:
            self._parked[item.key] = item
        return False

    def wake(self) -> None:
        """Something has changed: all are to be tried again."""
        self._woken = self._popped
        for crowd in self._crowds.values():
            crowd.asleep = False
        if not self._parked:
            return
        for key, item in list(self._parked.items()):
            if not item.waits:
                del self._parked[key]
                self._line.push(item)

    def rest(self, hopeless: Callable[[Item], bool]) -> None:
        """Spare those of crowds a try that are said to have no hope before something changes again."""
        while (item := self._line.first()) is not None and self._crowded(item) and item.key != self._sticky and hopeless(item):
            self._line.discard(item.key)
            crowd = self._crowds.setdefault((item.shape, item.priority), Line())
            crowd.push(item)
            crowd.asleep = True
        for crowd in self._crowds.values():
            if not crowd.asleep and (first := crowd.first()) is not None:
                crowd.asleep = hopeless(first)

    def ordered(self) -> list[Item]:
        """All that wait, the first one first."""
        return sorted(self._known.values(), key=lambda item: (item.key != self._sticky, -item.priority, item.time))

    def _crowded(self, item: Item) -> bool:
        return item.shape is not None and not item.waits and self._sizes[item.shape] > CROWD

    def _learn(self, item: Item) -> None:
        self._known[item.key] = item
        self._sizes[item.shape] = self._sizes.get(item.shape, 0) + 1

    def _forget(self, key: Key) -> None:
        item = self._known.pop(key, None)
        if item is None:
            return
        self._parked.pop(key, None)
        self._line.discard(key)
        left = self._sizes[item.shape] - 1
        self._sizes[item.shape] = left
        if not left:
            del self._sizes[item.shape]
        crowd = self._crowds.get((item.shape, item.priority))
        if crowd is not None:
            crowd.discard(key)
            if not crowd:
                del self._crowds[item.shape, item.priority]
