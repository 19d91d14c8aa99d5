"""The loop that all controllers share: keys that changed are looked at by a few workers until nothing is left to do."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from sliceworks.base.errors import ApiError, Conflict, NotFound
from sliceworks.kube.backoff import Backoff
from sliceworks.kube.workqueue import WorkQueue, work

if TYPE_CHECKING:
    from collections.abc import Hashable
    from typing import Any

    from sliceworks.twin.controllers.world import World

log = logging.getLogger("sliceworks.twin.controllers")
K = TypeVar("K", bound="Hashable")


class Entry(Protocol):
    """An object as it is stored."""

    @property
    def data(self) -> bytes: ...


class Change(Protocol):
    """What the store tells of a write. `obj` is the newest state, or the last one; it is not to be changed."""

    @property
    def entry(self) -> Entry: ...
    @property
    def type(self) -> str: ...
    @property
    def resource(self) -> str: ...
    @property
    def namespace(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def obj(self) -> dict[str, Any]: ...


class Controller(Generic[K]):
    """Sees changes, remembers which keys they concern, and brings each to where it should be.

    A key that fails is tried again later and later. `sync` reads everything anew: it may be called at any time.
    """

    workers = 1
    watches: frozenset[str] | None = None
    """The resources whose changes it is told of; all when None."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.queue: WorkQueue[K] = WorkQueue(Backoff(first=0.01, cap=60.0, jitter=0.0))

    def observe(self, change: Change) -> None:
        """Take note of a change; called for everything that exists first."""
        raise NotImplementedError

    async def sync(self, key: K) -> None:
        """Do what the key needs."""
        raise NotImplementedError

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self.workers):
                group.create_task(work(self.queue, self.sync, self._failed))

    def _failed(self, key: K, error: Exception) -> None:
        # Conflict and NotFound: somebody was faster, and what there is to do now shows when it is looked at again.
        if not isinstance(error, ApiError):
            log.error("%s failed on %s", type(self).__name__, key, exc_info=error)
        elif not isinstance(error, NotFound | Conflict):
            log.warning("%s: %s: %s", type(self).__name__, key, error.message)
        self.queue.add_rate_limited(key)
