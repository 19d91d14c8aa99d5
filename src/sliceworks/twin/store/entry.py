"""A stored object at one revision, and the compression of objects that did not change for some time."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base.compression import Compressor

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.base.compression import Compressed

_MIN_BYTES, _MAX_BYTES = 512, 128 * 1024
"""Compressing a larger object would delay requests."""


class Entry:
    """A stored object at one revision, as the JSON bytes that are sent to clients."""

    __slots__ = ("_labels", "_stored", "key", "name", "namespace", "resource", "revision", "size")

    def __init__(self, resource: str, namespace: str, name: str, revision: int, data: bytes) -> None:
        self.resource = resource
        self.namespace = namespace
        self.name = name
        self.key = f"{namespace}/{name}" if namespace else name
        self.revision = revision
        self.size = len(data)
        # One attribute: threads read an entry while it is compressed.
        self._stored: bytes | Compressed = data
        self._labels: dict[str, str] | None = None

    @property
    def data(self) -> bytes:
        """The object as JSON."""
        stored = self._stored
        return stored if isinstance(stored, bytes) else stored.read()

    @property
    def labels(self) -> dict[str, str]:
        """The labels of the object, decoded once."""
        if self._labels is None:
            self._labels = self.object()["metadata"].get("labels") or {}
        return self._labels

    def object(self) -> dict[str, Any]:
        """A new copy of the object, which the caller may change."""
        decoded: dict[str, Any] = orjson.loads(self.data)
        return decoded

    def compress(self, compressor: Compressor) -> None:
        """Keep the object compressed."""
        if isinstance(self._stored, bytes) and _MIN_BYTES <= self.size <= _MAX_BYTES:
            self._stored = compressor.compress(self._stored)


class RecentEntries:
    """The entries of one kind that were written last, up to a size. Older ones that are still current are compressed."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._entries: deque[Entry] = deque()
        self._size = 0
        self._compressor = Compressor()

    def add(self, entry: Entry, current: Mapping[str, Entry]) -> None:
        """Add an entry; `current` has the newest entries by key."""
        self._entries.append(entry)
        self._size += entry.size
        while self._size > self._max_bytes:
            oldest = self._entries.popleft()
            self._size -= oldest.size
            if current.get(oldest.key) is oldest:
                oldest.compress(self._compressor)
