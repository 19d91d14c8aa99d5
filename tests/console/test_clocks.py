"""What a twin's clock shows between two looks at it, at whatever pace it runs."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import orjson

from sliceworks.base import clock
from sliceworks.console.clocks import clock_of
from sliceworks.kube.client import Client
from sliceworks.kube.transport import Response

if TYPE_CHECKING:
    from sliceworks.kube.transport import Request

START = datetime.fromisoformat("2030-01-01T00:00:00Z")


class Twin:
    """A clock that runs so many times as fast as ours."""

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
    """How far the clock is after so long."""

    async def main() -> float:
        async with clock_of(Client(twin)) as now:
            await clock.sleep(seconds)
            return (now() - START).total_seconds()

    return clock.run(main(), virtual=True)


def test_it_goes_on_between_looks_at_the_twins_own_pace() -> None:
    assert abs(after(Twin(60), 3.5) - 210) <= 1
    assert abs(after(Twin(None), 3.5) - 3.5) <= 1


def test_it_stands_still_while_the_twin_is_paused() -> None:
    assert after(Twin(60, paused=True), 7.5) == 0


def test_a_twin_that_does_not_answer_is_believed_to_go_on() -> None:
    async def main() -> float:
        twin = Twin(60)
        async with clock_of(Client(twin)) as now:
            await clock.sleep(1)
            twin.broken = True
            await clock.sleep(30)
            return (now() - START).total_seconds()

    assert abs(clock.run(main(), virtual=True) - 31 * 60) <= 60


def test_before_the_first_look_it_is_ours() -> None:
    async def main() -> float:
        async with clock_of(Client(Twin(60))) as now:
            return (now() - clock.now()).total_seconds()

    assert clock.run(main(), virtual=True) == 0
