"""Random calls, faults, deleted Nodes and restarts; in the end node pools and Nodes are consistent."""

from __future__ import annotations

import random
import shutil
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.clouds import PLACE, POOLS, Cloud

from sliceworks.base import clock
from sliceworks.base.errors import NotFound
from sliceworks.kube.resources import NODE
from sliceworks.twin.cloud.google.container.gke_state import instances
from sliceworks.twin.cluster import Cluster
from sliceworks.twin.store.journal import Journal
from sliceworks.twin.store.store import Store

if TYPE_CHECKING:
    from pathlib import Path

BEGIN = datetime(2026, 11, 15, 8, tzinfo=UTC)
STEPS, LIVES = 25, 3
FAULTS = ("Stockout", "FailedOperations", "SlowOperations", "SlowBoot", "LostAnswers", "Unavailable", "StuckOperations")


class RandomRun:
    """A run of random events across several restarts of the twin."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.passed = 0.0

    async def live(self, cloud: Cloud) -> None:
        for _ in range(STEPS):
            await self.act(cloud)
            seconds = self.random.choice((0, 0, 1, 10, 40, 100))
            await clock.sleep(seconds)
            self.passed += seconds

    async def act(self, cloud: Cloud) -> None:
        name = f"pool-{self.random.randrange(4)}"
        what = self.random.choice(("create", "create", "slice", "delete", "resize", "fault", "lose", "preempt", "cancel"))
        if what == "create":
            await cloud.ask("POST", POOLS, {"nodePool": {"name": name, "initialNodeCount": self.random.randrange(4)}})
        elif what == "slice":
            placement = {"type": "COMPACT", "tpuTopology": self.random.choice(("2x2x2", "2x2x4"))}
            config = {"machineType": "ct4p-hightpu-4t", "spot": True}
            await cloud.ask("POST", POOLS, {"nodePool": {"name": name, "config": config, "placementPolicy": placement}})
        elif what == "delete":
            await cloud.ask("DELETE", f"{POOLS}/{name}")
        elif what == "resize":
            await cloud.ask("POST", f"{POOLS}/{name}:setSize", {"nodeCount": self.random.randrange(4)})
        elif what == "fault":
            more: dict[str, Any] = {"for": self.random.choice((60, 300)), "count": self.random.randint(1, 3)}
            cloud.fault(self.random.choice(FAULTS), seconds=self.random.choice((1, 30)), **more)
        elif what == "cancel":
            for operation in (await cloud.ask("GET", f"{PLACE}/operations"))[1].get("operations", ()):
                await cloud.ask("POST", f"{PLACE}/operations/{operation['name']}:cancel", {})
        else:
            await self.strike(cloud, what)

    async def strike(self, cloud: Cloud, what: str) -> None:
        nodes = sorted(node["metadata"]["name"] for node in await cloud.nodes())
        if not nodes:
            return
        node = self.random.choice(nodes)
        with suppress(NotFound):
            if what == "lose":
                await cloud.client.delete(NODE, node)
            else:
                await cloud.client.patch(NODE, node, {"metadata": {"annotations": {"sliceworks.dev/state": "preempted"}}})


async def check_consistency(cloud: Cloud) -> None:
    """Check that, after all operations, the Nodes are exactly the instances of the node pools."""
    await clock.sleep(8000)
    listed = (await cloud.do("GET", f"{PLACE}/operations")).get("operations", ())
    assert {operation["status"] for operation in listed} <= {"DONE"}
    pools = (await cloud.do("GET", POOLS)).get("nodePools", ())
    assert {pool["status"] for pool in pools} <= {"RUNNING", "RUNNING_WITH_ERROR", "ERROR"}
    known = {place.name for pool in cloud.container._state.pools.all() for place in instances(pool)}
    there = {node["metadata"]["name"] for node in await cloud.nodes()}
    assert there <= known
    running = {pool["name"] for pool in pools if pool["status"] == "RUNNING"}
    for pool in cloud.container._state.pools.all():
        if pool.name in running:
            assert {place.name for place in instances(pool)} <= there, pool.name
    addresses = [node["spec"]["podCIDR"] for node in await cloud.nodes()]
    assert len(addresses) == len(set(addresses))
    for pool in pools:
        await cloud.done(await cloud.do("DELETE", f"{POOLS}/{pool['name']}"))
    await clock.sleep(1000)
    assert await cloud.nodes() == []
    assert cloud.container._state.pool_keys == {}


@pytest.mark.parametrize("seed", range(5))
def test_node_pools_and_nodes_are_consistent_after_random_events(tmp_path: Path, seed: int) -> None:
    day = RandomRun(seed)
    path = tmp_path / "0.db"
    for life in range(LIVES + 1):
        after = tmp_path / f"{life + 1}.db"

        async def main(last: bool = life == LIVES, here: Path = path, there: Path = after) -> None:
            async with Cluster(Store(Journal(here)), ca="the authority") as twin:
                cloud = Cloud(twin)
                cloud.container.clusters.adopt("p", "us-central2-b", "c")
                if last:
                    for fault in cloud.server.faults.all():
                        cloud.server.faults.end(fault["name"])
                    await check_consistency(cloud)
                    return
                await day.live(cloud)
                # What is on the disk now is all that the next life knows.
                for suffix in ("", "-wal"):
                    file = here.with_name(here.name + suffix)
                    if file.exists():
                        shutil.copy(file, there.with_name(there.name + suffix))

        clock.run(main(), virtual=True, seed=seed, start=BEGIN + timedelta(seconds=day.passed + life))
        path = after
