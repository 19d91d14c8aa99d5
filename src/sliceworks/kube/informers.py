"""Informers: a shared reflector and an indexed cache for each selection of objects."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Literal, NamedTuple, Self, TypeAlias

from sliceworks.base import clock
from sliceworks.base.errors import TimedOut
from sliceworks.kube.reflector import Reflector, Selection
from sliceworks.kube.resources import Key, Object, key_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from sliceworks.base.errors import SliceworksError
    from sliceworks.base.retry import Backoff
    from sliceworks.kube.client import Client
    from sliceworks.kube.resources import Resource

    Index: TypeAlias = Callable[[Object], Iterable[str]]
    Handler: TypeAlias = Callable[["Delta"], None]
    Transform: TypeAlias = Callable[[Object], Object]


log = logging.getLogger(__name__)
BY_NAMESPACE = "namespace"


def in_namespace(obj: Object) -> Iterable[str]:
    """The index function of the namespace index, which every store has."""
    return (obj["metadata"].get("namespace", ""),)


class Store:
    """Objects by namespace and name. They are shared: read or copy them, never modify them."""

    def __init__(self) -> None:
        self._objects: dict[Key, Object] = {}
        self._indexes: dict[str, Index] = {}
        self._index_entries: dict[str, dict[str, dict[Key, None]]] = {}
        self.add_index(BY_NAMESPACE, in_namespace)

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[Object]:
        return iter(list(self._objects.values()))

    def __contains__(self, key: Key) -> bool:
        return key in self._objects

    def get(self, name: str, namespace: str = "") -> Object | None:
        """An object; None if it is not in the store."""
        return self._objects.get(Key(namespace, name))

    def keys(self) -> list[Key]:
        """The keys of all objects."""
        return list(self._objects)

    def select(self, namespace: str | None = None) -> list[Object]:
        """The objects of one namespace, or of all."""
        return list(self._objects.values()) if namespace is None else self.by_index(BY_NAMESPACE, namespace)

    def by_index(self, index: str, value: str) -> list[Object]:
        """The objects that have this index value, in the order they were added."""
        return [self._objects[key] for key in self._index_entries[index].get(value, ())]

    def add_index(self, name: str, values_of: Index) -> None:
        """Add an index; existing objects are indexed too. Adding the same name and function again has no effect."""
        if self._indexes.get(name) is values_of:
            return
        if name in self._indexes:
            raise ValueError(f"index {name} exists already with another function")
        self._indexes[name] = values_of
        self._index_entries[name] = {}
        for key, obj in self._objects.items():
            self._index(name, key, values_of(obj))

    def put(self, obj: Object) -> Object | None:
        """Add or replace an object; returns the replaced one."""
        key = key_of(obj)
        old = self._objects.get(key)
        self._objects[key] = obj
        for name, values_of in self._indexes.items():
            after = tuple(values_of(obj))
            if old is not None:
                before = tuple(values_of(old))
                if before == after:
                    continue
                self._unindex(name, key, before)
            self._index(name, key, after)
        return old

    def remove(self, key: Key) -> Object | None:
        """Remove an object; returns it, or None if it is not in the store."""
        old = self._objects.pop(key, None)
        if old is not None:
            for name, values_of in self._indexes.items():
                self._unindex(name, key, values_of(old))
        return old

    def _index(self, name: str, key: Key, values: Iterable[str]) -> None:
        for value in values:
            self._index_entries[name].setdefault(value, {})[key] = None

    def _unindex(self, name: str, key: Key, values: Iterable[str]) -> None:
        entries = self._index_entries[name]
        for value in values:
            keys = entries[value]
            keys.pop(key, None)
            if not keys:
                del entries[value]


class Delta(NamedTuple):
    """One change. `old` is the previous state in the cache. `final` is false for a deletion found by a relist, where `object` is
    the last known state. A resync is an update of an object to itself."""

    kind: Literal["added", "updated", "deleted"]
    object: Object
    old: Object | None = None
    final: bool = True


def without_managed_fields(obj: Object) -> Object:
    """The default transform: managedFields are a third of many objects, and controllers do not read them."""
    obj["metadata"].pop("managedFields", None)
    return obj


class _SharedInformer:
    """Shared by all informers of one selection: the cache, its reflector and the handlers."""

    def __init__(self, client: Client, selection: Selection, transform: Transform, backoff: Backoff | None) -> None:
        self.selection = selection
        self.store = Store()
        self.synced = asyncio.Event()
        self.reflector = Reflector(client, selection, self, backoff=backoff)
        self.handlers: list[Handler] = []
        self.users = 0
        self._transform = transform
        self.task = asyncio.create_task(self.reflector.run(), name=f"reflector {selection}")

    def replaced(self, items: Sequence[Object]) -> None:
        missing = dict.fromkeys(self.store.keys())
        for item in items:
            obj = self._transform(item)
            missing.pop(key_of(obj), None)
            old = self.store.get(obj["metadata"]["name"], obj["metadata"].get("namespace", ""))
            if old is None or old["metadata"]["resourceVersion"] != obj["metadata"]["resourceVersion"]:
                self._put(obj)
        for key in missing:
            if (old := self.store.remove(key)) is not None:
                self._notify(Delta("deleted", old, old, final=False))
        self.synced.set()

    def changed(self, kind: str, obj: Object) -> None:
        obj = self._transform(obj)
        if kind != "DELETED":
            self._put(obj)
        elif (old := self.store.remove(key_of(obj))) is not None:
            self._notify(Delta("deleted", obj, old))

    def resync(self, handler: Handler) -> None:
        for obj in self.store:
            call_handler(handler, Delta("updated", obj, obj))

    def _put(self, obj: Object) -> None:
        old = self.store.put(obj)
        if old is None:
            self._notify(Delta("added", obj))
        elif old["metadata"].get("uid") != obj["metadata"].get("uid"):
            # The object was deleted and recreated between two events.
            self._notify(Delta("deleted", old, old, final=False))
            self._notify(Delta("added", obj))
        else:
            self._notify(Delta("updated", obj, old))

    def _notify(self, delta: Delta) -> None:
        for handler in tuple(self.handlers):
            call_handler(handler, delta)


class Informer:
    """One user's handle of a shared informer. `close` removes its handlers; the last one ends the watch."""

    def __init__(self, shared: _SharedInformer, close: Callable[[_SharedInformer], None]) -> None:
        self._shared = shared
        self._close = close
        self._handlers: list[Handler] = []
        self._timers: list[asyncio.TimerHandle] = []
        self._closed = False

    @property
    def store(self) -> Store:
        """The cache, as of the last delivered change."""
        return self._shared.store

    @property
    def synced(self) -> bool:
        """Whether the initial list is in the cache."""
        return self._shared.synced.is_set()

    @property
    def error(self) -> SliceworksError | None:
        """The error of the last list or watch; None if it succeeded."""
        return self._shared.reflector.error

    def add_handler(self, handler: Handler, *, resync: float = 0.0) -> None:
        """Call `handler` for all cached objects and every change; with `resync`, for all objects again every `resync` seconds."""
        for obj in self.store:
            call_handler(handler, Delta("added", obj))
        self._handlers.append(handler)
        self._shared.handlers.append(handler)
        if resync > 0:
            self._resync_later(handler, resync)

    async def wait_synced(self, timeout: float | None = None) -> None:
        """Wait until the initial list is in the cache; `timeout` is in real seconds. TimedOut has the last error."""
        try:
            async with asyncio.timeout(None if timeout is None else clock.scale_real_seconds(timeout)):
                await self._shared.synced.wait()
        except TimeoutError as error:
            cause = f": {self._shared.reflector.error}" if self._shared.reflector.error else ""
            raise TimedOut(f"timed out after {timeout:g} s waiting for {self._shared.selection}{cause}") from error

    def close(self) -> None:
        """Remove the handlers and release the shared informer."""
        if self._closed:
            return
        self._closed = True
        for timer in self._timers:
            timer.cancel()
        for handler in self._handlers:
            self._shared.handlers.remove(handler)
        self._close(self._shared)

    def _resync_later(self, handler: Handler, seconds: float) -> None:
        def resync() -> None:
            self._timers.remove(timer)
            self._resync_later(handler, seconds)
            self._shared.resync(handler)

        timer = asyncio.get_running_loop().call_later(seconds, resync)
        self._timers.append(timer)


class Informers:
    """Opens informers; those of the same selection share one cache and watch."""

    def __init__(self, client: Client, *, transform: Transform = without_managed_fields, backoff: Backoff | None = None) -> None:
        self._client = client
        self._transform = transform
        self._backoff = backoff
        self._shared: dict[Selection, _SharedInformer] = {}
        self._open_informers: list[Informer] = []
        self._closing: set[asyncio.Task[None]] = set()

    def open(self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = "") -> Informer:
        """An informer for these objects. The list starts at once unless another informer shares the selection."""
        selection = Selection(resource, namespace, labels, fields)
        shared = self._shared.get(selection)
        if shared is None:
            shared = self._shared[selection] = _SharedInformer(self._client, selection, self._transform, self._backoff)
        shared.users += 1
        informer = Informer(shared, self._release)
        self._open_informers.append(informer)
        return informer

    async def wait_synced(self, timeout: float | None = None) -> None:
        """Wait until all caches have their initial list."""
        for informer in tuple(self._open_informers):
            await informer.wait_synced(timeout)

    async def close(self) -> None:
        """Close all informers and wait for their watches to end."""
        for informer in tuple(self._open_informers):
            informer.close()
        await asyncio.gather(*self._closing, return_exceptions=True)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _release(self, shared: _SharedInformer) -> None:
        self._open_informers = [informer for informer in self._open_informers if not informer._closed]
        shared.users -= 1
        if not shared.users:
            del self._shared[shared.selection]
            shared.task.cancel()
            self._closing.add(shared.task)
            shared.task.add_done_callback(self._closing.discard)


def call_handler(handler: Handler, delta: Delta) -> None:
    """Call one handler; its errors are logged and do not affect other handlers."""
    try:
        handler(delta)
    except Exception:
        log.exception("event handler failed: %s %s", delta.kind, key_of(delta.object))
