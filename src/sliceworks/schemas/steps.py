"""One write, as ownership sees it: what changed between two objects, and what that leaves to the owners there are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.schemas.comparison import compare
from sliceworks.schemas.fieldsets import EMPTY, difference, intersection, without
from sliceworks.schemas.managers import Entry, changed
from sliceworks.schemas.shapes import shape_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.schemas.fieldsets import Fields
    from sliceworks.schemas.shapes import Shape
    from sliceworks.schemas.structural import Schema

    Object = dict[str, Any]
    Convert = Callable[[Object, str], tuple[Object, Schema] | None]
    """An object in another version of its kind, with that version's schema; None where there is no such version."""


class Step:
    """One write: the two objects, and what changed between them in each version that an entry speaks of."""

    def __init__(
        self, live: Object, new: Object, shape: Shape, *, api_version: str, reset: Fields, convert: Convert | None = None
    ) -> None:
        self.live = live
        self.new = new
        self.reset = reset
        self.convert = convert
        self.changed, self.removed = self._compared(shape, live, new)
        self._versions: dict[str, tuple[Fields, Fields] | None] = {api_version: (self.changed, self.removed)}

    def _compared(self, shape: Shape, live: Object, new: Object) -> tuple[Fields, Fields]:
        came, went = compare(shape, live, new)
        return without(came or EMPTY, self.reset), without(went or EMPTY, self.reset)

    def changes(self, version: str) -> tuple[Fields, Fields] | None:
        """What changed and what was removed, in the words of a version; None for a version that is not served any more."""
        if version not in self._versions:
            self._versions[version] = self._converted(version)
        return self._versions[version]

    def _converted(self, version: str) -> tuple[Fields, Fields] | None:
        if self.convert is None:
            return self.changed, self.removed
        live, new = self.convert(self.live, version), self.convert(self.new, version)
        return None if live is None or new is None else self._compared(shape_of(new[1]), live[0], new[0])

    def survivors(self, entries: list[Entry]) -> list[Entry]:
        """The entries without the fields that changed hands or went away; an entry without fields goes too."""
        kept: list[Entry] = []
        for one in entries:
            found = self.changes(one["apiVersion"])
            if found is None:
                continue
            fields = one.get("fieldsV1") or EMPTY
            rest = difference(difference(fields, found[0]), found[1])
            if rest:
                kept.append(one if rest is fields else changed(one, rest))
        return kept

    def conflicts(self, others: list[Entry]) -> list[tuple[Entry, Fields]]:
        """The owners of fields that changed, each with those fields."""
        found: list[tuple[Entry, Fields]] = []
        for one in others:
            came, _ = self.changes(one["apiVersion"]) or (EMPTY, EMPTY)
            shared = intersection(one.get("fieldsV1") or EMPTY, came) if came else EMPTY
            if shared:
                found.append((one, shared))
        return found
