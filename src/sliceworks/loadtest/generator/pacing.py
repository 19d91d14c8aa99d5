"""Acts at moments of an absolute clock, to a tenth of a millisecond.

The loop's timers are a millisecond late and more, so the last stretch before a moment is waited for by the system's own hand: until
then, or until something can be read. Whoever reads many answers in one turn of the loop lets what is due go first.
"""

from __future__ import annotations

import fcntl
import gc
import os
import resource
from contextlib import contextmanager, suppress
from time import perf_counter_ns, time_ns
from typing import TYPE_CHECKING, Any

import gevent
from gevent.event import Event
from gevent.monkey import get_original

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_select = get_original("select", "select")
"""The system's own: Locust puts one of the loop's in its place."""
FAR = 1 << 62
"""The moment of what never comes."""
_STRETCH = 2_000_000
"""How long before a moment the timers are left alone, in nanoseconds: more than one is ever late on an idle machine."""
_FILES = 16_384
_AT_ONCE = 32
"""When so many have left one after the other, answers are read before more of them do: whoever is far behind must not go deaf."""


class Watch:
    """Nanoseconds from the beginning of a test, steady. `shift` is what the clock by which it begins shows more than this machine's
    steady one; this machine's clock of the day where there is none."""

    def __init__(self, begins: int, shift: int | None = None) -> None:
        self._zero = begins - (time_ns() - perf_counter_ns() if shift is None else shift)

    def now(self) -> int:
        return perf_counter_ns() - self._zero

    def wait(self, moment: int, stopped: Callable[[], bool]) -> bool:
        """Return True at that moment or a little later, or False once it was stopped; a moment that has passed is now."""
        while (left := moment - self.now()) > 0:
            if stopped():
                return False
            gevent.sleep(min(left / 1e9, 0.25))
        return not stopped()


class Pacer:
    """Takes steps, each at its moment. A step tells the moment of the next one."""

    def __init__(self, now: Callable[[], int], step: Callable[[], int]) -> None:
        self._now, self._step = now, step
        self.due = FAR
        """When the next step is to be taken."""
        self.done = Event()
        self.problem: Exception | None = None
        """Why a step could not be taken, and none after it was."""
        self._moved = False
        self._loop = gevent.get_hub().loop
        # One has its turn always, the other when there is nothing else to do.
        self._always, self._idle = self._loop.prepare(), self._loop.idle()
        self._timer: Any = None

    def begin(self, first: int) -> None:
        """Take the first step then."""
        self.due = first
        self._always.start(self.catch_up)
        self._idle.start(self._wait)

    def stop(self) -> None:
        """Take no step any more."""
        self.due = FAR
        self._always.stop()
        self._idle.stop()
        if self._timer is not None:
            self._timer.stop()
        self.done.set()

    def catch_up(self) -> None:
        """Take the steps that are due."""
        now, step = self._now, self._step
        if self.due > now():
            return
        try:
            for _ in range(_AT_ONCE):
                self.due = step()
                if self.due > now():
                    break
        except Exception as error:  # the loop would print it and call again, for ever
            self.due, self.problem = FAR, error
        self._moved = True
        if self.due == FAR:
            self.stop()

    def _wait(self) -> None:
        """Wait for the next moment, or for something to read."""
        if self._moved:
            # What a step has set going, such as a new connection, has its turn before anybody waits.
            self._moved = False
            return
        left = self.due - self._now()
        if left > _STRETCH:
            self._idle.stop()
            self._timer = self._loop.timer((left - _STRETCH) / 1e9)
            self._timer.start(self._idle.start, self._wait, update=True)
        elif left > 0:
            _select((self._loop.fileno(),), (), (), left / 1e9)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Keep away what stops everything for ten milliseconds and more: Python's collector, as what is there stays and what comes is
    short-lived, and the system's table of open files, which doubles again and again."""
    before = gc.get_threshold()
    _grow_table()
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 50, 1_000)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


def _grow_table() -> None:
    """The table is as large as the highest number that was ever in it."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    file = os.open(os.devnull, os.O_RDONLY)
    with suppress(OSError):
        os.close(fcntl.fcntl(file, fcntl.F_DUPFD, min(limit, _FILES) - 1))
    os.close(file)
