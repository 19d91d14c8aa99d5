"""Timers of both implementations: never early, the last `set` counts, and `cancel` releases the file descriptor."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import uvloop

from sliceworks.base import clock
from sliceworks.serving.gateway.echo.timer import create_timer

if TYPE_CHECKING:
    from collections.abc import Callable


def count_open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


LOOPS = [asyncio.new_event_loop, uvloop.new_event_loop]


def run(loop: Callable[[], asyncio.AbstractEventLoop], main: Callable[[], object]) -> None:
    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(main())  # type: ignore[arg-type]


@pytest.mark.parametrize("loop", LOOPS)
def test_timer_fires_once_and_never_early(loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    async def main() -> None:
        fired = asyncio.Event()
        timer = create_timer(fired.set)
        for wait in (0.0153, 0.0002, 0.0, -5.0):
            when = timer.now() + wait
            timer.set(when)
            await asyncio.wait_for(fired.wait(), 60)
            # A loop may fire one clock tick early.
            assert timer.now() > when - 1e-5
            fired.clear()
        await asyncio.sleep(0.03)
        assert not fired.is_set()
        timer.cancel()

    run(loop, main)


@pytest.mark.parametrize("loop", LOOPS)
def test_timer_uses_the_last_setting(loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    async def main() -> None:
        fired = asyncio.Event()
        timer = create_timer(fired.set)
        first = timer.now()
        timer.set(first + 0.01)
        timer.set(first + 0.05)
        await asyncio.wait_for(fired.wait(), 60)
        assert timer.now() > first + 0.05 - 1e-5
        fired.clear()
        timer.set(timer.now() + 0.01)
        timer.cancel()
        await asyncio.sleep(0.05)
        assert not fired.is_set()
        timer.set(timer.now())
        await asyncio.wait_for(fired.wait(), 60)
        timer.cancel()

    run(loop, main)


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc and timerfd")
def test_cancelled_timer_closes_its_file_descriptor() -> None:
    async def main() -> None:
        before = count_open_files()
        timer = create_timer(lambda: None)
        timer.set(timer.now() + 100)
        during = count_open_files()
        timer.cancel()
        timer.cancel()
        assert during == before + 1
        assert count_open_files() == before

    run(uvloop.new_event_loop, main)


def test_timer_uses_virtual_time() -> None:
    async def main() -> float:
        fired = asyncio.Event()
        start = clock.loop_time()
        create_timer(fired.set).set(start + 3600)
        await fired.wait()
        return clock.loop_time() - start

    assert clock.run(main(), virtual=True) == 3600
