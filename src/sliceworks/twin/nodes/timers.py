"""Many timers on one heap: a hundred thousand pods that wait take one timer of the loop."""

from __future__ import annotations

import asyncio
import heapq
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

K = TypeVar("K", bound="Hashable")


class Timers(Generic[K]):
    """Calls `fire` with a key when its time has come. A key has one time: setting another takes the place of the first."""

    def __init__(self, fire: Callable[[K], None]) -> None:
        self._fire = fire
        self._heap: list[tuple[float, int, K]] = []
        self._due: dict[K, int] = {}
        self._serial = 0
        self._handle: asyncio.TimerHandle | None = None

    def set(self, key: K, delay: float) -> None:
        """Fire for this key in so many seconds, at once when none are left."""
        loop = asyncio.get_running_loop()
        self._serial += 1
        self._due[key] = self._serial
        heapq.heappush(self._heap, (loop.time() + max(delay, 0.0), self._serial, key))
        if self._heap[0][1] == self._serial:
            self._arm(loop)

    def drop(self, key: K) -> None:
        """Fire for this key no more."""
        self._due.pop(key, None)

    def __contains__(self, key: K) -> bool:
        return key in self._due

    def __len__(self) -> int:
        return len(self._due)

    def close(self) -> None:
        """Fire no more at all."""
        if self._handle is not None:
            self._handle.cancel()
        self._heap, self._due, self._handle = [], {}, None

    def _arm(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._handle is not None:
            self._handle.cancel()
        self._handle = loop.call_at(self._heap[0][0], self._ring) if self._heap else None

    def _ring(self) -> None:
        loop = asyncio.get_running_loop()
        self._handle = None
        now = loop.time() + 1e-6
        while self._heap and self._heap[0][0] <= now:
            _, serial, key = heapq.heappop(self._heap)
            if self._due.get(key) == serial:
                del self._due[key]
                self._fire(key)
        while self._heap and self._due.get(self._heap[0][2]) != self._heap[0][1]:
            heapq.heappop(self._heap)
        self._arm(loop)
