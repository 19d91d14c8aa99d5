"""Leaders go to whatever pool is there first: the one whose pool was taken gets another, and nobody gets too many."""

from __future__ import annotations

from tests.support.slices import Rig, jobset, on_rig

from sliceworks.base import clock
from sliceworks.controllers.slices.bodies import job_key, pool_name
from sliceworks.controllers.slices.views import Ref


def test_every_leader_has_a_place_where_the_cloud_makes_few_pools_at_once() -> None:
    async def course(rig: Rig) -> None:
        await rig.client.create(jobset("train", 20, topology="2x2x1", pods=1, seconds=10_000))
        await rig.until(lambda: _running(rig, 20), 300)
        assert len(await rig.slices()) == 20
        await clock.sleep(600)
        assert len(await rig.slices()) == 20

    on_rig(course, operations=3, seconds={"createNodePool": 1.0, "boot": 1.0})


async def _running(rig: Rig, count: int) -> bool:
    return len(await rig.pods("Running")) == count


def test_a_leader_that_fits_no_machine_does_not_get_one_pool_after_another() -> None:
    async def course(rig: Rig) -> None:
        huge = {"google.com/tpu": 4, "cpu": 1000}
        await rig.client.create(jobset("train", 2, topology="2x2x1", pods=1, amounts=huge))
        await clock.sleep(3600)
        assert set((await rig.slices()).values()) == {"RUNNING"}
        assert len(await rig.slices()) == 2

    on_rig(course)


def test_jobs_that_found_a_place_on_pools_of_others_get_none() -> None:
    async def course(rig: Rig) -> None:
        for number in range(2):
            body = {"name": f"static-{number}", "initialNodeCount": 1, "config": {"machineType": "ct4p-hightpu-4t"}}
            await rig.container.create(body)
        await clock.sleep(200)
        await rig.client.create(jobset("train", 4, topology="2x2x1", pods=1, seconds=10_000))
        await rig.until(lambda: _running(rig, 4), 300)
        await clock.sleep(600)
        assert len(await rig.slices()) == 2

    on_rig(course)


def test_a_leader_waits_no_longer_than_the_cloud_although_the_pool_that_failed_was_anothers() -> None:
    """The first leader goes to the second's pool while its own cannot be made: the second is to have that one instead."""

    async def course(rig: Rig) -> None:
        first = pool_name("train", job_key(Ref("default", "train-slice-0")))
        rig.cluster.cloud.faults.add({"fault": "Stockout", "match": {"nodePool": first}, "for": 600})
        await rig.client.create(jobset("train", 2, topology="2x2x1", pods=1, seconds=10_000))
        await clock.sleep(600)
        assert len(await rig.pods("Running")) == 1
        await rig.until(lambda: _running(rig, 2), 900)
        assert len(await rig.slices()) == 2

    on_rig(course)
