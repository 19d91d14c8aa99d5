"""Leader election: one leads, the others wait, and no machine's clock is trusted."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.support.tiny_api import TinyApi

from sliceworks.base import clock
from sliceworks.kube.client import Client
from sliceworks.kube.inprocess import InProcess
from sliceworks.kube.leader import LeaderElection, Timing


def candidate(api: TinyApi, identity: str) -> LeaderElection:
    return LeaderElection(Client(InProcess(api.handle)), "lease", "kube-system", identity=identity)


async def forever() -> None:
    await asyncio.Event().wait()


async def stop(task: asyncio.Task[Any]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def test_one_leads_and_hands_over_when_it_ends() -> None:
    async def main() -> None:
        api, order = TinyApi(), list[str]()

        async def lead(name: str) -> str:
            order.append(f"{name} at {clock.loop_time():.0f}")
            await clock.sleep(60)
            return name

        one, two = candidate(api, "one"), candidate(api, "two")
        first = asyncio.create_task(one.run(lambda: lead("one")))
        await clock.sleep(1)
        second = asyncio.create_task(two.run(lambda: lead("two")))
        await clock.sleep(30)
        assert (one.is_leader, two.is_leader, two.leader) == (True, False, "one")
        assert await first == "one"
        assert api.only()["spec"]["holderIdentity"] in ("", "two")
        assert await second == "two"
        assert order[0] == "one at 0"
        assert 60 <= int(order[1].split()[-1]) <= 66
        spec = api.only()["spec"]
        assert (spec["holderIdentity"], spec["leaseDurationSeconds"], spec["leaseTransitions"]) == ("", 1, 1)

    clock.run(main(), virtual=True)


def test_a_leader_that_dies_is_replaced_after_its_lease() -> None:
    async def main() -> None:
        api = TinyApi()
        one = candidate(api, "one")
        first = asyncio.create_task(one.run(forever))
        await clock.sleep(10)
        api.broken = lambda request: b'"one"' in request.body or request.headers["user-agent"] == "one"
        one._client = Client(InProcess(api.handle, user_agent="one"))
        two = candidate(api, "two")
        second = asyncio.create_task(two.run(forever))
        await clock.sleep(14)
        assert two.leader == "one"
        await clock.sleep(6)
        assert two.is_leader
        await stop(second)
        await stop(first)

    clock.run(main(), virtual=True)


def test_the_writers_clock_does_not_matter() -> None:
    async def main() -> None:
        api = TinyApi()
        one = candidate(api, "one")
        first = asyncio.create_task(one.run(forever))
        await clock.sleep(3)
        for wrong in ("1999-01-01T00:00:00.000000Z", "2999-01-01T00:00:00.000000Z"):
            api.only()["spec"]["renewTime"] = wrong
            two = candidate(api, "two")
            assert not await two._try()
        await stop(first)

    clock.run(main(), virtual=True)


def test_a_leader_that_cannot_renew_stops_and_stands_again() -> None:
    async def main() -> None:
        api, started, stopped, lost = TinyApi(), list[float](), list[float](), list[float]()

        async def lead() -> None:
            started.append(clock.loop_time())
            try:
                await forever()
            finally:
                stopped.append(clock.loop_time())

        one = candidate(api, "one")
        task = asyncio.create_task(one.run(lead, on_lost=lambda: lost.append(clock.loop_time())))
        await clock.sleep(10)
        api.broken = lambda request: True
        await clock.sleep(20)
        assert one.leader == ""
        assert stopped == lost == pytest.approx([20], abs=2.1)
        api.broken = lambda request: False
        await clock.sleep(20)
        assert one.is_leader
        assert len(started) == 2
        await stop(task)
        assert api.only()["spec"]["holderIdentity"] == ""

    clock.run(main(), virtual=True)


def test_a_lease_that_another_takes_is_lost_at_once() -> None:
    async def main() -> None:
        api, lost = TinyApi(), list[float]()
        one = candidate(api, "one")
        task = asyncio.create_task(one.run(forever, on_lost=lambda: lost.append(clock.loop_time())))
        await clock.sleep(5)
        api.only()["spec"]["holderIdentity"] = "thief"
        api.only()["metadata"]["resourceVersion"] = "1000"
        await clock.sleep(3)
        assert len(lost) == 1
        assert one.leader == "thief"
        await stop(task)
        assert api.only()["spec"]["holderIdentity"] == "thief"

    clock.run(main(), virtual=True)


def test_an_error_of_the_work_is_raised() -> None:
    async def lead() -> None:
        raise ValueError("a bug")

    with pytest.raises(ValueError, match="a bug"):
        clock.run(candidate(TinyApi(), "one").run(lead), virtual=True)


def test_timing_must_make_sense() -> None:
    with pytest.raises(ValueError, match="a lease must outlast"):
        Timing(lease=10, renew=15)


def test_an_identity_of_its_own() -> None:
    client = Client(InProcess(TinyApi().handle))
    assert LeaderElection(client, "l", "n").identity != LeaderElection(client, "l", "n").identity
