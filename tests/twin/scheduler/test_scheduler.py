"""The scheduler in an embedded twin, in virtual time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from tests.support.embedded_twin import EmbeddedTwin
from tests.support.scheduler_snapshot import HOST

from sliceworks.base import clock
from sliceworks.twin.cluster import Cluster
from sliceworks.twin.scheduler import scheduler
from sliceworks.twin.scheduler.default_preemption import preempt

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    import pytest


class SchedulerTwin(EmbeddedTwin):
    """A cluster whose nodes run no kubelet."""

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
        """The nodes of all pods by name, after the scheduler is done."""
        await asyncio.sleep(1)
        listed = await self.do("GET", self.pods)
        return {pod["metadata"]["name"]: pod["spec"].get("nodeName", "") for pod in listed["items"]}


def on_scheduler_twin(work: Callable[[SchedulerTwin], Awaitable[Any]], *, seed: int = 1) -> Any:
    async def main() -> Any:
        async with Cluster(workloads=True) as cluster:
            await asyncio.sleep(1)
            return await work(SchedulerTwin(cluster))

    return clock.run(main(), virtual=True, seed=seed)


async def _busy(twin: SchedulerTwin) -> dict[str, str]:
    for number in range(6):
        await twin.node(f"n{number}")
    for number in range(30):
        await twin.pod(f"p{number}")
    return await twin.placed()


def test_equal_seeds_give_equal_placements() -> None:
    first = on_scheduler_twin(_busy, seed=3)
    assert first == on_scheduler_twin(_busy, seed=3)
    assert first != on_scheduler_twin(_busy, seed=4)
    assert sum(bool(node) for node in first.values()) == 24


def test_pending_pods_are_scheduled_as_resources_are_freed() -> None:
    async def work(twin: SchedulerTwin) -> None:
        await twin.node("a", cpu="1")
        for number in range(30):
            await twin.pod(f"p{number}")
        for number in range(30):
            placed = await twin.placed()
            assert [name for name, node in placed.items() if node] == [f"p{number}"]
            assert len(placed) == 30 - number
            await twin.do("DELETE", f"{twin.pods}/p{number}", {"gracePeriodSeconds": 0})

    on_scheduler_twin(work)


def test_every_unschedulable_pod_of_a_group_is_reported_once() -> None:
    async def work(twin: SchedulerTwin) -> None:
        await twin.node("a", cpu="1")
        for number in range(40):
            await twin.pod(f"p{number}", cpu="2")
        await twin.placed()
        listed = await twin.do("GET", twin.pods)
        reasons = {pod["status"]["conditions"][0]["message"].partition(". ")[0] for pod in listed["items"]}
        assert reasons == {"0/1 nodes are available: 1 Insufficient cpu"}
        events = await twin.do("GET", "/api/v1/namespaces/default/events")
        assert [event["reason"] for event in events["items"]].count("FailedScheduling") == 40

    on_scheduler_twin(work)


def test_preempted_pods_are_replaced_by_their_preemptors() -> None:
    async def work(twin: SchedulerTwin) -> None:
        await twin.do("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": "high"}, "value": 100})
        for number in range(3):
            await twin.node(f"n{number}", cpu="2")
        for number in range(6):
            await twin.pod(f"low-{number}", terminationGracePeriodSeconds=0)
        await twin.placed()
        for number in range(3):
            await twin.pod(f"high-{number}", cpu="2", priorityClassName="high")
        placed = await twin.placed()
        assert sorted(placed) == ["high-0", "high-1", "high-2"]
        assert sorted(placed.values()) == ["n0", "n1", "n2"]

    on_scheduler_twin(work)


def test_exception_for_one_pod_does_not_block_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(pod: Any, *others: Any) -> Any:
        if pod.key[1] == "odd":
            raise ArithmeticError
        return preempt(pod, *others)

    async def work(twin: SchedulerTwin) -> dict[str, str]:
        monkeypatch.setattr(scheduler, "preempt", broken)
        await twin.node("a", cpu="3")
        await twin.pod("before")
        await twin.pod("odd", cpu="9")
        await twin.pod("after")
        await twin.placed()
        await twin.pod("last")
        return await twin.placed()

    assert on_scheduler_twin(work) == {"before": "a", "odd": "", "after": "a", "last": "a"}
