"""Many timers for the price of one: tens of thousands of tokens a second leave on time."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from sliceworks.base.alarms import alarm

if TYPE_CHECKING:
    from collections.abc import Callable

_TOGETHER = 0.0002
"""What is due within this is done at once: a timer of its own would cost more than it is early."""
_IN_A_ROW = 32
"""So many at most before others have their turn: who is behind would else write in ever longer bursts and read nothing."""


class Wheel:
    """Calls things at their times, on one alarm: those of each moment are kept together, and moments in order."""

    def __init__(self) -> None:
        self._due: dict[int, list[Callable[[], None]]] = {}
        self._moments: list[int] = []
        self._alarm = alarm(self._turn)
        self.now = self._alarm.now
        """The clock that times are of."""
        self._when: int | None = None

    def at(self, when: float, act: Callable[[], None]) -> None:
        """Call `act` when the clock shows `when`."""
        moment = int(when / _TOGETHER)
        due = self._due.get(moment)
        if due is not None:
            due.append(act)
            return
        self._due[moment] = [act]
        heapq.heappush(self._moments, moment)
        if self._when is None or moment < self._when:
            self._arm(moment)

    def _arm(self, moment: int) -> None:
        self._when = moment
        self._alarm.set(moment * _TOGETHER)

    def _turn(self) -> None:
        # A loop may come a millionth of a second early, and will not wait for that again.
        until = int(self.now() / _TOGETHER + 0.01)
        # Who is called may want to be called again: the alarm is set once, when all is done.
        self._when = until
        left = _IN_A_ROW
        try:
            while left > 0 and self._moments and self._moments[0] <= until:
                left -= self._call(heapq.heappop(self._moments), left)
        finally:
            self._when = None
            if self._moments:
                self._arm(self._moments[0])
            else:
                self._alarm.put_away()

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
