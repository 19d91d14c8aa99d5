"""A small busy cluster in the test's process, and the console's snapshot of it, in virtual time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.harness.synthetic_cluster import SyntheticCluster, fill, put

from sliceworks.base import clock
from sliceworks.console.cluster_cache import ClusterCache
from sliceworks.kube.client import Client
from sliceworks.twin.cluster import Cluster

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

Object = dict[str, Any]


class SmallCluster:
    """A cluster of 8 teams, 64 slices and 200 jobs; `wait_delivered` waits for the console's watches."""

    def __init__(self, cluster: Cluster, synthetic: SyntheticCluster, cache: ClusterCache) -> None:
        self.cluster, self.synthetic, self.cache = cluster, synthetic, cache

    def put(self, resource: str, obj: Object) -> None:
        put(self.cluster, resource, obj)

    def remove(self, resource: str, name: str, namespace: str = "") -> None:
        entry = self.cluster.store.get(resource, namespace, name)
        assert entry is not None
        self.cluster.store.remove(resource, namespace, name, entry.object())

    async def wait_delivered(self) -> None:
        """Wait until watches have delivered all changes."""
        await clock.sleep(1.0)


def run_on_small_cluster(main: Callable[[SmallCluster], Awaitable[None]], *, jobs: int = 200, slices: int = 64) -> None:
    """Run a test's coroutine on the cluster."""

    async def run_main() -> None:
        async with Cluster(ca="the authority", workloads=False) as cluster:
            synthetic = SyntheticCluster(jobs, slices)
            fill(cluster, synthetic)
            await clock.sleep(5)
            async with ClusterCache(Client(cluster.transport()), name="small") as cache:
                await cache.settled(60)
                await main(SmallCluster(cluster, synthetic, cache))

    clock.run(run_main(), virtual=True, seed=7)
