"""A Job of many pods from its creation until all of them run: the twin in real time, and the real control plane with KWOK."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from sliceworks.base import progress
from sliceworks.kube.connect import open_client
from sliceworks.kube.reflector import Reflector, Selection
from sliceworks.kube.well_known import JOB, NODE, POD, SERVICE_ACCOUNT
from sliceworks.twin.nodes.shapes import Shape, create_nodes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.measure.results import Measure
    from bench.measure.servers import Server

    from sliceworks.kube.client import Client
    from sliceworks.kube.resources import Object

NODES = 100
_PATIENCE = 120.0
_NAMESPACE = "default"


async def compare(servers: list[Server], pods: int, repeats: int, found: Measure) -> None:
    """Measure each side in turn, now one first and now the other; the first round warms both up and does not count."""
    clients = {server.name: open_client(server.kubeconfig, namespace=_NAMESPACE) for server in servers}
    try:
        for client in clients.values():
            await _prepare(client)
        for turn in range(repeats + 1):
            for name, client in clients.items() if turn % 2 else reversed(clients.items()):
                seconds = await _seconds_until_running(client, f"load-{turn}", pods if turn else max(pods // 10, 1))
                if turn:
                    progress.say(f"{pods} pods  {name}  {seconds:.2f} s until they run")
                    (found.twin if name == "twin" else found.real).append(seconds)
    finally:
        for client in clients.values():
            await client.close()


async def _prepare(client: Client) -> None:
    """Nodes that are ready, and the account that pods need."""
    await create_nodes(client, Shape(cpu="64", memory="256Gi"), NODES)
    async with asyncio.timeout(_PATIENCE):
        while not await _settled(client):
            await asyncio.sleep(0.2)


async def _settled(client: Client) -> bool:
    nodes = (await client.list(NODE)).items
    accounts = (await client.list(SERVICE_ACCOUNT, _NAMESPACE)).items
    ready = [node for node in nodes if _is_ready(node) and not node["spec"].get("taints")]
    return len(ready) == NODES and bool(accounts)


def _is_ready(node: dict[str, Any]) -> bool:
    conditions = node.get("status", {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


class _Running:
    """Counts the pods that run. A real server ends the watch of a client that is slow: the reflector that tells of them goes on."""

    def __init__(self, wanted: int) -> None:
        self.listed, self.done = asyncio.Event(), asyncio.Event()
        self._names: set[str] = set()
        self._wanted = wanted

    def replaced(self, items: Sequence[Object]) -> None:
        self.listed.set()
        for item in items:
            self.changed("ADDED", item)

    def changed(self, kind: str, obj: Object) -> None:
        if obj.get("status", {}).get("phase") == "Running":
            self._names.add(obj["metadata"]["name"])
            if len(self._names) >= self._wanted:
                self.done.set()


async def _seconds_until_running(client: Client, name: str, pods: int) -> float:
    running = _Running(pods)
    selection = Selection(POD, _NAMESPACE, labels=f"batch.kubernetes.io/job-name={name}")
    reading = asyncio.create_task(Reflector(client, selection, running).run())
    try:
        async with asyncio.timeout(_PATIENCE):
            await running.listed.wait()
            started = time.perf_counter()
            await client.create(_job(name, pods), resource=JOB)
            await running.done.wait()
            return time.perf_counter() - started
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


def _job(name: str, pods: int) -> dict[str, Any]:
    container = {"name": "work", "image": "example.com/work:1", "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    spec = {"parallelism": pods, "completions": pods, "completionMode": "Indexed", "template": template}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}
