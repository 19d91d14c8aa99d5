"""One kind of a cluster's objects, kept by an informer, with a journal of what has changed."""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Literal, TypeAlias

from sliceworks.base.errors import Forbidden, NotFound
from sliceworks.console import kinds
from sliceworks.kube.resources import Key, key_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sliceworks.kube.informers import Delta, Informer
    from sliceworks.kube.resources import Object, Resource
    from sliceworks.kube.store import Store

State: TypeAlias = Literal["reading", "known", "missing", "forbidden"]
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
