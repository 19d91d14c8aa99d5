"""A stored object at one revision, and the compression of objects that did not change for some time.

Objects of one kind are alike: with another one as dictionary, a pod of 8 KB becomes 0.5 KB in 20 µs, and is read in 8 µs.
"""

from __future__ import annotations

import zlib
from collections import deque
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from collections.abc import Mapping

_LEVEL, _WINDOW_BITS, _MEMORY_LEVEL = 3, -15, 5
_DICTIONARY_BYTES = 32 * 1024
_MIN_BYTES, _MAX_BYTES = 512, 128 * 1024
"""Compressing a larger object would delay requests."""
_DICTIONARY_USES = 256
"""The next object then becomes the dictionary: the objects of a kind change over time."""


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
        self._stored: bytes | _Compressed = data
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

    def compress(self, compressor: _Compressor) -> None:
        """Keep the object compressed."""
        if isinstance(self._stored, bytes) and _MIN_BYTES <= self.size <= _MAX_BYTES:
            self._stored = compressor.compress(self._stored)


class _Compressed:
    """A compressed object."""

    __slots__ = ("_data", "_dictionary")

    def __init__(self, data: bytes, dictionary: bytes) -> None:
        self._data, self._dictionary = data, dictionary

    def read(self) -> bytes:
        return zlib.decompressobj(_WINDOW_BITS, self._dictionary).decompress(self._data)


class _Compressor:
    """Compresses objects of one kind."""

    def __init__(self) -> None:
        self._dictionary = b""
        self._uses = _DICTIONARY_USES
        self._deflate: Any = None

    def compress(self, data: bytes) -> bytes | _Compressed:
        """The object compressed; unchanged if that saves less than half, or if the object becomes the dictionary."""
        if self._uses >= _DICTIONARY_USES:
            self._dictionary, self._uses = data[-_DICTIONARY_BYTES:], 0
            self._deflate = zlib.compressobj(_LEVEL, zlib.DEFLATED, _WINDOW_BITS, _MEMORY_LEVEL, zdict=self._dictionary)
            return data
        self._uses += 1
        deflate = self._deflate.copy()
        compressed = deflate.compress(data) + deflate.flush()
        return _Compressed(compressed, self._dictionary) if len(compressed) * 2 < len(data) else data


class RecentEntries:
    """The entries of one kind that were written last, up to a size. Older ones that are still current are compressed."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._entries: deque[Entry] = deque()
        self._size = 0
        self._compressor = _Compressor()

    def add(self, entry: Entry, current: Mapping[str, Entry]) -> None:
        """Add an entry; `current` has the newest entries by key."""
        self._entries.append(entry)
        self._size += entry.size
        while self._size > self._max_bytes:
            oldest = self._entries.popleft()
            self._size -= oldest.size
            if current.get(oldest.key) is oldest:
                oldest.compress(self._compressor)
