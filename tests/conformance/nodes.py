"""The nodes on which the suite runs its pods."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.twin.nodes.node_shape import NodeShape, build_nodes

if TYPE_CHECKING:
    from sliceworks.kube.client import Client

_NODES = NodeShape(pool="pool", machine="e2-standard-16", cpu="16", memory="64Gi")
_COUNT = 3


async def create_nodes(client: Client) -> None:
    """Create three nodes, which get addresses that accept connections."""
    for node in build_nodes(_NODES, _COUNT):
        del node["status"]["addresses"]
        await client.create(node)
