"""What of the product runs beside a twin in a rehearsal: the controllers that its documents need."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol

import orjson

from sliceworks.base import clock
from sliceworks.base.errors import SliceworksError
from sliceworks.kube.client import Client
from sliceworks.rehearsal.drill import Mortal
from sliceworks.schemas import config_connector
from sliceworks.twin.controllers.programs import acting_as

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable

    from sliceworks.base.yamls import Document
    from sliceworks.specs.clouds import CloudCluster
    from sliceworks.specs.scenario import Scenario
    from sliceworks.twin.cluster import Cluster

_PAUSE = 0.1


@dataclass(frozen=True, slots=True)
class Wants:
    """What documents need beside a cluster: somebody who serves graphs, the kinds of Config Connector, and, where a scenario names
    the cluster's place in the cloud, somebody who makes slices there."""

    graphs: bool = False
    config_connector: bool = False
    slices: CloudCluster | None = None

    @classmethod
    def of(cls, documents: Iterable[Document], scenario: Scenario | None = None) -> Wants:
        """What these need. A graph that makes objects of Config Connector needs its kinds, as such an object itself does."""
        graphs = connector = False
        for document in documents:
            graphs = graphs or document.data.get("kind") == "ResourceGraphDefinition"
            connector = connector or config_connector.GROUPS.encode() in orjson.dumps(document.data, default=str)
        return cls(graphs, connector, _cluster_of(scenario) if scenario is not None else None)


def _cluster_of(scenario: Scenario) -> CloudCluster | None:
    """The first cluster that a scenario puts into the cloud."""
    settings = [event.set_cloud for event in scenario.spec.events if event.set_cloud is not None]
    return next((cluster for each in settings for cluster in each.clusters or ()), None)


class Runs(Protocol):
    """A controller."""

    @property
    def ready(self) -> bool: ...

    async def run(self) -> None: ...


@asynccontextmanager
async def controllers(cluster: Cluster, wants: Wants) -> AsyncIterator[list[Mortal]]:
    """Run the controllers that are wanted, from before the first document on; for a drill, each can be killed and started again."""
    running = [_Running("graphs", partial(_graphs, cluster))] if wants.graphs else []
    if wants.slices:
        running.append(_Running("slices", partial(_slices, cluster, wants.slices)))
    try:
        for each in running:
            await each.start()
        yield [Mortal(each.name, each.end, each.start) for each in running]
        for each in running:
            each.check()
    finally:
        for each in running:
            await each.end()


@dataclass(slots=True)
class _Running:
    """A controller that runs; each start makes a new one."""

    name: str
    make: Callable[[], Runs]
    task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Run one, and wait until it is ready."""
        controller = self.make()
        with acting_as(self.name):
            self.task = asyncio.create_task(controller.run(), name=type(controller).__name__)
        while not controller.ready and not self.task.done():
            await clock.sleep(_PAUSE)
        self.check()

    def check(self) -> None:
        """Raise where it has ended by itself: what was rehearsed since was rehearsed without it."""
        task = self.task
        if task is not None and task.done() and not task.cancelled() and (error := task.exception()) is not None:
            raise SliceworksError(f"the controller of {self.name} has ended: {_first(error)}") from error

    async def end(self) -> None:
        """End it, wherever it has come to."""
        if self.task is not None:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)


def _first(error: BaseException) -> BaseException:
    """What went wrong, out of the groups that it came in."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _graphs(cluster: Cluster) -> Runs:
    from sliceworks.controllers.graphs import GraphController

    return GraphController(Client(cluster.transport()))


def _slices(cluster: Cluster, place: CloudCluster) -> Runs:
    """The slices controller, beside the twin's own cloud."""
    from sliceworks.base.metrics import Registry
    from sliceworks.cloud.container import Container
    from sliceworks.cloud.credentials import Token
    from sliceworks.cloud.inprocess import InProcess
    from sliceworks.cloud.session import Session
    from sliceworks.controllers.slices.controller import SlicesController
    from sliceworks.controllers.slices.settings import Settings
    from sliceworks.twin.cloud.container.places import zones_of

    cluster.cloud.services["container"].configure({"clusters": [place.model_dump(by_alias=True)]})
    names = (place.project, place.location, place.name)
    session = Session(credentials=Token(cluster.token), transport=InProcess(cluster.cloud.handle))
    settings = Settings(*names, zones=tuple(zones_of(place.location)))
    return SlicesController(Client(cluster.transport()), Container(session, *names, prefix="/container"), settings, Registry())
