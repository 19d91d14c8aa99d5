"""Waits for moments of an absolute clock. The loop's own timers are too coarse: the last stretch is spent in turns of the loop."""

from __future__ import annotations

from time import perf_counter_ns, time_ns
from typing import TYPE_CHECKING

import gevent

if TYPE_CHECKING:
    from collections.abc import Callable

_STRETCH = 2_000_000
"""How long before a moment the waiting in turns begins, in nanoseconds: more than a timer is ever late on an idle machine."""


class Watch:
    """Nanoseconds from the beginning of a test, steady, the same on all workers as far as their machines' clocks agree."""

    def __init__(self, begins: int) -> None:
        self._zero = perf_counter_ns() + begins - time_ns()

    def now(self) -> int:
        return perf_counter_ns() - self._zero

    def wait(self, moment: int, stopped: Callable[[], bool]) -> bool:
        """Return True at that moment, or False once it was stopped; a moment that has passed is now."""
        while (left := moment - self.now()) > 0:
            if stopped():
                return False
            gevent.sleep(min((left - _STRETCH) / 1e9, 0.25) if left > _STRETCH else 0)
        return not stopped()
