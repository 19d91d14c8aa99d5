"""The work queue: nothing twice at a time, nothing lost, the same order every time."""

from __future__ import annotations

import asyncio

import pytest

from sliceworks.base import clock
from sliceworks.kube.backoff import Backoff
from sliceworks.kube.workqueue import ShutDown, WorkQueue, work


def test_keys_come_once_and_in_order() -> None:
    async def main() -> None:
        queue: WorkQueue[str] = WorkQueue()
        for key in "abab":
            queue.add(key)
        assert len(queue) == 2
        assert [await queue.get(), await queue.get()] == ["a", "b"]

    clock.run(main(), virtual=True)


def test_what_is_added_during_work_comes_again_afterwards() -> None:
    async def main() -> None:
        queue: WorkQueue[str] = WorkQueue()
        queue.add("a")
        assert await queue.get() == "a"
        queue.add("a")
        queue.add("a")
        assert len(queue) == 0
        queue.done("a")
        assert await queue.get() == "a"
        queue.done("a")
        assert queue.idle

    clock.run(main(), virtual=True)


def test_later_is_at_the_earliest_time_asked_for() -> None:
    async def main() -> None:
        queue: WorkQueue[str] = WorkQueue()
        queue.add_after("a", 10)
        queue.add_after("a", 5)
        queue.add_after("a", 20)
        queue.add_after("now", 0)
        assert await queue.get() == "now"
        assert await queue.get() == "a"
        assert clock.loop_time() == pytest.approx(5)
        queue.done("a")
        queue.done("now")
        assert queue.idle

    clock.run(main(), virtual=True)


def test_a_moment_too_short_for_the_loop_s_clock() -> None:
    """uvloop counts in milliseconds, and what rounds to none of them is no timer to it."""

    async def main() -> None:
        queue: WorkQueue[str] = WorkQueue()
        queue.add_after("a", 0.0001)
        queue.add_after("a", 60)
        queue.add_after("b", 60)
        queue.add_after("b", 0.0001)
        queue.add_after("b", 0.00001)
        assert sorted([await queue.get(), await queue.get()]) == ["a", "b"]
        queue.done("a")
        queue.done("b")
        assert queue.idle

    clock.run(main())


def test_failures_in_a_row_wait_longer() -> None:
    async def main() -> None:
        queue: WorkQueue[str] = WorkQueue(Backoff(first=1, cap=5, jitter=0))
        assert [queue.add_rate_limited("a") for _ in range(4)] == [1, 2, 4, 5]
        assert queue.failures("a") == 4
        queue.forget("a")
        assert queue.add_rate_limited("a") == 1
        assert queue.add_rate_limited("b", at_least=30) == 30
        assert Backoff(first=1, cap=5, jitter=0).delay(10_000) == 5

    clock.run(main(), virtual=True)


def test_each_waiting_worker_gets_one() -> None:
    async def main() -> None:
        queue: WorkQueue[int] = WorkQueue()
        workers = [asyncio.create_task(queue.get()) for _ in range(3)]
        await asyncio.sleep(0)
        workers[0].cancel()
        for key in range(2):
            queue.add(key)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert [worker.result() for worker in workers[1:]] == [0, 1]

    clock.run(main(), virtual=True)


def test_a_worker_that_is_cancelled_as_it_is_woken_wakes_another() -> None:
    async def main() -> None:
        queue: WorkQueue[str] = WorkQueue()
        first, second = asyncio.create_task(queue.get()), asyncio.create_task(queue.get())
        await asyncio.sleep(0)
        queue.add("a")
        first.cancel()
        assert await second == "a"

    clock.run(main(), virtual=True)


def test_shutting_down() -> None:
    async def main() -> None:
        queue: WorkQueue[str] = WorkQueue()
        waiting = asyncio.create_task(queue.get())
        await asyncio.sleep(0)
        queue.add_after("late", 5)
        queue.shut_down()
        with pytest.raises(ShutDown):
            await waiting
        queue.add("a")
        queue.add_after("a", 1)
        with pytest.raises(ShutDown):
            await queue.get()
        assert queue.idle

    clock.run(main(), virtual=True)


def test_a_worker_outlives_the_cancellation_of_what_it_waits_for() -> None:
    async def main() -> tuple[list[str], list[str]]:
        queue: WorkQueue[str] = WorkQueue()
        seen, failures = list[str](), list[str]()

        async def act(key: str) -> None:
            seen.append(key)
            if key == "first":
                lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                lost.cancel()
                await lost

        worker = asyncio.create_task(work(queue, act, lambda key, error: failures.append(f"{key}: {error}")))
        queue.add("first")
        queue.add("second")
        await asyncio.sleep(0.01)
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)
        assert worker.cancelled()
        return seen, failures

    assert clock.run(main(), virtual=True) == (["first", "second"], ["first: what it waited for was cancelled"])


def test_what_a_cancelled_worker_was_at_waits_for_the_next() -> None:
    async def main() -> list[str]:
        queue: WorkQueue[str] = WorkQueue()
        ended: list[str] = []

        async def act(key: str) -> None:
            await asyncio.sleep(1)
            ended.append(key)

        queue.add("a")
        for seconds in (0.5, 2.0):
            worker = asyncio.create_task(work(queue, act, lambda key, error: None))
            await asyncio.sleep(seconds)
            worker.cancel()
            await asyncio.gather(worker, return_exceptions=True)
        assert queue.idle
        return ended

    assert clock.run(main(), virtual=True) == ["a"]


def test_a_worker_outlives_a_failure_that_cannot_be_dealt_with(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> list[tuple[str, float]]:
        queue: WorkQueue[str] = WorkQueue()
        seen: list[tuple[str, float]] = []

        async def act(key: str) -> None:
            seen.append((key, clock.loop_time()))
            if key == "bad" and len(seen) < 4:
                raise ValueError("it fails")

        def failed(key: str, error: Exception) -> None:
            raise TypeError(f"nobody expects {error}")

        worker = asyncio.create_task(work(queue, act, failed))
        queue.add("bad")
        queue.add("good")
        await asyncio.sleep(10)
        assert not worker.done()
        assert queue.idle
        queue.shut_down()
        await worker
        return seen

    assert clock.run(main(), virtual=True) == [("bad", 0), ("good", 1), ("bad", 1), ("bad", 2)]
    told = [record.exc_text or "" for record in caplog.records]
    assert len(told) == 2
    assert all("it fails" in each and "nobody expects" in each for each in told)
