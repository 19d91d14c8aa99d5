"""The reconcile loop: three outcomes by type, errors that pass and errors that last."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.scripted import Feed, Scripted, listed, pod, stream

from sliceworks.base import clock
from sliceworks.base.errors import Conflict, Invalid, SliceworksError, TooManyRequests, Unreachable
from sliceworks.kube.backoff import NEVER, Backoff
from sliceworks.kube.client import Client
from sliceworks.kube.controller import Controller, Done, Failed, Outcome, Pending
from sliceworks.kube.informers import Informers
from sliceworks.kube.resources import Key, controller_of
from sliceworks.kube.well_known import POD

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from sliceworks.kube.informers import Delta

A = Key("d", "a")


def looks(outcomes: list[Outcome | Exception], seconds: float, key: Key = A) -> tuple[list[float], Controller]:
    """When a key was looked at, for as long as the outcomes last and then Done."""

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


def test_done_is_done() -> None:
    times, controller = looks([], 1000)
    assert times == [0]
    assert controller.outcomes == {}


def test_pending_comes_again() -> None:
    times, controller = looks([Pending("no quota", after=30), Pending("waits for a change")], 1000)
    assert times == [0, 30]
    assert controller.outcomes == {A: Pending("waits for a change")}


def test_failed_waits_for_a_change(caplog: pytest.LogCaptureFixture) -> None:
    times, controller = looks([Failed("no such topology")], 1000)
    assert times == [0]
    assert controller.outcomes == {A: Failed("no such topology")}
    assert "d/a: no such topology" in caplog.text


@pytest.mark.parametrize("error", [Unreachable("gone"), Conflict("changed"), SliceworksError("hm"), ValueError("a bug")])
def test_errors_that_pass_are_tried_again_later_and_later(error: Exception) -> None:
    times, _ = looks([error, error, error], 1000)
    assert times == pytest.approx([0, 1, 3, 7])


def test_a_server_that_says_when_is_heard() -> None:
    times, _ = looks([TooManyRequests("busy", details={"retryAfterSeconds": 20})], 1000)
    assert times == pytest.approx([0, 20])


def test_errors_that_last_are_a_failure() -> None:
    times, controller = looks([Invalid("spec.x: Required value")], 1000)
    assert times == [0]
    assert controller.outcomes == {A: Failed("spec.x: Required value")}


def test_success_makes_the_next_failure_the_first() -> None:
    error = Unreachable("gone")
    times, _ = looks([error, error, Pending(after=100), error], 1000)
    assert times == pytest.approx([0, 1, 3, 103, 104])


def jobs_of(delta: Delta) -> list[Key]:
    """A pod's change concerns its Job."""
    owner = controller_of(delta.object)
    return [Key("d", owner["name"])] if owner else []


def test_changes_bring_up_keys_once_the_caches_are_full() -> None:
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


def test_workers_share_the_work_and_never_a_key() -> None:
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


def test_a_controller_can_run_again() -> None:
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
