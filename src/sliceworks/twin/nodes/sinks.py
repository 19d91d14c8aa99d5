"""Where the player's watches end: each change goes to the player, with nothing kept of it here but names."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Protocol

from sliceworks.kube.resources import Key, key_of

if TYPE_CHECKING:
    from collections.abc import Sequence

Obj = dict[str, Any]


class Player(Protocol):
    """Who is told."""

    def see_node(self, node: Obj) -> None: ...
    def lose_node(self, name: str) -> None: ...
    def see_pod(self, pod: Obj) -> None: ...
    def lose_pod(self, key: Key) -> None: ...


class Reader(Protocol):
    """Tells a sink what there is and what changes, until it is cancelled."""

    async def run(self) -> None: ...


class Watching:
    """Knows which objects there are, so that one that vanished between two lists is missed."""

    def __init__(self, player: Player) -> None:
        self.synced = asyncio.Event()
        self._player = player
        self._names: set[Key] = set()

    def replaced(self, items: Sequence[Obj]) -> None:
        """The collection is exactly this."""
        found = {key_of(item) for item in items}
        for key in self._names - found:
            self._lose(key)
        self._names = found
        for item in items:
            self._see(item)
        self.synced.set()

    def changed(self, kind: str, obj: Obj) -> None:
        """One object is ADDED, MODIFIED or DELETED."""
        key = key_of(obj)
        if kind == "DELETED":
            self._names.discard(key)
            self._lose(key)
        else:
            self._names.add(key)
            self._see(obj)

    def _see(self, obj: Obj) -> None:
        raise NotImplementedError

    def _lose(self, key: Key) -> None:
        raise NotImplementedError


class NodeSink(Watching):
    """Nodes go to the player without what is only for people."""

    def _see(self, obj: Obj) -> None:
        # The object may be others' too: what is left out here stays there.
        metadata = {name: value for name, value in obj["metadata"].items() if name != "managedFields"}
        status = {name: value for name, value in (obj.get("status") or {}).items() if name != "images"}
        self._player.see_node({**obj, "metadata": metadata, "status": status})

    def _lose(self, key: Key) -> None:
        self._player.lose_node(key.name)


class PodSink(Watching):
    """Pods that have a node."""

    def _see(self, obj: Obj) -> None:
        self._player.see_pod(obj)

    def _lose(self, key: Key) -> None:
        self._player.lose_pod(key)
