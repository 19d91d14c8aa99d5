"""A twin with three nodes for the suite; it ends with this process, whatever ends it."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.real.processes import Process, tied

from sliceworks.kube import open_client
from sliceworks.twin.nodes.node_shape import NodeShape, build_nodes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_NODES = NodeShape(pool="pool", machine="e2-standard-16", cpu="16", memory="64Gi")
_COUNT = 3


@contextmanager
def running_twin(folder: Path, image_map: Path, log: Path) -> Iterator[Path]:
    """The kubeconfig of a new twin that runs the images as processes."""
    command = (sys.executable, "-m", "sliceworks", "twin", "start", "--foreground", "--name", "conformance")
    options = ("--memory", "--processes", "--image-map", str(image_map), "--job-duration", "0")
    twin = Process("twin", tied((*command, *options)), log, env={**os.environ, "SLICEWORKS_HOME": str(folder)})
    ready = folder / "twins" / "conformance" / "ready.json"
    kubeconfig = ready.with_name("kubeconfig")
    try:
        twin.wait_until(ready.exists)
        asyncio.run(_create_nodes(kubeconfig))
        yield kubeconfig
    finally:
        twin.terminate()


async def _create_nodes(kubeconfig: Path) -> None:
    async with open_client(kubeconfig) as client:
        for node in build_nodes(_NODES, _COUNT):
            del node["status"]["addresses"]  # the twin gives the node one that accepts connections
            await client.create(node)
