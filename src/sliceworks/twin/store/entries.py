"""What the store holds: an object at one revision, and the change that brought it there."""

from __future__ import annotations

from typing import Any

import orjson

ADDED, MODIFIED, DELETED = "ADDED", "MODIFIED", "DELETED"


class Entry:
    """An object as it was written: JSON bytes, kept as they go over the wire, so that a read copies nothing."""

    __slots__ = ("_labels", "data", "key", "name", "namespace", "resource", "revision")

    def __init__(self, resource: str, namespace: str, name: str, revision: int, data: bytes) -> None:
        self.resource = resource
        self.namespace = namespace
        self.name = name
        self.key = f"{namespace}/{name}" if namespace else name
        self.revision = revision
        self.data = data
        self._labels: dict[str, str] | None = None

    @property
    def labels(self) -> dict[str, str]:
        """The object's labels, read once."""
        if self._labels is None:
            self._labels = self.object()["metadata"].get("labels") or {}
        return self._labels

    def object(self) -> dict[str, Any]:
        """A fresh copy of the object, free to be changed."""
        decoded: dict[str, Any] = orjson.loads(self.data)
        return decoded


class Change:
    """One step of history. `previous` is what stood there before; a deletion's `entry` is the object's last state."""

    __slots__ = ("_object", "entry", "lines", "previous", "type")

    def __init__(self, type: str, entry: Entry, previous: Entry | None, obj: dict[str, Any] | None = None) -> None:  # noqa: A002
        self.type = type
        self.entry = entry
        self.previous = previous
        self._object = obj
        self.lines: dict[object, bytes] = {}

    @property
    def revision(self) -> int:
        return self.entry.revision

    @property
    def resource(self) -> str:
        return self.entry.resource

    @property
    def namespace(self) -> str:
        return self.entry.namespace

    @property
    def name(self) -> str:
        return self.entry.name

    @property
    def obj(self) -> dict[str, Any]:
        """The object after the change, to be read and not changed."""
        return self._object if self._object is not None else self.entry.object()

    @property
    def old(self) -> dict[str, Any] | None:
        """The object before the change."""
        return self.previous.object() if self.previous else None

    def announced(self) -> None:
        """Every subscriber has seen it: keep only the bytes."""
        self._object = None
