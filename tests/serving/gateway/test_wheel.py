"""Timers of the echo server: in order, on time, also those whose time has passed, and none held up by one that fails."""

from __future__ import annotations

import asyncio

import pytest
import uvloop

from sliceworks.serving.gateway.echo.wheel import Wheel


@pytest.mark.parametrize("loops", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_what_is_late_is_done_at_once(loops: object) -> None:
    called: list[str] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        wheel, now = Wheel(), loop.time()
        wheel.at(now + 0.02, lambda: called.append("later"))
        wheel.at(now - 5, lambda: called.append("late"))
        wheel.at(now - 1, lambda: called.append("less late"))
        wheel.at(now + 0.01, lambda: called.append("soon"))
        await asyncio.sleep(0.1)

    with asyncio.Runner(loop_factory=loops) as runner:  # type: ignore[arg-type]
        runner.run(main())
    assert called == ["late", "less late", "soon", "later"]


def test_one_that_fails_does_not_hold_up_the_others() -> None:
    called: list[str] = []

    def fail() -> None:
        raise ValueError("broken")

    async def main() -> None:
        loop = asyncio.get_running_loop()
        problems: list[object] = []
        loop.set_exception_handler(lambda _loop, context: problems.append(context["exception"]))
        wheel, now = Wheel(), loop.time()
        wheel.at(now + 0.01, fail)
        wheel.at(now + 0.01, lambda: called.append("beside it"))
        wheel.at(now + 0.02, lambda: called.append("after it"))
        await asyncio.sleep(0.1)
        assert [str(each) for each in problems] == ["broken"]

    asyncio.run(main())
    assert called == ["beside it", "after it"]
