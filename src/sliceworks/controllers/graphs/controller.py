"""The graphs controller: installs its CRDs, starts the caches, and runs the definition and instance reconcilers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from sliceworks.base.metrics import Registry
from sliceworks.controllers.graphs import manifests, object_cache, well_known
from sliceworks.controllers.graphs.compiler import Compiler
from sliceworks.controllers.graphs.context import Context, Metrics
from sliceworks.controllers.graphs.crds import CRDWatcher, wait_established
from sliceworks.controllers.graphs.definition_controller import DefinitionReconciler
from sliceworks.controllers.graphs.dynamic_controller import DynamicController
from sliceworks.controllers.graphs.object_cache import ObjectCache, ObjectCaches, cached_in
from sliceworks.controllers.graphs.options import Options
from sliceworks.controllers.graphs.revisions import RevisionManager
from sliceworks.kube.controller import Controller, same_object
from sliceworks.kube.events import EventRecorder
from sliceworks.kube.informers import Informers
from sliceworks.kube.resources import CUSTOM_RESOURCE_DEFINITION, Key

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sliceworks.kube.client import Client
    from sliceworks.kube.informers import Delta
    from sliceworks.kube.resources import Resource
    from sliceworks.kube.workqueue import QueueStatus


class GraphController:
    """Serves every ResourceGraphDefinition of a cluster until cancelled."""

    def __init__(self, client: Client, options: Options | None = None, registry: Registry | None = None) -> None:
        self.options = options or Options()
        self.ready = False
        self._client = client.using(field_manager=well_known.WRITER)
        self._metrics = Metrics(registry or Registry())
        self._registry = registry
        self._dynamic_controller: DynamicController | None = None
        self._definition_controller: Controller | None = None

    @property
    def idle(self) -> bool:
        """Whether all work queues are empty."""
        controller, dynamic = self._definition_controller, self._dynamic_controller
        return self.ready and controller is not None and dynamic is not None and controller.queue.idle and dynamic.idle

    def queues(self) -> dict[str, QueueStatus]:
        """The status of each work queue by name."""
        definitions, dynamic = self._definition_controller, self._dynamic_controller
        own = {definitions.name: definitions.queue.status()} if definitions is not None else {}
        return {**own, **(dynamic.queues() if dynamic is not None else {})}

    async def run(self) -> None:
        """Install the CRDs if enabled, sync the caches, and reconcile until cancelled."""
        if self.options.install_definitions:
            await install(self._client)
        caches = ObjectCaches(self._client, self._on_child, self._on_external)
        informers = Informers(self._client, transform=object_cache.plain_transform)
        crds = None
        try:
            async with EventRecorder(self._client, "sliceworks-graphs") as events:
                context = self._context = Context(self._client, self.options, caches, events, self._metrics)
                dynamic_controller = self._dynamic_controller = DynamicController(context)
                definitions, revisions = informers.open(well_known.GRAPH_DEFINITION), informers.open(well_known.GRAPH_REVISION)
                revision_manager = RevisionManager(
                    context, ObjectCache(well_known.GRAPH_REVISION, revisions, object_cache.plain_transform)
                )
                crds = CRDWatcher(self._client, lambda name: definition_controller.queue.add(Key("", name)))
                compiler = Compiler(self._client, self._metrics, self.options.max_dimensions)
                definition_cache = ObjectCache(well_known.GRAPH_DEFINITION, definitions, object_cache.plain_transform)
                reconciler = DefinitionReconciler(
                    context,
                    definition_cache,
                    compiler=compiler,
                    revision_manager=revision_manager,
                    dynamic_controller=dynamic_controller,
                    crds=crds,
                )
                definition_controller = self._definition_controller = Controller(
                    "graphs", reconciler.reconcile, workers=self.options.graph_workers
                )
                definition_controller.watch(definitions, _definition_keys)
                definition_controller.watch(revisions, _owner_keys)
                revision_controller = Controller("revisions", revision_manager.remove_finalizer)
                revision_controller.watch(revisions, same_object)
                await crds.wait_synced()
                self.ready = True
                async with asyncio.TaskGroup() as group:
                    group.create_task(definition_controller.run())
                    group.create_task(revision_controller.run())
        finally:
            self.ready = False
            if self._dynamic_controller is not None:
                await self._dynamic_controller.close()
            if crds is not None:
                await crds.close()
            await informers.close()
            await caches.close()

    def _on_child(self, _resource: Resource, delta: Delta) -> None:
        if delta.kind == "updated" and delta.old is not None and delta.old["metadata"] == delta.object["metadata"]:
            return  # our own write, already in the cache
        if self._dynamic_controller is not None:
            self._dynamic_controller.enqueue(owner for record in _records(delta) if (owner := record.owner) is not None)

    def _on_external(self, resource: Resource, delta: Delta) -> None:
        if self._dynamic_controller is not None:
            self._dynamic_controller.enqueue(set(self._context.external_references.referrers(resource, _records(delta))))


async def install(client: Client) -> None:
    """Apply this controller's CRDs, and wait until they are established."""
    desired = manifests.build_crds()
    for crd in desired:
        await client.apply(crd, resource=CUSTOM_RESOURCE_DEFINITION, field_manager="sliceworks", force=True)
    for crd in desired:
        await wait_established(client, crd["metadata"]["name"])


def _records(delta: Delta) -> list[object_cache.CachedObject]:
    return [record for entry in (delta.object, delta.old) if (record := cached_in(entry)) is not None]


def _definition_keys(delta: Delta) -> Iterable[Key]:
    """Reconcile a definition when its spec, annotations or deletion change, but not for status updates."""
    new, old = cached_in(delta.object), cached_in(delta.old)
    assert new is not None
    if delta.kind == "updated" and old is not None and _relevant_fields(new) == _relevant_fields(old):
        return ()
    return (Key("", new.name),)


def _owner_keys(delta: Delta) -> Iterable[Key]:
    """A deleted revision requeues its definition."""
    record = cached_in(delta.object)
    assert record is not None
    return (Key("", record.object["spec"]["snapshot"]["name"]),) if delta.kind == "deleted" else ()


def _relevant_fields(record: object_cache.CachedObject) -> object:
    metadata = record.object["metadata"]
    annotations = metadata.get("annotations") or {}
    return (metadata.get("generation"), record.deleting, metadata.get("finalizers"), annotations.get(well_known.ALLOW_BREAKING))
