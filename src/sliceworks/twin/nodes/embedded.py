"""The nodes of a twin, played in its own process."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from sliceworks.base.clock import VirtualLoop
from sliceworks.kube import selectors
from sliceworks.kube.client import Client
from sliceworks.twin.api.kinds import strategy
from sliceworks.twin.auth.identity import AUTHENTICATED, MASTERS, User
from sliceworks.twin.nodes.heartbeats import QUIET
from sliceworks.twin.nodes.player import Nodes
from sliceworks.twin.store.entries import DELETED

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sliceworks.kube.inprocess import InProcess
    from sliceworks.kube.reflector import Selection
    from sliceworks.twin.nodes.processes.runtime import ProcessRuntime
    from sliceworks.twin.nodes.sinks import Watching
    from sliceworks.twin.nodes.tracks import Runtime
    from sliceworks.twin.store.entries import Change
    from sliceworks.twin.store.store import Store

_PLAYER = User("system:nodes", groups=(MASTERS, "system:nodes", AUTHENTICATED))


def embedded_nodes(as_user: Callable[[User], InProcess], store: Store, runtime: Runtime | None = None) -> Nodes:
    """The player of a twin's nodes. Heartbeats are quiet; in virtual time only warnings become events, which else would be most of
    what a rehearsal of many pods writes."""
    virtual = isinstance(asyncio.get_running_loop(), VirtualLoop)
    return Nodes(
        Client(as_user(_PLAYER)),
        rhythm=QUIET,
        events="warnings" if virtual else "all",
        runtime=runtime,
        reader=partial(StoreReader, store),
    )


class StoreReader:
    """Reads the store instead of a watch: an object that is in this process already is not written out to be read again."""

    def __init__(self, store: Store, selection: Selection, sink: Watching) -> None:
        resource = selection.resource
        self._store = store
        self._sink = sink
        self._resource = f"{resource.group}/{resource.plural}"
        self._labels = selectors.parse_labels(selection.labels)
        self._fields = selectors.parse_fields(selection.fields)
        self._known = strategy(self._resource, has_status=True).fields
        self._selected: set[str] = set()

    async def run(self) -> None:
        """Tell what there is, and what changes, until cancelled."""
        self._store.subscribe(self._observe)
        self._sink.synced.set()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self._store.unsubscribe(self._observe)

    def _observe(self, change: Change) -> None:
        if change.resource != self._resource:
            return
        key = change.entry.key
        if change.type != DELETED and self._selects(change):
            self._selected.add(key)
            self._sink.changed(change.type, change.obj)
        elif key in self._selected:
            self._selected.discard(key)
            self._sink.changed(DELETED, change.obj)

    def _selects(self, change: Change) -> bool:
        obj = change.obj
        labels = obj["metadata"].get("labels") or {}
        fields = {term.field: self._known[term.field](obj) for term in self._fields.terms}
        return self._labels.matches(labels) and self._fields.matches(fields)


def process_runtime(as_user: Callable[[User], InProcess], folder: Path) -> ProcessRuntime:
    """What runs the commands of containers on this machine."""
    from sliceworks.twin.nodes.processes.runtime import ProcessRuntime

    return ProcessRuntime(Client(as_user(_PLAYER)), folder)
