"""Our nodes, played on the real control plane: in a thread of the test's process, through the client, like any kubelet."""

from __future__ import annotations

import asyncio
import itertools
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.kube.connect import open_client
from sliceworks.twin.nodes.player import Nodes
from sliceworks.twin.nodes.shapes import Shape, node_objects

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.clusters import Cluster

_numbers = itertools.count(100)


@contextmanager
def player(cluster: Cluster) -> Iterator[None]:
    """Play the labelled nodes of a cluster; a twin does so by itself."""
    if cluster.name == "twin":
        yield
        return
    ready, over = threading.Event(), threading.Event()

    async def play() -> None:
        client = open_client(cluster.kubeconfig)
        try:
            async with Nodes(client):
                ready.set()
                await asyncio.to_thread(over.wait)
        finally:
            await client.transport.close()
            await clock.sleep(0.3)  # TLS connections take a moment to close

    thread = threading.Thread(target=lambda: clock.run(play()), name="nodes")
    thread.start()
    try:
        assert ready.wait(30), "the player did not start"
        yield
    finally:
        over.set()
        thread.join(30)


def make_node(cluster: Cluster, name: str, **annotations: str) -> dict[str, Any]:
    """A node of its own, to be played; `number` in its addresses is used for nothing else."""
    notes = {f"sliceworks.dev/{key.replace('_', '-')}": value for key, value in annotations.items()}
    [node] = node_objects(Shape(pool=name, annotations=notes), 1, prefix=name, first=next(_numbers))
    made: dict[str, Any] = cluster.api.post("/api/v1/nodes", node).ok(201).json
    return made
