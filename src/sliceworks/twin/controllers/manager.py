"""Runs all controllers of one cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.twin.controllers.accounts import RootCertificates, ServiceAccounts
from sliceworks.twin.controllers.garbage import GarbageCollector
from sliceworks.twin.controllers.namespaces import Namespaces
from sliceworks.twin.controllers.programs import Program
from sliceworks.twin.controllers.protection import StorageProtection
from sliceworks.twin.controllers.quotas import Quotas
from sliceworks.twin.controllers.roles import AggregatedRoles
from sliceworks.twin.controllers.world import World, tell

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.twin.api.pages import Page
    from sliceworks.twin.api.resources import Registry
    from sliceworks.twin.controllers.loop import Change, Controller
    from sliceworks.twin.controllers.programs import Make
    from sliceworks.twin.controllers.world import Handle
    from sliceworks.twin.store.store import Store


class Controllers:
    """Start them once the store is open; `handle` answers a request as a user, and `authority` is the cluster's CA certificate."""

    def __init__(self, store: Store, registry: Registry, handle: Handle, *, authority: str, workloads: bool = True) -> None:
        world = World(store, registry, handle)
        self._store, self._world = store, world
        self.programs = tuple(Program(name, world, make) for name, make in _programs(authority, workloads=workloads))
        """In the order in which they are told of a change."""
        self.pages: dict[str, Page] = _pages(world) if workloads else {}
        self._interested: dict[str, tuple[Controller[Any], ...]] = {}

    @property
    def all(self) -> tuple[Controller[Any], ...]:
        """The controllers of all programs."""
        return tuple(each for program in self.programs for each in program.controllers)

    def start(self) -> None:
        """Look at everything there is, then follow the changes, in tasks of the running loop."""
        self._store.subscribe(self._observe)
        for program in self.programs:
            program.start()

    def _observe(self, change: Change) -> None:
        self._world.observe(change)
        interested = self._interested.get(change.resource)
        if interested is None:
            found = (each for each in self.all if each.watches is None or change.resource in each.watches)
            interested = self._interested[change.resource] = tuple(found)
        for each in interested:
            tell(each, change)

    def revive(self, program: Program) -> None:
        """Start a program that was killed: it knows nothing, and looks at everything there is, as on the first day."""
        program.renew()
        self._interested.clear()
        self._store.subscribe(program.observe)
        self._store.unsubscribe(program.observe)
        program.start()

    @property
    def idle(self) -> bool:
        """Whether nothing is left to do now or later."""
        return all(each.queue.idle for each in self.all)

    async def stop(self) -> None:
        """End the work; what was left undone shows when it is started again."""
        for program in self.programs:
            await program.kill()


def _programs(authority: str, *, workloads: bool) -> Iterator[tuple[str, Make]]:
    def own(world: World) -> tuple[Controller[Any], ...]:
        return (
            ServiceAccounts(world),
            RootCertificates(world, authority),
            AggregatedRoles(world),
            Quotas(world),
            StorageProtection(world),
            Namespaces(world),
            GarbageCollector(world),
        )

    yield "keepers", own
    if workloads:
        # They take as long to load as everything else together.
        from sliceworks.twin.workloads import PROGRAMS

        yield from PROGRAMS.items()


def _pages(world: World) -> dict[str, Page]:
    from sliceworks.twin.workloads import pages

    return pages(world)
