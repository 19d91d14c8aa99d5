"""A Job from its creation until all its pods are running: the twin in real time, and a real control plane with KWOK."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from sliceworks.base import progress
from sliceworks.kube.https import open_client
from sliceworks.kube.reflector import Reflector, Selection
from sliceworks.kube.resources import JOB, NODE, POD, SERVICE_ACCOUNT
from sliceworks.twin.nodes.node_shape import NodeShape, create_nodes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.harness.metric import Metric
    from bench.harness.servers import Server

    from sliceworks.kube.client import Client
    from sliceworks.kube.resources import Object

_MIN_NODES, _PODS_PER_NODE = 100, 10
_TIMEOUT = 120.0
_NAMESPACE = "default"


async def compare(servers: list[Server], pods: int, repeats: int, metric: Metric) -> None:
    """Measure the servers in alternating order; the first round is the warm-up."""
    clients = {server.name: open_client(server.kubeconfig, namespace=_NAMESPACE) for server in servers}
    try:
        for client in clients.values():
            await _prepare(client, max(_MIN_NODES, pods // _PODS_PER_NODE))
        for turn in range(repeats + 1):
            for name, client in clients.items() if turn % 2 else reversed(clients.items()):
                seconds = await _seconds_until_running(client, f"load-{turn}", pods if turn else max(pods // 10, 1))
                if turn:
                    progress.say(f"{pods} pods  {name}  {seconds:.2f} s until all are running")
                    (metric.values if name == "twin" else metric.baseline).append(seconds)
    finally:
        for client in clients.values():
            await client.close()


async def _prepare(client: Client, nodes: int) -> None:
    """Create nodes; wait until they are ready and the default service account exists."""
    await create_nodes(client, NodeShape(cpu="64", memory="256Gi"), nodes)
    async with asyncio.timeout(_TIMEOUT):
        while not await _is_prepared(client, nodes):
            await asyncio.sleep(0.2)


async def _is_prepared(client: Client, nodes: int) -> bool:
    listed = (await client.list(NODE)).items
    accounts = (await client.list(SERVICE_ACCOUNT, _NAMESPACE)).items
    ready = [node for node in listed if _is_ready(node) and not node["spec"].get("taints")]
    return len(ready) == nodes and bool(accounts)


def _is_ready(node: dict[str, Any]) -> bool:
    conditions = node.get("status", {}).get("conditions") or ()
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


class _RunningPods:
    """Counts running pods. It is fed by a reflector, because a real server closes the watch of a slow client."""

    def __init__(self, expected: int) -> None:
        self.listed, self.done = asyncio.Event(), asyncio.Event()
        self._names: set[str] = set()
        self._expected = expected

    def replaced(self, items: Sequence[Object]) -> None:
        self.listed.set()
        for item in items:
            self.changed("ADDED", item)

    def changed(self, kind: str, obj: Object) -> None:
        if obj.get("status", {}).get("phase") == "Running":
            self._names.add(obj["metadata"]["name"])
            if len(self._names) >= self._expected:
                self.done.set()


async def _seconds_until_running(client: Client, name: str, pods: int) -> float:
    running = _RunningPods(pods)
    selection = Selection(POD, _NAMESPACE, labels=f"batch.kubernetes.io/job-name={name}")
    reflector = asyncio.create_task(Reflector(client, selection, running).run())
    try:
        async with asyncio.timeout(_TIMEOUT):
            await running.listed.wait()
            started = time.perf_counter()
            await client.create(_job(name, pods), resource=JOB)
            await running.done.wait()
            return time.perf_counter() - started
    finally:
        reflector.cancel()
        await asyncio.gather(reflector, return_exceptions=True)


def _job(name: str, pods: int) -> dict[str, Any]:
    container = {"name": "work", "image": "example.com/work:1", "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    spec = {"parallelism": pods, "completions": pods, "completionMode": "Indexed", "template": template}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}
