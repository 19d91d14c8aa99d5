"""asyncio loops whose time is not the machine's: sped up, or jumping from timer to timer.

Both stand on the ordinary selector loop. A loop asks its selector to wait for sockets for so long; here that wait is shortened, or
replaced by moving the clock.
"""

from __future__ import annotations

import asyncio
import heapq
import random
import selectors
import time
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVarTuple, Unpack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextvars import Context

Ts = TypeVarTuple("Ts")
Ready = list[tuple[selectors.SelectorKey, int]]

_VIRTUAL_START = datetime(2026, 1, 5, 8, 0, tzinfo=UTC)  # a Monday morning
_RESOLUTION = 1e-6


class TimedLoop(asyncio.SelectorEventLoop):
    """A loop with a clock of its own: `time()` counts seconds from `start`."""

    def __init__(self, start: datetime) -> None:
        self.start = start.astimezone(UTC)
        super().__init__(_Selector(self._wait))
        # Timers that lie within a microsecond fire together: float sums of long times need the room.
        self._clock_resolution = _RESOLUTION
        # What was read last, and how it is written: much happens at one moment of virtual time.
        self._read_at, self._moment, self._text = 0.0, self.start, whole_seconds(self.start)

    def now(self) -> datetime:
        """The moment this loop's clock shows."""
        self._read()
        return self._moment

    def timestamp(self) -> str:
        """The same moment as Kubernetes writes it."""
        self._read()
        return self._text

    def _read(self) -> None:
        seconds = self.time()
        if seconds != self._read_at:
            self._read_at, self._moment = seconds, self.start + timedelta(seconds=seconds)
            self._text = whole_seconds(self._moment)

    def _wait(self, selector: selectors.BaseSelector, timeout: float | None) -> Ready:
        raise NotImplementedError


class VirtualLoop(TimedLoop):
    """Time stands still while anything can run, and then jumps to the next timer. Deterministic for one seed.

    Work for threads runs at once, in the loop's own thread, so that it takes no virtual time and has one order. Sockets work, but
    waiting for one lets time jump: use transports that stay in the process, or hold the clock meanwhile.
    """

    def __init__(self, *, start: datetime | None = None, seed: int | None = None) -> None:
        self._elapsed = 0.0
        self._held_until: float | None = None
        self._timers = 0
        self.randomness = random.Random(0 if seed is None else seed)
        super().__init__(start or _VIRTUAL_START)

    def time(self) -> float:
        return self._elapsed

    @contextmanager
    def held(self) -> Iterator[None]:
        """Time stands still while something real is under way: sockets and threads are waited for, and chance is that of another
        source, so that what they did, and in which order, leaves no trace in what comes after."""
        chance, self._held_until = self.randomness, self._elapsed
        self.randomness = random.Random(0)
        try:
            yield
        finally:
            self.randomness, self._held_until = chance, None

    @property
    def is_held(self) -> bool:
        """Whether something real is under way."""
        return self._held_until is not None

    def let_pass(self, seconds: float) -> None:
        """Let so much time pass although it is held."""
        if self._held_until is not None:
            self._held_until = max(self._held_until, self._elapsed + seconds)
            self._write_to_self()

    def call_at(
        self, when: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Set a timer; of those that are due at one moment, the one that was set first comes first."""
        self._check_closed()
        if self._elapsed < when < self._elapsed + _RESOLUTION:
            # It would fire before its moment: who looks at the clock then and waits again would do so for ever.
            when = self._elapsed + _RESOLUTION
        timer = _Timer(when, callback, args, self, context)
        self._timers += 1
        timer.turn = self._timers
        heapq.heappush(self._scheduled, timer)
        timer._scheduled = True
        return timer

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future

    def _wait(self, selector: selectors.BaseSelector, timeout: float | None) -> Ready:
        if self._held_until is not None:
            return self._wait_held(selector, timeout, self._held_until - self._elapsed)
        if timeout is None:
            # Only the loop's own wake-up pipe is left: nothing can ever happen again.
            if len(selector.get_map()) <= 1:
                raise RuntimeError("every task waits for something that never comes")
            return selector.select(None)
        ready = selector.select(0)
        if not ready and timeout > 0:
            self._elapsed += timeout
        return ready

    def _wait_held(self, selector: selectors.BaseSelector, timeout: float | None, left: float) -> Ready:
        if timeout is not None and timeout <= 0:
            return selector.select(0)
        if left <= 0:
            return selector.select(None)
        ready = selector.select(0)
        if not ready:
            self._elapsed += left if timeout is None else min(left, timeout)
        return ready

    if TYPE_CHECKING:
        _scheduled: list[_Timer]

        def _write_to_self(self) -> None: ...

        def _check_closed(self) -> None: ...


class ScaledLoop(TimedLoop):
    """Time runs `speed` times as fast as the machine's. While it runs the speed may be changed, time moved on, or stopped."""

    def __init__(self, *, speed: float = 1.0, start: datetime | None = None) -> None:
        self._speed = speed
        self._paused = False
        self._until = 0.0
        self._base = 0.0
        self._origin = time.monotonic()
        super().__init__(start or datetime.now(UTC))

    @property
    def speed(self) -> float:
        return self._speed

    @property
    def paused(self) -> bool:
        return self._paused

    def time(self) -> float:
        return self._base if self._paused else self._base + (time.monotonic() - self._origin) * self._speed

    def pause(self, paused: bool = True) -> None:
        """Let time stand still, or run again. What waits for sockets goes on; timers wait. It can be moved on meanwhile."""
        self._rebase(0.0)
        self._paused = paused
        self._write_to_self()

    def set_speed(self, speed: float) -> None:
        """Go on at another speed from this moment."""
        check_speed(speed)
        self._rebase(0.0)
        self._speed = speed
        self._write_to_self()

    def advance(self, seconds: float) -> None:
        """Let time jump from timer to timer until so many seconds have passed: each fires at its own moment, none is waited for."""
        if seconds < 0:
            raise ValueError("time does not run backwards")
        self._until = max(self._until, self.time()) + seconds
        self._write_to_self()

    def _rebase(self, jump: float) -> None:
        moment = time.monotonic()
        self._base += jump if self._paused else (moment - self._origin) * self._speed + jump
        self._origin = moment

    def _wait(self, selector: selectors.BaseSelector, timeout: float | None) -> Ready:
        left = self._until - self.time()
        if left <= 0:
            waits_for_time = self._paused and timeout != 0
            return selector.select(None if timeout is None or waits_for_time else timeout / self._speed)
        ready = selector.select(0)
        if not ready:
            self._rebase(left if timeout is None else min(timeout, left))
        return ready

    if TYPE_CHECKING:

        def _write_to_self(self) -> None: ...


class _Timer(asyncio.TimerHandle):
    """A timer that knows its turn. asyncio's own order of equal moments depends on every other timer that there is."""

    __slots__ = ("turn",)

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, _Timer):
            return NotImplemented
        return self._when < other._when or (self._when == other._when and self.turn < other.turn)

    if TYPE_CHECKING:
        turn: int
        _when: float
        _scheduled: bool


class _Selector(selectors.BaseSelector):
    """The system's selector, with the wait handed to the loop."""

    def __init__(self, wait: Callable[[selectors.BaseSelector, float | None], Ready]) -> None:
        self._real = selectors.DefaultSelector()
        self._wait = wait

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._real.unregister(fileobj)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.modify(fileobj, events, data)

    def select(self, timeout: float | None = None) -> Ready:
        return self._wait(self._real, timeout)

    def close(self) -> None:
        self._real.close()

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._real.get_map()

    def get_key(self, fileobj: Any) -> selectors.SelectorKey:
        return self._real.get_key(fileobj)


def whole_seconds(moment: datetime) -> str:
    """A moment as Kubernetes writes it: `2026-11-15T03:04:05Z`."""
    return f"{moment.astimezone(UTC).isoformat(timespec='seconds')[:19]}Z"


def check_speed(speed: float) -> None:
    """ValueError when time cannot run so fast. A loop that fails half made cannot be closed: this comes first."""
    if not 0 < speed < float("inf"):
        raise ValueError(f"a speed is a number above 0, not {speed}")
