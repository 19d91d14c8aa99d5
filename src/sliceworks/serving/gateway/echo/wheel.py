"""Many timers for the price of one: tens of thousands of tokens a second leave on time."""

from __future__ import annotations

import asyncio
import heapq
import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_TOGETHER = 0.0002
"""What is due within this is done at once: a timer of its own would cost more than it is early."""
_IN_A_ROW = 32
"""So many at most before others have their turn: who is behind would else write in ever longer bursts and read nothing."""


class Wheel:
    """Calls things at their times, on one timer of the loop: those of each moment are kept together, and moments in order."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._due: dict[int, list[Callable[[], None]]] = {}
        self._moments: list[int] = []
        self._timer: asyncio.TimerHandle | None = None
        self._when = 0
        self._coarse = type(self._loop).__module__.startswith("uvloop")

    def at(self, when: float, act: Callable[[], None]) -> None:
        """Call `act` when the loop's clock shows `when`."""
        moment = int(when / _TOGETHER)
        due = self._due.get(moment)
        if due is not None:
            due.append(act)
            return
        self._due[moment] = [act]
        heapq.heappush(self._moments, moment)
        if self._timer is None or moment < self._when:
            self._arm(moment)

    def _arm(self, moment: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._when = moment
        self._timer = self._loop.call_later(self._whole(moment * _TOGETHER - self._loop.time()), self._turn)

    def _whole(self, wait: float) -> float:
        """A wait that the loop can keep: uvloop counts milliseconds, and would come too early again and again."""
        return math.ceil(wait * 1000) / 1000 if self._coarse else max(0.0, wait)

    def _turn(self) -> None:
        self._timer = None
        # A loop may come a millionth of a second early, and will not wait for that again.
        until = int(self._loop.time() / _TOGETHER + 0.01)
        left = _IN_A_ROW
        try:
            while left > 0 and self._moments and self._moments[0] <= until:
                left -= self._call(heapq.heappop(self._moments), left)
        finally:
            if self._moments and self._timer is None:
                self._arm(self._moments[0])

    def _call(self, moment: int, most: int) -> int:
        """Call so many of a moment's; returns how many that were. The others stay, and so do those behind one that fails."""
        waiting = self._due.pop(moment)
        due = iter(waiting[:most])
        try:
            for act in due:
                act()
        finally:
            for act in (*due, *waiting[most:]):
                self.at((moment + 0.5) * _TOGETHER, act)
        return min(most, len(waiting))
