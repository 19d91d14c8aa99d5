"""The garbage collector's graph of owners and dependents. Pure: changes in, keys to reconcile out.

Only objects that have an owner or wait for their dependents are held, so unowned objects cost nothing here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sliceworks.twin.controllers.runtime.controller_context import ObjectKey

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"


class OwnerReference(NamedTuple):
    """An owner reference."""

    uid: str
    api_version: str
    kind: str
    name: str
    blocks: bool


class GraphNode(NamedTuple):
    """An object in the graph."""

    uid: str
    owners: tuple[OwnerReference, ...]
    deleting: bool
    foreground: bool
    orphan: bool


class DependencyGraph:
    """Objects with owners or with foreground or orphan deletion in progress, by key and by owner."""

    def __init__(self) -> None:
        self.nodes: dict[ObjectKey, GraphNode] = {}
        self._dependents: dict[str, dict[ObjectKey, bool]] = {}  # whether the dependent blocks deletion
        self._waiting: dict[str, ObjectKey] = {}

    def dependents(self, uid: str) -> list[ObjectKey]:
        """The objects with this owner, in the order they were added."""
        return list(self._dependents.get(uid, ()))

    def blocking(self, uid: str) -> list[ObjectKey]:
        """The dependents that block the owner's foreground deletion."""
        return [key for key, blocks in self._dependents.get(uid, {}).items() if blocks]

    def put(self, key: ObjectKey, metadata: Mapping[str, Any]) -> list[ObjectKey]:
        """Update an object; returns the keys to reconcile."""
        node = parse_node(metadata)
        old = self.nodes.get(key)
        if old == node or (old is None and not _is_tracked(node)):
            return []
        keys: list[ObjectKey] = []
        if old is not None and old.uid != node.uid:
            keys += self.remove(key, old.uid)
            old = None
        self._replace(key, old, node)
        changed = old is None or old.owners != node.owners
        if node.orphan or node.foreground or (node.owners and changed):
            keys.append(key)
        if node.foreground and not (old and old.foreground):
            keys += self.dependents(node.uid)
        if old is not None and changed:
            keys += self._waiting_owners(old.owners)
        return keys

    def remove(self, key: ObjectKey, uid: str) -> list[ObjectKey]:
        """Remove a deleted object; returns the keys to reconcile."""
        old = self.nodes.get(key)
        keys = self.dependents(uid)
        if old is not None and old.uid == uid:
            self._replace(key, old, None)
            keys += self._waiting_owners(old.owners)
        return keys

    def _replace(self, key: ObjectKey, old: GraphNode | None, new: GraphNode | None) -> None:
        if old is not None:
            self._waiting.pop(old.uid, None)
        before, after = (node.owners if node else () for node in (old, new))
        if before != after:
            self._replace_owners(key, before, after)
        if new is None or not _is_tracked(new):
            self.nodes.pop(key, None)
            return
        self.nodes[key] = new
        if new.foreground:
            self._waiting[new.uid] = key

    def _replace_owners(self, key: ObjectKey, before: Iterable[OwnerReference], after: Iterable[OwnerReference]) -> None:
        for owner in before:
            dependents = self._dependents.get(owner.uid)
            if dependents is not None:
                dependents.pop(key, None)
                if not dependents:
                    del self._dependents[owner.uid]
        for owner in after:
            dependents = self._dependents.setdefault(owner.uid, {})
            dependents[key] = owner.blocks or dependents.get(key, False)

    def _waiting_owners(self, owners: Iterable[OwnerReference]) -> list[ObjectKey]:
        return [self._waiting[owner.uid] for owner in owners if owner.uid in self._waiting]


def parse_node(metadata: Mapping[str, Any]) -> GraphNode:
    """The graph node of an object's metadata."""
    deleting = bool(metadata.get("deletionTimestamp"))
    finalizers = metadata.get("finalizers") or () if deleting else ()
    owners = tuple(
        OwnerReference(
            ref.get("uid", ""),
            ref.get("apiVersion", ""),
            ref.get("kind", ""),
            ref.get("name", ""),
            ref.get("blockOwnerDeletion") is True,
        )
        for ref in metadata.get("ownerReferences") or ()
    )
    return GraphNode(metadata.get("uid", ""), owners, deleting, FOREGROUND in finalizers, ORPHAN in finalizers)


def _is_tracked(node: GraphNode) -> bool:
    return bool(node.owners) or node.foreground or node.orphan
