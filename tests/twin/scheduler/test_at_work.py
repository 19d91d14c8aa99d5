"""The scheduler in a cluster, in virtual time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from tests.support.embedded import Embedded
from tests.support.placing import HOST

from sliceworks.base import clock
from sliceworks.twin.cluster import Cluster
from sliceworks.twin.scheduler import scheduler
from sliceworks.twin.scheduler.preemption import preempt

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    import pytest


class Town(Embedded):
    """A cluster with nodes that nobody runs."""

    async def node(self, name: str, **offers: str) -> None:
        await self.do("POST", "/api/v1/nodes", {"metadata": {"name": name, "labels": {HOST: name}}})
        status = {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "20", **offers}}
        await self.do("PATCH", f"/api/v1/nodes/{name}/status", {"status": status})
        await self.do("PATCH", f"/api/v1/nodes/{name}", {"spec": {"taints": None}})

    async def pod(self, name: str, cpu: str = "1", **spec: Any) -> None:
        container = {"name": "main", "image": "image", "resources": {"requests": {"cpu": cpu}}}
        await self.do("POST", self.pods, {"metadata": {"name": name}, "spec": {"containers": [container], **spec}})

    @property
    def pods(self) -> str:
        return "/api/v1/namespaces/default/pods"

    async def placed(self) -> dict[str, str]:
        """Which pod lies where, once all is quiet."""
        await asyncio.sleep(1)
        listed = await self.do("GET", self.pods)
        return {pod["metadata"]["name"]: pod["spec"].get("nodeName", "") for pod in listed["items"]}


def in_town(work: Callable[[Town], Awaitable[Any]], *, seed: int = 1) -> Any:
    async def main() -> Any:
        async with Cluster(workloads=True) as cluster:
            await asyncio.sleep(1)
            return await work(Town(cluster))

    return clock.run(main(), virtual=True, seed=seed)


async def _busy(town: Town) -> dict[str, str]:
    for number in range(6):
        await town.node(f"n{number}")
    for number in range(30):
        await town.pod(f"p{number}")
    return await town.placed()


def test_one_seed_gives_one_history() -> None:
    first = in_town(_busy, seed=3)
    assert first == in_town(_busy, seed=3)
    assert first != in_town(_busy, seed=4)
    assert sum(bool(node) for node in first.values()) == 24


def test_those_without_room_get_it_one_by_one() -> None:
    async def work(town: Town) -> None:
        await town.node("a", cpu="1")
        for number in range(30):
            await town.pod(f"p{number}")
        for number in range(30):
            placed = await town.placed()
            assert [name for name, node in placed.items() if node] == [f"p{number}"]
            assert len(placed) == 30 - number
            await town.do("DELETE", f"{town.pods}/p{number}", {"gracePeriodSeconds": 0})

    in_town(work)


def test_many_alike_are_all_told_once() -> None:
    async def work(town: Town) -> None:
        await town.node("a", cpu="1")
        for number in range(40):
            await town.pod(f"p{number}", cpu="2")
        await town.placed()
        listed = await town.do("GET", town.pods)
        reasons = {pod["status"]["conditions"][0]["message"].partition(". ")[0] for pod in listed["items"]}
        assert reasons == {"0/1 nodes are available: 1 Insufficient cpu"}
        events = await town.do("GET", "/api/v1/namespaces/default/events")
        assert [event["reason"] for event in events["items"]].count("FailedScheduling") == 40

    in_town(work)


def test_preempted_pods_leave_and_their_place_is_kept() -> None:
    async def work(town: Town) -> None:
        await town.do("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": "high"}, "value": 100})
        for number in range(3):
            await town.node(f"n{number}", cpu="2")
        for number in range(6):
            await town.pod(f"low-{number}", terminationGracePeriodSeconds=0)
        await town.placed()
        for number in range(3):
            await town.pod(f"high-{number}", cpu="2", priorityClassName="high")
        placed = await town.placed()
        assert sorted(placed) == ["high-0", "high-1", "high-2"]
        assert sorted(placed.values()) == ["n0", "n1", "n2"]

    in_town(work)


def test_a_pod_that_nobody_can_make_sense_of_keeps_no_other_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(pod: Any, *others: Any) -> Any:
        if pod.key[1] == "odd":
            raise ArithmeticError
        return preempt(pod, *others)

    async def work(town: Town) -> dict[str, str]:
        monkeypatch.setattr(scheduler, "preempt", broken)
        await town.node("a", cpu="3")
        await town.pod("before")
        await town.pod("odd", cpu="9")
        await town.pod("after")
        await town.placed()
        await town.pod("last")
        return await town.placed()

    assert in_town(work) == {"before": "a", "odd": "", "after": "a", "last": "a"}
