"""A one-shot timer on the running loop, accurate to 0.1 ms where the platform supports it.

uvloop rounds timers to whole milliseconds of a system-wide clock, so timers of many processes fire in bursts. On Linux, timerfd is
used instead. Scaled and virtual loops have exact timers of their own.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING, Protocol

from sliceworks.base import clock

if TYPE_CHECKING:
    from collections.abc import Callable

_MONOTONIC, _NONBLOCK, _ABSOLUTE = 1, os.O_NONBLOCK, 1
_EARLIEST = 1e-9
"""timerfd_settime disarms the timer if the time is zero."""


class Timer(Protocol):
    """Calls back once, at the time that was set last."""

    def now(self) -> float:
        """The current time on this timer's clock."""
        ...

    def set(self, when: float) -> None:
        """Fire at this time, at once if it has passed; replaces the time set before."""
        ...

    def cancel(self) -> None:
        """Disarm the timer and release its resources; it can be set again."""
        ...


def create_timer(callback: Callable[[], None]) -> Timer:
    """The most accurate timer for the running loop."""
    coarse = type(asyncio.get_running_loop()).__module__.startswith("uvloop")
    return _TimerFd(callback) if coarse and sys.platform == "linux" else _LoopTimer(callback)


class _LoopTimer:
    def __init__(self, callback: Callable[[], None]) -> None:
        self._loop, self._callback = asyncio.get_running_loop(), callback
        self._timer: asyncio.TimerHandle | None = None

    def now(self) -> float:
        return self._loop.time()

    def set(self, when: float) -> None:
        self.cancel()
        self._timer = self._loop.call_later(max(0.0, when - self._loop.time()), self._callback)

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class _TimerFd:
    """Linux's timerfd, which the standard library supports from Python 3.13 on."""

    def __init__(self, callback: Callable[[], None]) -> None:
        import ctypes

        self._loop, self._callback = asyncio.get_running_loop(), callback
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._file = -1
        # struct itimerspec: seconds and nanoseconds of the interval, which stays zero, and of the first expiration.
        self._itimerspec = (ctypes.c_long * 4)()

    def now(self) -> float:
        return clock.perf_counter()

    def set(self, when: float) -> None:
        if self._file < 0:
            self._file = self._libc.timerfd_create(_MONOTONIC, _NONBLOCK)
            if self._file < 0:
                raise OSError("timerfd_create failed")
            self._loop.add_reader(self._file, self._on_readable)
        when = max(when, _EARLIEST)
        self._itimerspec[2] = seconds = int(when)
        self._itimerspec[3] = int((when - seconds) * 1e9)
        self._libc.timerfd_settime(self._file, _ABSOLUTE, self._itimerspec, None)

    def _on_readable(self) -> None:
        try:
            os.read(self._file, 8)
        except BlockingIOError:
            return  # The timer was set again meanwhile.
        self._callback()

    def cancel(self) -> None:
        if self._file >= 0:
            self._loop.remove_reader(self._file)
            os.close(self._file)
            self._file = -1
