"""Leader election: one leader at a time, independent of the clocks of other machines."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.support.tiny_api import TinyApi

from sliceworks.base import clock
from sliceworks.base.transport import InProcess
from sliceworks.kube.client import Client
from sliceworks.kube.leader_election import LeaderElection, LeaseTiming


def candidate(api: TinyApi, identity: str) -> LeaderElection:
    return LeaderElection(Client(InProcess(api.handle)), "lease", "kube-system", identity=identity)


async def forever() -> None:
    await asyncio.Event().wait()


async def stop(task: asyncio.Task[Any]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def test_leader_releases_the_lease_when_it_ends() -> None:
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


def test_dead_leader_is_replaced_after_its_lease() -> None:
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


def test_clock_of_the_holder_does_not_matter() -> None:
    async def main() -> None:
        api = TinyApi()
        one = candidate(api, "one")
        first = asyncio.create_task(one.run(forever))
        await clock.sleep(3)
        for wrong in ("1999-01-01T00:00:00.000000Z", "2999-01-01T00:00:00.000000Z"):
            api.only()["spec"]["renewTime"] = wrong
            two = candidate(api, "two")
            assert not await two._try_acquire_or_renew()
        await stop(first)

    clock.run(main(), virtual=True)


def test_leader_that_cannot_renew_stops_and_tries_again() -> None:
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


def test_lease_taken_by_another_is_lost_at_once() -> None:
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


def test_error_of_the_leader_is_raised() -> None:
    async def lead() -> None:
        raise ValueError("a bug")

    with pytest.raises(ValueError, match="a bug"):
        clock.run(candidate(TinyApi(), "one").run(lead), virtual=True)


def test_invalid_timing_is_rejected() -> None:
    with pytest.raises(ValueError, match="timing: must satisfy"):
        LeaseTiming(lease=10, renew=15)


def test_identity_is_generated() -> None:
    client = Client(InProcess(TinyApi().handle))
    assert LeaderElection(client, "l", "n").identity != LeaderElection(client, "l", "n").identity
