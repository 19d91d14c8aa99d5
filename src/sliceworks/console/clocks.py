"""What a twin's clock shows, between two looks at it: its time may run at any speed, stand still or be moved on."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from sliceworks.base import clock
from sliceworks.base.errors import SliceworksError
from sliceworks.kube.transport import Request

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from sliceworks.kube.client import Client

_LOOK_EVERY = 2.0
_ASK = Request("GET", "/debug/twin/clock")


class TwinClock:
    """The time by the last look, moved on at the pace it had."""

    def __init__(self) -> None:
        self._shown: datetime | None = None
        self._seen = 0.0
        self._pace = 1.0

    def look(self, shown: datetime, pace: float, at: float) -> None:
        """The twin's clock shows this and runs so fast; `at` is our own time."""
        self._shown, self._pace, self._seen = shown, pace, at

    def now(self) -> datetime:
        """What it shows by now."""
        if self._shown is None:
            return clock.now()
        return self._shown + timedelta(seconds=(clock.loop_time() - self._seen) * self._pace)


@asynccontextmanager
async def clock_of(client: Client) -> AsyncIterator[Callable[[], datetime]]:
    """A twin's clock, looked at now and then."""
    shown = TwinClock()

    async def look() -> None:
        answer = await client.send(_ASK)
        speed = answer.get("speed")
        pace = 0.0 if answer.get("paused") else 1.0 if speed is None else float(speed)
        shown.look(datetime.fromisoformat(str(answer["now"])), pace, clock.loop_time())

    async def go_on() -> None:
        while True:
            with suppress(SliceworksError):
                await look()
            await clock.sleep(_LOOK_EVERY)

    looking = asyncio.create_task(go_on(), name="the twin's clock")
    try:
        yield shown.now
    finally:
        looking.cancel()
        with suppress(asyncio.CancelledError):
            await looking
