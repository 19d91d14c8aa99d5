"""The garbage collector: what has lost its last owner goes, owners wait for their dependents, orphans are let go.

It decides from the newest state in the store and acts through the API with preconditions, so that a decision that has become wrong
in the meantime is refused and made again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sliceworks.twin.controllers.graph import FOREGROUND, ORPHAN, Graph, Node, Owner, read
from sliceworks.twin.controllers.hands import Hands
from sliceworks.twin.controllers.loop import Change, Controller
from sliceworks.twin.controllers.world import Key, Served, World, controller_user

if TYPE_CHECKING:
    from collections.abc import Iterable

_DEFINITIONS = "apiextensions.k8s.io/customresourcedefinitions"
_MARKS = (b'"ownerReferences"', b'"deletionTimestamp"')
_REMEMBERED = 10_000


@dataclass(slots=True)
class Owners:
    """The owners of an object by what they mean for it."""

    solid: list[Owner] = field(default_factory=list)
    gone: list[Owner] = field(default_factory=list)
    waiting: list[Owner] = field(default_factory=list)
    unknown: list[Owner] = field(default_factory=list)
    misplaced: list[Owner] = field(default_factory=list)


class GarbageCollector(Controller[Key]):
    """Follows every object that has an owner or waits for its dependents."""

    workers = 8

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.graph = Graph()
        self._hands = Hands(world, controller_user("generic-garbage-collector"), "garbage-collector-controller")
        # Owners known to be there or to be gone, by UID: most dependents share theirs with many others.
        self._alive: dict[str, Key] = {}
        self._gone: dict[str, None] = {}
        self._unknown: dict[Key, None] = {}
        self._told: dict[tuple[Key, str], None] = {}

    def observe(self, change: Change) -> None:
        key = Key(change.resource, change.namespace, change.name)
        if change.type == "DELETED":
            self._lost(key, change.obj["metadata"].get("uid", ""))
        elif key in self.graph.nodes or any(mark in change.entry.data for mark in _MARKS):
            self._add(key, self.graph.put(key, change.obj["metadata"]))
        if change.resource == _DEFINITIONS and self._unknown:
            unknown, self._unknown = self._unknown, {}
            self._add(key, unknown)

    def _lost(self, key: Key, uid: str) -> None:
        self._alive.pop(uid, None)
        self._unknown.pop(key, None)
        _remember(self._gone, uid)
        self._add(key, self.graph.remove(key, uid))

    def _add(self, cause: Key, found: Iterable[Key]) -> None:
        for key in found:
            if key != cause or not self._is_settled(key):
                self.queue.add(key)

    def _is_settled(self, key: Key) -> bool:
        """Whether there is nothing to do for an object: it is not being deleted and all its owners are known to be there."""
        node = self.graph.nodes.get(key)
        return node is not None and not node.deleting and all(self._is_alive(owner, key.namespace) for owner in node.owners)

    def _is_alive(self, owner: Owner, namespace: str) -> bool:
        known = self._alive.get(owner.uid)
        if known is None or known.name != owner.name or known.namespace not in {"", namespace}:
            return False
        served = self.world.of_kind(owner.api_version, owner.kind)
        node = self.graph.nodes.get(known)
        return served is not None and served.stored_as == known.resource and not (node and node.foreground)

    async def sync(self, key: Key) -> None:
        if key not in self.graph.nodes or self._is_settled(key):
            return
        served, obj = self.world.of(key.resource), self.world.get(*key)
        if served is None or obj is None:
            return
        node = read(obj["metadata"])
        if node.orphan:
            await self._orphan(served, key, obj["metadata"], node)
        elif node.foreground:
            await self._wait_for_dependents(served, key, obj["metadata"], node)
        elif node.owners and not node.deleting:
            await self._check_owners(served, key, obj, node)

    async def _check_owners(self, served: Served, key: Key, obj: dict[str, Any], node: Node) -> None:
        metadata, owners = obj["metadata"], self._sort(key, node)
        await self._tell(served, key, obj, owners.misplaced)
        if owners.unknown:
            # A kind that nobody serves may still come: the object is looked at again when kinds change.
            self._unknown[key] = None
        elif owners.solid:
            if owners.gone or owners.waiting:
                await self._hands.let_go(served, key, metadata, {owner.uid for owner in (*owners.gone, *owners.waiting)})
        elif owners.waiting and self.graph.dependents(node.uid):
            if not await self._unblock_cycle(served, key, metadata, node):
                await self._hands.delete(served, key, metadata, "Foreground")
        else:
            await self._hands.delete(served, key, metadata, _policy(metadata.get("finalizers") or ()))

    def _sort(self, key: Key, node: Node) -> Owners:
        found = Owners()
        for owner in node.owners:
            served = self.world.of_kind(owner.api_version, owner.kind)
            if served is None:
                found.unknown.append(owner)
            elif served.namespaced and not key.namespace:
                # What lives in a namespace owns nothing that belongs to the whole cluster: it decides nothing.
                found.misplaced.append(owner)
                found.solid.append(owner)
            else:
                self._sort_one(key, owner, served, found)
        return found

    def _sort_one(self, key: Key, owner: Owner, served: Served, found: Owners) -> None:
        place = Key(served.stored_as, key.namespace if served.namespaced else "", owner.name)
        obj = self.world.get(*place) if owner.uid not in self._gone else None
        if obj is None or obj["metadata"].get("uid") != owner.uid:
            if served.namespaced and self._is_elsewhere(served, owner):
                found.misplaced.append(owner)
            found.gone.append(owner)
        elif read(obj["metadata"]).foreground:
            found.waiting.append(owner)
        else:
            self._alive[owner.uid] = place
            found.solid.append(owner)

    def _is_elsewhere(self, served: Served, owner: Owner) -> bool:
        """Whether the owner lives in another namespace. Once it has been looked for in vain, it is not looked for again."""
        if owner.uid in self._gone or not owner.uid:
            return False
        found = self.world.holding(served.stored_as, owner.uid.encode())
        if any(obj["metadata"].get("uid") == owner.uid for obj in found):
            return True
        _remember(self._gone, owner.uid)
        return False

    async def _wait_for_dependents(self, served: Served, key: Key, metadata: dict[str, Any], node: Node) -> None:
        blocking = self.graph.blocking(node.uid)
        for each in blocking:
            if not self.graph.nodes[each].deleting:
                self.queue.add(each)
        if not blocking:
            await self._hands.drop_finalizer(served, key, metadata, FOREGROUND)

    async def _orphan(self, served: Served, key: Key, metadata: dict[str, Any], node: Node) -> None:
        for each in self.graph.dependents(node.uid):
            dependent, resource = self.world.get(*each), self.world.of(each.resource)
            if dependent is not None and resource is not None:
                await self._hands.let_go(resource, each, dependent["metadata"], {node.uid})
        await self._hands.drop_finalizer(served, key, metadata, ORPHAN)

    async def _unblock_cycle(self, served: Served, key: Key, metadata: dict[str, Any], node: Node) -> bool:
        """Owners that wait for each other would wait for ever: one of them stops to block its own. It is then seen again."""
        refs = metadata.get("ownerReferences") or ()
        waits = any(self.graph.nodes[each].foreground for each in self.graph.dependents(node.uid))
        if not waits or not any(ref.get("blockOwnerDeletion") for ref in refs):
            return False
        free = [{**ref, "blockOwnerDeletion": False} if ref.get("blockOwnerDeletion") else ref for ref in refs]
        await self._hands.patch(served, key, metadata, {"ownerReferences": free})
        return True

    async def _tell(self, served: Served, key: Key, obj: dict[str, Any], owners: list[Owner]) -> None:
        """Say once that an owner is named where it does not live."""
        for owner in owners:
            if (key, owner.uid) not in self._told:
                _remember(self._told, (key, owner.uid))
                place = f"[{owner.api_version}/{owner.kind}, namespace: {key.namespace}, name: {owner.name}, uid: {owner.uid}]"
                message = f'ownerRef {place} does not exist in namespace "{key.namespace}"'
                await self._hands.warn(served, obj, "OwnerRefInvalidNamespace", message)


def _policy(finalizers: Iterable[str]) -> str:
    """How the dependents of an object fare when it goes: its own finalizers say."""
    if ORPHAN in finalizers:
        return "Orphan"
    return "Foreground" if FOREGROUND in finalizers else "Background"


def _remember(kept: dict[Any, None], key: Any) -> None:
    if len(kept) >= _REMEMBERED:
        kept.pop(next(iter(kept)))
    kept[key] = None
