"""asyncio event loops with their own clock: scaled time, and virtual time that jumps from timer to timer.

Both extend the selector loop. A loop waits in its selector until the next timer is due; here that wait is shortened, or replaced by
moving the clock.
"""

from __future__ import annotations

import asyncio
import heapq
import random
import selectors
import time
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from math import inf
from typing import TYPE_CHECKING, Any, TypeVarTuple, Unpack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextvars import Context

Ts = TypeVarTuple("Ts")
Ready = list[tuple[selectors.SelectorKey, int]]

_VIRTUAL_START = datetime(2026, 1, 5, 8, 0, tzinfo=UTC)  # a Monday morning
_RESOLUTION = 1e-6
_HANDSHAKE_SECONDS = 60.0
_SLACK = 0.02  # real seconds by which a loop may be late before its clock slows down


class TimedLoop(asyncio.SelectorEventLoop):
    """A loop with its own clock: `time()` counts seconds from `start`."""

    def __init__(self, start: datetime) -> None:
        self.start = start.astimezone(UTC)
        super().__init__(Selector(self._wait))
        # Timers within one microsecond fire together: sums of floats are that inexact after a long run.
        self._clock_resolution = _RESOLUTION
        # Cached, since many tasks run at the same virtual time.
        self._cached_at, self._now, self._timestamp = 0.0, self.start, format_rfc3339(self.start)

    def now(self) -> datetime:
        """The current time of this loop's clock."""
        self._refresh()
        return self._now

    def timestamp(self) -> str:
        """The current time as a `metav1.Time`."""
        self._refresh()
        return self._timestamp

    def _refresh(self) -> None:
        seconds = self.time()
        if seconds != self._cached_at:
            self._cached_at, self._now = seconds, self.start + timedelta(seconds=seconds)
            self._timestamp = format_rfc3339(self._now)

    def _wait(self, selector: Selector, timeout: float | None) -> Ready:
        raise NotImplementedError


class VirtualLoop(TimedLoop):
    """Virtual time: stands still while any task can run, then jumps to the next timer. Deterministic for one seed.

    `run_in_executor` runs the function at once in the loop's own thread, so it takes no virtual time and has a fixed order. Sockets
    work, but time jumps while a task waits for one: use in-process transports, or hold the clock.
    """

    def __init__(self, *, start: datetime | None = None, seed: int | None = None) -> None:
        self._elapsed = 0.0
        self._held_until: float | None = None
        self._timer_count = 0
        self.rng = random.Random(0 if seed is None else seed)
        super().__init__(start or _VIRTUAL_START)

    def time(self) -> float:
        return self._elapsed

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Stop the clock while real I/O runs: sockets and threads are waited for. A separate random number generator is used
        meanwhile, so that the order of I/O does not affect what follows."""
        rng, self._held_until = self.rng, self._elapsed
        self.rng = random.Random(0)
        try:
            yield
        finally:
            self.rng, self._held_until = rng, None

    @property
    def is_held(self) -> bool:
        """Whether the clock is held."""
        return self._held_until is not None

    def advance(self, seconds: float) -> None:
        """Let the clock advance by up to this many seconds while it is held."""
        if self._held_until is not None:
            self._held_until = max(self._held_until, self._elapsed + seconds)
            self._write_to_self()

    def call_at(
        self, when: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Set a timer. Timers due at the same time fire in the order they were set."""
        self._check_closed()
        if self._elapsed < when < self._elapsed + _RESOLUTION:
            # It would fire early, and a callback that checks the clock and waits again would loop forever.
            when = self._elapsed + _RESOLUTION
        timer = _Timer(when, callback, args, self, context)
        self._timer_count += 1
        timer.sequence = self._timer_count
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

    def _wait(self, selector: Selector, timeout: float | None) -> Ready:
        if self._held_until is not None:
            return self._wait_held(selector, timeout, self._held_until - self._elapsed)
        if timeout is None:
            # Only the loop's own self-pipe is registered: no event can ever arrive.
            if len(selector.get_map()) <= 1:
                raise RuntimeError("deadlock: every task is waiting and no timer is set")
            return selector.wait(None)
        ready = selector.wait(0)
        if not ready and timeout > 0:
            self._elapsed += timeout
        return ready

    def _wait_held(self, selector: Selector, timeout: float | None, left: float) -> Ready:
        if timeout is not None and timeout <= 0:
            return selector.wait(0)
        if left <= 0:
            return selector.wait(None)
        ready = selector.wait(0)
        if not ready:
            self._elapsed += left if timeout is None else min(left, timeout)
        return ready

    if TYPE_CHECKING:
        _scheduled: list[_Timer]

        def _write_to_self(self) -> None: ...

        def _check_closed(self) -> None: ...


class ScaledLoop(TimedLoop):
    """Time runs up to `speed` times as fast as real time. Speed can be changed, and time advanced or paused, while the loop runs.

    A loop that is late, because it works or because the machine is busy, has a slower clock: beyond the time that it meant to wait,
    time passes as fast as real time. Otherwise a pause of one second would let leases and deadlines of minutes expire.
    """

    def __init__(self, *, speed: float = 1.0, start: datetime | None = None) -> None:
        self._speed = speed
        self._paused = False
        self._until = 0.0
        self._limit = inf
        self._base = 0.0
        self._origin = time.monotonic()
        self._fast = inf  # real seconds from the origin at full speed
        super().__init__(start or datetime.now(UTC))

    @property
    def speed(self) -> float:
        return self._speed

    @property
    def paused(self) -> bool:
        return self._paused

    def time(self) -> float:
        return self._base if self._paused else self._base + self._scale(time.monotonic() - self._origin)

    def pause(self, paused: bool = True) -> None:
        """Pause or resume the clock. While it is paused, sockets are served, timers wait, and `advance` still works."""
        self._rebase()
        self._paused = paused
        self._write_to_self()

    def set_speed(self, speed: float) -> None:
        """Change the speed from now on."""
        check_speed(speed)
        self._rebase()
        self._speed = speed
        self._write_to_self()

    def set_limit(self, limit: datetime | None) -> None:
        """Let time pass as fast as real time after `limit`: the clock of another process has not come further."""
        self._rebase()
        self._limit = inf if limit is None else (limit - self.start).total_seconds()
        self._write_to_self()

    async def create_connection(self, *arguments: Any, **options: Any) -> Any:
        """As asyncio's; its default timeout of a TLS handshake is in real seconds, since the peer runs in real time."""
        if options.get("ssl") and options.get("ssl_handshake_timeout") is None:
            options["ssl_handshake_timeout"] = _HANDSHAKE_SECONDS * self._speed
        return await super().create_connection(*arguments, **options)

    def advance(self, seconds: float) -> None:
        """Jump from timer to timer until this many seconds have passed; each timer fires at its own time."""
        if seconds < 0:
            raise ValueError(f"seconds: must not be negative, got {seconds}")
        self._until = max(self._until, self.time()) + seconds
        self._write_to_self()

    def advance_to(self, moment: datetime) -> None:
        """Jump from timer to timer until this time. Unlike `advance`, it can be repeated during the jump."""
        self._until = max(self._until, (moment - self.start).total_seconds())
        self._write_to_self()

    def _scale(self, real: float) -> float:
        """Seconds of this clock in `real` seconds from the origin."""
        fast = min(real, self._fast)
        return fast * self._speed + (real - fast) * min(self._speed, 1.0)

    def _rebase(self, jump: float = 0.0, wait: float | None = None) -> float:
        """Count from now on; returns the real seconds until the clock has advanced by `wait`."""
        real = time.monotonic()
        self._base += jump if self._paused else self._scale(real - self._origin) + jump
        self._origin = real
        self._fast = max(self._limit - self._base, 0.0) / self._speed
        if wait is None:
            return inf
        fast = min(wait / self._speed, self._fast)
        self._fast = min(self._fast, fast + _SLACK)
        return fast + (wait - fast * self._speed) / min(self._speed, 1.0)

    def _wait(self, selector: Selector, timeout: float | None) -> Ready:
        left = self._until - self.time()
        if left <= 0:
            timers_wait = self._paused and timeout != 0
            real = self._rebase(wait=timeout)
            return selector.wait(None if timeout is None or timers_wait else real)
        ready = selector.wait(0)
        if not ready:
            self._rebase(left if timeout is None else min(timeout, left))
        return ready

    if TYPE_CHECKING:

        def _write_to_self(self) -> None: ...


class _Timer(asyncio.TimerHandle):
    """A timer with a sequence number: asyncio's own order of timers due at the same time depends on all other timers."""

    __slots__ = ("sequence",)

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, _Timer):
            return NotImplemented
        return self._when < other._when or (self._when == other._when and self.sequence < other.sequence)

    if TYPE_CHECKING:
        sequence: int
        _when: float
        _scheduled: bool


class Selector(selectors.DefaultSelector):
    """The system's selector; the loop decides how long to `wait` in it."""

    def __init__(self, wait: Callable[[Selector, float | None], Ready]) -> None:
        super().__init__()
        self._loop_wait = wait

    def select(self, timeout: float | None = None) -> Ready:
        return self._loop_wait(self, timeout)

    def wait(self, timeout: float | None) -> Ready:
        """Wait for events; None means without a timeout."""
        return super().select(timeout)


def format_rfc3339(value: datetime) -> str:
    """A time as a `metav1.Time`: `2026-11-15T03:04:05Z`."""
    return f"{value.astimezone(UTC).isoformat(timespec='seconds')[:19]}Z"


def check_speed(speed: float) -> None:
    """Raise ValueError for an invalid speed. Call it before creating the loop: a half-initialized loop cannot be closed."""
    if not 0 < speed < float("inf"):
        raise ValueError(f"speed: must be a finite number greater than 0, got {speed}")
