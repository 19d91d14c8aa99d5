"""A list of node pools that answers late tells nothing about what was asked for meanwhile."""

from __future__ import annotations

import asyncio
from itertools import cycle
from typing import TYPE_CHECKING, Any

from tests.support.slices import SETTINGS, Rig, jobset, rig

from sliceworks.base import clock
from sliceworks.cloud.container import Container
from sliceworks.controllers.slices.controller import SlicesController
from sliceworks.kube.client import Client

if TYPE_CHECKING:
    from sliceworks.cloud.operations import Operation


class Slow(Container):
    """A list is a picture of the moment it was asked for, and comes five seconds later; some requests overtake others."""

    delays = cycle((0.5, 1.5))

    async def create(self, pool: dict[str, Any]) -> Operation:
        await clock.sleep(next(self.delays))
        return await super().create(pool)

    async def node_pools(self) -> list[dict[str, Any]]:
        found = await super().node_pools()
        await clock.sleep(5)
        return found


def test_no_pool_is_given_up_because_an_old_list_does_not_show_it() -> None:
    async def course() -> None:
        async with rig(operations=3, seconds={"createNodePool": 1.0, "boot": 1.0}) as made:
            container = made.open_container()
            container.__class__ = Slow
            controller = SlicesController(Client(made.cluster.transport()), container, SETTINGS)
            task = asyncio.create_task(controller.run())
            await made.client.create(jobset("train", 12, topology="2x2x1", pods=1, seconds=1000))
            await made.until(lambda: _running(made, 12), 600)
            assert await made.events("NodePoolCreationFailed") == []
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    clock.run(course(), virtual=True, seed=5)


async def _running(made: Rig, count: int) -> bool:
    return len(await made.pods("Running")) == count
