"""The work queue: each key once at a time, none lost, deterministic order."""

from __future__ import annotations

import asyncio

import pytest

from sliceworks.base import clock
from sliceworks.base.retry import Backoff
from sliceworks.kube.workqueue import ShutDown, WorkQueue, run_worker


def test_keys_are_returned_once_and_in_order() -> None:
    async def main() -> None:
        queue: WorkQueue[str] = WorkQueue()
        for key in "abab":
            queue.add(key)
        assert len(queue) == 2
        assert [await queue.get(), await queue.get()] == ["a", "b"]

    clock.run(main(), virtual=True)


def test_key_added_while_processed_is_returned_again() -> None:
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


def test_earliest_of_several_delays_counts() -> None:
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


def test_delay_below_the_resolution_of_the_loop() -> None:
    """uvloop rounds timers to milliseconds and fires a timer of zero milliseconds at once."""

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


def test_repeated_failures_are_delayed_longer() -> None:
    async def main() -> None:
        queue: WorkQueue[str] = WorkQueue(Backoff(first=1, cap=5, jitter=0))
        assert [queue.add_rate_limited("a") for _ in range(4)] == [1, 2, 4, 5]
        queue.forget("a")
        assert queue.add_rate_limited("a") == 1
        assert queue.add_rate_limited("b", at_least=30) == 30
        assert Backoff(first=1, cap=5, jitter=0).delay(10_000) == 5

    clock.run(main(), virtual=True)


def test_every_waiting_worker_gets_a_key() -> None:
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


def test_worker_cancelled_while_woken_wakes_another() -> None:
    async def main() -> None:
        queue: WorkQueue[str] = WorkQueue()
        first, second = asyncio.create_task(queue.get()), asyncio.create_task(queue.get())
        await asyncio.sleep(0)
        queue.add("a")
        first.cancel()
        assert await second == "a"

    clock.run(main(), virtual=True)


def test_shut_down_drains_the_queue() -> None:
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


def test_worker_survives_cancellation_of_an_awaited_task() -> None:
    async def main() -> tuple[list[str], list[str]]:
        queue: WorkQueue[str] = WorkQueue()
        seen, failures = list[str](), list[str]()

        async def act(key: str) -> None:
            seen.append(key)
            if key == "first":
                lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                lost.cancel()
                await lost

        worker = asyncio.create_task(run_worker(queue, act, lambda key, error: failures.append(f"{key}: {error}")))
        queue.add("first")
        queue.add("second")
        while "second" not in seen:
            await asyncio.sleep(0)
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)
        assert worker.cancelled()
        return seen, failures

    assert clock.run(main(), virtual=True) == (["first", "second"], ["first: a task it was waiting for was cancelled"])


def test_key_of_a_cancelled_worker_is_queued_again() -> None:
    async def main() -> list[str]:
        queue: WorkQueue[str] = WorkQueue()
        ended: list[str] = []

        async def act(key: str) -> None:
            await asyncio.sleep(1)
            ended.append(key)

        queue.add("a")
        for seconds in (0.5, 2.0):
            worker = asyncio.create_task(run_worker(queue, act, lambda key, error: None))
            await asyncio.sleep(seconds)
            worker.cancel()
            await asyncio.gather(worker, return_exceptions=True)
        assert queue.idle
        return ended

    assert clock.run(main(), virtual=True) == ["a"]


def test_worker_survives_a_failing_error_handler(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> list[tuple[str, float]]:
        queue: WorkQueue[str] = WorkQueue()
        seen: list[tuple[str, float]] = []

        async def act(key: str) -> None:
            seen.append((key, clock.loop_time()))
            if key == "bad" and len(seen) < 4:
                raise ValueError("it fails")

        def failed(key: str, error: Exception) -> None:
            raise TypeError(f"unexpected {error}")

        worker = asyncio.create_task(run_worker(queue, act, failed))
        queue.add("bad")
        queue.add("good")
        await asyncio.sleep(10)
        assert not worker.done()
        assert queue.idle
        queue.shut_down()
        await worker
        return seen

    assert clock.run(main(), virtual=True) == [("bad", 0), ("good", 1), ("bad", 1), ("bad", 2)]
    reported = [record.exc_text or "" for record in caplog.records]
    assert len(reported) == 2
    assert all("it fails" in item and "unexpected" in item for item in reported)
