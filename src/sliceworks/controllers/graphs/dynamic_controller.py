"""Starts and stops an instance controller for each generated kind: informer, work queue and workers."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sliceworks.base import clock
from sliceworks.base.retry import Backoff
from sliceworks.controllers.graphs import object_cache, well_known
from sliceworks.controllers.graphs.instance_controller import InstanceReconciler
from sliceworks.controllers.graphs.object_cache import ObjectCache
from sliceworks.kube.controller import Controller
from sliceworks.kube.informers import Informers
from sliceworks.kube.resources import Key, key_of, resource_of_crd

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sliceworks.controllers.graphs.context import Context
    from sliceworks.controllers.graphs.object_cache import ObjectCaches, Owner
    from sliceworks.graph.model import Graph
    from sliceworks.kube.controller import Mapper, Outcome, Reconcile
    from sliceworks.kube.informers import Delta
    from sliceworks.kube.resources import Object, Resource
    from sliceworks.kube.workqueue import QueueStatus

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class ServedGraph:
    """The graph and caches that serve one kind; replaced for each revision. Without a graph, instances can only be deleted."""

    graph: Graph | None
    resource: Resource
    labels: dict[str, str]
    caches: dict[str, ObjectCache]

    @property
    def child_caches(self) -> list[ObjectCache]:
        """The caches of the objects that the graph creates."""
        nodes = self.graph.nodes if self.graph is not None else ()
        return list(dict.fromkeys(self.caches[node.id] for node in nodes if not node.type.is_external))


async def serve(graph: Graph, definition: Object, caches: ObjectCaches, held: set[ObjectCache]) -> ServedGraph:
    """Open the caches that a graph needs, add them to `held`, and wait until they are synced."""
    opened = {node.id: caches.open(node.kind.resource, children=not node.type.is_external) for node in graph.nodes}
    held.update(opened.values())
    for cache in opened.values():
        await cache.wait_synced()
    return ServedGraph(graph, resource_of_crd(graph.crd), well_known.instance_labels(definition), opened)


@dataclass(slots=True)
class _KindController:
    """The running controller of one kind."""

    cache: ObjectCache
    reconciler: InstanceReconciler
    controller: Controller
    task: asyncio.Task[None]


class DynamicController:
    """Starts and stops instance controllers, by the name of their definition."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._informers = Informers(context.client, transform=object_cache.plain_transform)
        self._kinds: dict[str, _KindController] = {}
        self._by_kind: dict[tuple[str, str], _KindController] = {}
        self._semaphore = asyncio.Semaphore(context.options.instance_workers)

    def __len__(self) -> int:
        return len(self._kinds)

    @property
    def queued(self) -> int:
        """The number of queued instances."""
        return sum(len(kind.controller.queue) for kind in self._kinds.values())

    @property
    def idle(self) -> bool:
        """Whether no instance is queued, being reconciled or due later."""
        return all(kind.controller.queue.idle for kind in self._kinds.values())

    def queues(self) -> dict[str, QueueStatus]:
        """The status of the work queue of each kind."""
        return {kind.controller.name: kind.controller.queue.status() for kind in self._kinds.values()}

    def serves(self, name: str) -> bool:
        """Whether a graph of the definition is registered."""
        kind = self._kinds.get(name)
        return kind is not None and kind.reconciler.served.graph is not None

    async def register(self, name: str, graph: Graph, definition: Object) -> None:
        """Serve the instances of a definition with this graph."""
        # Syncing a kind that cannot be listed takes long; other definitions must not close its caches meanwhile.
        try:
            with self._context.caches.hold_open() as held:
                await self._register(name, await serve(graph, definition, self._context.caches, held))
        finally:
            self._close_unused_caches()

    async def register_for_deletion(self, name: str, resource: Resource, definition: Object) -> None:
        """Serve a definition without a graph: its instances can only be deleted."""
        await self._register(name, ServedGraph(None, resource, well_known.instance_labels(definition), {}))
        self._close_unused_caches()

    async def _register(self, name: str, served: ServedGraph) -> None:
        kind = self._kinds.get(name)
        if kind is not None and kind.reconciler.served.resource == served.resource:
            kind.reconciler.served = served
            for record in kind.cache.all():
                kind.controller.queue.add(Key(record.namespace, record.name))
            return
        await self.deregister(name)
        resource = served.resource
        informer = self._informers.open(resource)
        cache = ObjectCache(resource, informer, object_cache.plain_transform)
        try:
            await cache.wait_synced()
        except BaseException:
            cache.close()
            raise
        reconciler = InstanceReconciler(self._context, served, cache)
        options = self._context.options
        backoff = Backoff(first=options.retry_first, cap=options.retry_max, jitter=0.0)
        controller = Controller(resource.plural, self._with_metrics(reconciler), workers=options.instance_workers, backoff=backoff)
        controller.watch(informer, _map_deltas(reconciler), resync=options.resync)
        task = asyncio.create_task(controller.run(), name=f"instance controller of {resource.qualified}")
        self._kinds[name] = self._by_kind[resource.group, resource.kind] = _KindController(cache, reconciler, controller, task)
        log.info("serving %s with graph %s", resource.kind, name)

    async def deregister(self, name: str) -> None:
        """Stop the controller of a definition's kind."""
        kind = self._kinds.pop(name, None)
        if kind is None:
            return
        resource = kind.cache.resource
        self._by_kind.pop((resource.group, resource.kind), None)
        kind.task.cancel()
        await asyncio.gather(kind.task, return_exceptions=True)
        kind.controller.queue.shut_down()
        kind.cache.close()
        self._close_unused_caches()
        log.info("stopped serving %s", resource.kind)

    async def close(self) -> None:
        """Stop all controllers."""
        for name in tuple(self._kinds):
            await self.deregister(name)
        await self._informers.close()

    def _close_unused_caches(self) -> None:
        self._context.caches.close_unused(
            cache for kind in self._kinds.values() for cache in kind.reconciler.served.caches.values()
        )

    def enqueue(self, owners: Iterable[Owner]) -> None:
        """Queue these instances."""
        for owner in owners:
            kind = self._by_kind.get((owner.group, owner.kind))
            if kind is not None:
                kind.controller.queue.add(Key(owner.namespace, owner.name))

    def _with_metrics(self, reconciler: InstanceReconciler) -> Reconcile:
        metrics = self._context.metrics
        resource = reconciler.served.resource
        label = f"{resource.group}/{resource.version}, Resource={resource.plural}"

        async def reconcile(key: Key) -> Outcome:
            async with self._semaphore:
                started = clock.loop_time()
                metrics.reconciles.inc(label)
                try:
                    return await reconciler.reconcile(key)
                except Exception:
                    metrics.reconcile_errors.inc(label)
                    raise
                finally:
                    metrics.reconcile_seconds.observe(clock.loop_time() - started, label)

        return reconcile


def _map_deltas(reconciler: InstanceReconciler) -> Mapper:
    def map_delta(delta: Delta) -> Iterable[Key]:
        key = key_of(delta.object)
        if delta.object is delta.old:
            reconciler.invalidate(key)  # a resync: discard the remembered state
        elif delta.old is not None and delta.kind == "updated" and delta.old["metadata"] == delta.object["metadata"]:
            return ()  # our own write, already in the cache
        return (key,)

    return map_delta
