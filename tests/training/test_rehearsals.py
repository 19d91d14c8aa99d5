"""The examples on a twin in virtual time: queues from the environment, two v4-32 slices, and jobs that run and end."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.training.test_compile import JOBS, job

from sliceworks import catalog
from sliceworks.base import clock
from sliceworks.cli.env_sites import read_environment
from sliceworks.kube.client import Client
from sliceworks.kube.resources import Resource
from sliceworks.kube.well_known import POD
from sliceworks.rehearsal import submissions
from sliceworks.training.compile import jobset
from sliceworks.training.queues import manifests
from sliceworks.training.states import state
from sliceworks.twin.cluster import Cluster
from sliceworks.twin.nodes.shapes import Shape, create_nodes

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

EXAMPLES = Path(__file__).parents[2] / "examples"
JOBSET = Resource("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets", True)
TEAM = "tpu-training"
Object = dict[str, Any]


class Platform:
    """The environment's queues, and its machines."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def build(self, *, spot: bool = False) -> None:
        for each in manifests(read_environment(EXAMPLES / "environments" / "training" / "environment.yaml")):
            await self.client.create(each)
        await create_nodes(self.client, Shape(pool="cpu-pool", machine="n1-standard-4"), 3)
        shape = catalog.find("v4-32")
        for number in range(2):
            pool = Shape(
                f"tpu-node-pool-{number}",
                shape.machine.name,
                cpu=shape.machine.allocatable()["cpu"],
                memory=shape.machine.allocatable()["memory"],
                resources={shape.resource: str(shape.chips_per_host)},
                labels=shape.node_labels(),
                taints=tuple(shape.node_taints()),
                spot=spot,
            )
            await create_nodes(self.client, pool, shape.hosts, first=10 * (number + 1))

    async def submit(self, example: str, changes: dict[str, str] | None = None) -> str:
        made = submissions.read(EXAMPLES / "training-jobs" / f"{example}.yaml").jobset()
        pods = made["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
        pods.setdefault("metadata", {}).setdefault("annotations", {}).update(
            {f"sliceworks.dev/{key}": value for key, value in (changes or {}).items()}
        )
        await self.client.create(made, resource=JOBSET)
        return str(made["metadata"]["name"])

    async def state(self, name: str) -> str:
        return state(await self.client.get(JOBSET, name, TEAM))

    async def pods(self) -> list[Object]:
        return list((await self.client.list(POD, TEAM)).items)


def played(play: Callable[[Platform], Awaitable[None]], *, spot: bool = False) -> None:
    async def main() -> None:
        async with Cluster() as twin:
            platform = Platform(Client(twin.transport()))
            await platform.build(spot=spot)
            await play(platform)

    clock.run(main(), virtual=True, seed=1)


def test_one_slice_runs_as_long_as_was_expected_and_completes() -> None:
    async def play(platform: Platform) -> None:
        name = await platform.submit("hello-one-slice")
        await clock.sleep(60)
        assert await platform.state(name) == "running"
        found = await platform.pods()
        assert len(found) == 4
        assert len({each["spec"]["nodeName"] for each in found}) == 4
        await clock.sleep(120)
        assert await platform.state(name) == "completed"

    played(play)


def test_two_slices_have_a_pool_each_and_the_uploader_runs_beside_them() -> None:
    async def play(platform: Platform) -> None:
        name = await platform.submit("hello-multi-slice")
        await clock.sleep(120)
        assert await platform.state(name) == "running"
        where = {each["metadata"]["name"].rpartition("-")[0]: each["spec"]["nodeName"] for each in await platform.pods()}
        assert len(where) == 9
        pools = {
            number: {node.rpartition("-")[0] for pod, node in where.items() if pod.startswith(f"{name}-slice-{number}-")}
            for number in (0, 1)
        }
        assert sorted(map(sorted, pools.values())) == [["gke-tpu-node-pool-0"], ["gke-tpu-node-pool-1"]]
        assert where[f"{name}-tensorboard-0-0"].startswith("gke-cpu-pool-")
        await clock.sleep(300)
        assert await platform.state(name) == "completed"

    played(play)


def test_a_job_that_finds_the_slices_in_use_waits_for_them() -> None:
    async def play(platform: Platform) -> None:
        await platform.submit("hello-multi-slice")
        await clock.sleep(60)
        waits = await platform.submit("hello-one-slice")
        await clock.sleep(60)
        assert await platform.state(waits) == "queued"
        await clock.sleep(600)
        assert await platform.state(waits) == "completed"

    played(play)


def test_failures_are_tried_again_until_none_is_left() -> None:
    async def play(platform: Platform) -> None:
        name = await platform.submit("hello-one-slice", {"fail": "crash"})
        await clock.sleep(600)
        found = await platform.client.get(JOBSET, name, TEAM)
        assert (state(found), found["status"]["restarts"]) == ("failed", 1)

    played(play)


def test_an_exit_code_with_a_rule_ends_the_job_at_once() -> None:
    async def play(platform: Platform) -> None:
        name = await platform.submit("hello-multi-slice", {"fail": "crash", "exit-code": "3"})
        await clock.sleep(600)
        found = await platform.client.get(JOBSET, name, TEAM)
        assert (state(found), found["status"].get("restarts", 0)) == ("failed", 0)

    played(play)


def test_spot_machines_that_are_taken_away_cost_no_restart() -> None:
    async def play(platform: Platform) -> None:
        made = jobset(job("slices: {type: v4-32, capacity: spot}, estimate: 1m, queue: tpu-job-queue", "cheap"), namespace=TEAM)
        pods = made["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
        pods["metadata"]["annotations"] |= {"sliceworks.dev/fail": "evict", "sliceworks.dev/fail-seconds": "30"}
        await platform.client.create(made, resource=JOBSET)
        await clock.sleep(200)
        found = await platform.client.get(JOBSET, "cheap", TEAM)
        assert found["spec"]["failurePolicy"]["maxRestarts"] == 0
        assert state(found) != "failed"
        assert found["status"]["restarts"] > 1
        assert found["status"].get("restartsCountTowardsMax", 0) == 0

    played(play, spot=True)


def test_what_is_on_demand_does_not_run_on_spot_machines() -> None:
    async def play(platform: Platform) -> None:
        name = await platform.submit("hello-one-slice")
        await clock.sleep(60)
        assert await platform.state(name) == "starting"
        assert not any(each["spec"].get("nodeName") for each in await platform.pods())

    played(play, spot=True)


def test_every_kind_of_job_passes_the_webhooks_and_is_queued() -> None:
    async def main() -> list[Object]:
        async with Cluster() as twin:
            client = Client(twin.transport())
            return [await client.create(jobset(job(text, name)), resource=JOBSET) for name, text in JOBS.items()]

    assert [made["spec"]["suspend"] for made in clock.run(main(), virtual=True, seed=1)] == [True] * len(JOBS)
