"""The console's estimate of a twin's clock between two polls, at any speed."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import orjson

from sliceworks.base import clock
from sliceworks.base.transport import Response
from sliceworks.console.recorder import follow_twin_clock
from sliceworks.kube.client import Client

if TYPE_CHECKING:
    from sliceworks.base.transport import Request

START = datetime.fromisoformat("2030-01-01T00:00:00Z")


class Twin:
    """A clock that runs at a multiple of the local clock."""

    def __init__(self, speed: float | None, *, paused: bool = False) -> None:
        self.speed, self.paused = speed, paused
        self.broken = False

    async def send(self, request: Request, *, stream: bool = False) -> Response:
        assert (request.method, request.path, stream) == ("GET", "/debug/twin/clock", False)
        if self.broken:
            return Response(503, {}, b"{}")
        pace = 0 if self.paused else self.speed or 1
        shown = clock.rfc3339(START + timedelta(seconds=clock.loop_time() * pace))
        return Response(200, {}, orjson.dumps({"now": shown, "speed": self.speed, "paused": self.paused}))

    async def close(self) -> None:
        return


def after(twin: Twin, seconds: float) -> float:
    """The estimated advance of the clock after this time."""

    async def main() -> float:
        async with follow_twin_clock(Client(twin)) as now:
            await clock.sleep(seconds)
            return (now() - START).total_seconds()

    return clock.run(main(), virtual=True)


def test_clock_advances_at_the_twins_speed_between_polls() -> None:
    assert abs(after(Twin(60), 3.5) - 210) <= 1
    assert abs(after(Twin(None), 3.5) - 3.5) <= 1


def test_clock_stops_while_the_twin_is_paused() -> None:
    assert after(Twin(60, paused=True), 7.5) == 0


def test_clock_advances_while_the_twin_is_unreachable() -> None:
    async def main() -> float:
        twin = Twin(60)
        async with follow_twin_clock(Client(twin)) as now:
            await clock.sleep(1)
            twin.broken = True
            await clock.sleep(30)
            return (now() - START).total_seconds()

    assert abs(clock.run(main(), virtual=True) - 31 * 60) <= 60


def test_local_clock_is_used_before_the_first_poll() -> None:
    async def main() -> float:
        async with follow_twin_clock(Client(Twin(60))) as now:
            return (now() - clock.now()).total_seconds()

    assert clock.run(main(), virtual=True) == 0
