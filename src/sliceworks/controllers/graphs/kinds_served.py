"""The kinds that are served now: for each, a cache of its instances, a queue, and workers that reconcile them."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sliceworks.base import clock
from sliceworks.controllers.graphs import labels, records
from sliceworks.controllers.graphs.instances import Instances
from sliceworks.controllers.graphs.served import Served, serve
from sliceworks.controllers.graphs.views import View
from sliceworks.kube.backoff import Backoff
from sliceworks.kube.controller import Controller
from sliceworks.kube.informers import Informers
from sliceworks.kube.resources import Key, key_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sliceworks.controllers.graphs.records import Owner
    from sliceworks.controllers.graphs.world import World
    from sliceworks.graph.model import Graph
    from sliceworks.kube.controller import Mapper, Outcome, Reconcile
    from sliceworks.kube.informers import Delta
    from sliceworks.kube.resources import Object, Resource


log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Kind:
    """One kind, running."""

    view: View
    instances: Instances
    controller: Controller
    task: asyncio.Task[None]


class KindsServed:
    """Starts and stops kinds, by the name of the definition that they come from."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._informers = Informers(world.client, transform=records.plain)
        self._kinds: dict[str, _Kind] = {}
        self._by_kind: dict[tuple[str, str], _Kind] = {}
        self._turns = asyncio.Semaphore(world.options.instance_workers)

    def __len__(self) -> int:
        return len(self._kinds)

    @property
    def waiting(self) -> int:
        """How many instances wait to be looked at."""
        return sum(len(kind.controller.queue) for kind in self._kinds.values())

    @property
    def idle(self) -> bool:
        """Whether no instance waits, is looked at or is due later."""
        return all(kind.controller.queue.idle for kind in self._kinds.values())

    def serves(self, name: str) -> bool:
        """Whether a definition has a graph that serves."""
        kind = self._kinds.get(name)
        return kind is not None and kind.instances.served.graph is not None

    async def start(self, name: str, graph: Graph, definition: Object) -> None:
        """Serve the instances of a definition by this graph from now on."""
        # One that cannot be read takes its time: others go on meanwhile, and close no views that this one opens.
        try:
            with self._world.views.holding() as held:
                await self._start(name, await serve(graph, definition, self._world.views, held))
        finally:
            self._close_views()

    async def hold(self, name: str, resource: Resource, definition: Object) -> None:
        """Hold the instances of a definition that has no graph: they stay as they are, and those that are to go can go."""
        await self._start(name, Served(None, resource, labels.instance_labels(definition), {}))
        self._close_views()

    async def _start(self, name: str, served: Served) -> None:
        kind = self._kinds.get(name)
        if kind is not None and kind.instances.served.resource == served.resource:
            kind.instances.served = served
            for record in kind.view.all():
                kind.controller.queue.add(Key(record.namespace, record.name))
            return
        await self.stop(name)
        resource = served.resource
        informer = self._informers.open(resource)
        view = View(resource, informer, records.plain)
        try:
            await view.ready()
        except BaseException:
            view.close()
            raise
        instances = Instances(self._world, served, view)
        options = self._world.options
        backoff = Backoff(first=options.retry_first, cap=options.retry_longest, jitter=0.0)
        controller = Controller(resource.plural, self._measured(instances), workers=options.instance_workers, backoff=backoff)
        controller.watch(informer, _bring_up(instances), resync=options.resync)
        task = asyncio.create_task(controller.run(), name=f"instances of {resource.qualified}")
        self._kinds[name] = self._by_kind[resource.group, resource.kind] = _Kind(view, instances, controller, task)
        log.info("%s is served by the graph %s", resource.kind, name)

    async def stop(self, name: str) -> None:
        """Serve a kind no longer."""
        kind = self._kinds.pop(name, None)
        if kind is None:
            return
        resource = kind.view.resource
        self._by_kind.pop((resource.group, resource.kind), None)
        kind.task.cancel()
        await asyncio.gather(kind.task, return_exceptions=True)
        kind.controller.queue.shut_down()
        kind.view.close()
        self._close_views()
        log.info("%s is no longer served", resource.kind)

    async def close(self) -> None:
        """Stop everything."""
        for name in tuple(self._kinds):
            await self.stop(name)
        await self._informers.close()

    def _close_views(self) -> None:
        self._world.views.keep_only(view for kind in self._kinds.values() for view in kind.instances.served.views.values())

    def bring_up(self, owners: Iterable[Owner]) -> None:
        """Look at these instances."""
        for owner in owners:
            kind = self._by_kind.get((owner.group, owner.kind))
            if kind is not None:
                kind.controller.queue.add(Key(owner.namespace, owner.name))

    def _measured(self, instances: Instances) -> Reconcile:
        measures = self._world.measures
        resource = instances.served.resource
        label = f"{resource.group}/{resource.version}, Resource={resource.plural}"

        async def reconcile(key: Key) -> Outcome:
            async with self._turns:
                began = clock.loop_time()
                measures.reconciles.add(label)
                try:
                    return await instances.reconcile(key)
                except Exception:
                    measures.reconcile_errors.add(label)
                    raise
                finally:
                    measures.reconcile_seconds.observe(clock.loop_time() - began, label)

        return reconcile


def _bring_up(instances: Instances) -> Mapper:
    def keys(delta: Delta) -> Iterable[Key]:
        key = key_of(delta.object)
        if delta.object is delta.old:
            instances.look_anew(key)  # a resync: trust nothing that is remembered
        elif delta.old is not None and delta.kind == "updated" and delta.old["metadata"] == delta.object["metadata"]:
            return ()  # our own write, which the cache had already
        return (key,)

    return keys
