"""The work loop of a controller: changed keys go through a work queue to a few workers."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Generic, TypeVar

from sliceworks.base.errors import ApiError, Conflict, NotFound
from sliceworks.base.retry import Backoff
from sliceworks.kube.workqueue import WorkQueue, run_worker
from sliceworks.twin.store.watch_cache import Change

if TYPE_CHECKING:
    from collections.abc import Hashable

    from sliceworks.twin.controllers.runtime.controller_context import ControllerContext

__all__ = ["Change", "Controller"]

log = logging.getLogger("sliceworks.twin.controllers")
K = TypeVar("K", bound="Hashable")


class Controller(Generic[K]):
    """Turns watch events into keys, and reconciles each key.

    A failed key is retried with exponential backoff. `sync` is level-triggered: it reads all state again.
    """

    workers = 1
    watches: frozenset[str] | None = None
    """The resources that `observe` is called for; None means all."""

    def __init__(self, context: ControllerContext) -> None:
        self.context = context
        self.queue: WorkQueue[K] = WorkQueue(Backoff(first=0.01, cap=60.0, jitter=0.0))

    def observe(self, change: Change) -> None:
        """Enqueue the keys that a change concerns; first called once for every existing object."""
        raise NotImplementedError

    async def sync(self, key: K) -> None:
        """Reconcile one key."""
        raise NotImplementedError

    async def run(self) -> None:
        """Run the workers until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self.workers):
                group.create_task(run_worker(self.queue, self.sync, self._requeue_failed))

    def _requeue_failed(self, key: K, error: Exception) -> None:
        # Conflict and NotFound mean that another writer was faster; the next reconcile sees its result.
        if not isinstance(error, ApiError):
            log.error("%s failed on %s", type(self).__name__, key, exc_info=error)
        elif not isinstance(error, NotFound | Conflict):
            log.warning("%s: %s: %s", type(self).__name__, key, error.message)
        self.queue.add_rate_limited(key)
