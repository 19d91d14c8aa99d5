"""Pods that run as processes on a twin of a test's own, and waiting for their states."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sliceworks.base import clock
from sliceworks.kube.client import Client
from sliceworks.kube.well_known import POD
from sliceworks.twin.cluster import Cluster
from sliceworks.twin.nodes.processes.views import Namespaces
from sliceworks.twin.nodes.shapes import Shape, create_nodes

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

Object = dict[str, Any]
REFUSAL = clock.run(Namespaces(Path(tempfile.gettempdir())).refusal()) if sys.platform == "linux" else "not Linux"
mounts_wanted = pytest.mark.skipif(bool(REFUSAL), reason=f"this machine refuses mount namespaces: {REFUSAL}")


def pod(
    name: str, *command: str, policy: str = "Never", grace: int = 5, volumes: list[Object] | None = None, **more: Any
) -> Object:
    container = {"name": "main", "image": "example.com/app:1", "command": list(command), **more}
    spec = {"nodeName": "gke-pool-0", "restartPolicy": policy, "containers": [container], "terminationGracePeriodSeconds": grace}
    metadata = {"name": name, "namespace": "default", "labels": {"app": "a"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {**spec, "volumes": volumes or []}}


def running(main: Callable[[Client], Awaitable[None]], folder: Path, *, speed: float = 1.0) -> None:
    """Run a test's coroutine on a twin that runs processes."""

    async def whole() -> None:
        async with Cluster(ca="the authority", processes=folder) as cluster:
            client = Client(cluster.transport())
            await create_nodes(client, Shape(pool="pool"), 1)
            await main(client)

    clock.run(whole(), speed=speed)


async def until(client: Client, name: str, true: Callable[[Object], bool], seconds: float = 20) -> Object:
    """The status of a pod once it is as wanted."""
    deadline = clock.loop_time() + seconds
    while True:
        status: Object = (await client.get(POD, name))["status"]
        if status.get("containerStatuses") and true(status):
            return status
        assert clock.loop_time() < deadline, status
        await clock.sleep(0.02)


def ended(status: Object) -> bool:
    return status["phase"] in {"Succeeded", "Failed"}


def ready(status: Object) -> bool:
    return bool(status["containerStatuses"][0]["ready"])


def state(status: Object) -> Object:
    found: Object = status["containerStatuses"][0]["state"]
    return found
