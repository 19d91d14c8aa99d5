"""A small busy cluster in the test's own process, and the console's world on it; in virtual time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.measure.console_worlds import BigWorld, fill, put

from sliceworks.base import clock
from sliceworks.console.world import World
from sliceworks.kube.client import Client
from sliceworks.twin.cluster import Cluster

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

Object = dict[str, Any]


class Small:
    """A cluster of 8 teams, 64 slices and 200 jobs. What is put into its store is seen by the world after `heard`."""

    def __init__(self, cluster: Cluster, made: BigWorld, world: World) -> None:
        self.cluster, self.made, self.world = cluster, made, world

    def put(self, resource: str, obj: Object) -> None:
        put(self.cluster, resource, obj)

    def remove(self, resource: str, name: str, namespace: str = "") -> None:
        entry = self.cluster.store.get(resource, namespace, name)
        assert entry is not None
        self.cluster.store.remove(resource, namespace, name, entry.object())

    async def heard(self) -> None:
        """Let watches bring what has happened."""
        await clock.sleep(1.0)


def on_small(main: Callable[[Small], Awaitable[None]], *, jobs: int = 200, slices: int = 64) -> None:
    """Run a test's coroutine on it."""

    async def whole() -> None:
        async with Cluster(ca="the authority", workloads=False) as cluster:
            made = BigWorld(jobs, slices)
            fill(cluster, made)
            await clock.sleep(5)
            async with World(Client(cluster.transport()), name="small") as world:
                await world.settled(60)
                await main(Small(cluster, made, world))

    clock.run(whole(), virtual=True, seed=7)
