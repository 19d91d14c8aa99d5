"""The cluster as the console knows it: one cache for each kind, kept by informers, shared by all pages of all browsers.

    world.table(JOBSETS)                     a kind: its objects, its indexes, and how well it is known
    world.feed(JOBSETS, PODS).take()         which objects have changed since one last looked
    world.once(queue_page, WORKLOADS)        what a pure view makes of it, reckoned again only when something has changed
    world.now()                              what the cluster's clock shows

Nothing here looks at the whole world when one object changes. A kind that the cluster does not have is no error: it says so.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias, TypeVar

from sliceworks.base import clock
from sliceworks.base.errors import ApiError, Forbidden, NotFound, SliceworksError
from sliceworks.console import kinds
from sliceworks.console.ledger import Ledger
from sliceworks.console.slimming import slim
from sliceworks.kube.backoff import NEVER
from sliceworks.kube.informers import Informers
from sliceworks.kube.resources import Key, key_of
from sliceworks.kube.transport import Request

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime

    from sliceworks.kube.client import Client
    from sliceworks.kube.informers import Delta, Informer
    from sliceworks.kube.resources import Object, Resource
    from sliceworks.kube.store import Store

T = TypeVar("T")
State: TypeAlias = Literal["reading", "known", "missing", "forbidden"]
Changes: TypeAlias = "dict[Resource, set[Key]]"

_LOOK_EVERY = 2.0  # seconds between looks whether the cluster still answers
_PATIENCE = 5.0
_REMEMBERED = 10_000  # changes of a kind: a page that looks four times a second never falls behind so far
_RECKON_EVERY = 0.5  # seconds between two reckonings of one view, whoever asks
_SHARE = 10  # a view that takes long is reckoned less often: a tenth of the time is spent on it at most


class Table:
    """One kind. `version` grows with every change."""

    def __init__(self, resource: Resource, informer: Informer) -> None:
        self.resource = resource
        self.version = 0
        self._informer = informer
        self._journal: deque[Key] = deque(maxlen=_REMEMBERED)
        informer.add_handler(self._changed)

    @property
    def store(self) -> Store:
        """The objects, by name and by index. Read them, never change them."""
        return self._informer.store

    @property
    def state(self) -> State:
        """How well the kind is known: still being read, known, not installed, or not ours to see."""
        error = self._informer.error
        if isinstance(error, NotFound):
            return "missing"
        if self._informer.synced:
            return "known"
        return "forbidden" if isinstance(error, Forbidden) else "reading"

    @property
    def trouble(self) -> str:
        """What a person should know before reading an empty table; empty where all is well."""
        state, name = self.state, self.resource.kind
        if state == "missing":
            return f"{kinds.INSTALLED_BY.get(self.resource.group, name)} is not installed in this cluster."
        if state == "forbidden":
            return f"You may not read the {self.resource.plural} of this cluster."
        if state == "reading":
            return f"Reading {self.resource.plural} …"
        return ""

    def all(self) -> Iterable[Object]:
        """Every object."""
        return self.store

    def get(self, name: str, namespace: str = "") -> Object | None:
        """One object."""
        return self.store.get(name, namespace)

    def since(self, version: int) -> set[Key]:
        """Which objects have changed, come or gone since then; where that is too long ago, all that there are."""
        behind = self.version - version
        if behind > len(self._journal):
            return set(self.store.keys())
        return set(islice(reversed(self._journal), behind))

    def _changed(self, delta: Delta) -> None:
        self.version += 1
        self._journal.append(key_of(delta.object))


class Feed:
    """What one page has not seen yet. Nobody has to be told when it is no longer needed."""

    def __init__(self, tables: Iterable[Table]) -> None:
        self._seen = {table: table.version for table in tables}

    def take(self) -> Changes:
        """What has changed since the last time; empty where nothing has."""
        found: Changes = {}
        for table, version in self._seen.items():
            if table.version != version:
                found[table.resource] = table.since(version)
                self._seen[table] = table.version
        return found


class World:
    """Everything that pages read. `name` is what the cluster is called, `now` its clock, `stale_since` when it last answered, if it
    does not answer now. With a `namespace` only that one is read, by those who may not see all."""

    def __init__(self, client: Client, *, name: str = "", namespace: str = "", now: Callable[[], datetime] = clock.now) -> None:
        self.client = client
        self.name = name
        self.namespace = namespace
        self.now = now
        self.stale_since: datetime | None = None
        self._informers = Informers(client, transform=slim)
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
            for name, values_of in _INDEXES.get(resource, {}).items():
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
        pause = max(_RECKON_EVERY, _SHARE * (clock.effort() - began))
        self._views[view] = (moment + pause, versions, made)
        return made

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
        """What to know before reading a page of these kinds: each thing once."""
        return list(dict.fromkeys(words for each in resources if (words := self.table(each).trouble)))

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
                self.stale_since = None
            except ApiError:
                self.stale_since = None  # a refusal is an answer
            except (SliceworksError, TimeoutError):
                self.stale_since = self.stale_since or self.now()
            await clock.sleep(_LOOK_EVERY)


def _by_job(pod: Object) -> Iterable[str]:
    """namespace/name of the JobSet that a pod belongs to."""
    name = (pod["metadata"].get("labels") or {}).get("jobset.sigs.k8s.io/jobset-name")
    return (f"{pod['metadata']['namespace']}/{name}",) if name else ()


def _by_node(pod: Object) -> Iterable[str]:
    name = (pod.get("spec") or {}).get("nodeName")
    return (name,) if name else ()


def _by_owner(workload: Object) -> Iterable[str]:
    """uid of what a Workload stands for."""
    return tuple(each["uid"] for each in workload["metadata"].get("ownerReferences") or ())


def _by_queue(workload: Object) -> Iterable[str]:
    """namespace/name of the LocalQueue that a Workload is in."""
    name = (workload.get("spec") or {}).get("queueName")
    return (f"{workload['metadata']['namespace']}/{name}",) if name else ()


def _by_holding(workload: Object) -> Iterable[str]:
    """The ClusterQueue whose quota a Workload has."""
    name = ((workload.get("status") or {}).get("admission") or {}).get("clusterQueue")
    return (name,) if name else ()


def _by_pool(node: Object) -> Iterable[str]:
    name = (node["metadata"].get("labels") or {}).get("cloud.google.com/gke-nodepool")
    return (name,) if name else ()


def _by_subject(event: Object) -> Iterable[str]:
    """uid of what an event is about."""
    uid = (event.get("involvedObject") or {}).get("uid")
    return (uid,) if uid else ()


_INDEXES: dict[Resource, dict[str, Callable[[Object], Iterable[str]]]] = {
    kinds.PODS: {"job": _by_job, "node": _by_node},
    kinds.WORKLOADS: {"owner": _by_owner, "queue": _by_queue, "holds": _by_holding},
    kinds.NODES: {"pool": _by_pool},
    kinds.EVENTS: {"subject": _by_subject},
}
