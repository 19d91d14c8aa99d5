"""The examples on a twin in virtual time: queues of the environment, two v4-32 slices, and jobs that complete."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.training.test_compile import JOBS, job

from sliceworks import catalog
from sliceworks.base import clock
from sliceworks.cli.env_site import read_environment
from sliceworks.kube.client import Client
from sliceworks.kube.resources import POD, Resource
from sliceworks.training import submission
from sliceworks.training.jobset import build_jobset
from sliceworks.training.queues import build_manifests
from sliceworks.training.status import job_state
from sliceworks.twin.cluster import Cluster
from sliceworks.twin.nodes.node_shape import NodeShape, create_nodes

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

EXAMPLES = Path(__file__).parents[2] / "examples"
JOBSET = Resource("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets", True)
TEAM = "tpu-training"
Object = dict[str, Any]


class Platform:
    """The queues and nodes of the environment."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def build(self, *, spot: bool = False) -> None:
        for obj in build_manifests(read_environment(EXAMPLES / "environments" / "training" / "environment.yaml")):
            await self.client.create(obj)
        await create_nodes(self.client, NodeShape(pool="cpu-pool", machine="n1-standard-4"), 3)
        shape = catalog.find("v4-32")
        for number in range(2):
            pool = NodeShape(
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
        created = submission.load(EXAMPLES / "training-jobs" / f"{example}.yaml").jobset()
        pods = created["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
        pods.setdefault("metadata", {}).setdefault("annotations", {}).update(
            {f"sliceworks.dev/{key}": value for key, value in (changes or {}).items()}
        )
        await self.client.create(created, resource=JOBSET)
        return str(created["metadata"]["name"])

    async def state(self, name: str) -> str:
        return job_state(await self.client.get(JOBSET, name, TEAM))

    async def pods(self) -> list[Object]:
        return list((await self.client.list(POD, TEAM)).items)


def run_on_platform(scenario: Callable[[Platform], Awaitable[None]], *, spot: bool = False) -> None:
    async def main() -> None:
        async with Cluster() as twin:
            platform = Platform(Client(twin.transport()))
            await platform.build(spot=spot)
            await scenario(platform)

    clock.run(main(), virtual=True, seed=1)


def test_single_slice_job_completes_in_expected_time() -> None:
    async def scenario(platform: Platform) -> None:
        name = await platform.submit("hello-one-slice")
        await clock.sleep(60)
        assert await platform.state(name) == "running"
        result = await platform.pods()
        assert len(result) == 4
        assert len({item["spec"]["nodeName"] for item in result}) == 4
        await clock.sleep(120)
        assert await platform.state(name) == "completed"

    run_on_platform(scenario)


def test_two_slices_have_separate_pools_beside_the_uploader() -> None:
    async def scenario(platform: Platform) -> None:
        name = await platform.submit("hello-multi-slice")
        await clock.sleep(120)
        assert await platform.state(name) == "running"
        where = {pod["metadata"]["name"].rpartition("-")[0]: pod["spec"]["nodeName"] for pod in await platform.pods()}
        assert len(where) == 9
        pools = {
            number: {node.rpartition("-")[0] for pod, node in where.items() if pod.startswith(f"{name}-slice-{number}-")}
            for number in (0, 1)
        }
        assert sorted(map(sorted, pools.values())) == [["gke-tpu-node-pool-0"], ["gke-tpu-node-pool-1"]]
        assert where[f"{name}-tensorboard-0-0"].startswith("gke-cpu-pool-")
        await clock.sleep(300)
        assert await platform.state(name) == "completed"

    run_on_platform(scenario)


def test_job_waits_for_occupied_slices() -> None:
    async def scenario(platform: Platform) -> None:
        await platform.submit("hello-multi-slice")
        await clock.sleep(60)
        waits = await platform.submit("hello-one-slice")
        await clock.sleep(60)
        assert await platform.state(waits) == "queued"
        await clock.sleep(600)
        assert await platform.state(waits) == "completed"

    run_on_platform(scenario)


def test_failures_are_retried_up_to_the_limit() -> None:
    async def scenario(platform: Platform) -> None:
        name = await platform.submit("hello-one-slice", {"fail": "crash"})
        await clock.sleep(600)
        result = await platform.client.get(JOBSET, name, TEAM)
        assert (job_state(result), result["status"]["restarts"]) == ("failed", 1)

    run_on_platform(scenario)


def test_exit_code_rule_fails_the_job() -> None:
    async def scenario(platform: Platform) -> None:
        name = await platform.submit("hello-multi-slice", {"fail": "crash", "exit-code": "3"})
        await clock.sleep(600)
        result = await platform.client.get(JOBSET, name, TEAM)
        assert (job_state(result), result["status"].get("restarts", 0)) == ("failed", 0)

    run_on_platform(scenario)


def test_spot_preemption_counts_no_restart() -> None:
    async def scenario(platform: Platform) -> None:
        created = build_jobset(
            job("slices: {type: v4-32, capacity: spot}, estimate: 1m, queue: tpu-job-queue", "cheap"), namespace=TEAM
        )
        pods = created["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
        pods["metadata"]["annotations"] |= {"sliceworks.dev/fail": "evict", "sliceworks.dev/fail-seconds": "30"}
        await platform.client.create(created, resource=JOBSET)
        await clock.sleep(200)
        result = await platform.client.get(JOBSET, "cheap", TEAM)
        assert result["spec"]["failurePolicy"]["maxRestarts"] == 0
        assert job_state(result) != "failed"
        assert result["status"]["restarts"] > 1
        assert result["status"].get("restartsCountTowardsMax", 0) == 0

    run_on_platform(scenario, spot=True)


def test_on_demand_job_does_not_run_on_spot_nodes() -> None:
    async def scenario(platform: Platform) -> None:
        name = await platform.submit("hello-one-slice")
        await clock.sleep(60)
        assert await platform.state(name) == "starting"
        assert not any(pod["spec"].get("nodeName") for pod in await platform.pods())

    run_on_platform(scenario, spot=True)


def test_every_kind_of_job_is_accepted_and_queued() -> None:
    async def main() -> list[Object]:
        async with Cluster() as twin:
            client = Client(twin.transport())
            return [await client.create(build_jobset(job(text, name)), resource=JOBSET) for name, text in JOBS.items()]

    assert [created["spec"]["suspend"] for created in clock.run(main(), virtual=True, seed=1)] == [True] * len(JOBS)
