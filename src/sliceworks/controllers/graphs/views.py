"""Caches of the objects that graphs are made of: one for each kind we make, one for each kind we only look at.

Our own writes enter the cache with their answer, before the watch tells of them: whoever looks next sees what was written.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from sliceworks.base.errors import Forbidden, NotFound, TimedOut
from sliceworks.controllers.graphs import names, records
from sliceworks.controllers.graphs.records import Record, in_cache
from sliceworks.kube.informers import Informers
from sliceworks.kube.resources import Key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from sliceworks.kube.client import Client
    from sliceworks.kube.informers import Delta, Informer
    from sliceworks.kube.resources import Object, Resource

_BY_SET = "applyset"
_PATIENCE = 30.0
_SHORT = 5.0
"""Seconds for what hardly gets better by waiting: no rights, or no such kind. A kind that is new has the second for a moment."""
_REMEMBERED = 1000
"""Objects that went last, of each kind: the answer to a write is not so late that more went in between."""


def _set_of(kept: Object) -> Iterable[str]:
    return (kept[records.RECORD].set_id,)


class View:
    """The objects of one kind."""

    def __init__(self, resource: Resource, informer: Informer, transform: Callable[[Object], Object]) -> None:
        self.resource = resource
        self._informer = informer
        self._transform = transform
        self._gone: dict[str, None] = {}
        informer.add_handler(self._heard)

    def get(self, name: str, namespace: str = "") -> Record | None:
        """One object, where it is known."""
        return in_cache(self._informer.store.get(name, namespace))

    def members(self, set_id: str) -> list[Record]:
        """The objects with the label of an ApplySet."""
        return [kept[records.RECORD] for kept in self._informer.store.by_index(_BY_SET, set_id)]

    def all(self, namespace: str = "") -> list[Record]:
        """Every object, or those of a namespace."""
        return [kept[records.RECORD] for kept in self._informer.store.select(namespace or None)]

    def wrote(self, answer: Object) -> Record:
        """Take in what the server answered to a write, unless the watch has told already that the object went after it."""
        kept = self._transform(answer)
        record: Record = kept[records.RECORD]
        if record.uid in self._gone:
            return record
        known = self.get(record.name, record.namespace)
        if known is None or known.uid != record.uid or int(known.version) <= int(record.version):
            self._informer.store.put(kept)
        return record

    def _heard(self, delta: Delta) -> None:
        uid = str(delta.object["metadata"]["uid"])
        if delta.kind != "deleted":
            self._gone.pop(uid, None)  # one that had lost our label has it again
            return
        self._gone[uid] = None
        if len(self._gone) > _REMEMBERED:
            del self._gone[next(iter(self._gone))]

    def has(self, record: Record) -> bool:
        """Whether this very object is there, by all that is known."""
        known = self.get(record.name, record.namespace)
        return known is not None and known.uid == record.uid

    def lost(self, record: Record) -> None:
        """Take in that an object is not there any more, or not in this view."""
        if self.has(record):
            self._informer.store.remove(Key(record.namespace, record.name))

    async def ready(self) -> None:
        """Wait until the cache has been filled; TimedOut says what stood in the way."""
        try:
            await self._informer.wait_synced(_SHORT)
        except TimedOut:
            if isinstance(self._informer.error, Forbidden | NotFound):
                raise
            await self._informer.wait_synced(_PATIENCE)

    def close(self) -> None:
        """Look no more."""
        self._informer.close()


class Views:
    """Opens each view once, for as long as the controller runs."""

    def __init__(
        self, client: Client, on_child: Callable[[Resource, Delta], None], on_foreign: Callable[[Resource, Delta], None]
    ) -> None:
        self._children = Informers(client, transform=records.child)
        self._foreigners = Informers(client, transform=records.foreign)
        self._on_child, self._on_foreign = on_child, on_foreign
        self._open: dict[tuple[Resource, bool], View] = {}
        self._held: list[set[View]] = []

    async def children(self, resource: Resource) -> View:
        """The objects of a kind that are ours, whichever instance's, with the cache filled."""
        with self.holding() as held:
            view = self.open(resource, ours=True)
            held.add(view)
            await view.ready()
        return view

    def open(self, resource: Resource, *, ours: bool) -> View:
        """The objects of a kind that are ours, or all of them; the cache may not be filled yet."""
        view = self._open.get((resource, ours))
        if view is None:
            view = self._open[resource, ours] = self._children_of(resource) if ours else self._all_of(resource)
        return view

    def _children_of(self, resource: Resource) -> View:
        informer = self._children.open(resource, labels=f"{names.OWNED}=true")
        informer.store.add_index(_BY_SET, _set_of)
        informer.add_handler(lambda delta: self._on_child(resource, delta))
        return View(resource, informer, records.child)

    def _all_of(self, resource: Resource) -> View:
        informer = self._foreigners.open(resource)
        informer.add_handler(lambda delta: self._on_foreign(resource, delta))
        return View(resource, informer, records.foreign)

    @contextmanager
    def holding(self) -> Iterator[set[View]]:
        """A set of views that stay open meanwhile, though nobody uses them yet."""
        held: set[View] = set()
        self._held.append(held)
        try:
            yield held
        finally:
            self._held = [each for each in self._held if each is not held]

    def keep_only(self, used: Iterable[View]) -> None:
        """Close what nobody uses any more. A view that is asked for again is opened anew."""
        kept = set(used).union(*self._held)
        for key, view in tuple(self._open.items()):
            if view not in kept:
                del self._open[key]
                view.close()

    def opened(self) -> list[View]:
        """The views of our own objects that are open."""
        return [view for (_, ours), view in self._open.items() if ours]

    async def close(self) -> None:
        """Close them all."""
        await self._children.close()
        await self._foreigners.close()
