"""The reconcile loop: outcomes by type, temporary and permanent errors."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.scripted_transport import Feed, Scripted, listed, pod, stream

from sliceworks.base import clock
from sliceworks.base.errors import Conflict, Invalid, SliceworksError, TooManyRequests, Unreachable
from sliceworks.base.retry import NEVER, Backoff
from sliceworks.kube.client import Client
from sliceworks.kube.controller import Controller, Done, Failed, Outcome, Pending
from sliceworks.kube.informers import Informers
from sliceworks.kube.resources import POD, Key, controller_of

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from sliceworks.kube.informers import Delta

A = Key("d", "a")


def reconcile_times(outcomes: list[Outcome | Exception], seconds: float, key: Key = A) -> tuple[list[float], Controller]:
    """The times at which a key is reconciled: with these outcomes, then Done."""

    async def main() -> tuple[list[float], Controller]:
        times: list[float] = []

        async def reconcile(found: Key) -> Outcome:
            assert found == key
            times.append(clock.loop_time())
            outcome = outcomes.pop(0) if outcomes else Done()
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        controller = Controller("test", reconcile, backoff=Backoff(first=1, cap=60, jitter=0))
        controller.queue.add(key)
        await during(controller, clock.sleep(seconds))
        return times, controller

    return clock.run(main(), virtual=True)


async def during(controller: Controller, what: Awaitable[Any]) -> None:
    task = asyncio.create_task(controller.run())
    await what
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_done_is_not_requeued() -> None:
    times, controller = reconcile_times([], 1000)
    assert times == [0]
    assert controller.outcomes == {}


def test_pending_is_requeued() -> None:
    times, controller = reconcile_times([Pending("no quota", requeue_after=30), Pending("waits for a change")], 1000)
    assert times == [0, 30]
    assert controller.outcomes == {A: Pending("waits for a change")}


def test_failed_is_not_requeued(caplog: pytest.LogCaptureFixture) -> None:
    times, controller = reconcile_times([Failed("no such topology")], 1000)
    assert times == [0]
    assert controller.outcomes == {A: Failed("no such topology")}
    assert "d/a: no such topology" in caplog.text


@pytest.mark.parametrize("error", [Unreachable("gone"), Conflict("changed"), SliceworksError("hm"), ValueError("a bug")])
def test_temporary_errors_are_requeued_with_backoff(error: Exception) -> None:
    times, _ = reconcile_times([error, error, error], 1000)
    assert times == pytest.approx([0, 1, 3, 7])


def test_retry_after_delays_the_requeue() -> None:
    times, _ = reconcile_times([TooManyRequests("busy", details={"retryAfterSeconds": 20})], 1000)
    assert times == pytest.approx([0, 20])


def test_permanent_errors_are_failures() -> None:
    times, controller = reconcile_times([Invalid("spec.x: Required value")], 1000)
    assert times == [0]
    assert controller.outcomes == {A: Failed("spec.x: Required value")}


def test_success_resets_the_backoff() -> None:
    error = Unreachable("gone")
    times, _ = reconcile_times([error, error, Pending(requeue_after=100), error], 1000)
    assert times == pytest.approx([0, 1, 3, 103, 104])


def jobs_of(delta: Delta) -> list[Key]:
    """Maps a change of a pod to its Job."""
    owner = controller_of(delta.object)
    return [Key("d", owner["name"])] if owner else []


def test_changes_enqueue_keys_after_the_caches_are_synced() -> None:
    async def main() -> None:
        feed, seen = Feed(), list[tuple[Key, int]]()
        owned: dict[str, Any] = {
            "ownerReferences": [{"kind": "Job", "name": "j", "controller": True}, {"kind": "Job", "name": "x"}]
        }
        transport = Scripted(listed(pod("a", **owned), pod("b")), stream(feed))
        async with Informers(Client(transport, retry=NEVER)) as informers:
            pods = informers.open(POD)

            async def reconcile(key: Key) -> Outcome:
                seen.append((key, len(pods.store)))
                return Done()

            controller = Controller("jobs", reconcile, workers=2)
            controller.watch(pods)
            controller.watch(pods, jobs_of)
            await during(controller, clock.sleep(1))
            assert seen == [(Key("d", "a"), 2), (Key("d", "j"), 2), (Key("d", "b"), 2)]

    clock.run(main(), virtual=True)


def test_workers_never_process_one_key_concurrently() -> None:
    async def main() -> None:
        at_once, most, same = 0, 0, set[Key]()

        async def reconcile(key: Key) -> Outcome:
            nonlocal at_once, most
            assert key not in same
            same.add(key)
            at_once += 1
            most = max(most, at_once)
            await clock.sleep(1)
            at_once -= 1
            same.discard(key)
            return Done()

        controller = Controller("test", reconcile, workers=3)
        for number in range(9):
            controller.queue.add(Key("d", str(number)))

        async def add_again() -> None:
            await clock.sleep(0.5)
            controller.queue.add(Key("d", "0"))
            await clock.sleep(9)

        await during(controller, add_again())
        assert most == 3
        assert controller.queue.idle

    clock.run(main(), virtual=True)


def test_controller_can_be_run_again() -> None:
    async def main() -> None:
        seen: list[Key] = []

        async def reconcile(key: Key) -> Outcome:
            seen.append(key)
            return Done()

        controller = Controller("test", reconcile)
        await during(controller, clock.sleep(1))
        controller.queue.add(A)
        await during(controller, clock.sleep(1))
        assert seen == [A]

    clock.run(main(), virtual=True)
