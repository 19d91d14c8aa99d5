"""Alarms of both kinds: never early, the last setting counts, and nothing of the system's is held by one that is put away."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import uvloop

from sliceworks.base import clock
from sliceworks.base.alarms import alarm

if TYPE_CHECKING:
    from collections.abc import Callable


def files_held() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


LOOPS = [asyncio.new_event_loop, uvloop.new_event_loop]


def run(loop: Callable[[], asyncio.AbstractEventLoop], main: Callable[[], object]) -> None:
    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(main())  # type: ignore[arg-type]


@pytest.mark.parametrize("loop", LOOPS)
def test_rings_once_and_never_early(loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    async def main() -> None:
        rung = asyncio.Event()
        found = alarm(rung.set)
        for wait in (0.0153, 0.0002, 0.0, -5.0):
            when = found.now() + wait
            found.set(when)
            await asyncio.wait_for(rung.wait(), 10)
            # A loop may come a clock's tick early.
            assert found.now() > when - 1e-5
            rung.clear()
        await asyncio.sleep(0.03)
        assert not rung.is_set()
        found.put_away()

    run(loop, main)


@pytest.mark.parametrize("loop", LOOPS)
def test_the_last_setting_counts(loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    async def main() -> None:
        rung = asyncio.Event()
        found = alarm(rung.set)
        first = found.now()
        found.set(first + 0.01)
        found.set(first + 0.05)
        await asyncio.wait_for(rung.wait(), 10)
        assert found.now() > first + 0.05 - 1e-5
        rung.clear()
        found.set(found.now() + 0.01)
        found.put_away()
        await asyncio.sleep(0.05)
        assert not rung.is_set()
        found.set(found.now())
        await asyncio.wait_for(rung.wait(), 10)
        found.put_away()

    run(loop, main)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells which files a process holds, and has the finer alarm")
def test_one_that_is_put_away_holds_no_file() -> None:
    async def main() -> None:
        before = files_held()
        found = alarm(lambda: None)
        found.set(found.now() + 100)
        during = files_held()
        found.put_away()
        found.put_away()
        assert during == before + 1
        assert files_held() == before

    run(uvloop.new_event_loop, main)


def test_virtual_time_has_its_own() -> None:
    async def main() -> float:
        rung = asyncio.Event()
        began = clock.loop_time()
        alarm(rung.set).set(began + 3600)
        await rung.wait()
        return clock.loop_time() - began

    assert clock.run(main(), virtual=True) == 3600
