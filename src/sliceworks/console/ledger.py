"""Something small about every object of a kind, made again only for those that have changed: tables of thousands stay cheap."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sliceworks.console.tables import Table
    from sliceworks.kube.resources import Key, Object

log = logging.getLogger(__name__)
Row = TypeVar("Row")


class Ledger(Generic[Row]):
    """`rows` are current whenever they are asked for, and are told by a number that grows when one of them has changed."""

    def __init__(self, table: Table, make: Callable[[Object], Row]) -> None:
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
                self._renew(key)
            if len(self._rows) > len(table.store):
                self._rows = {key: row for key, row in self._rows.items() if key in table.store}
        return self._rows

    def _renew(self, key: Key) -> None:
        obj = self._table.get(key.name, key.namespace)
        before = self._rows.get(key)
        if obj is None:
            self.version += self._rows.pop(key, None) is not None
            return
        try:
            row = self._make(obj)
        except (KeyError, IndexError, TypeError, ValueError, AttributeError):
            # One odd object of somebody else's making must not take the page from all others.
            log.warning("%s %s is left out: it is not as others of its kind are", self._table.resource.kind, key)
            self.version += self._rows.pop(key, None) is not None
            return
        if row != before:
            self._rows[key] = row
            self.version += 1
