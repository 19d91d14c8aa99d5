"""A slow LIST of node pools does not affect operations that started after it."""

from __future__ import annotations

import asyncio
from itertools import cycle
from typing import TYPE_CHECKING, Any

from tests.support.slices_controller import SETTINGS, Rig, jobset, rig

from sliceworks.base import clock
from sliceworks.cloud.container import Container
from sliceworks.controllers.manager import ControllerGroup
from sliceworks.controllers.slices.controller import SlicesController
from sliceworks.kube.client import Client

if TYPE_CHECKING:
    from sliceworks.cloud.container import Operation


class Slow(Container):
    """A list shows the state at the time of its request and arrives five seconds later; some requests overtake others."""

    delays = cycle((0.5, 1.5))

    async def create_node_pool(self, pool: dict[str, Any]) -> Operation:
        await clock.sleep(next(self.delays))
        return await super().create_node_pool(pool)

    async def list_node_pools(self) -> list[dict[str, Any]]:
        result = await super().list_node_pools()
        await clock.sleep(5)
        return result


def test_stale_list_does_not_drop_a_new_pool() -> None:
    async def scenario() -> None:
        async with rig(operations=3, seconds={"createNodePool": 1.0, "boot": 1.0}) as created:
            container = created.open_container()
            container.__class__ = Slow
            controller = SlicesController(Client(created.cluster.transport()), container, SETTINGS)
            task = asyncio.create_task(controller.run())
            await created.client.create(jobset("train", 12, topology="2x2x1", pods=1, seconds=1000))
            await created.until(lambda: _running(created, 12), 600)
            assert await created.events("NodePoolCreationFailed") == []
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    clock.run(scenario(), virtual=True, seed=5)


async def _running(made: Rig, count: int) -> bool:
    return len(await made.pods("Running")) == count


class Hanging(Container):
    """A list never returns."""

    async def list_node_pools(self) -> list[dict[str, Any]]:
        await asyncio.Event().wait()
        raise AssertionError


def test_list_that_never_returns_is_reported_as_stuck() -> None:
    async def scenario() -> None:
        async with rig() as created:
            container = created.open_container()
            container.__class__ = Hanging
            controller = SlicesController(Client(created.cluster.transport()), container, SETTINGS)
            group = ControllerGroup([controller], stall_timeout=600)
            task = asyncio.create_task(controller.run())
            await clock.sleep(590)
            assert group.stalled() == ""
            await clock.sleep(30)
            assert "reconcile of node-pools in work queue node-pools has been running for" in group.stalled()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert group.stalled() == ""

    clock.run(scenario(), virtual=True, seed=5)
