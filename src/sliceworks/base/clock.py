"""One clock, asyncio's: real, sped up, or virtual. Nothing else in the project reads the time or sleeps.

    run(main())                      real time, on uvloop where it is installed
    run(main(), speed=60)            a minute passes in a second
    run(main(), virtual=True)        time jumps to the next timer whenever nothing is ready; the same seed gives the same run

Code that runs on a loop asks `now()`, `timestamp()` and `sleep()` and cannot tell which clock it has.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from sliceworks.base.loops import ScaledLoop, TimedLoop, VirtualLoop, check_speed, whole_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

__all__ = [
    "ScaledLoop",
    "VirtualLoop",
    "effort",
    "loop_time",
    "micro_timestamp",
    "new_loop",
    "now",
    "of_the_machine",
    "randomness",
    "rfc3339",
    "rfc3339_micro",
    "run",
    "since",
    "sleep",
    "stopwatch",
    "timestamp",
    "uid",
    "wait_until",
]

T = TypeVar("T")

_system_randomness = random.Random()
os.register_at_fork(after_in_child=_system_randomness.seed)

# The wall clock's last second and how it reads: most calls fall into the same one.
_last_second = 0
_last_text = "1970-01-01T00:00:00Z"


def run(
    main: Coroutine[Any, Any, T],
    *,
    virtual: bool = False,
    speed: float = 1.0,
    start: datetime | None = None,
    seed: int | None = None,
) -> T:
    """Run a coroutine to its end on the loop that has the wanted clock."""
    with asyncio.Runner(loop_factory=lambda: new_loop(virtual=virtual, speed=speed, start=start, seed=seed)) as runner:
        return runner.run(main)


def new_loop(
    *, virtual: bool = False, speed: float = 1.0, start: datetime | None = None, seed: int | None = None
) -> asyncio.AbstractEventLoop:
    """A fresh loop with the wanted clock; the caller closes it."""
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
    """The time in UTC, of the running loop's clock; the wall clock's where no loop runs."""
    loop = asyncio._get_running_loop()
    if isinstance(loop, TimedLoop):
        return loop.now()
    return datetime.now(UTC)


def timestamp() -> str:
    """Now, as Kubernetes writes it: `2026-11-15T03:04:05Z`."""
    loop = asyncio._get_running_loop()
    if isinstance(loop, TimedLoop):
        return loop.timestamp()
    global _last_second, _last_text  # noqa: PLW0603 - a cache of one entry
    second = int(time.time())
    if second != _last_second:
        _last_text = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(second))
        _last_second = second
    return _last_text


def micro_timestamp() -> str:
    """Now with microseconds, as leases and events have it: `2026-11-15T03:04:05.000678Z`."""
    return rfc3339_micro(now())


def rfc3339(moment: datetime) -> str:
    """A moment as Kubernetes writes `metav1.Time`."""
    return whole_seconds(moment)


def rfc3339_micro(moment: datetime) -> str:
    """A moment as Kubernetes writes `metav1.MicroTime`."""
    return f"{moment.astimezone(UTC).isoformat(timespec='microseconds')[:26]}Z"


def parse(text: Any) -> datetime | None:
    """A time as Kubernetes writes it; None where there is none, or something else."""
    if not isinstance(text, str) or not text:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def wait_until(true: Callable[[], bool], timeout: float, *, every: float = 0.02) -> bool:
    """Look again and again, in real time and without a loop, until something outside has happened; False when it has not."""
    deadline = time.monotonic() + timeout
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(every)
    return True


async def sleep(seconds: float) -> None:
    """Wait on the running loop's clock."""
    await asyncio.sleep(seconds)


def of_the_machine(seconds: float) -> float:
    """How long the running loop's clock takes for so many seconds of the machine's: what is outside runs no faster than that."""
    loop = asyncio.get_running_loop()
    return seconds * loop.speed if isinstance(loop, ScaledLoop) else seconds


def loop_time() -> float:
    """Seconds on the running loop's clock: for differences only."""
    return asyncio.get_running_loop().time()


def effort() -> float:
    """Seconds on the machine's own clock, to measure work by: differences only. It stands still where time is virtual, so that
    how fast the machine is changes nothing there."""
    return 0.0 if isinstance(asyncio._get_running_loop(), VirtualLoop) else time.perf_counter()


def stopwatch() -> float:
    """Seconds on the machine's own clock, whatever the loop's: to tell a person how long something took, and to decide nothing."""
    return time.perf_counter()


def since(moment: datetime) -> timedelta:
    """How long ago a moment was."""
    return now() - moment


def randomness() -> random.Random:
    """The source of chance: seeded by the run when time is virtual, the system's otherwise. Not for secrets."""
    loop = asyncio._get_running_loop()
    if isinstance(loop, VirtualLoop):
        return loop.randomness
    return _system_randomness


def uid() -> str:
    """A random UUID (version 4), as the API server gives each object."""
    bits = randomness().getrandbits(128)
    text = f"{(bits & ~(0xF << 76) & ~(0x3 << 62)) | (0x4 << 76) | (0x2 << 62):032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
