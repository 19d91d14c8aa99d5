"""Pods that run as processes on a twin, and functions that wait for their states."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sliceworks.base import clock
from sliceworks.kube.client import Client
from sliceworks.kube.resources import POD
from sliceworks.twin.cluster import Cluster
from sliceworks.twin.nodes.node_shape import NodeShape, create_nodes
from sliceworks.twin.nodes.runtime.process import NamespaceSupport

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from sliceworks.twin.nodes.runtime.image import ImageMap

Object = dict[str, Any]
REFUSAL = clock.run(NamespaceSupport(Path(tempfile.gettempdir())).unavailable_reason()) if sys.platform == "linux" else "not Linux"
mounts_wanted = pytest.mark.skipif(bool(REFUSAL), reason=f"this machine refuses mount namespaces: {REFUSAL}")


def pod(
    name: str, *command: str, policy: str = "Never", grace: int = 5, volumes: list[Object] | None = None, **more: Any
) -> Object:
    container = {"name": "main", "image": "example.com/app:1", "command": list(command), **more}
    spec = {"nodeName": "gke-pool-0", "restartPolicy": policy, "containers": [container], "terminationGracePeriodSeconds": grace}
    metadata = {"name": name, "namespace": "default", "labels": {"app": "a"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {**spec, "volumes": volumes or []}}


def running(
    main: Callable[[Client], Awaitable[None]],
    folder: Path,
    *,
    speed: float = 1.0,
    hidden: tuple[Path, ...] = (),
    images: ImageMap | None = None,
) -> None:
    """Run a test's coroutine on a twin that runs processes."""

    async def run_main() -> None:
        async with Cluster(ca="the authority", processes=folder, hidden=hidden, images=images) as cluster:
            client = Client(cluster.transport())
            await create_nodes(client, NodeShape(pool="pool"), 1)
            await main(client)

    clock.run(run_main(), speed=speed)


async def until(client: Client, name: str, true: Callable[[Object], bool], seconds: float = 90) -> Object:
    """Wait until the status of a pod satisfies a condition; returns it."""
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
    result: Object = status["containerStatuses"][0]["state"]
    return result
