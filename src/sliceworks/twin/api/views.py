"""How stored objects are shown: plain bytes, another version, metadata only, or rows of a Table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base import clock
from sliceworks.base.errors import BadRequest
from sliceworks.twin.api import objects, tables

if TYPE_CHECKING:
    from sliceworks.twin.api.calls import Call
    from sliceworks.twin.store.entries import Entry

Obj = dict[str, Any]
_PARTIAL = {"PartialObjectMetadata", "PartialObjectMetadataList"}


class View:
    """One call's way of showing objects. `plain` means that stored bytes can be sent as they are."""

    def __init__(self, call: Call) -> None:
        self._call = call
        form = call.form
        self.converted = objects.needs_conversion(call.resource, call.version)
        self.table = form.view == "Table"
        self.partial = form.view in _PARTIAL
        self.plain = not (self.converted or self.table or self.partial)
        self.key = (form.view, call.version.name, call.resource.key, call.param("includeObject"))
        if self.table:
            include = call.param("includeObject") or "Metadata"
            if include not in {"None", "Metadata", "Object"}:
                why = "must be 'Metadata', 'Object', 'None', or empty"
                raise BadRequest(f'Unable to convert to Table as requested: includeObject: Invalid value: "{include}": {why}')
            self._include = include
            custom = call.version.printer_columns
            self.columns = tables.custom_columns(custom) if custom is not None else tables.columns(call.resource.key)

    def object_bytes(self, entry: Entry) -> bytes:
        """One object in its own right, as GET and watch events show it."""
        if self.plain and entry.revision >= self._call.version.since:
            return entry.data
        return orjson.dumps(self.shown(entry))

    def item_bytes(self, entry: Entry) -> bytes:
        """One object inside a list: built-in kinds leave out the kind and version that the list already gives."""
        resource = self._call.resource
        if self.plain and not resource.custom:
            data = entry.data
            return b"{" + data[data.index(b'"metadata":') :]
        return self.object_bytes(entry)

    def shown(self, entry: Entry) -> Obj:
        """The object as this call wants it."""
        obj = objects.served(self._call.resource, self._call.version, entry)
        if self.table:
            return self.as_table([obj], obj["metadata"].get("resourceVersion", ""))
        return partial(obj) if self.partial else obj

    def as_table(self, items: list[Obj], resource_version: str, *, header: bool = True, **metadata: Any) -> Obj:
        now = clock.now()
        return {
            "kind": "Table",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": {"resourceVersion": resource_version, **metadata},
            "columnDefinitions": self.columns.definitions if header else None,
            "rows": [self._row(obj, now) for obj in items],
        }

    def _row(self, obj: Obj, now: Any) -> Obj:
        row: Obj = {"cells": self.columns.row(obj, now), "object": None}
        conditions = self.columns.conditions(obj)
        if conditions:
            row["conditions"] = conditions
        if self._include == "Object":
            row["object"] = obj
        elif self._include == "Metadata":
            row["object"] = partial(obj)
        return row


def partial(obj: Obj) -> Obj:
    """The metadata alone."""
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}
