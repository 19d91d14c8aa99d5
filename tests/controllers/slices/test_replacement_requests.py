"""Leaders that run on each other's pools: the remaining leader gets a pool, and no pool is created too much."""

from __future__ import annotations

from tests.support.slices_controller import Rig, jobset, run_with_rig

from sliceworks.base import clock
from sliceworks.controllers.slices.node_pool import job_key, pool_name
from sliceworks.kube.resources import Key


def test_every_leader_is_placed_with_few_concurrent_operations() -> None:
    async def scenario(rig: Rig) -> None:
        await rig.client.create(jobset("train", 20, topology="2x2x1", pods=1, seconds=10_000))
        await rig.until(lambda: _running(rig, 20), 300)
        assert len(await rig.slices()) == 20
        await clock.sleep(600)
        assert len(await rig.slices()) == 20

    run_with_rig(scenario, operations=3, seconds={"createNodePool": 1.0, "boot": 1.0})


async def _running(rig: Rig, count: int) -> bool:
    return len(await rig.pods("Running")) == count


def test_unschedulable_leader_gets_no_further_pools() -> None:
    async def scenario(rig: Rig) -> None:
        huge = {"google.com/tpu": 4, "cpu": 1000}
        await rig.client.create(jobset("train", 2, topology="2x2x1", pods=1, amounts=huge))
        await clock.sleep(3600)
        assert set((await rig.slices()).values()) == {"RUNNING"}
        assert len(await rig.slices()) == 2

    run_with_rig(scenario)


def test_jobs_on_foreign_pools_get_no_pool() -> None:
    async def scenario(rig: Rig) -> None:
        for number in range(2):
            body = {"name": f"static-{number}", "initialNodeCount": 1, "config": {"machineType": "ct4p-hightpu-4t"}}
            await rig.container.create_node_pool(body)
        await clock.sleep(200)
        await rig.client.create(jobset("train", 4, topology="2x2x1", pods=1, seconds=10_000))
        await rig.until(lambda: _running(rig, 4), 300)
        await clock.sleep(600)
        assert len(await rig.slices()) == 2

    run_with_rig(scenario)


def test_leader_is_placed_after_the_failure_of_another_pool() -> None:
    """The first leader runs on the second's pool while its own cannot be created: the second gets the failed one's replacement."""

    async def scenario(rig: Rig) -> None:
        first = pool_name("train", job_key(Key("default", "train-slice-0")))
        rig.cluster.cloud.faults.add({"fault": "Stockout", "match": {"nodePool": first}, "for": 600})
        await rig.client.create(jobset("train", 2, topology="2x2x1", pods=1, seconds=10_000))
        await clock.sleep(600)
        assert len(await rig.pods("Running")) == 1
        await rig.until(lambda: _running(rig, 2), 3600)  # GKE gives up after 35 minutes, and the pool cannot be deleted before
        assert len(await rig.slices()) == 2

    run_with_rig(scenario)
