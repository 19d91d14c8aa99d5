"""Timers of the echo server: in order, on time, also overdue ones, and independent of failing ones."""

from __future__ import annotations

import asyncio

import pytest
import uvloop

from sliceworks.serving.gateway.echo.engine import TimerWheel


@pytest.mark.parametrize("loops", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_overdue_timer_fires_at_once(loops: object) -> None:
    called: list[str] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        wheel, now = TimerWheel(), loop.time()
        wheel.call_at(now + 0.02, lambda: called.append("later"))
        wheel.call_at(now - 5, lambda: called.append("late"))
        wheel.call_at(now - 1, lambda: called.append("less late"))
        wheel.call_at(now + 0.01, lambda: called.append("soon"))
        while len(called) < 4:
            await asyncio.sleep(0.005)

    with asyncio.Runner(loop_factory=loops) as runner:  # type: ignore[arg-type]
        runner.run(main())
    assert called == ["late", "less late", "soon", "later"]


def test_failing_timer_does_not_block_others() -> None:
    called: list[str] = []

    def fail() -> None:
        raise ValueError("broken")

    async def main() -> None:
        loop = asyncio.get_running_loop()
        problems: list[object] = []
        loop.set_exception_handler(lambda _loop, context: problems.append(context["exception"]))
        wheel, now = TimerWheel(), loop.time()
        wheel.call_at(now + 0.01, fail)
        wheel.call_at(now + 0.01, lambda: called.append("beside it"))
        wheel.call_at(now + 0.02, lambda: called.append("after it"))
        while "after it" not in called:
            await asyncio.sleep(0.005)
        assert [str(problem) for problem in problems] == ["broken"]

    asyncio.run(main())
    assert called == ["beside it", "after it"]
