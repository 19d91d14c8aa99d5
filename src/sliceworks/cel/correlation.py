"""Ratcheting: an update is not refused for what it did not change.

A value is compared with what stood at its place before. Items of lists without keys have no such place: for them the nearest value
above that has one decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.schemas.correlate import old_items
from sliceworks.schemas.structural import MISSING

if TYPE_CHECKING:
    from sliceworks.schemas.structural import Schema


class Correlation:
    """A value and what it was, or, where that is not known, the nearest correlation above."""

    __slots__ = ("_equal", "_items", "_root", "above", "known", "old", "schema", "value")

    def __init__(self, schema: Schema | None, value: Any, old: Any, *, above: Correlation | None = None, root: bool = True) -> None:
        self.schema, self.value, self.old, self.above = schema, value, old, above
        self.known = schema is not None and old is not MISSING
        self._root = root
        self._equal: bool | None = None
        self._items: list[Any] | None = None

    def unchanged(self) -> bool:
        """Whether errors of this value are let through."""
        if not self.known:
            return self.above is not None and self.above.unchanged()
        if self._equal is None:
            self._equal = _equal(self.schema, self.value, self.old)
        return self._equal

    def key(self, name: str) -> Correlation:
        if self._root and name in ("apiVersion", "kind"):
            return Correlation(None, None, MISSING, root=False)
        if not self.known:
            return self
        assert self.schema is not None
        child = self.schema.properties.get(name, self.schema.additional)
        before = self.old.get(name, MISSING) if isinstance(self.old, dict) else MISSING
        return Correlation(child, self.value.get(name), before, above=self, root=False)

    def index(self, position: int) -> Correlation:
        if not self.known:
            return self
        assert self.schema is not None
        if self._items is None:
            self._items = old_items(self.schema, self.value, self.old)
        return Correlation(self.schema.items, self.value[position], self._items[position], above=self, root=False)


def _equal(schema: Schema | None, value: Any, old: Any) -> bool:
    """Deep equality, in which items of keyed lists are compared by their keys."""
    if schema is None or type(value) is not type(old):
        return bool(value == old) and type(value) is type(old)
    if isinstance(value, dict):
        known = schema.properties
        return value.keys() == old.keys() and all(
            _equal(known.get(name, schema.additional), one, old[name]) for name, one in value.items()
        )
    if isinstance(value, list) and schema.list_type == "map":
        return len(value) == len(old) and all(
            before is not MISSING and _equal(schema.items, one, before)
            for one, before in zip(value, old_items(schema, value, old), strict=True)
        )
    return bool(value == old)
