"""One alarm on a loop, to a tenth of a millisecond where the system has such: a loop's own timers come a millisecond late.

uvloop counts whole milliseconds of a clock that all processes share, so what many of them do on its timers is done in one burst at
each. On Linux the system rings instead. Loops whose time is virtual or runs faster have their own timers, which are exact.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING, Protocol

from sliceworks.base import clock

if TYPE_CHECKING:
    from collections.abc import Callable

_MONOTONIC, _NO_WAIT, _ABSOLUTE = 1, os.O_NONBLOCK, 1
_PASSED = 1e-9
"""The system takes a moment of nothing for no alarm at all."""


class Alarm(Protocol):
    """Rings once, at the moment that was set last."""

    def now(self) -> float:
        """The clock that moments are of."""
        ...

    def set(self, when: float) -> None:
        """Ring then, and not when it was to before; at once where that has passed."""
        ...

    def put_away(self) -> None:
        """Ring no more, and hold nothing of the system's until it is set again."""
        ...


def alarm(ring: Callable[[], None]) -> Alarm:
    """The finest one that the running loop can have."""
    coarse = type(asyncio.get_running_loop()).__module__.startswith("uvloop")
    return _SystemAlarm(ring) if coarse and sys.platform == "linux" else _LoopAlarm(ring)


class _LoopAlarm:
    def __init__(self, ring: Callable[[], None]) -> None:
        self._loop, self._ring = asyncio.get_running_loop(), ring
        self._timer: asyncio.TimerHandle | None = None

    def now(self) -> float:
        return self._loop.time()

    def set(self, when: float) -> None:
        self.put_away()
        self._timer = self._loop.call_later(max(0.0, when - self._loop.time()), self._ring)

    def put_away(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class _SystemAlarm:
    """Linux's timerfd, which the standard library has from 3.13 on."""

    def __init__(self, ring: Callable[[], None]) -> None:
        import ctypes

        self._loop, self._ring = asyncio.get_running_loop(), ring
        self._system = ctypes.CDLL(None, use_errno=True)
        self._file = -1
        # Two times, of seconds and nanoseconds: the pause between rings, which stays nothing, and the first one.
        self._moment = (ctypes.c_long * 4)()

    def now(self) -> float:
        return clock.effort()

    def set(self, when: float) -> None:
        if self._file < 0:
            self._file = self._system.timerfd_create(_MONOTONIC, _NO_WAIT)
            if self._file < 0:
                raise OSError("the system gives no timer")
            self._loop.add_reader(self._file, self._rung)
        when = max(when, _PASSED)
        self._moment[2] = seconds = int(when)
        self._moment[3] = int((when - seconds) * 1e9)
        self._system.timerfd_settime(self._file, _ABSOLUTE, self._moment, None)

    def _rung(self) -> None:
        try:
            os.read(self._file, 8)
        except BlockingIOError:
            return  # It was set anew meanwhile.
        self._ring()

    def put_away(self) -> None:
        if self._file >= 0:
            self._loop.remove_reader(self._file)
            os.close(self._file)
            self._file = -1
