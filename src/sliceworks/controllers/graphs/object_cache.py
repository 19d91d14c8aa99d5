"""Compact caches of the objects that graphs create and of the external objects they read."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from sys import intern
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from sliceworks.base.compression import Compressor
from sliceworks.base.errors import Forbidden, NotFound, TimedOut
from sliceworks.base.memory import exact_size
from sliceworks.controllers.graphs import well_known
from sliceworks.kube.informers import Informers
from sliceworks.kube.resources import Key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from sliceworks.base.compression import Compressed
    from sliceworks.kube.client import Client
    from sliceworks.kube.informers import Delta, Informer
    from sliceworks.kube.resources import Object, Resource


CACHE_KEY = "record"

_MAX_SHARED = 1024
_MAX_COMPRESSED = 128 * 1024
"""Bytes of an object; compressing a larger one would delay others."""


class Owner(NamedTuple):
    """The instance that owns an object."""

    group: str
    kind: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class CachedObject:
    """An object in compact form: the serialized, compressed object and the fields that indexes and comparisons need."""

    namespace: str
    name: str
    uid: str
    version: str
    stored: bytes | Compressed
    set_id: str = ""
    owner: Owner | None = None
    fields: bytes = b""
    deleting: bool = False
    labels: Mapping[str, str] | None = None

    @property
    def object(self) -> Object:
        """A new copy of the object, which the caller may modify."""
        obj: Object = orjson.loads(self.stored if isinstance(self.stored, bytes) else self.stored.read())
        return obj

    @property
    def place(self) -> str:
        """`namespace/name`, for messages."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def child_transform(obj: Object) -> Object:
    """The transform of caches of children."""
    labels = obj["metadata"].get("labels") or {}
    return _entry(to_cached(obj, owner=_owner(labels), set_id=intern(labels.get(well_known.PART_OF, ""))))


def external_transform(obj: Object) -> Object:
    """The transform of caches of external objects, which keeps labels for selectors."""
    return _entry(to_cached(obj, labels=obj["metadata"].get("labels") or {}))


def plain_transform(obj: Object) -> Object:
    """The transform of caches of instances and definitions."""
    return _entry(to_cached(obj))


def to_cached(obj: Object, **extra: Any) -> CachedObject:
    """The compact form of an object from the API server. Removes its managedFields."""
    metadata = obj["metadata"]
    fields = own_fields(metadata.pop("managedFields", None) or ())
    return CachedObject(
        intern(metadata.get("namespace", "")),
        metadata["name"],
        metadata.get("uid", ""),
        metadata.get("resourceVersion", ""),
        _compressed(obj),
        fields=_shared(orjson.dumps(fields)) if fields is not None else b"",
        deleting="deletionTimestamp" in metadata,
        **extra,
    )


def _compressed(obj: Object) -> bytes | Compressed:
    """The serialized object, compressed with another of its kind: they are alike, and read only when one of them changes."""
    data = exact_size(orjson.dumps(obj))
    return _compressor(obj.get("kind", "")).compress(data) if len(data) <= _MAX_COMPRESSED else data


@lru_cache(_MAX_SHARED)
def _compressor(kind: str) -> Compressor:
    """The compressor of a kind."""
    return Compressor()


@lru_cache(_MAX_SHARED)
def _shared(fields: bytes) -> bytes:
    """The same bytes for equal field sets: objects of one node of a graph differ only in values."""
    return exact_size(fields)


def cached_in(entry: Object | None) -> CachedObject | None:
    """The compact object in an entry of an informer's store."""
    return None if entry is None else entry[CACHE_KEY]


def _entry(record: CachedObject) -> Object:
    metadata = {"namespace": record.namespace, "name": record.name, "uid": record.uid, "resourceVersion": record.version}
    return {"metadata": metadata, CACHE_KEY: record}


def _owner(labels: Mapping[str, str]) -> Owner | None:
    kind, name = labels.get(well_known.INSTANCE_KIND), labels.get(well_known.INSTANCE_NAME)
    if not kind or not name:
        return None
    return Owner(
        intern(labels.get(well_known.INSTANCE_GROUP, "")), intern(kind), intern(labels.get(well_known.INSTANCE_NAMESPACE, "")), name
    )


def own_fields(managed: Iterable[Object]) -> Object | None:
    """The fields that this controller applied; None if it did not."""
    for entry in managed:
        if entry.get("manager") == well_known.APPLYSET and entry.get("operation") == "Apply" and not entry.get("subresource"):
            return entry.get("fieldsV1") or {}
    return None


_BY_SET = "applyset"

_SYNC_TIMEOUT = 30.0

_SHORT_SYNC_TIMEOUT = 5.0
"""Seconds to wait for errors that rarely recover: Forbidden, or NotFound, which a new kind returns for a short time."""

_MAX_REMEMBERED = 1000
"""How many deleted objects of each kind are remembered, to ignore late responses to writes."""


def _set_index(entry: Object) -> Iterable[str]:
    return (entry[CACHE_KEY].set_id,)


class ObjectCache:
    """A cache of the objects of one kind."""

    def __init__(self, resource: Resource, informer: Informer, transform: Callable[[Object], Object]) -> None:
        self.resource = resource
        self._informer = informer
        self._transform = transform
        self._deleted_uids: dict[str, None] = {}
        informer.add_handler(self._on_delta)

    def get(self, name: str, namespace: str = "") -> CachedObject | None:
        """One object, or None if it is not in the cache."""
        return cached_in(self._informer.store.get(name, namespace))

    def members(self, set_id: str) -> list[CachedObject]:
        """The objects with an ApplySet's label."""
        return [entry[CACHE_KEY] for entry in self._informer.store.by_index(_BY_SET, set_id)]

    def all(self, namespace: str = "") -> list[CachedObject]:
        """All objects, or those of a namespace."""
        return [entry[CACHE_KEY] for entry in self._informer.store.select(namespace or None)]

    def record_write(self, response: Object) -> CachedObject:
        """Store the response to a write, unless the watch has already reported the object as deleted."""
        entry = self._transform(response)
        record: CachedObject = entry[CACHE_KEY]
        if record.uid in self._deleted_uids:
            return record
        known = self.get(record.name, record.namespace)
        if known is None or known.uid != record.uid or int(known.version) <= int(record.version):
            self._informer.store.put(entry)
        return record

    def _on_delta(self, delta: Delta) -> None:
        uid = str(delta.object["metadata"]["uid"])
        if delta.kind != "deleted":
            self._deleted_uids.pop(uid, None)  # the object has our label again
            return
        self._deleted_uids[uid] = None
        if len(self._deleted_uids) > _MAX_REMEMBERED:
            del self._deleted_uids[next(iter(self._deleted_uids))]

    def contains(self, record: CachedObject) -> bool:
        """Whether the cache has this object, by uid."""
        known = self.get(record.name, record.namespace)
        return known is not None and known.uid == record.uid

    def evict(self, record: CachedObject) -> None:
        """Remove an object that was deleted, or that no longer matches the cache's selector."""
        if self.contains(record):
            self._informer.store.remove(Key(record.namespace, record.name))

    async def wait_synced(self) -> None:
        """Wait for the initial list; raises TimedOut with the last error."""
        try:
            await self._informer.wait_synced(_SHORT_SYNC_TIMEOUT)
        except TimedOut:
            if isinstance(self._informer.error, Forbidden | NotFound):
                raise
            await self._informer.wait_synced(_SYNC_TIMEOUT)

    def close(self) -> None:
        """Stop watching."""
        self._informer.close()


class ObjectCaches:
    """The caches of one controller; each is opened once."""

    def __init__(
        self, client: Client, on_child: Callable[[Resource, Delta], None], on_external: Callable[[Resource, Delta], None]
    ) -> None:
        self._children = Informers(client, transform=child_transform)
        self._externals = Informers(client, transform=external_transform)
        self._on_child, self._on_external = on_child, on_external
        self._open: dict[tuple[Resource, bool], ObjectCache] = {}
        self._held: list[set[ObjectCache]] = []

    async def children(self, resource: Resource) -> ObjectCache:
        """The synced cache of a kind's children, of all instances."""
        with self.hold_open() as held:
            cache = self.open(resource, children=True)
            held.add(cache)
            await cache.wait_synced()
        return cache

    def open(self, resource: Resource, *, children: bool) -> ObjectCache:
        """The cache of a kind's children (`children`) or of all its objects, possibly not synced yet."""
        cache = self._open.get((resource, children))
        if cache is None:
            cache = self._open[resource, children] = self._open_children(resource) if children else self._open_external(resource)
        return cache

    def _open_children(self, resource: Resource) -> ObjectCache:
        informer = self._children.open(resource, labels=f"{well_known.OWNED}=true")
        informer.store.add_index(_BY_SET, _set_index)
        informer.add_handler(lambda delta: self._on_child(resource, delta))
        return ObjectCache(resource, informer, child_transform)

    def _open_external(self, resource: Resource) -> ObjectCache:
        informer = self._externals.open(resource)
        informer.add_handler(lambda delta: self._on_external(resource, delta))
        return ObjectCache(resource, informer, external_transform)

    @contextmanager
    def hold_open(self) -> Iterator[set[ObjectCache]]:
        """A set of caches that `close_unused` keeps open until the context ends."""
        held: set[ObjectCache] = set()
        self._held.append(held)
        try:
            yield held
        finally:
            self._held = [caches for caches in self._held if caches is not held]

    def close_unused(self, used: Iterable[ObjectCache]) -> None:
        """Close the caches that are not in use."""
        in_use = set(used).union(*self._held)
        for key, cache in tuple(self._open.items()):
            if cache not in in_use:
                del self._open[key]
                cache.close()

    def opened(self) -> list[ObjectCache]:
        """The open caches of children."""
        return [cache for (_, children), cache in self._open.items() if children]

    async def close(self) -> None:
        """Close all caches."""
        await self._children.close()
        await self._externals.close()
