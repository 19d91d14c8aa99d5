"""Simulated nodes on the real control plane: in a thread of the test's process, through the client, as any kubelet."""

from __future__ import annotations

import asyncio
import itertools
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.kube.https import open_client
from sliceworks.twin.nodes.node_shape import NodeShape, build_nodes
from sliceworks.twin.nodes.simulator import NodeSimulator

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.clusters import Cluster

_numbers = itertools.count(100)


@contextmanager
def simulate_nodes(cluster: Cluster) -> Iterator[None]:
    """Simulate the labelled nodes of a cluster; a twin's server does this itself."""
    if cluster.name != "real":
        yield
        return
    ready, over = threading.Event(), threading.Event()

    async def play() -> None:
        client = open_client(cluster.kubeconfig)
        try:
            async with NodeSimulator(client):
                ready.set()
                await asyncio.to_thread(over.wait)
        finally:
            await client.transport.close()
            await clock.sleep(0.3)  # TLS connections take a while to close

    thread = threading.Thread(target=lambda: clock.run(play()), name="nodes")
    thread.start()
    try:
        assert ready.wait(30), "the player did not start"
        yield
    finally:
        over.set()
        thread.join(30)


def make_node(cluster: Cluster, name: str, **annotations: str) -> dict[str, Any]:
    """Create a node to be simulated; `number` makes its addresses unique."""
    notes = {f"sliceworks.dev/{key.replace('_', '-')}": value for key, value in annotations.items()}
    [node] = build_nodes(NodeShape(pool=name, annotations=notes), 1, prefix=name, first=next(_numbers))
    created: dict[str, Any] = cluster.api.post("/api/v1/nodes", node).ok(201).json
    return created
