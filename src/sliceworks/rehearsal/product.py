"""What of the product runs beside a twin in a rehearsal: the controllers that its documents need."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import orjson

from sliceworks.base import clock
from sliceworks.kube.client import Client
from sliceworks.schemas import config_connector

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from sliceworks.base.yamls import Document
    from sliceworks.twin.cluster import Cluster

_PAUSE = 0.1


@dataclass(frozen=True, slots=True)
class Wants:
    """What documents need beside a cluster: somebody who serves graphs, and the kinds of Config Connector."""

    graphs: bool = False
    config_connector: bool = False

    @classmethod
    def of(cls, documents: Iterable[Document]) -> Wants:
        """What these need. A graph that makes objects of Config Connector needs its kinds, as such an object itself does."""
        graphs = connector = False
        for document in documents:
            graphs = graphs or document.data.get("kind") == "ResourceGraphDefinition"
            connector = connector or config_connector.GROUPS.encode() in orjson.dumps(document.data, default=str)
        return cls(graphs, connector)


@asynccontextmanager
async def controllers(cluster: Cluster, wants: Wants) -> AsyncIterator[None]:
    """Run the controllers that are wanted, from before the first document on."""
    if not wants.graphs:
        yield
        return
    from sliceworks.controllers.graphs import GraphController

    controller = GraphController(Client(cluster.transport()))
    task = asyncio.create_task(controller.run(), name="graphs")
    try:
        while not controller.ready and not task.done():
            await clock.sleep(_PAUSE)
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
