"""One clock, asyncio's: real, sped up, or virtual. Nothing else in the project reads the time or sleeps.

    run(main())                      real time, on uvloop where it is installed
    run(main(), speed=60)            a minute passes in a second
    run(main(), virtual=True)        time jumps to the next timer whenever no task can run; one seed gives one result

Code on a loop calls `now()`, `timestamp()` and `sleep()` and does not know which clock it runs on.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from sliceworks.base.loops import ScaledLoop, TimedLoop, VirtualLoop, check_speed, format_rfc3339

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

T = TypeVar("T")

_system_rng = random.Random()
os.register_at_fork(after_in_child=_system_rng.seed)

# The timestamp of the current second: most calls fall into the same one.
_cached_second = 0
_cached_timestamp = "1970-01-01T00:00:00Z"


def run(
    main: Coroutine[Any, Any, T],
    *,
    virtual: bool = False,
    speed: float = 1.0,
    start: datetime | None = None,
    seed: int | None = None,
) -> T:
    """Run a coroutine on a new loop with this clock and return its result."""
    with asyncio.Runner(loop_factory=lambda: new_loop(virtual=virtual, speed=speed, start=start, seed=seed)) as runner:
        return runner.run(main)


def new_loop(
    *, virtual: bool = False, speed: float = 1.0, start: datetime | None = None, seed: int | None = None
) -> asyncio.AbstractEventLoop:
    """A new event loop with this clock; the caller closes it."""
    if virtual:
        return VirtualLoop(start=start, seed=seed)
    check_speed(speed)
    if speed != 1.0 or start is not None:
        return ScaledLoop(speed=speed, start=start)
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


def now() -> datetime:
    """The current UTC time on the running loop's clock, or the wall clock if no loop is running."""
    loop = asyncio._get_running_loop()
    if isinstance(loop, TimedLoop):
        return loop.now()
    return datetime.now(UTC)


def timestamp() -> str:
    """The current time as a `metav1.Time`: `2026-11-15T03:04:05Z`."""
    loop = asyncio._get_running_loop()
    if isinstance(loop, TimedLoop):
        return loop.timestamp()
    global _cached_second, _cached_timestamp  # noqa: PLW0603 - a cache of one entry
    second = int(time.time())
    if second != _cached_second:
        _cached_timestamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(second))
        _cached_second = second
    return _cached_timestamp


def micro_timestamp() -> str:
    """The current time as a `metav1.MicroTime`, for leases and events: `2026-11-15T03:04:05.000678Z`."""
    return rfc3339_micro(now())


def rfc3339(value: datetime) -> str:
    """A time as a `metav1.Time`."""
    return format_rfc3339(value)


def rfc3339_micro(value: datetime) -> str:
    """A time as a `metav1.MicroTime`."""
    return f"{value.astimezone(UTC).isoformat(timespec='microseconds')[:26]}Z"


def parse(value: Any) -> datetime | None:
    """The time in a timestamp field; None if the field is empty, missing or not a timestamp."""
    if not isinstance(value, str) or not value:
        return None
    try:
        parsed = datetime.fromisoformat(value)
    except ValueError:
        return None
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)


def seconds_until(timestamp: str) -> float:
    """Seconds until the time of a timestamp; negative if it is past."""
    return (datetime.fromisoformat(timestamp) - now()).total_seconds()


def seconds_since(timestamp: str) -> float:
    """Seconds since the time of a timestamp; negative if it is in the future."""
    return (now() - datetime.fromisoformat(timestamp)).total_seconds()


def timestamp_after(seconds: float) -> str:
    """The time in `seconds` as a `metav1.MicroTime`."""
    return rfc3339_micro(now() + timedelta(seconds=seconds))


def wait_until(condition: Callable[[], bool], timeout: float, *, interval: float = 0.02) -> bool:
    """Poll a condition in real time, without an event loop; False if it is not met within `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(interval)
    return True


async def sleep(seconds: float) -> None:
    """Sleep on the running loop's clock."""
    await asyncio.sleep(seconds)


def real_timestamp() -> str:
    """The wall-clock time as a `metav1.Time`, whatever the running loop's clock shows: for the age of processes only."""
    return rfc3339(datetime.now(UTC))


def scale_real_seconds(seconds: float) -> float:
    """Real seconds as seconds of the running loop's clock: for timeouts of processes and peers that run in real time."""
    loop = asyncio.get_running_loop()
    return seconds * loop.speed if isinstance(loop, ScaledLoop) else seconds


def loop_time() -> float:
    """Seconds on the running loop's clock; only differences are meaningful."""
    return asyncio.get_running_loop().time()


def perf_counter() -> float:
    """Seconds on the system's performance counter, for measuring work. Constant in virtual time, so that results do not depend on
    the speed of the machine."""
    return 0.0 if isinstance(asyncio._get_running_loop(), VirtualLoop) else time.perf_counter()


def real_perf_counter() -> float:
    """Seconds on the system's performance counter, in virtual time too: for messages only, never for decisions."""
    return time.perf_counter()


def since(start: datetime) -> timedelta:
    """The time that has passed since `start`."""
    return now() - start


def rng() -> random.Random:
    """The random number generator: seeded by the run in virtual time, else by the system. Not for secrets."""
    loop = asyncio._get_running_loop()
    if isinstance(loop, VirtualLoop):
        return loop.rng
    return _system_rng


def uid() -> str:
    """A random UUID (version 4), as in `metadata.uid`."""
    bits = rng().getrandbits(128)
    digits = f"{(bits & ~(0xF << 76) & ~(0x3 << 62)) | (0x4 << 76) | (0x2 << 62):032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
