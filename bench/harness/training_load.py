"""A twin with many queued training jobs, and `train why` for the last of them."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from bench.harness.servers import TwinDaemon

from sliceworks.base import clock, progress
from sliceworks.cli.train_show import diagnose
from sliceworks.kube.resources import CLUSTER_QUEUE, JOB, JOBSET, LOCAL_QUEUE, NAMESPACE, RESOURCE_FLAVOR

if TYPE_CHECKING:
    from pathlib import Path

    from sliceworks.kube.client import Client
    from sliceworks.kube.resources import Resource

Object = dict[str, Any]
TEAMS, RUNNING, CHIPS = 10, 100, 4
_CONCURRENCY = 32
_TPU = "google.com/tpu"


async def create(client: Client, resource: Resource, name: str, spec: Object, **metadata: Any) -> None:
    """Create one object."""
    body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": name, **metadata}, "spec": spec}
    await client.create(body, resource=resource)


async def create_queues(client: Client) -> None:
    """Create one ClusterQueue for all teams."""
    quota = {"name": _TPU, "nominalQuota": str(RUNNING * CHIPS)}
    group = {"coveredResources": [_TPU], "flavors": [{"name": "v4", "resources": [quota]}]}
    await create(client, RESOURCE_FLAVOR, "v4", {})
    await create(client, CLUSTER_QUEUE, "slices", {"namespaceSelector": {}, "resourceGroups": [group]})
    for team in range(TEAMS):
        await client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"team-{team}"}}, resource=NAMESPACE)
        await create(client, LOCAL_QUEUE, "queue", {"clusterQueue": "slices"}, namespace=f"team-{team}")


async def create_jobs(client: Client, count: int) -> None:
    """Create `count` jobs; the last one is diagnosed."""
    amounts = {_TPU: str(CHIPS)}
    container = {"name": "trainer", "image": "example.com/train:1", "resources": {"requests": amounts, "limits": amounts}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    spec = {"replicatedJobs": [{"name": "slice", "template": {"spec": {"template": template}}}]}
    slots = asyncio.Semaphore(_CONCURRENCY)

    async def create_job(number: int) -> None:
        async with slots:
            metadata = {"namespace": f"team-{number % TEAMS}", "labels": {"kueue.x-k8s.io/queue-name": "queue"}}
            await create(client, JOBSET, f"job-{number}", spec, **metadata)

    await asyncio.gather(*(create_job(number) for number in range(count - 1)))
    await create_job(count - 1)


async def wait_queued(client: Client, count: int) -> None:
    """Wait until Kueue has queued all jobs and JobSet has created their Jobs, so that the twin is idle."""
    while True:
        status = (await client.get(CLUSTER_QUEUE, "slices")).get("status") or {}
        queued = int(status.get("pendingWorkloads") or 0) + int(status.get("reservingWorkloads") or 0)
        if queued >= count and (await client.list(JOB, limit=1)).remaining >= count - 1:
            return
        await clock.sleep(1)


async def check_diagnosis(client: Client, count: int) -> None:
    """Check that the diagnosis of the last job is right."""
    diagnosis = await diagnose(client.using(namespace=f"team-{(count - 1) % TEAMS}"), f"job-{count - 1}")
    assert diagnosis.causes[0].kind.name == "quota-in-use", diagnosis
    assert diagnosis.ahead is not None
    assert diagnosis.ahead.position == count - min(count, RUNNING), diagnosis.ahead


def time_command(twin: TwinDaemon, *arguments: str) -> float:
    """Seconds of a whole `sliceworks train` command."""
    command = [sys.executable, "-m", "sliceworks", "train", *arguments, "--twin"]
    started = clock.perf_counter()
    subprocess.run(command, env=twin.environment, check=True, stdout=subprocess.DEVNULL)
    return clock.perf_counter() - started


async def measure_why(folder: Path, count: int, repeats: int) -> list[float]:
    """Seconds of `train why` with `count` jobs, several times."""
    twin = TwinDaemon(folder)
    try:
        async with twin.client() as client:
            await create_queues(client)
            started = clock.perf_counter()
            await create_jobs(client, count)
            await wait_queued(client, count)
            progress.say(f"{count:,} jobs queued in {clock.perf_counter() - started:.0f} s")
            await check_diagnosis(client, count)
        team = f"team-{(count - 1) % TEAMS}"
        return [time_command(twin, "why", f"job-{count - 1}", "-n", team) for _ in range(repeats)]
    finally:
        twin.stop()
