"""The informer-backed cache of a cluster that all pages of all browsers share."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, TypeAlias, TypeVar

from sliceworks.base import clock
from sliceworks.base.errors import ApiError, Forbidden, NotFound, SliceworksError, Unauthorized
from sliceworks.base.retry import NEVER, Backoff
from sliceworks.console import kinds
from sliceworks.console.kinds import INDEXES, trim
from sliceworks.kube.discovery import VERSION_REQUEST, is_twin_version
from sliceworks.kube.informers import Informers
from sliceworks.kube.resources import Key, key_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from datetime import datetime

    from sliceworks.kube.client import Client
    from sliceworks.kube.informers import Delta, Informer, Store
    from sliceworks.kube.resources import Object, Resource

UNAUTHORIZED = "The cluster rejects your credentials: they are invalid or have expired."
UNAUTHORIZED_HINT = "Renew them and restart the console."

_MESSAGES = {
    "unauthorized": UNAUTHORIZED,
    "forbidden": "You are not allowed to list {} in this cluster.",
    "old": "You are no longer allowed to list {} in this cluster; the data shown is stale.",
    "missing": "{} is not installed in this cluster.",
    "reading": "Loading {} …",
}


def describe_availability(tables: Iterable[ResourceTable]) -> list[str]:
    """Messages about kinds that are not available; kinds in the same state share one."""
    by_state: dict[str, list[str]] = {}
    for table in tables:
        name = _installed_by(table.resource) if table.state == "missing" else table.resource.plural
        by_state.setdefault(table.state, []).append(name)
    result = []
    for state, message in _MESSAGES.items():
        names = list(dict.fromkeys(by_state.get(state, ())))
        subjects = names if state == "missing" or not names else [_join(names)]
        result += [message.format(item) for item in subjects]
    return result


def format_error(error: SliceworksError) -> str:
    """The message and hint of an error of the cluster."""
    if isinstance(error, Unauthorized):
        return UNAUTHORIZED
    return f"{error.message}{f': {error.hint}' if error.hint else ''}"


def _installed_by(resource: Resource) -> str:
    return kinds.INSTALLED_BY.get(resource.group, resource.kind)


def _join(names: list[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


State: TypeAlias = Literal["reading", "known", "old", "missing", "forbidden", "unauthorized"]
Changes: TypeAlias = "dict[Resource, set[Key]]"
_MAX_CHANGES = 10_000  # per kind; pages poll often enough never to fall so far behind


class ResourceTable:
    """The objects of a kind. `version` grows with every change."""

    def __init__(self, resource: Resource, informer: Informer) -> None:
        self.resource = resource
        self.version = 0
        self._informer = informer
        self._journal: deque[Key] = deque(maxlen=_MAX_CHANGES)
        informer.add_handler(self._changed)

    @property
    def store(self) -> Store:
        """The objects, by name and by index; read-only."""
        return self._informer.store

    @property
    def state(self) -> State:
        """Whether the kind is loading, known, stale after losing access, not installed or not accessible."""
        error, synced = self._informer.error, self._informer.synced
        if isinstance(error, NotFound):
            return "missing"
        if isinstance(error, Forbidden | Unauthorized):
            return "old" if synced else "forbidden" if isinstance(error, Forbidden) else "unauthorized"
        return "known" if synced else "reading"

    @property
    def is_stale(self) -> bool:
        """Whether the kind was loaded but changes do not arrive now."""
        return self._informer.synced and self._informer.error is not None and self.state != "missing"

    @property
    def problem(self) -> str:
        """Why the table is not available; empty if it is."""
        return "".join(describe_availability([self]))

    def all(self) -> Iterable[Object]:
        """Every object."""
        return self.store

    def get(self, name: str, namespace: str = "") -> Object | None:
        """The object of a name, or None."""
        return self.store.get(name, namespace)

    def since(self, version: int) -> set[Key]:
        """The objects created, changed or deleted since a version; all objects if that is too old."""
        behind = self.version - version
        if behind > len(self._journal):
            return set(self.store.keys())
        return set(islice(reversed(self._journal), behind))

    def _changed(self, delta: Delta) -> None:
        self.version += 1
        self._journal.append(key_of(delta.object))


class ChangeFeed:
    """The changes that one page has not seen yet. It needs no cleanup."""

    def __init__(self, tables: Iterable[ResourceTable]) -> None:
        self._seen = {table: table.version for table in tables}

    def take(self) -> Changes:
        """The changes since the last call."""
        changes: Changes = {}
        for table, version in self._seen.items():
            if table.version != version:
                changes[table.resource] = table.since(version)
                self._seen[table] = table.version
        return changes


log = logging.getLogger(__name__)
Row = TypeVar("Row")


class RowCache(Generic[Row]):
    """Rows derived from the objects of a kind. `version` grows when a row changes."""

    def __init__(self, table: ResourceTable, make: Callable[[Object], Row]) -> None:
        self._table, self._make = table, make
        self._rows: dict[Key, Row] = {}
        self._seen = -1
        self.version = 0

    def rows(self) -> Mapping[Key, Row]:
        """A row for every object."""
        table = self._table
        if self._seen != table.version:
            changed = table.since(self._seen) if self._seen >= 0 else set(table.store.keys())
            self._seen = table.version
            for key in changed:
                self._update(key)
            if len(self._rows) > len(table.store):
                self._rows = {key: row for key, row in self._rows.items() if key in table.store}
        return self._rows

    def _update(self, key: Key) -> None:
        obj = self._table.get(key.name, key.namespace)
        before = self._rows.get(key)
        if obj is None:
            self.version += self._rows.pop(key, None) is not None
            return
        try:
            row = self._make(obj)
        except (KeyError, IndexError, TypeError, ValueError, AttributeError):
            # One malformed object must not break the page.
            log.warning("skipping malformed %s %s", self._table.resource.kind, key)
            self.version += self._rows.pop(key, None) is not None
            return
        if row != before:
            self._rows[key] = row
            self.version += 1


T = TypeVar("T")
_PING_INTERVAL = 2.0  # seconds
_PING_TIMEOUT = 5.0
_MIN_VIEW_AGE = 0.5  # seconds between two computations of a view
_MAX_VIEW_AGE = 3.0  # seconds, however long the computation takes
_BACKOFF = Backoff(cap=4.0, jitter=0.5)  # short, since users watch the pages
_SHARE = 10  # at most a tenth of the time is spent on computing a view


class ClusterCache:
    """Everything that pages read. `now` is the clock of the cluster, `stale_since` when it became unreachable, `is_unauthorized`
    whether it rejects the credentials, `is_twin` whether it answers as a twin. With `namespace`, only that namespace is read."""

    def __init__(self, client: Client, *, name: str = "", namespace: str = "", now: Callable[[], datetime] = clock.now) -> None:
        self.client = client
        self.name = name
        self.namespace = namespace
        self.now = now
        self.stale_since: datetime | None = None
        self.is_twin = False
        self.is_unauthorized = False
        self._informers = Informers(client, transform=trim, backoff=_BACKOFF)
        self._tables: dict[Resource, ResourceTable] = {}
        self._views: dict[object, tuple[float, tuple[int, ...], Any]] = {}
        self._shared: dict[object, Any] = {}
        self._row_caches: dict[tuple[Resource, object], RowCache[Any]] = {}
        self._ping_task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        for resource in kinds.PRELOADED:
            self.table(resource)
        self._ping_task = asyncio.create_task(self._ping(), name="cluster ping")
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._ping_task is not None:
            self._ping_task.cancel()
            with suppress(asyncio.CancelledError):
                await self._ping_task
        await self._informers.close()

    def table(self, resource: Resource) -> ResourceTable:
        """The table of a kind; the first call starts its informer."""
        result = self._tables.get(resource)
        if result is None:
            # Only warnings: a busy cluster writes hundreds of normal events per second.
            fields = "type=Warning" if resource == kinds.EVENTS else ""
            namespace = self.namespace if resource.namespaced else ""
            result = self._tables[resource] = ResourceTable(resource, self._informers.open(resource, namespace, fields=fields))
            for name, values_of in INDEXES.get(resource, {}).items():
                result.store.add_index(name, values_of)
        return result

    def feed(self, *resources: Resource) -> ChangeFeed:
        """A feed of the changes of these kinds."""
        return ChangeFeed(map(self.table, resources))

    def compute(self, view: Callable[[ClusterCache], T], *resources: Resource) -> T:
        """The result of a view, shared by all pages until one of these kinds changes, and for at least half a second."""
        versions = tuple(self.table(resource).version for resource in resources)
        now = clock.loop_time()
        known = self._views.get(view)
        if known is not None and (known[1] == versions or now < known[0]):
            result: T = known[2]
            return result
        started = clock.perf_counter()
        result = view(self)
        pause = min(max(_MIN_VIEW_AGE, _SHARE * (clock.perf_counter() - started)), _MAX_VIEW_AGE)
        self._views[view] = (now + pause, versions, result)
        return result

    def invalidate(self, view: Callable[[ClusterCache], object]) -> None:
        """Compute an incomplete view again soon, without waiting for a change."""
        if (known := self._views.get(view)) is not None:
            self._views[view] = (known[0], (), known[2])

    def shared(self, make: Callable[[ClusterCache], T]) -> T:
        """An object that is created once and shared by all pages."""
        if make not in self._shared:
            self._shared[make] = make(self)
        result: T = self._shared[make]
        return result

    def row_cache(self, resource: Resource, make: Callable[[Object], T]) -> RowCache[T]:
        """The rows of a kind, shared by all pages that use the same row type."""
        result = self._row_caches.get((resource, make))
        if result is None:
            result = self._row_caches[resource, make] = RowCache(self.table(resource), make)
        return result

    def problems(self, *resources: Resource) -> list[str]:
        """Messages about kinds that are not available."""
        return describe_availability(map(self.table, resources))

    def knows(self, *resources: Resource) -> bool:
        """Whether all of these kinds are available, possibly stale."""
        return all(self.table(resource).state in ("known", "old") for resource in resources)

    @property
    def is_stale(self) -> bool:
        """Whether changes of some kind do not arrive although the cluster answers."""
        return any(table.is_stale for table in self._tables.values())

    async def settled(self, timeout: float) -> None:
        """Wait until all opened kinds are loaded or known to be unavailable."""
        deadline = clock.loop_time() + timeout
        while any(table.state == "reading" for table in self._tables.values()) and clock.loop_time() < deadline:
            await clock.sleep(0.02)

    async def _ping(self) -> None:
        """Check the connection periodically: an idle watch does not reveal a lost connection."""
        client = self.client.using(retry=NEVER)
        while True:
            try:
                async with asyncio.timeout(_PING_TIMEOUT):
                    self.is_twin = is_twin_version(await client.send(VERSION_REQUEST))
                self.stale_since, self.is_unauthorized = None, False
            except ApiError as error:
                self.stale_since, self.is_unauthorized = None, isinstance(error, Unauthorized)  # an error response is a response
            except (SliceworksError, TimeoutError):
                self.stale_since = self.stale_since or self.now()
            await clock.sleep(_PING_INTERVAL)
