"""What the store holds: an object at one revision, and the change that brought it there."""

from __future__ import annotations

from collections import deque
from typing import Any

import orjson

ADDED, MODIFIED, DELETED = "ADDED", "MODIFIED", "DELETED"
_MOST_LINE_BYTES = 16 * 1024 * 1024


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


class Lines(dict[object, bytes]):
    """How a change reads to those who watch, by their way of looking.

    Watchers read a change at about the same time and seldom again: of all the lines of a process the newest few megabytes are kept.
    """

    __slots__ = ()

    def __setitem__(self, key: object, line: bytes) -> None:
        super().__setitem__(key, line)
        _kept.add(self, key, len(line))


class _Kept:
    """The lines that are kept, oldest first."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.size = 0
        self._order: deque[tuple[Lines, object, int]] = deque()

    def add(self, lines: Lines, key: object, size: int) -> None:
        self._order.append((lines, key, size))
        self.size += size
        while self.size > self.most:
            oldest, its_key, its_size = self._order.popleft()
            oldest.pop(its_key, None)
            self.size -= its_size


_kept = _Kept(_MOST_LINE_BYTES)


class Change:
    """One step of history. `previous` is what stood there before; a deletion's `entry` is the object's last state."""

    __slots__ = ("_object", "entry", "lines", "name", "namespace", "previous", "resource", "revision", "type")

    def __init__(self, type: str, entry: Entry, previous: Entry | None, obj: dict[str, Any] | None = None) -> None:  # noqa: A002
        self.type = type
        self.entry = entry
        # Plain attributes: everybody in the cluster who watches looks at them.
        self.revision, self.resource, self.namespace, self.name = entry.revision, entry.resource, entry.namespace, entry.name
        self.previous = previous
        self._object = obj
        self.lines = Lines()

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
