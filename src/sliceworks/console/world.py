"""The cluster as the console knows it: one cache for each kind, kept by informers, shared by all pages of all browsers.

    world.table(JOBSETS)                     a kind: its objects, its indexes, and how well it is known
    world.feed(JOBSETS, PODS).take()         which objects have changed since one last looked
    world.once(queue_page, WORKLOADS)        what a pure view makes of it, reckoned again only when something has changed
    world.now()                              what the cluster's clock shows

Nothing here looks at the whole world when one object changes. A kind that the cluster does not have is no error: it says so.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self, TypeVar

from sliceworks.base import clock
from sliceworks.base.errors import ApiError, SliceworksError, Unauthorized
from sliceworks.console import kinds, knowing
from sliceworks.console.indexes import INDEXES
from sliceworks.console.ledger import Ledger
from sliceworks.console.slimming import slim
from sliceworks.console.tables import Feed, Table
from sliceworks.kube.backoff import NEVER, Backoff
from sliceworks.kube.informers import Informers
from sliceworks.kube.transport import Request

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from sliceworks.kube.client import Client
    from sliceworks.kube.resources import Object, Resource

T = TypeVar("T")

_LOOK_EVERY = 2.0  # seconds between looks whether the cluster still answers
_PATIENCE = 5.0
_RECKON_EVERY = 0.5  # seconds between two reckonings of one view, whoever asks
_LATEST = 3.0  # seconds: however long it takes, pages are not older
_AGAIN = Backoff(cap=4.0, jitter=0.5)  # a page that somebody looks at should not be old for long
_SHARE = 10  # a view that takes long is reckoned less often: a tenth of the time is spent on it at most


class World:
    """Everything that pages read. `name` is what the cluster is called, `now` its clock, `stale_since` when it last answered, if it
    does not answer now; `shut_out` is whether it refuses who we are. With a `namespace` only that one is read, by those who may
    not see all."""

    def __init__(self, client: Client, *, name: str = "", namespace: str = "", now: Callable[[], datetime] = clock.now) -> None:
        self.client = client
        self.name = name
        self.namespace = namespace
        self.now = now
        self.stale_since: datetime | None = None
        self.shut_out = False
        self._informers = Informers(client, transform=slim, backoff=_AGAIN)
        self._tables: dict[Resource, Table] = {}
        self._views: dict[object, tuple[float, tuple[int, ...], Any]] = {}
        self._kept: dict[object, Any] = {}
        self._ledgers: dict[tuple[Resource, object], Ledger[Any]] = {}
        self._looking: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        for resource in kinds.FROM_THE_BEGINNING:
            self.table(resource)
        self._looking = asyncio.create_task(self._look(), name="whether the cluster answers")
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._looking is not None:
            self._looking.cancel()
            with suppress(asyncio.CancelledError):
                await self._looking
        await self._informers.close()

    def table(self, resource: Resource) -> Table:
        """A kind; it is read from now on, if it was not before."""
        found = self._tables.get(resource)
        if found is None:
            # Of events only what went wrong is kept: a busy cluster writes hundreds of others a second.
            fields = "type=Warning" if resource == kinds.EVENTS else ""
            place = self.namespace if resource.namespaced else ""
            found = self._tables[resource] = Table(resource, self._informers.open(resource, place, fields=fields))
            for name, values_of in INDEXES.get(resource, {}).items():
                found.store.add_index(name, values_of)
        return found

    def feed(self, *resources: Resource) -> Feed:
        """Be able to ask what has changed of these kinds."""
        return Feed(map(self.table, resources))

    def once(self, view: Callable[[World], T], *resources: Resource) -> T:
        """What a view makes of the world: kept for everybody until one of these kinds changes, and for half a second at least."""
        versions = tuple(self.table(each).version for each in resources)
        moment = clock.loop_time()
        known = self._views.get(view)
        if known is not None and (known[1] == versions or moment < known[0]):
            made: T = known[2]
            return made
        began = clock.effort()
        made = view(self)
        pause = min(max(_RECKON_EVERY, _SHARE * (clock.effort() - began)), _LATEST)
        self._views[view] = (moment + pause, versions, made)
        return made

    def again(self, view: Callable[[World], object]) -> None:
        """Have a view made anew soon, although nothing changes: it could not tell all yet."""
        if (known := self._views.get(view)) is not None:
            self._views[view] = (known[0], (), known[2])

    def kept(self, make: Callable[[World], T]) -> T:
        """Something that is made once for a world and shared by all pages."""
        if make not in self._kept:
            self._kept[make] = make(self)
        made: T = self._kept[make]
        return made

    def ledger(self, resource: Resource, make: Callable[[Object], T]) -> Ledger[T]:
        """A row of each object of a kind, shared by everybody who wants the same rows."""
        found = self._ledgers.get((resource, make))
        if found is None:
            found = self._ledgers[resource, make] = Ledger(self.table(resource), make)
        return found

    def troubles(self, *resources: Resource) -> list[str]:
        """What to know before reading a page of these kinds."""
        return knowing.words(map(self.table, resources))

    def knows(self, *resources: Resource) -> bool:
        """Whether there is something to tell of all of these kinds; what is old is something, too."""
        return all(self.table(each).state in ("known", "old") for each in resources)

    @property
    def behind(self) -> bool:
        """Whether changes of a kind do not arrive, though the cluster answers."""
        return any(each.behind for each in self._tables.values())

    async def settled(self, timeout: float) -> None:
        """Wait until what is read from the beginning is there, or known not to be had."""
        deadline = clock.loop_time() + timeout
        while any(each.state == "reading" for each in self._tables.values()) and clock.loop_time() < deadline:
            await clock.sleep(0.02)

    async def _look(self) -> None:
        """Ask the cluster now and then: a watch that hears nothing cannot tell whether there is nothing to hear."""
        client = self.client.using(retry=NEVER)
        while True:
            try:
                async with asyncio.timeout(_PATIENCE):
                    await client.exchange(Request("GET", "/version"))
                self.stale_since, self.shut_out = None, False
            except ApiError as error:
                self.stale_since, self.shut_out = None, isinstance(error, Unauthorized)  # a refusal is an answer
            except (SliceworksError, TimeoutError):
                self.stale_since = self.stale_since or self.now()
            await clock.sleep(_LOOK_EVERY)
