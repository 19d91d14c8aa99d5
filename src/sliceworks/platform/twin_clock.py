"""The clock of a running twin, over its API: read, change speed, pause, advance.

`sleep` waits in the twin, so a scenario keeps its times at any speed and while the clock is advanced.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import orjson

from sliceworks.base import clock
from sliceworks.base.errors import ApiError, SliceworksError
from sliceworks.base.loops import ScaledLoop
from sliceworks.base.stream_decoder import read_lines
from sliceworks.base.transport import Request
from sliceworks.kube.https import open_client
from sliceworks.kube.rest import close_stream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine
    from pathlib import Path

    from sliceworks.kube.client import Client

T = TypeVar("T")
_LONGEST_WAIT, _LONGEST_JUMP = 10.0, 3600.0
_TOLERANCE = 0.5  # seconds that a follower may be behind
_LATENCY = 0.1  # real seconds of a line on its way
_RECONNECT = 0.5  # real seconds


@dataclass(frozen=True, slots=True)
class ClockStatus:
    """Time, speed and state of a twin's clock. Without a speed it is the machine's clock.

    A stream of them has one every `interval` real seconds; those of older twins only have one for every change.
    """

    now: datetime
    speed: float | None
    paused: bool
    interval: float | None = None


async def get(client: Client) -> ClockStatus:
    """The clock of a twin; NotFound if the cluster is not a twin."""
    return _read(await client.send(Request("GET", "/debug/twin/clock")))


async def update(client: Client, *, speed: float | None = None, paused: bool | None = None) -> ClockStatus:
    """Change the speed of a twin's clock, pause it or resume it."""
    changes = {name: value for name, value in (("speed", speed), ("paused", paused)) if value is not None}
    return _read(await client.send(Request.json("POST", "/debug/twin/clock", changes)))


async def advance(client: Client, seconds: float) -> str:
    """Advance a twin's clock; returns its time afterwards."""
    return await _post_in_chunks(client, "advance", seconds, _LONGEST_JUMP)


async def sleep(client: Client, seconds: float) -> None:
    """Wait until the twin's clock has advanced by `seconds`."""
    await _post_in_chunks(client, "sleep", seconds, _LONGEST_WAIT)


def advance_by_kubeconfig(kubeconfig: Path, seconds: float) -> str:
    """`advance` for the twin of a kubeconfig."""

    async def main() -> str:
        async with open_client(kubeconfig) as client:
            return await advance(client, seconds)

    return clock.run(main())


def run_on_twin_clock(main: Callable[[], Coroutine[Any, Any, T]], kubeconfig: Path) -> T:
    """Run a coroutine on the clock of a twin: its time, its speed, and every change of them."""

    async def read() -> ClockStatus:
        async with open_client(kubeconfig) as client:
            return await get(client)

    async def follow_and_run() -> T:
        async with open_client(kubeconfig) as client, follow(client):
            return await main()

    before = clock.real_perf_counter()
    status = clock.run(read())
    speed = status.speed or 1.0
    # Count the whole request as passed: an age may be too large by that much, but is never negative.
    passed = 0.0 if status.paused else (clock.real_perf_counter() - before) * speed
    return clock.run(follow_and_run(), speed=speed, start=status.now + timedelta(seconds=passed))


@asynccontextmanager
async def follow(client: Client) -> AsyncIterator[None]:
    """Keep the clock of the running loop equal to a twin's: advance, pause and change the speed with it."""
    task = asyncio.create_task(_follow(client), name="twin clock")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _follow(client: Client) -> None:
    loop = asyncio.get_running_loop()
    if not isinstance(loop, ScaledLoop):
        return
    while True:
        try:
            response = await client.exchange(Request("GET", "/debug/twin/clock/watch"), stream=True)
            if response.stream is None:
                return
            try:
                async for lines in read_lines(response.stream):
                    for line in lines:
                        _apply(loop, _read(orjson.loads(line)))
            finally:
                await close_stream(response.stream)
        except ApiError:
            return  # a twin of an older version
        except SliceworksError:
            pass  # the twin stops or restarts; the command itself reports it
        loop.pause(False)
        loop.set_limit(None)
        await clock.sleep(clock.scale_real_seconds(_RECONNECT))


def _apply(loop: ScaledLoop, status: ClockStatus) -> None:
    speed = status.speed or 1.0
    if speed != loop.speed:
        loop.set_speed(speed)
    if status.paused != loop.paused:
        loop.pause(status.paused)
    behind = (status.now - loop.now()).total_seconds()
    if behind > max(_TOLERANCE, _LATENCY * speed):
        loop.advance_to(status.now)
    if status.interval is not None:  # a twin on a busy machine is slower than its speed, and so is its follower
        loop.set_limit(status.now + timedelta(seconds=max(_TOLERANCE, (status.interval + _LATENCY) * speed)))


def _read(answer: dict[str, Any]) -> ClockStatus:
    now = datetime.fromisoformat(str(answer["now"]))
    return ClockStatus(now, answer.get("speed"), bool(answer.get("paused")), answer.get("interval"))


async def _post_in_chunks(client: Client, action: str, seconds: float, longest: float) -> str:
    """Sleep or advance in pieces shorter than the request timeout."""
    while True:
        piece = min(seconds, longest)
        answer = await client.send(Request.json("POST", f"/debug/twin/{action}", {"seconds": piece}))
        seconds -= piece
        if seconds <= 0:
            return clock.rfc3339(_read(answer).now)
