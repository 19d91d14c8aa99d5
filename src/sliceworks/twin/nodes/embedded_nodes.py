"""The nodes of a twin, simulated in its own process."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from sliceworks.base.loops import VirtualLoop
from sliceworks.kube import field_selectors, selectors
from sliceworks.kube.client import Client
from sliceworks.twin.apiserver.auth.authentication import AUTHENTICATED, MASTERS, User
from sliceworks.twin.apiserver.registry.kinds import STRATEGIES
from sliceworks.twin.nodes.heartbeat import QUIET
from sliceworks.twin.nodes.simulator import NodeSimulator
from sliceworks.twin.store.watch_cache import DELETED

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sliceworks.base.transport import InProcess
    from sliceworks.kube.reflector import Selection
    from sliceworks.twin.nodes.runtime.image import ImageMap
    from sliceworks.twin.nodes.runtime.process_runtime import ProcessRuntime
    from sliceworks.twin.nodes.simulator import ObjectSink
    from sliceworks.twin.nodes.stage_queue import PodRuntime, PodStorage
    from sliceworks.twin.store.store import Store
    from sliceworks.twin.store.watch_cache import Change

_KUBELET = User("system:nodes", groups=(MASTERS, "system:nodes", AUTHENTICATED))


def embedded_nodes(
    as_user: Callable[[User], InProcess],
    store: Store,
    runtime: PodRuntime | None = None,
    *,
    job_seconds: float | None = None,
    storage: PodStorage | None = None,
) -> NodeSimulator:
    """Create the simulator of a twin's nodes.

    Leases are not renewed, and in virtual time only warnings become events: both would dominate the writes of a rehearsal.
    """
    is_virtual = isinstance(asyncio.get_running_loop(), VirtualLoop)
    return NodeSimulator(
        Client(as_user(_KUBELET)),
        intervals=QUIET,
        events="warnings" if is_virtual else "all",
        runtime=runtime,
        job_seconds=job_seconds,
        storage=storage,
        reader=partial(StoreReader, store),
    )


class StoreReader:
    """Subscribes to the store of the same process instead of a watch, which would serialize every object."""

    def __init__(self, store: Store, selection: Selection, sink: ObjectSink) -> None:
        resource = selection.resource
        self._store = store
        self._sink = sink
        self._resource = f"{resource.group}/{resource.plural}"
        self._labels = selectors.parse_labels(selection.labels)
        self._fields = field_selectors.parse_fields(selection.fields)
        self._selectable_fields = STRATEGIES[self._resource].selectable_fields
        self._selected: set[str] = set()

    async def run(self) -> None:
        """Pass existing objects and changes to the sink until cancelled."""
        self._store.subscribe(self._observe, (self._resource,))
        self._sink.synced.set()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self._store.unsubscribe(self._observe)

    def _observe(self, change: Change) -> None:
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
        fields = {term.field: self._selectable_fields[term.field](obj) for term in self._fields.terms}
        return self._labels.matches(labels) and self._fields.matches(fields)


def process_runtime(
    as_user: Callable[[User], InProcess], folder: Path, hidden: tuple[Path, ...], images: ImageMap | None
) -> ProcessRuntime:
    """Create the runtime that runs containers as processes of this machine."""
    from sliceworks.twin.nodes.runtime.process_runtime import ProcessRuntime

    return ProcessRuntime(Client(as_user(_KUBELET)), folder, hidden, images)
