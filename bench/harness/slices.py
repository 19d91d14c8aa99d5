"""The slices controller in this process, with a record of its requests, and the load for bench/slices.py."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Self

from bench.harness.servers import CLUSTER, LOCATION, PROJECT, ZONE

from sliceworks.base import clock
from sliceworks.cloud import Container, Session, Token
from sliceworks.controllers.slices.controller import SlicesController
from sliceworks.controllers.slices.settings import Settings
from sliceworks.kube.resources import NODE, POD

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from bench.harness.servers import TwinDaemon

    from sliceworks.kube.client import Client

Object = dict[str, Any]
_LEADERS = "jobset.sigs.k8s.io/jobset-name,batch.kubernetes.io/job-completion-index=0"


class RecordingContainer(Container):
    """A client of the container API that records its requests."""

    def __init__(self, session: Session) -> None:
        super().__init__(session, PROJECT, LOCATION, CLUSTER, prefix="/container")
        self.sent: dict[str, float] = {}
        self.accepted: dict[str, float] = {}
        self.lists = 0

    async def list_node_pools(self) -> list[Object]:
        self.lists += 1
        return await super().list_node_pools()

    async def create_node_pool(self, pool: Object) -> Any:
        job = pool["config"]["labels"]["google.com/tpu-provisioner-parent-name"]
        self.sent.setdefault(job, clock.loop_time())
        operation = await super().create_node_pool(pool)
        self.accepted[job] = clock.loop_time()
        return operation


class Controller:
    """The slices controller in this process; it uses cluster and cloud over HTTP, as in a pod."""

    def __init__(self, twin: TwinDaemon) -> None:
        self._client = twin.client()
        self._session = Session(twin.cloud, Token(twin.token))
        self.container = RecordingContainer(self._session)
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

    async def wait_accepted(self, count: int, timeout: float) -> None:
        """Wait until the cloud has accepted `count` create requests."""
        async with asyncio.timeout(timeout):
            while len(self.container.accepted) < count:
                if self._task is not None and self._task.done():
                    await self._task
                await clock.sleep(0.02)


def jobset(name: str, replicas: int) -> Object:
    """A JobSet of single-host slices with a long run time. Its pods are identical, so that the twin's scheduler has little work."""
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


def is_unschedulable(pod: Object) -> bool:
    """Whether the scheduler has marked a pod as unschedulable."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(condition["type"] == "PodScheduled" and condition.get("reason") == "Unschedulable" for condition in conditions)


async def wait_unschedulable(client: Client, count: int, timeout: float) -> None:
    """Wait until `count` leader pods are unschedulable."""
    async with asyncio.timeout(timeout):
        while sum(map(is_unschedulable, (await client.list_all(POD, labels=_LEADERS)).items)) < count:
            await clock.sleep(0.5)


async def wait_running(client: Client, count: int, timeout: float) -> None:
    """Wait until `count` leader pods are running."""
    async with asyncio.timeout(timeout):
        while sum(pod["status"].get("phase") == "Running" for pod in (await client.list_all(POD, labels=_LEADERS)).items) < count:
            await clock.sleep(0.5)


@asynccontextmanager
async def unschedulable_times(client: Client) -> AsyncIterator[dict[str, float]]:
    """The times at which watch events of unschedulable leader pods arrive, by Job."""
    times: dict[str, float] = {}
    version = (await client.list_all(POD, labels=_LEADERS)).resource_version

    async def watch() -> None:
        while True:
            async for event in client.watch(POD, labels=_LEADERS, resource_version=version):
                name = event.object["metadata"].get("labels", {}).get("job-name") if event.object.get("metadata") else None
                if name and is_unschedulable(event.object):
                    times.setdefault(name, clock.loop_time())

    task = asyncio.create_task(watch())
    try:
        yield times
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def add_nodes(client: Client, count: int, concurrency: int = 32) -> None:
    """Create nodes that belong to no slice."""
    slots = asyncio.Semaphore(concurrency)

    async def add(number: int) -> None:
        async with slots:
            labels = {"cloud.google.com/gke-nodepool": f"pool-{number // 100}", "sliceworks.dev/node": "unmanaged"}
            node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"machine-{number}", "labels": labels}}
            await client.create(node, resource=NODE)

    await asyncio.gather(*(add(number) for number in range(count)))
