"""Deletes, retains or restores objects: pruning of orphans, and deletion of an instance in reverse apply order."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from enum import Enum
from typing import TYPE_CHECKING

from sliceworks.base.errors import Conflict, Invalid, NotFound
from sliceworks.controllers.graphs import applier, applyset, well_known
from sliceworks.controllers.graphs.completion import remove_completion_finalizer

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sliceworks.controllers.graphs.applyset import Inventory
    from sliceworks.controllers.graphs.context import Context
    from sliceworks.controllers.graphs.object_cache import CachedObject, ObjectCache
    from sliceworks.graph.model import Graph
    from sliceworks.kube.client import Client
    from sliceworks.kube.resources import Object, Resource


_MAX_ORDER_DIGITS = 10


def apply_order_of(record: CachedObject) -> int:
    """The level in which an object was applied; the highest is deleted first."""
    text = (record.object["metadata"].get("annotations") or {}).get(well_known.APPLY_ORDER, "")
    return int(text) if text.isdecimal() and len(text) < _MAX_ORDER_DIGITS else 0


class DeletionResult(Enum):
    """The result of deleting, retaining or restoring an object."""

    DELETED = "deleted or released"
    TERMINATING = "being deleted"
    REPLACED = "replaced by another object of the same name"


async def delete_object(client: Client, cache: ObjectCache, record: CachedObject) -> DeletionResult:
    """Delete, retain or restore an object, by its on-delete annotation."""
    annotations = record.object["metadata"].get("annotations") or {}
    policy = annotations.get(well_known.ON_DELETE)
    try:
        await remove_completion_finalizer(client, cache, record)
        if policy == "retain":
            await _release(client, cache.resource, record)
        elif policy == "restore" and well_known.BEFORE in annotations:
            await _restore(client, cache.resource, record, well_known.read_record(annotations, well_known.BEFORE))
        elif record.deleting:
            return DeletionResult.TERMINATING
        else:
            # Without a policy the API server orphans the pods of Jobs.
            response = await client.delete(
                cache.resource, record.name, record.namespace, uid=record.uid, propagation_policy="Background"
            )
            if "deletionTimestamp" in (response.get("metadata") or {}):
                cache.record_write(response)
                return DeletionResult.TERMINATING if cache.contains(record) else DeletionResult.DELETED
    except NotFound:
        pass
    except Conflict:
        return DeletionResult.REPLACED
    cache.evict(record)
    return DeletionResult.DELETED


async def _release(client: Client, resource: Resource, record: CachedObject) -> None:
    """Remove this controller's labels and annotations, and keep the object."""
    metadata = record.object["metadata"]
    labels = dict.fromkeys(well_known.OWN_LABELS & (metadata.get("labels") or {}).keys())
    annotations = dict.fromkeys(well_known.OWN_ANNOTATIONS & (metadata.get("annotations") or {}).keys())
    patch: Object = {"metadata": {"uid": record.uid, "labels": labels, "annotations": annotations}}
    await client.patch(resource, record.name, patch, record.namespace)


async def _restore(client: Client, resource: Resource, record: CachedObject, before: Object) -> None:
    """Restore the previous values; then apply an empty object, which removes the fields that did not exist before."""
    if before:
        patch = {**before, "metadata": {**well_known.as_object(before.get("metadata")), "uid": record.uid}}
        with suppress(Invalid):  # the record was edited: these values cannot be restored
            await client.patch(resource, record.name, patch, record.namespace)
    metadata = {"name": record.name, "uid": record.uid}
    if record.namespace:
        metadata["namespace"] = record.namespace
    empty = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
    await client.apply(empty, record.namespace, resource=resource, field_manager=well_known.APPLYSET, force=True)


Member = tuple["ObjectCache", "CachedObject"]


async def members(context: Context, set_id: str, inventory: Inventory) -> list[Member]:
    """The objects of an instance, of all kinds in its inventory."""
    result: list[Member] = []
    for entry in sorted(inventory.group_kinds):
        resource = await context.resource_of(entry)
        if resource is not None:
            cache = await context.caches.children(resource)
            result += [(cache, record) for record in cache.members(set_id) if applier.is_member(record, set_id)]
    return result


async def prune(context: Context, set_id: str, inventory: Inventory, kept: set[str], graph: Graph) -> bool:
    """Delete the objects that are not in `kept`. Returns False if one was replaced, which needs another reconcile."""
    orphans = [member for member in await members(context, set_id, inventory) if member[1].uid not in kept]
    positions = {name: index for index, name in enumerate(graph.order)}
    complete = True
    for wave in _waves(orphans, positions):
        results = await asyncio.gather(*(delete_object(context.client, cache, record) for cache, record in wave))
        complete = complete and DeletionResult.REPLACED not in results
    return complete


def _waves(orphans: Iterable[Member], positions: dict[str, int]) -> Sequence[list[Member]]:
    """Orphans in reverse order of the graph; those of removed resources come first."""
    waves: dict[int, list[Member]] = {}
    for cache, record in orphans:
        node = (record.object["metadata"].get("labels") or {}).get(well_known.NODE_ID, "")
        waves.setdefault(positions.get(node, len(positions)), []).append((cache, record))
    return [waves[position] for position in sorted(waves, reverse=True)]


class InstanceDeletion:
    """Deletes the objects of an instance in reverse apply order, and then removes its finalizer."""

    def __init__(self, context: Context, resource: Resource, instance: Object) -> None:
        self.message = "deleting resources"
        self._context, self._resource, self._instance = context, resource, instance
        self._set_id = applyset.compute_id(instance)

    async def step(self) -> bool:
        """Continue the deletion; returns whether it is complete."""
        inventory = applyset.read_inventory(self._instance)
        while remaining := await members(self._context, self._set_id, inventory):
            highest = max(apply_order_of(record) for _, record in remaining)
            wave = [(cache, record) for cache, record in remaining if apply_order_of(record) == highest]
            results = await asyncio.gather(*(delete_object(self._context.client, cache, record) for cache, record in wave))
            if any(result is not DeletionResult.DELETED for result in results):
                self.message = f"deleting apply-order wave {highest}"
                return False
        # The caches may miss objects that were created just before a restart, so list them.
        if await self._has_leftovers(inventory):
            self.message = "deleting objects that were not in the cache"
            return False
        await self._release()
        return True

    async def _has_leftovers(self, inventory: Inventory) -> bool:
        """Whether the API server has objects of the instance that the caches did not have."""
        has_leftovers = False
        for entry in sorted(inventory.group_kinds):
            resource = await self._context.resource_of(entry)
            if resource is None:
                continue
            cache = await self._context.caches.children(resource)
            listed = await self._context.client.list_all(resource, labels=f"{well_known.PART_OF}={self._set_id}")
            for obj in listed.items:
                has_leftovers = applier.is_member(cache.record_write(obj), self._set_id) or has_leftovers
        return has_leftovers

    async def _release(self) -> None:
        with suppress(Conflict):  # another client changed the instance, which requeues it
            await self._context.client.remove_finalizer(self._resource, self._instance["metadata"], well_known.FINALIZER)
