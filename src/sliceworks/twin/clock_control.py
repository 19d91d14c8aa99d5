"""The clock of a twin: its debug paths, the processes that follow it, and its last time, so that it never goes back.

GET  debug/twin/clock         now, speed, paused
POST debug/twin/clock         set speed or paused
GET  debug/twin/clock/watch   the same as a stream: one line at once, for every change and every `interval` real seconds
POST debug/twin/advance       advance by `seconds`
POST debug/twin/sleep         respond after `seconds`
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from datetime import timedelta
from typing import TYPE_CHECKING

import orjson

from sliceworks.base import clock, files
from sliceworks.base.errors import BadRequest
from sliceworks.base.loops import ScaledLoop
from sliceworks.base.transport import Request, Response

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

_JSON = {"content-type": "application/json"}
_WRITE_INTERVAL, _LOOKAHEAD = 1.0, 3.0  # real seconds
_WATCH_INTERVAL = 0.2  # real seconds
_STEP = 5.0  # seconds of an advance after which followers get time to act
_STEP_PAUSE = 0.005  # real seconds


class ClockControl:
    """Serves the clock of the running loop. `file` keeps the latest time that the twin can have shown."""

    def __init__(self, file: Path | None, on_speed: Callable[[float], None]) -> None:
        self._file = file if isinstance(asyncio.get_running_loop(), ScaledLoop) else None
        self._on_speed = on_speed
        self._followers: set[asyncio.Queue[bytes]] = set()
        self._changed = asyncio.Event()
        self._advancing = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> None:
        if self._file is not None:
            self._write(_LOOKAHEAD)
            self._task = asyncio.create_task(self._keep_writing(), name="clock")

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._write(0.0)

    @property
    def paths(self) -> dict[str, Callable[[Request], Awaitable[Response]]]:
        """The handlers by debug path."""
        handlers = {"sleep": self._sleep, "advance": self._advance, "clock": self._clock, "clock/watch": self._watch}
        return {f"debug/twin/{name}": handler for name, handler in handlers.items()}

    async def _sleep(self, request: Request) -> Response:
        await clock.sleep(_seconds(request))
        return _response()

    async def _advance(self, request: Request) -> Response:
        left, loop = _seconds(request), _scaled()
        self._write(_LOOKAHEAD, left)
        async with self._advancing:
            while left > 0:
                step = min(left, _STEP) if self._followers else left
                loop.advance(step)
                await clock.sleep(step)
                left -= step
                self._notify()
                if self._followers:
                    await asyncio.to_thread(time.sleep, _STEP_PAUSE)
        return _response()

    async def _clock(self, request: Request) -> Response:
        if request.method != "GET":
            _set_clock(request)
            self._on_speed(_scaled().speed)
            self._write(_LOOKAHEAD)
            self._changed.set()
            self._notify()
        return _response()

    async def _watch(self, _: Request) -> Response:
        return Response(200, _JSON, stream=self._follow())

    async def _follow(self) -> AsyncIterator[bytes]:
        queue: asyncio.Queue[bytes] = asyncio.Queue()
        self._followers.add(queue)
        try:
            line = _state(interval=_WATCH_INTERVAL)
            while True:
                yield line + b"\n"
                try:
                    async with asyncio.timeout(clock.scale_real_seconds(_WATCH_INTERVAL)):
                        line = await queue.get()
                except TimeoutError:
                    line = _state(interval=_WATCH_INTERVAL)
        finally:
            self._followers.discard(queue)

    def _notify(self) -> None:
        for queue in self._followers:
            queue.put_nowait(_state(interval=_WATCH_INTERVAL))

    async def _keep_writing(self) -> None:
        """Write a time that the clock does not reach before the next write."""
        while True:
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(clock.scale_real_seconds(_WRITE_INTERVAL)):
                    await self._changed.wait()
            self._write(_LOOKAHEAD)

    def _write(self, real_seconds: float, seconds: float = 0.0) -> None:
        if self._file is None:
            return
        loop = _scaled()
        until = clock.now() + timedelta(seconds=real_seconds * loop.speed + seconds)
        state = {"until": clock.rfc3339_micro(until), "speed": loop.speed, "paused": loop.paused}
        with contextlib.suppress(OSError):  # a full disk: the store reports it
            files.write_atomic(self._file, orjson.dumps(state), mode=files.PRIVATE_MODE)


def _scaled() -> ScaledLoop:
    loop = asyncio.get_running_loop()
    if not isinstance(loop, ScaledLoop):
        raise BadRequest("the twin runs in real time: start it with --speed to control its clock")
    return loop


def _set_clock(request: Request) -> None:
    """Set the speed of time, and whether it is paused; omitted fields do not change."""
    try:
        body = orjson.loads(request.body)
        speed, paused = body.get("speed"), body.get("paused")
        loop = _scaled()
        if speed is not None:
            loop.set_speed(float(speed))
        if paused is not None:
            loop.pause(bool(paused))
    except (orjson.JSONDecodeError, AttributeError, TypeError, ValueError) as error:
        raise BadRequest('expected a body such as {"speed": 60, "paused": false}') from error


def _seconds(request: Request) -> float:
    try:
        seconds = float(orjson.loads(request.body)["seconds"])
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
        raise BadRequest('expected a body such as {"seconds": 60}') from error
    if not 0 <= seconds < float("inf"):
        raise BadRequest(f"seconds: must be a finite number of at least 0, got {seconds}")
    return seconds


def _response() -> Response:
    return Response(200, _JSON, _state())


def _state(**more: float) -> bytes:
    """The state of the clock. The speed is null if the twin runs in real time."""
    loop = asyncio.get_running_loop()
    state: dict[str, object] = {"now": clock.timestamp(), "speed": None, "paused": False, **more}
    if isinstance(loop, ScaledLoop):
        state |= {"now": clock.rfc3339_micro(loop.now()), "speed": loop.speed, "paused": loop.paused}
    return orjson.dumps(state)
