"""How long `train why` takes beside many other jobs, as a function and as a command."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from bench.measure.slices import Twin

from sliceworks.base import clock, progress
from sliceworks.cli.train_why import answer_for
from sliceworks.kube.well_known import JOB, NAMESPACE
from sliceworks.training.why.reading import CLUSTER_QUEUE, FLAVOR, JOBSET, LOCAL_QUEUE

if TYPE_CHECKING:
    from pathlib import Path

    from sliceworks.kube.client import Client
    from sliceworks.kube.resources import Resource

Object = dict[str, Any]
TEAMS, RUNNING, CHIPS, GOAL = 10, 100, 4, 1.0
_AT_ONCE = 32
_TPU = "google.com/tpu"


async def make(client: Client, resource: Resource, name: str, spec: Object, **metadata: Any) -> None:
    """Create one object."""
    body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": name, **metadata}, "spec": spec}
    await client.create(body, resource=resource)


async def queues(client: Client) -> None:
    """One queue for all teams."""
    quota = {"name": _TPU, "nominalQuota": str(RUNNING * CHIPS)}
    group = {"coveredResources": [_TPU], "flavors": [{"name": "v4", "resources": [quota]}]}
    await make(client, FLAVOR, "v4", {})
    await make(client, CLUSTER_QUEUE, "slices", {"namespaceSelector": {}, "resourceGroups": [group]})
    for team in range(TEAMS):
        await client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"team-{team}"}}, resource=NAMESPACE)
        await make(client, LOCAL_QUEUE, "queue", {"clusterQueue": "slices"}, namespace=f"team-{team}")


async def jobs(client: Client, count: int) -> None:
    """So many jobs; the last is the one that is asked about."""
    amounts = {_TPU: str(CHIPS)}
    container = {"name": "trainer", "image": "example.com/train:1", "resources": {"requests": amounts, "limits": amounts}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    spec = {"replicatedJobs": [{"name": "slice", "template": {"spec": {"template": template}}}]}
    room = asyncio.Semaphore(_AT_ONCE)

    async def one(number: int) -> None:
        async with room:
            place = {"namespace": f"team-{number % TEAMS}", "labels": {"kueue.x-k8s.io/queue-name": "queue"}}
            await make(client, JOBSET, f"job-{number}", spec, **place)

    await asyncio.gather(*(one(number) for number in range(count - 1)))
    await one(count - 1)


async def settled(client: Client, count: int) -> None:
    """Wait until Kueue has seen them all and JobSet has made their Jobs, so that the twin has nothing else to do."""
    while True:
        status = (await client.get(CLUSTER_QUEUE, "slices")).get("status") or {}
        queued = int(status.get("pendingWorkloads") or 0) + int(status.get("reservingWorkloads") or 0)
        if queued >= count and (await client.list(JOB, limit=1)).remaining >= count - 1:
            return
        await clock.sleep(1)


async def asked(client: Client, count: int, times: int) -> float:
    """Seconds for one answer, the median of several; the answer is checked."""
    team, found = f"team-{(count - 1) % TEAMS}", []
    for _ in range(times):
        began = clock.effort()
        answer = await answer_for(client.using(namespace=team), f"job-{count - 1}")
        found.append(clock.effort() - began)
        assert answer.causes[0].kind.name == "quota-in-use", answer
        assert answer.ahead is not None
        assert answer.ahead.position == count - min(count, RUNNING), answer.ahead
    return sorted(found)[times // 2]


def commanded(twin: Twin, count: int, times: int) -> float:
    """Seconds for the whole command, the median of several."""
    command = [
        sys.executable,
        "-m",
        "sliceworks",
        "train",
        "why",
        f"job-{count - 1}",
        "--twin",
        "-n",
        f"team-{(count - 1) % TEAMS}",
    ]
    found = []
    for _ in range(times):
        began = clock.effort()
        subprocess.run(command, env=twin.environment, check=True, stdout=subprocess.DEVNULL)
        found.append(clock.effort() - began)
    return sorted(found)[times // 2]


async def measure(folder: Path, count: int, times: int) -> dict[str, float]:
    """Load a twin, and ask."""
    twin = Twin(folder)
    try:
        async with twin.client() as client:
            await queues(client)
            began = clock.effort()
            await jobs(client, count)
            await settled(client, count)
            progress.say(f"{count:,} jobs are queued after {clock.effort() - began:.0f} s")
            return {"answer": await asked(client, count, times), "command": commanded(twin, count, times)}
    finally:
        twin.stop()
