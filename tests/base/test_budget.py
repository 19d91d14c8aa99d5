"""CPU and memory budgets of work on the event loop."""

from __future__ import annotations

import asyncio
import re
import signal
import sys
from typing import TYPE_CHECKING

import pytest

from sliceworks.base import budget

if TYPE_CHECKING:
    from collections.abc import Iterator


LIMIT = 0.05


@pytest.fixture
def limit() -> Iterator[None]:
    budget.install()
    yield
    budget.uninstall()


async def spin() -> None:
    while True:
        pass


async def swallow() -> None:
    while True:
        try:
            await spin()
        except Exception:
            continue


async def backtrack() -> None:
    re.match(r"(a+)+$", "a" * 60 + "!")


@pytest.mark.usefixtures("limit")
@pytest.mark.parametrize("work", [spin, swallow, backtrack])
def test_work_beyond_its_budget_ends(work: object) -> None:
    async def main() -> str:
        with pytest.raises(budget.BudgetExceeded, match="CPU"):
            await budget.limited(work(), LIMIT)  # type: ignore[operator]
        await asyncio.sleep(0)
        return "the loop runs"

    assert asyncio.run(main()) == "the loop runs"


@pytest.mark.usefixtures("limit")
@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell the resident memory")
def test_work_that_fills_the_memory_ends() -> None:
    async def fill() -> None:
        numbers: list[float] = []
        while True:
            numbers.append(float(len(numbers)))

    async def main() -> None:
        with pytest.raises(budget.BudgetExceeded, match="memory"):
            await budget.limited(fill(), 60, 8 << 20)

    asyncio.run(main())


@pytest.mark.usefixtures("limit")
def test_each_step_has_its_own_memory_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process grows by 2 bytes from step to step, and by 2 bytes within the last one."""
    sizes = iter([10, 11, 12, 13, 14, 16])
    monkeypatch.setattr(budget, "resident_bytes", lambda: next(sizes))
    steps = 0

    async def work() -> None:
        nonlocal steps
        for _ in range(3):
            steps += 1
            signal.raise_signal(signal.SIGVTALRM)
            signal.raise_signal(signal.SIGVTALRM)
            await asyncio.sleep(0)

    async def main() -> None:
        with pytest.raises(budget.BudgetExceeded, match="memory"):
            await budget.limited(work(), 60, 1)

    asyncio.run(main())
    assert steps == 3


@pytest.mark.usefixtures("limit")
def test_each_step_has_its_own_budget_and_work_after_the_end_is_unlimited() -> None:
    def burn(seconds: float) -> None:
        import time

        start = time.process_time()
        while time.process_time() - start < seconds:
            pass

    async def main() -> str:
        async def steps() -> str:
            for _ in range(5):
                burn(0.02)
                await asyncio.sleep(0)
            budget.end()
            burn(0.2)
            return "done"

        return await budget.limited(steps(), LIMIT)

    assert asyncio.run(main()) == "done"


@pytest.mark.usefixtures("limit")
def test_cancellation_and_errors_pass() -> None:
    async def main() -> None:
        async def wait() -> None:
            try:
                await asyncio.sleep(100)
            except asyncio.CancelledError:
                raise KeyError("cleaned up") from None

        task = asyncio.ensure_future(budget.limited(wait(), LIMIT))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(KeyError, match="cleaned up"):
            await task

    asyncio.run(main())


def spin_in_thread() -> None:
    while True:
        pass


@pytest.mark.usefixtures("limit")
def test_work_in_a_thread_ends_at_its_budget_and_the_loop_runs_meanwhile() -> None:
    async def main() -> None:
        working = asyncio.create_task(budget.run_in_thread(spin_in_thread, 2 * LIMIT))
        while not working.done():
            await asyncio.sleep(0)
        with pytest.raises(budget.BudgetExceeded, match="CPU"):
            working.result()
        assert await budget.run_in_thread(lambda: 7, LIMIT) == 7  # the thread is still there

    asyncio.run(main())
