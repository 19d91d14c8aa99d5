"""One kind of a cluster's objects, kept by an informer, with a journal of what has changed."""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Literal, TypeAlias

from sliceworks.base.errors import Forbidden, NotFound, Unauthorized
from sliceworks.console import knowing
from sliceworks.kube.resources import Key, key_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sliceworks.kube.informers import Delta, Informer
    from sliceworks.kube.resources import Object, Resource
    from sliceworks.kube.store import Store

State: TypeAlias = Literal["reading", "known", "old", "missing", "forbidden", "unauthorized"]
Changes: TypeAlias = "dict[Resource, set[Key]]"

_REMEMBERED = 10_000  # changes of a kind: a page that looks four times a second never falls behind so far


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
        """How well the kind is known: still being read, known, known until we were refused, not installed, or not ours to see."""
        error, synced = self._informer.error, self._informer.synced
        if isinstance(error, NotFound):
            return "missing"
        if isinstance(error, Forbidden | Unauthorized):
            return "old" if synced else "forbidden" if isinstance(error, Forbidden) else "unauthorized"
        return "known" if synced else "reading"

    @property
    def behind(self) -> bool:
        """Whether it was known, and changes do not arrive now."""
        return self._informer.synced and self._informer.error is not None and self.state != "missing"

    @property
    def trouble(self) -> str:
        """What a person should know before reading an empty table; empty where all is well."""
        return "".join(knowing.words([self]))

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
