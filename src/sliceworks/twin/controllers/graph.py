"""Who owns whom, as far as the garbage collector needs to know. Pure: changes come in, keys worth a look come out.

Only objects that have an owner or that wait for their dependents are held, so that a cluster of a hundred thousand unowned objects
costs nothing here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sliceworks.twin.controllers.world import Key

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"


class Owner(NamedTuple):
    """An owner reference."""

    uid: str
    api_version: str
    kind: str
    name: str
    blocks: bool


class Node(NamedTuple):
    """An object in the graph."""

    uid: str
    owners: tuple[Owner, ...]
    deleting: bool
    foreground: bool
    orphan: bool


class Graph:
    """The objects that own or are owned."""

    def __init__(self) -> None:
        self.nodes: dict[Key, Node] = {}
        self._dependents: dict[str, dict[Key, None]] = {}
        self._waiting: dict[str, Key] = {}

    def dependents(self, uid: str) -> list[Key]:
        """The objects that name this owner, in the order they came."""
        return list(self._dependents.get(uid, ()))

    def blocking(self, uid: str) -> list[Key]:
        """Those dependents that the owner has to wait for."""
        return [key for key in self._dependents.get(uid, ()) if any(o.uid == uid and o.blocks for o in self.nodes[key].owners)]

    def put(self, key: Key, metadata: Mapping[str, Any]) -> list[Key]:
        """An object's newest state; returns the keys to look at."""
        node = read(metadata)
        old = self.nodes.get(key)
        if old == node or (old is None and not _tracked(node)):
            return []
        found: list[Key] = []
        if old is not None and old.uid != node.uid:
            found += self.remove(key, old.uid)
            old = None
        self._replace(key, old, node)
        changed = old is None or old.owners != node.owners
        if node.orphan or node.foreground or (node.owners and changed):
            found.append(key)
        if node.foreground and not (old and old.foreground):
            found += self.dependents(node.uid)
        if old is not None and changed:
            found += self._waiting_owners(old.owners)
        return found

    def remove(self, key: Key, uid: str) -> list[Key]:
        """An object is gone; returns the keys to look at."""
        old = self.nodes.get(key)
        found = self.dependents(uid)
        if old is not None and old.uid == uid:
            self._replace(key, old, None)
            found += self._waiting_owners(old.owners)
        return found

    def _replace(self, key: Key, old: Node | None, new: Node | None) -> None:
        for owner in old.owners if old else ():
            left = self._dependents.get(owner.uid)
            if left is not None:
                left.pop(key, None)
                if not left:
                    del self._dependents[owner.uid]
        if old is not None:
            self._waiting.pop(old.uid, None)
        if new is None or not _tracked(new):
            self.nodes.pop(key, None)
            return
        self.nodes[key] = new
        for owner in new.owners:
            self._dependents.setdefault(owner.uid, {})[key] = None
        if new.foreground:
            self._waiting[new.uid] = key

    def _waiting_owners(self, owners: Iterable[Owner]) -> list[Key]:
        return [self._waiting[owner.uid] for owner in owners if owner.uid in self._waiting]


def read(metadata: Mapping[str, Any]) -> Node:
    """The node an object's metadata makes."""
    deleting = bool(metadata.get("deletionTimestamp"))
    finalizers = metadata.get("finalizers") or () if deleting else ()
    owners = tuple(
        Owner(
            ref.get("uid", ""),
            ref.get("apiVersion", ""),
            ref.get("kind", ""),
            ref.get("name", ""),
            ref.get("blockOwnerDeletion") is True,
        )
        for ref in metadata.get("ownerReferences") or ()
    )
    return Node(metadata.get("uid", ""), owners, deleting, FOREGROUND in finalizers, ORPHAN in finalizers)


def _tracked(node: Node) -> bool:
    return bool(node.owners) or node.foreground or node.orphan
