"""What the caches keep of an object: who it belongs to, its text as bytes, and which of its fields are ours.

An object as Python dicts takes ten times the room of its text, and a controller of thousands of idle instances looks at few of
them. So a cache keeps the text, and whoever needs the object reads it anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from sys import intern
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from sliceworks.controllers.graphs import names

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.kube.resources import Object

RECORD = "record"


class Owner(NamedTuple):
    """The instance that an object belongs to."""

    group: str
    kind: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Record:
    """An object in few bytes."""

    namespace: str
    name: str
    uid: str
    version: str
    text: bytes
    set_id: str = ""
    owner: Owner | None = None
    fields: bytes = b""
    deleting: bool = False
    labels: Mapping[str, str] | None = None

    @property
    def object(self) -> Object:
        """The object, read anew: change it as you like."""
        made: Object = orjson.loads(self.text)
        return made

    @property
    def place(self) -> str:
        """`namespace/name`, for messages."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def child(obj: Object) -> Object:
    """The transform of caches that hold objects of ours."""
    labels = obj["metadata"].get("labels") or {}
    return _kept(record_of(obj, owner=_owner(labels), set_id=intern(labels.get(names.PART_OF, ""))))


def foreign(obj: Object) -> Object:
    """The transform of caches that hold objects of others: their labels select them."""
    return _kept(record_of(obj, labels=obj["metadata"].get("labels") or {}))


def plain(obj: Object) -> Object:
    """The transform of caches that hold instances and definitions."""
    return _kept(record_of(obj))


def record_of(obj: Object, **more: Any) -> Record:
    """The record of an object as the API gave it."""
    metadata = obj["metadata"]
    fields = _own_fields(metadata.pop("managedFields", None) or ())
    return Record(
        intern(metadata.get("namespace", "")),
        metadata["name"],
        metadata.get("uid", ""),
        metadata.get("resourceVersion", ""),
        orjson.dumps(obj),
        fields=fields,
        deleting="deletionTimestamp" in metadata,
        **more,
    )


def in_cache(kept: Object | None) -> Record | None:
    """The record in an entry of a cache."""
    return None if kept is None else kept[RECORD]


def _kept(record: Record) -> Object:
    metadata = {"namespace": record.namespace, "name": record.name, "uid": record.uid, "resourceVersion": record.version}
    return {"metadata": metadata, RECORD: record}


def _owner(labels: Mapping[str, str]) -> Owner | None:
    kind, name = labels.get(names.INSTANCE_KIND), labels.get(names.INSTANCE_NAME)
    if not kind or not name:
        return None
    return Owner(intern(labels.get(names.INSTANCE_GROUP, "")), intern(kind), intern(labels.get(names.INSTANCE_NAMESPACE, "")), name)


def _own_fields(managed: Any) -> bytes:
    for entry in managed:
        if entry.get("manager") == names.APPLYSET and entry.get("operation") == "Apply" and not entry.get("subresource"):
            return orjson.dumps(entry.get("fieldsV1") or {})
    return b""
