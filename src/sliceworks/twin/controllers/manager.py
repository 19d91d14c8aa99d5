"""Runs all controllers of one cluster."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from sliceworks.twin.controllers.accounts import RootCertificates, ServiceAccounts
from sliceworks.twin.controllers.garbage import GarbageCollector
from sliceworks.twin.controllers.namespaces import Namespaces
from sliceworks.twin.controllers.protection import StorageProtection
from sliceworks.twin.controllers.quotas import Quotas
from sliceworks.twin.controllers.roles import AggregatedRoles
from sliceworks.twin.controllers.world import World

if TYPE_CHECKING:
    from sliceworks.twin.api.pages import Page
    from sliceworks.twin.api.resources import Registry
    from sliceworks.twin.controllers.loop import Change, Controller
    from sliceworks.twin.controllers.world import Handle
    from sliceworks.twin.store.store import Store

log = logging.getLogger(__name__)


class Controllers:
    """Start them once the store is open; `handle` answers a request as a user, and `authority` is the cluster's CA certificate."""

    def __init__(self, store: Store, registry: Registry, handle: Handle, *, authority: str, workloads: bool = True) -> None:
        world = World(store, registry, handle)
        self._store, self._world = store, world
        self.pages: dict[str, Page] = _pages(world) if workloads else {}
        self.all: tuple[Controller[Any], ...] = (
            ServiceAccounts(world),
            RootCertificates(world, authority),
            AggregatedRoles(world),
            Quotas(world),
            StorageProtection(world),
            Namespaces(world),
            GarbageCollector(world),
            *(_workloads(world) if workloads else ()),
        )
        self._tasks: list[asyncio.Task[None]] = []
        self._interested: dict[str, tuple[Controller[Any], ...]] = {}

    def start(self) -> None:
        """Look at everything there is, then follow the changes, in tasks of the running loop."""
        self._store.subscribe(self._observe)
        self._tasks = [asyncio.create_task(each.run(), name=type(each).__name__) for each in self.all]
        for task in self._tasks:
            task.add_done_callback(_tell_end)

    def _observe(self, change: Change) -> None:
        self._world.observe(change)
        interested = self._interested.get(change.resource)
        if interested is None:
            found = (each for each in self.all if each.watches is None or change.resource in each.watches)
            interested = self._interested[change.resource] = tuple(found)
        for each in interested:
            try:
                each.observe(change)
            except Exception:
                # The others must hear of it all the same.
                log.exception("%s failed on %s %s/%s", type(each).__name__, change.resource, change.namespace, change.name)

    @property
    def idle(self) -> bool:
        """Whether nothing is left to do now or later."""
        return all(each.queue.idle for each in self.all)

    async def stop(self) -> None:
        """End the work; what was left undone shows when it is started again."""
        for each in self.all:
            each.queue.shut_down()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []


def _tell_end(task: asyncio.Task[None]) -> None:
    """A controller ends when it is told to; one that ends by itself must not do so in silence."""
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("the controller %s has ended", task.get_name(), exc_info=error)


def _workloads(world: World) -> tuple[Controller[Any], ...]:
    # They take as long to load as everything else together.
    from sliceworks.twin.workloads import workloads

    return workloads(world)


def _pages(world: World) -> dict[str, Page]:
    from sliceworks.twin.workloads import pages

    return pages(world)
