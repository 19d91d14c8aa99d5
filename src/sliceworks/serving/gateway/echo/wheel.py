"""Many timers for the price of one: tens of thousands of tokens a second leave on time."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_TOGETHER = 0.0002
"""What is due within this is done at once: a timer of its own would cost more than it is early."""


class Wheel:
    """Calls things at their times, on one timer of the loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._timer: asyncio.TimerHandle | None = None
        self._when = 0.0

    def at(self, when: float, act: Callable[[], None]) -> None:
        """Call `act` when the loop's clock shows `when`."""
        heapq.heappush(self._due, (when, next(self._order), act))
        if self._timer is None or when < self._when:
            self._arm(when)

    def _arm(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._when = when
        self._timer = self._loop.call_at(when, self._turn)

    def _turn(self) -> None:
        self._timer = None
        until = self._loop.time() + _TOGETHER
        due = self._due
        try:
            while due and due[0][0] <= until:
                heapq.heappop(due)[2]()
        finally:  # one that fails does not hold up the others
            if due and self._timer is None:
                self._arm(due[0][0])
