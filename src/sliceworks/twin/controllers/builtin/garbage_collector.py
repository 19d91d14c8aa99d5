"""The garbage collector: deletes objects without owners, foreground and orphan deletion.

It decides from the latest state in the store and writes with preconditions: if the object has changed in the meantime, the write
fails with a conflict and the object is reconciled again.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sliceworks.twin.controllers.builtin.dependency_graph import (
    FOREGROUND,
    ORPHAN,
    DependencyGraph,
    GraphNode,
    OwnerReference,
    parse_node,
)
from sliceworks.twin.controllers.runtime.api_writer import ApiWriter
from sliceworks.twin.controllers.runtime.controller import Change, Controller
from sliceworks.twin.controllers.runtime.controller_context import ControllerContext, ObjectKey, ServedResource, controller_user
from sliceworks.twin.controllers.runtime.recorder import Recorder
from sliceworks.twin.controllers.runtime.resource_keys import DEFINITIONS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sliceworks.kube.resources import Object
    from sliceworks.twin.store.entry import Entry

_TRACKED_FIELDS = (b'"ownerReferences"', b'"deletionTimestamp"')
_CACHE_SIZE = 10_000
_OWNERS_PER_TURN = 500
_BYTES_PER_TURN = 1024 * 1024
"""How much the controller inspects before it lets other work run."""
_FEW_UIDS = 8
_UID_FIELD = re.compile(rb'"uid":"([^"\\]+)"')


@dataclass(slots=True)
class ClassifiedOwners:
    """The owners of an object: existing, absent, waiting for their dependents, of an unknown kind, or in another namespace."""

    solid: list[OwnerReference] = field(default_factory=list)
    dangling: list[OwnerReference] = field(default_factory=list)
    waiting_for_dependents: list[OwnerReference] = field(default_factory=list)
    unknown: list[OwnerReference] = field(default_factory=list)
    invalid: list[OwnerReference] = field(default_factory=list)


class GarbageCollector(Controller[ObjectKey]):
    """Reconciles every object that has an owner or waits for its dependents."""

    workers = 8

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self.graph = DependencyGraph()
        user = controller_user("generic-garbage-collector")
        self._writer, self._recorder = ApiWriter(context, user), Recorder(context, user, "garbage-collector-controller")
        # Existing and absent owners by UID: many dependents share an owner.
        self._existing: dict[str, ObjectKey] = {}
        self._absent: dict[str, None] = {}
        self._unknown_kind: dict[ObjectKey, None] = {}
        self._reported: dict[tuple[ObjectKey, str], None] = {}

    def observe(self, change: Change) -> None:
        key = ObjectKey(change.resource, change.namespace, change.name)
        if change.type == "DELETED":
            self._observe_deleted(key, change.obj["metadata"].get("uid", ""))
        elif key in self.graph.nodes or any(field in change.entry.data for field in _TRACKED_FIELDS):
            self._enqueue(key, self.graph.put(key, change.obj["metadata"]))
        if change.resource == DEFINITIONS and self._unknown_kind:
            unknown, self._unknown_kind = self._unknown_kind, {}
            self._enqueue(key, unknown)

    def _observe_deleted(self, key: ObjectKey, uid: str) -> None:
        self._existing.pop(uid, None)
        self._unknown_kind.pop(key, None)
        _cache(self._absent, uid)
        self._enqueue(key, self.graph.remove(key, uid))

    def _enqueue(self, cause: ObjectKey, keys: Iterable[ObjectKey]) -> None:
        for key in keys:
            if key != cause or not self._is_settled(key):
                self.queue.add(key)

    def _is_settled(self, key: ObjectKey) -> bool:
        """Whether an object needs nothing: it is not being deleted and all its owners are known to exist."""
        node = self.graph.nodes.get(key)
        return node is not None and not node.deleting and all(self._is_existing(owner, key.namespace) for owner in node.owners)

    def _is_existing(self, owner: OwnerReference, namespace: str) -> bool:
        known = self._existing.get(owner.uid)
        if known is None or known.name != owner.name or known.namespace not in {"", namespace}:
            return False
        served = self.context.resource_for_kind(owner.api_version, owner.kind)
        node = self.graph.nodes.get(known)
        return served is not None and served.storage_key == known.resource and not (node and node.foreground)

    async def sync(self, key: ObjectKey) -> None:
        if key not in self.graph.nodes or self._is_settled(key):
            return
        entry = self.context.entry(*key)
        if entry is None or self.context.resource_for(key.resource) is None:
            return
        obj, node = await self.context.decode(entry, _parse)
        if node.orphan:
            await self._orphan_dependents(key, obj["metadata"], node)
        elif node.foreground:
            await self._wait_for_dependents(key, obj["metadata"], node)
        elif node.owners and not node.deleting:
            await self._check_owners(key, obj, node)

    async def _check_owners(self, key: ObjectKey, obj: Object, node: GraphNode) -> None:
        metadata, owners = obj["metadata"], await self._classify(key, node)
        await self._report_invalid(key, obj, owners.invalid)
        if owners.unknown:
            # The kind may be served later: the object is enqueued when a CustomResourceDefinition changes.
            self._unknown_kind[key] = None
        elif owners.solid:
            if owners.dangling or owners.waiting_for_dependents:
                removed = {owner.uid for owner in (*owners.dangling, *owners.waiting_for_dependents)}
                await self._writer.remove_owners(key, metadata, removed)
        elif owners.waiting_for_dependents and self.graph.dependents(node.uid):
            if not await self._unblock_cycle(key, metadata, node):
                await self._writer.delete_unchanged(key, metadata, "Foreground")
        else:
            await self._writer.delete_unchanged(key, metadata, _propagation_policy(metadata.get("finalizers") or ()))

    async def _classify(self, key: ObjectKey, node: GraphNode) -> ClassifiedOwners:
        owners = ClassifiedOwners()
        states: dict[ObjectKey, tuple[str, bool] | None] = {}
        absent: dict[str, list[OwnerReference]] = {}
        for index, owner in enumerate(node.owners, 1):
            if index % _OWNERS_PER_TURN == 0:
                await asyncio.sleep(0)
            served = self.context.resource_for_kind(owner.api_version, owner.kind)
            if served is None:
                owners.unknown.append(owner)
            elif served.resource.namespaced and not key.namespace:
                # A namespaced object cannot own a cluster-scoped one: it must not lead to a deletion.
                owners.invalid.append(owner)
                owners.solid.append(owner)
            elif not await self._classify_existing(key, owner, served, owners, states):
                owners.dangling.append(owner)
                if served.resource.namespaced:
                    absent.setdefault(served.storage_key, []).append(owner)
        for resource, missing in absent.items():
            elsewhere = await self._find_uids(resource, {owner.uid for owner in missing})
            owners.invalid += [owner for owner in missing if owner.uid in elsewhere]
            if len(missing) > _OWNERS_PER_TURN:
                await asyncio.sleep(0)
        return owners

    async def _classify_existing(
        self,
        key: ObjectKey,
        owner: OwnerReference,
        served: ServedResource,
        owners: ClassifiedOwners,
        states: dict[ObjectKey, tuple[str, bool] | None],
    ) -> bool:
        """Classify an owner that exists. `states` holds UID and foreground deletion of the objects that were decoded so far."""
        if owner.uid in self._absent:
            return False
        owner_key = ObjectKey(served.storage_key, key.namespace if served.resource.namespaced else "", owner.name)
        if owner_key not in states:
            entry = self.context.entry(*owner_key)
            existing = (await self.context.decode(entry, _parse))[1] if entry else None
            states[owner_key] = (existing.uid, existing.foreground) if existing else None
        state = states[owner_key]
        if state is None or state[0] != owner.uid:
            return False
        if state[1]:
            owners.waiting_for_dependents.append(owner)
        else:
            self._existing[owner.uid] = owner_key
            owners.solid.append(owner)
        return True

    async def _find_uids(self, resource: str, uids: set[str]) -> set[str]:
        """Those of the UIDs that objects of a resource have, in any namespace; absent owners are searched for only once."""
        missing = {uid for uid in uids if uid and uid not in self._absent}
        live: set[str] = set()
        scanned = 0
        for entry in self.context.entries(resource) if missing else ():
            if (uid := await self._find_uid(entry, missing)) is not None:
                live.add(uid)
            scanned += entry.size
            if scanned >= _BYTES_PER_TURN:
                scanned = 0
                await asyncio.sleep(0)
        for index, uid in enumerate(missing - live, 1):
            if index % _OWNERS_PER_TURN == 0:
                await asyncio.sleep(0)
            _cache(self._absent, uid)
        return live

    async def _find_uid(self, entry: Entry, uids: set[str]) -> str | None:
        """The UID of an object, if it is one of these. Only objects without owners that contain one of them are decoded."""
        known = self.graph.nodes.get(ObjectKey(entry.resource, entry.namespace, entry.name))
        if known is not None:
            return known.uid if known.uid in uids else None
        if len(uids) > _FEW_UIDS:
            contains = any(uid.decode() in uids for uid in _UID_FIELD.findall(entry.data))
        else:
            contains = any(uid.encode() in entry.data for uid in uids)
        if not contains:
            return None
        _, node = await self.context.decode(entry, _parse)
        return node.uid if node.uid in uids else None

    async def _wait_for_dependents(self, key: ObjectKey, metadata: Object, node: GraphNode) -> None:
        blocking = self.graph.blocking(node.uid)
        for dependent in blocking:
            if not self.graph.nodes[dependent].deleting:
                self.queue.add(dependent)
        if not blocking:
            await self._writer.remove_finalizer(key, metadata, FOREGROUND)

    async def _orphan_dependents(self, key: ObjectKey, metadata: Object, node: GraphNode) -> None:
        for dependent in self.graph.dependents(node.uid):
            entry = self.context.entry(*dependent)
            if entry is not None and self.context.resource_for(dependent.resource) is not None:
                obj, _ = await self.context.decode(entry, _parse)
                await self._writer.remove_owners(dependent, obj["metadata"], {node.uid})
        await self._writer.remove_finalizer(key, metadata, ORPHAN)

    async def _unblock_cycle(self, key: ObjectKey, metadata: Object, node: GraphNode) -> bool:
        """Break a cycle of owners that wait for each other: unset blockOwnerDeletion of one. False if there is no cycle."""
        refs = metadata.get("ownerReferences") or ()
        is_cycle = any(self.graph.nodes[dependent].foreground for dependent in self.graph.dependents(node.uid))
        if not is_cycle or not any(ref.get("blockOwnerDeletion") for ref in refs):
            return False
        unblocked = [{**ref, "blockOwnerDeletion": False} if ref.get("blockOwnerDeletion") else ref for ref in refs]
        await self._writer.patch_metadata(key, metadata, {"ownerReferences": unblocked})
        return True

    async def _report_invalid(self, key: ObjectKey, obj: Object, owners: list[OwnerReference]) -> None:
        """Record once for each owner that it does not exist in the object's namespace."""
        for owner in owners:
            if (key, owner.uid) not in self._reported:
                _cache(self._reported, (key, owner.uid))
                ref = f"[{owner.api_version}/{owner.kind}, namespace: {key.namespace}, name: {owner.name}, uid: {owner.uid}]"
                message = f'ownerRef {ref} does not exist in namespace "{key.namespace}"'
                await self._recorder.warning(obj, "OwnerRefInvalidNamespace", message)


def _parse(entry: Entry) -> tuple[Object, GraphNode]:
    obj = entry.object()
    return obj, parse_node(obj["metadata"])


def _propagation_policy(finalizers: Iterable[str]) -> str:
    """The propagation policy that an object's own finalizers ask for."""
    if ORPHAN in finalizers:
        return "Orphan"
    return "Foreground" if FOREGROUND in finalizers else "Background"


def _cache(cache: dict[Any, None], key: Any) -> None:
    if len(cache) >= _CACHE_SIZE:
        cache.pop(next(iter(cache)))
    cache[key] = None
