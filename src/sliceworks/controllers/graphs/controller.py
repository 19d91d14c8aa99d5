"""The controller of resource graphs: give it a client and run it, on any Kubernetes or on the twin."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from sliceworks.base import clock
from sliceworks.base.conditions import is_true
from sliceworks.base.errors import TimedOut
from sliceworks.base.metrics import Registry
from sliceworks.controllers.graphs import definitions, names, records
from sliceworks.controllers.graphs.compiling import Compiler
from sliceworks.controllers.graphs.graphs import Graphs
from sliceworks.controllers.graphs.kinds_served import KindsServed
from sliceworks.controllers.graphs.known_crds import KnownCrds
from sliceworks.controllers.graphs.measures import Measures
from sliceworks.controllers.graphs.options import Options
from sliceworks.controllers.graphs.records import in_cache
from sliceworks.controllers.graphs.revision_keeper import RevisionKeeper
from sliceworks.controllers.graphs.views import View, Views
from sliceworks.controllers.graphs.world import World
from sliceworks.kube.controller import Controller, same_object
from sliceworks.kube.events import EventRecorder
from sliceworks.kube.informers import Informers
from sliceworks.kube.resources import Key
from sliceworks.kube.well_known import CUSTOM_RESOURCE_DEFINITION

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sliceworks.kube.client import Client
    from sliceworks.kube.informers import Delta
    from sliceworks.kube.resources import Resource

_PATIENCE, _PAUSE = 60.0, 0.1


class GraphController:
    """Serves every ResourceGraphDefinition of a cluster until it is cancelled."""

    def __init__(self, client: Client, options: Options | None = None, registry: Registry | None = None) -> None:
        self.options = options or Options()
        self.ready = False
        self._client = client.using(field_manager=names.WRITER)
        self._measures = Measures(registry or Registry())
        self._registry = registry
        self._kinds: KindsServed | None = None
        self._graphs: Controller | None = None

    @property
    def idle(self) -> bool:
        """Whether nothing waits to be looked at."""
        return self.ready and self._graphs is not None and self._kinds is not None and self._graphs.queue.idle and self._kinds.idle

    async def run(self) -> None:
        """Install the definitions if that is wanted, fill the caches, and work until cancelled."""
        if self.options.install_definitions:
            await install(self._client)
        views = Views(self._client, self._heard_of_child, self._heard_of_other)
        informers = Informers(self._client, transform=records.plain)
        crds = None
        try:
            async with EventRecorder(self._client, "sliceworks-graphs") as events:
                world = World(self._client, self.options, views, events, self._measures)
                self._world = world
                kinds = self._kinds = KindsServed(world)
                found, kept = informers.open(names.GRAPH_DEFINITION), informers.open(names.GRAPH_REVISION)
                keeper = RevisionKeeper(world, View(names.GRAPH_REVISION, kept, records.plain))
                crds = KnownCrds(self._client, lambda name: graphs.queue.add(Key("", name)))
                compiler = Compiler(self._client, self._measures, self.options.most_dimensions)
                view = View(names.GRAPH_DEFINITION, found, records.plain)
                reconciler = Graphs(world, view, compiler=compiler, keeper=keeper, kinds=kinds, crds=crds)
                graphs = self._graphs = Controller("graphs", reconciler.reconcile, workers=self.options.graph_workers)
                graphs.watch(found, _of_interest)
                graphs.watch(kept, _definition_of)
                collected = Controller("revisions", keeper.release)
                collected.watch(kept, same_object)
                await crds.ready()
                self.ready = True
                async with asyncio.TaskGroup() as group:
                    group.create_task(graphs.run())
                    group.create_task(collected.run())
        finally:
            self.ready = False
            if self._kinds is not None:
                await self._kinds.close()
            if crds is not None:
                await crds.close()
            await informers.close()
            await views.close()

    def _heard_of_child(self, _resource: Resource, delta: Delta) -> None:
        if delta.kind == "updated" and delta.old is not None and delta.old["metadata"] == delta.object["metadata"]:
            return  # our own write, which the cache had already
        if self._kinds is not None:
            self._kinds.bring_up(owner for record in _records(delta) if (owner := record.owner) is not None)

    def _heard_of_other(self, resource: Resource, delta: Delta) -> None:
        if self._kinds is not None:
            self._kinds.bring_up(set(self._world.lookups.interested(resource, _records(delta))))


async def install(client: Client) -> None:
    """Bring the kinds of this controller to the cluster, and wait until they are served."""
    wanted = definitions.definitions()
    for crd in wanted:
        await client.apply(crd, resource=CUSTOM_RESOURCE_DEFINITION, field_manager="sliceworks", force=True)
    deadline = clock.loop_time() + _PATIENCE
    for crd in wanted:
        while not is_true(await client.get(CUSTOM_RESOURCE_DEFINITION, crd["metadata"]["name"]), "Established"):
            if clock.loop_time() > deadline:
                raise TimedOut(f"{crd['metadata']['name']} was not established in {_PATIENCE:g} seconds")
            await clock.sleep(_PAUSE)


def _records(delta: Delta) -> list[records.Record]:
    return [record for kept in (delta.object, delta.old) if (record := in_cache(kept)) is not None]


def _of_interest(delta: Delta) -> Iterable[Key]:
    """A definition is looked at when its spec, its annotations or its end are new, not when its status is."""
    new, old = in_cache(delta.object), in_cache(delta.old)
    assert new is not None
    if delta.kind == "updated" and old is not None and _essence(new) == _essence(old):
        return ()
    return (Key("", new.name),)


def _definition_of(delta: Delta) -> Iterable[Key]:
    """A revision that somebody deleted brings up its definition."""
    record = in_cache(delta.object)
    assert record is not None
    return (Key("", record.object["spec"]["snapshot"]["name"]),) if delta.kind == "deleted" else ()


def _essence(record: records.Record) -> object:
    metadata = record.object["metadata"]
    annotations = metadata.get("annotations") or {}
    return (metadata.get("generation"), record.deleting, metadata.get("finalizers"), annotations.get(names.ALLOW_BREAKING))
