"""Many timers on one heap behind a single timer of the event loop."""

from __future__ import annotations

import asyncio
import heapq
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

K = TypeVar("K", bound="Hashable")


class Timers(Generic[K]):
    """Calls `fire` with a key when its timer expires. A key has one timer: setting it again replaces the first."""

    def __init__(self, fire: Callable[[K], None]) -> None:
        self._fire = fire
        self._heap: list[tuple[float, int, K]] = []
        self._current: dict[K, int] = {}
        self._sequence = 0
        self._handle: asyncio.TimerHandle | None = None

    def set(self, key: K, delay: float) -> None:
        """Fire for this key after `delay` seconds, or as soon as possible if `delay` is not positive."""
        loop = asyncio.get_running_loop()
        self._sequence += 1
        self._current[key] = self._sequence
        heapq.heappush(self._heap, (loop.time() + max(delay, 0.0), self._sequence, key))
        if self._heap[0][1] == self._sequence:
            self._arm(loop)

    def cancel(self, key: K) -> None:
        """Cancel the timer of this key, if it has one."""
        self._current.pop(key, None)

    def __contains__(self, key: K) -> bool:
        return key in self._current

    def __len__(self) -> int:
        return len(self._current)

    def close(self) -> None:
        """Cancel all timers."""
        if self._handle is not None:
            self._handle.cancel()
        self._heap, self._current, self._handle = [], {}, None

    def _arm(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._handle is not None:
            self._handle.cancel()
        self._handle = loop.call_at(self._heap[0][0], self._fire_due) if self._heap else None

    def _fire_due(self) -> None:
        loop = asyncio.get_running_loop()
        self._handle = None
        now = loop.time() + 1e-6
        while self._heap and self._heap[0][0] <= now:
            _, sequence, key = heapq.heappop(self._heap)
            if self._current.get(key) == sequence:
                del self._current[key]
                self._fire(key)
        while self._heap and self._current.get(self._heap[0][2]) != self._heap[0][1]:
            heapq.heappop(self._heap)
        self._arm(loop)
