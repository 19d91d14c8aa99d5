"""Sends on time: a monotonic test clock, clock offsets between workers, and a pacer that is precise to 0.1 ms."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter_ns, time_ns
from typing import TYPE_CHECKING, Any

import gevent
from gevent.event import AsyncResult, Event
from gevent.monkey import get_original

from sliceworks.base import sockets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_CLOCK = "clock"
_READINGS = 12
_TIMEOUT = 5.0
_READING_INTERVAL = 0.005


@dataclass(frozen=True, slots=True)
class ClockOffset:
    """`offset` is the other clock minus this machine's monotonic clock; `uncertain` bounds its error."""

    offset: int
    uncertain: int


def measure_offset(sent: int, remote: int, received: int) -> ClockOffset:
    """From the local send and receive times and the remote time."""
    return ClockOffset(remote - (sent + received) // 2, (received - sent + 1) // 2)


def local_offset() -> ClockOffset:
    """From the local wall clock."""
    return ClockOffset(time_ns() - perf_counter_ns(), 0)


def serve_time(runner: Any, now: Callable[[], int]) -> None:
    """Serve the master's time to the workers."""
    runner.register_message(_CLOCK, lambda msg, **_: runner.send_message(_CLOCK, [msg.data, now()], client_id=msg.node_id))


class TimeClient:
    """Asks the master for the time."""

    def __init__(self, runner: Any, now: Callable[[], int] = perf_counter_ns) -> None:
        self._runner, self._now = runner, now
        self._waiting: dict[int, AsyncResult[tuple[int, int]]] = {}
        runner.register_message(_CLOCK, self._on_reply)

    def query(self) -> ClockOffset:
        """The best of several readings; TimeoutError if the master does not respond."""
        readings = [reading for _ in range(_READINGS) if (reading := self._read_once()) is not None]
        if not readings:
            raise TimeoutError("the master does not report the time")
        return min(readings, key=lambda reading: reading.uncertain)

    def _read_once(self) -> ClockOffset | None:
        reply: AsyncResult[tuple[int, int]] = AsyncResult()
        sent = self._now()
        self._waiting[sent] = reply
        self._runner.send_message(_CLOCK, sent)
        reply.wait(_TIMEOUT)
        del self._waiting[sent]
        gevent.sleep(_READING_INTERVAL)
        return None if reply.value is None else measure_offset(sent, *reply.value)

    def _on_reply(self, msg: Any, **_: Any) -> None:
        received = self._now()
        sent, remote = msg.data
        if sent in self._waiting:
            self._waiting[sent].set((remote, received))


_select = get_original("select", "select")
"""The real sleep, which Locust patches."""

NEVER_DUE = 1 << 62
"""A time that never comes."""

_SPIN_TIME = 2_000_000
"""Nanoseconds before a due time from which the pacer spins: more than a timer's lateness on an idle machine."""

_MAX_BURST = 32
"""Maximum requests in a row before responses are read, so that a pacer that is behind still reads."""


class RunClock:
    """Monotonic nanoseconds since the start of a test.

    `shift` is the offset of the clock that defines the start from this machine's monotonic clock; without it, the wall clock
    defines the start.
    """

    def __init__(self, begins: int, shift: int | None = None) -> None:
        self._zero = begins - (time_ns() - perf_counter_ns() if shift is None else shift)

    def now(self) -> int:
        return perf_counter_ns() - self._zero

    def wait(self, time: int, stopped: Callable[[], bool]) -> bool:
        """Sleep until a time; return False if stopped. A time in the past returns at once."""
        while (remaining := time - self.now()) > 0:
            if stopped():
                return False
            gevent.sleep(min(remaining / 1e9, 0.25))
        return not stopped()


class Pacer:
    """Runs steps at their due times; each step returns the due time of the next."""

    def __init__(self, now: Callable[[], int], step: Callable[[], int]) -> None:
        self._now, self._step = now, step
        self.due = NEVER_DUE
        """Due time of the next step."""
        self.done = Event()
        self.problem: Exception | None = None
        """The error that stopped the pacer."""
        self._moved = False
        self._loop = gevent.get_hub().loop
        # One watcher runs in every turn of the loop, the other only when it is idle.
        self._always, self._idle = self._loop.prepare(), self._loop.idle()
        self._timer: Any = None

    def begin(self, first: int) -> None:
        """Schedule the first step."""
        self.due = first
        self._always.start(self.catch_up)
        self._idle.start(self._wait)

    def stop(self) -> None:
        """Stop the pacer."""
        self.due = NEVER_DUE
        self._always.stop()
        self._idle.stop()
        if self._timer is not None:
            self._timer.stop()
        self.done.set()

    def catch_up(self) -> None:
        """Run the due steps."""
        now, step = self._now, self._step
        if self.due > now():
            return
        try:
            for _ in range(_MAX_BURST):
                self.due = step()
                if self.due > now():
                    break
        except Exception as error:  # the loop would print the error and call again in an endless loop
            self.due, self.problem = NEVER_DUE, error
        self._moved = True
        if self.due == NEVER_DUE:
            self.stop()

    def _wait(self) -> None:
        """Wait for the next due time or for readable sockets."""
        if self._moved:
            # Let greenlets that a step started, such as a new connection, run first.
            self._moved = False
            return
        remaining = self.due - self._now()
        if remaining > _SPIN_TIME:
            self._idle.stop()
            self._timer = self._loop.timer((remaining - _SPIN_TIME) / 1e9)
            self._timer.start(self._idle.start, self._wait, update=True)
        elif remaining > 0:
            _select((self._loop.fileno(),), (), (), remaining / 1e9)


@contextmanager
def low_jitter() -> Iterator[None]:
    """Avoid pauses of ten milliseconds and more: garbage collections, because existing objects stay and new ones are short-lived,
    and the growth of the kernel's table of open files."""
    before = gc.get_threshold()
    sockets.grow_open_files_table()
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 50, 1_000)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
