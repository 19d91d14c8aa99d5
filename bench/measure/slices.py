"""What bench/slices.py measures with: a twin with a cloud, the slice controller in this process, and a record of what it sent."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Self

import orjson

from sliceworks.base import clock
from sliceworks.cloud import Container, Session, Token
from sliceworks.controllers.slices.controller import SlicesController
from sliceworks.controllers.slices.settings import Settings
from sliceworks.kube.connect import open_client
from sliceworks.kube.transport import Request
from sliceworks.kube.well_known import NODE, POD

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from sliceworks.kube.client import Client

Object = dict[str, Any]
PROJECT, LOCATION, CLUSTER, ZONE = "bench", "us-central1", "bench", "us-central1-a"
_LEADERS = "jobset.sigs.k8s.io/jobset-name,batch.kubernetes.io/job-completion-index=0"


class Twin:
    """A twin as users run it, in a home of its own; `seconds` is how long each operation of its cloud takes."""

    def __init__(self, folder: Path) -> None:
        self._env = {**os.environ, "SLICEWORKS_HOME": str(folder)}
        self._call("start", "--memory", "--quiet")
        self.home = folder / "twins" / "default"
        self.cloud = str(orjson.loads((self.home / "ready.json").read_bytes())["cloud"])
        self.token = (self.home / "token").read_text().strip()

    def _call(self, verb: str, *options: str) -> None:
        command = [sys.executable, "-m", "sliceworks", "twin", verb, *options]
        subprocess.run(command, env=self._env, check=True, stdout=subprocess.DEVNULL)

    @property
    def environment(self) -> dict[str, str]:
        """How a controller of its own process finds it."""
        names = {"GCP_PROJECT_ID": PROJECT, "GCP_CLUSTER": CLUSTER, "GCP_CLUSTER_LOCATION": LOCATION, "GCP_ZONE": ZONE}
        return {**self._env, **names}

    def stop(self) -> None:
        """End it."""
        self._call("stop", "--quiet")

    def client(self) -> Client:
        """A client of its cluster."""
        return open_client(self.home / "kubeconfig")

    async def configure(self, client: Client, *, operations: int, seconds: float) -> None:
        """Have its cloud take so many operations at a time, each so long: half of it to make a machine, half to boot it."""
        cluster = {"project": PROJECT, "location": LOCATION, "name": CLUSTER}
        times = {"createNodePool": seconds / 2, "boot": seconds / 2, "deleteNodePool": seconds}
        settings = {"clusters": [cluster], "operations": operations, "seconds": times}
        body = orjson.dumps({"set": {"container": settings}})
        await client.send(Request("POST", "/debug/twin/cloud", (), {"content-type": "application/json"}, body))


class Recorder(Container):
    """The container API, with a note of every request."""

    def __init__(self, session: Session) -> None:
        super().__init__(session, PROJECT, LOCATION, CLUSTER, prefix="/container")
        self.sent: dict[str, float] = {}
        self.accepted: dict[str, float] = {}
        self.lists = 0

    async def node_pools(self) -> list[Object]:
        self.lists += 1
        return await super().node_pools()

    async def create(self, pool: Object) -> Any:
        job = pool["config"]["labels"]["google.com/tpu-provisioner-parent-name"]
        self.sent.setdefault(job, clock.loop_time())
        operation = await super().create(pool)
        self.accepted[job] = clock.loop_time()
        return operation


class Controller:
    """The slice controller in this process, as it runs in a pod: over HTTP to the cluster and to the cloud."""

    def __init__(self, twin: Twin) -> None:
        self._client = twin.client()
        self._session = Session(twin.cloud, Token(twin.token))
        self.container = Recorder(self._session)
        settings = Settings(project=PROJECT, location=LOCATION, cluster=CLUSTER, zones=(ZONE,), time_limit=0.0)
        self.controller = SlicesController(self._client, self.container, settings)
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self.controller.run())
        while not self.controller.ready:
            await clock.sleep(0.005)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._session.close()
        await self._client.close()

    async def until_accepted(self, count: int, most: float) -> None:
        """Wait until the cloud has taken so many requests."""
        async with asyncio.timeout(most):
            while len(self.container.accepted) < count:
                if self._task is not None and self._task.done():
                    await self._task
                await clock.sleep(0.02)


def jobset(name: str, replicas: int) -> Object:
    """A JobSet of single-host slices that runs for long. Its pods are alike, so the twin's scheduler has little to do with them."""
    container = {"name": "main", "image": "train:1", "resources": {"limits": {"google.com/tpu": "4"}}}
    pod = {
        "restartPolicy": "Never",
        "nodeSelector": {
            "cloud.google.com/gke-tpu-accelerator": "tpu-v5-lite-podslice",
            "cloud.google.com/gke-tpu-topology": "2x2",
        },
        "tolerations": [{"operator": "Exists"}],
        "containers": [container],
    }
    template = {"metadata": {"annotations": {"sliceworks.dev/run-seconds": "100000"}}, "spec": pod}
    job = {"parallelism": 1, "completions": 1, "completionMode": "Indexed", "template": template}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"replicatedJobs": [{"name": "slice", "replicas": replicas, "template": {"spec": job}}]},
    }


def waits(pod: Object) -> bool:
    """Whether a leader is known to have no place."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "PodScheduled" and each.get("reason") == "Unschedulable" for each in conditions)


async def leaders_waiting(client: Client, count: int, most: float = 300.0) -> None:
    """Wait until so many leaders wait."""
    async with asyncio.timeout(most):
        while sum(map(waits, (await client.list_all(POD, labels=_LEADERS)).items)) < count:
            await clock.sleep(0.5)


async def leaders_running(client: Client, count: int, most: float = 300.0) -> None:
    """Wait until so many leaders run."""
    async with asyncio.timeout(most):
        while sum(pod["status"].get("phase") == "Running" for pod in (await client.list_all(POD, labels=_LEADERS)).items) < count:
            await clock.sleep(0.5)


@asynccontextmanager
async def arrivals(client: Client) -> AsyncIterator[dict[str, float]]:
    """When the news that a leader waits arrived here, by Job."""
    found: dict[str, float] = {}
    known = (await client.list_all(POD, labels=_LEADERS)).resource_version

    async def follow() -> None:
        while True:
            async for event in client.watch(POD, labels=_LEADERS, resource_version=known):
                name = event.object["metadata"].get("labels", {}).get("job-name") if event.object.get("metadata") else None
                if name and waits(event.object):
                    found.setdefault(name, clock.loop_time())

    task = asyncio.create_task(follow())
    try:
        yield found
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def add_nodes(client: Client, count: int, at_once: int = 32) -> None:
    """Machines that have nothing to do with slices."""
    room = asyncio.Semaphore(at_once)

    async def add(number: int) -> None:
        async with room:
            labels = {"cloud.google.com/gke-nodepool": f"pool-{number // 100}", "sliceworks.dev/node": "unmanaged"}
            node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"machine-{number}", "labels": labels}}
            await client.create(node, resource=NODE)

    await asyncio.gather(*(add(number) for number in range(count)))
