"""Informers: one reflector and one cache for each selection, shared by all who ask for it.

async with Informers(client) as informers:
    pods = informers.open(POD, namespace="ml")
    pods.add_handler(lambda delta: queue.add(key_of(delta.object)))
    await pods.wait_synced()
    pods.store.get("trainer-0", "ml")
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Literal, NamedTuple, Self, TypeAlias

from sliceworks.base.errors import TimedOut
from sliceworks.kube.reflector import Reflector, Selection
from sliceworks.kube.resources import Object, key_of
from sliceworks.kube.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sliceworks.base.errors import SliceworksError
    from sliceworks.kube.backoff import Backoff
    from sliceworks.kube.client import Client
    from sliceworks.kube.resources import Resource

    Handler: TypeAlias = Callable[["Delta"], None]
    Transform: TypeAlias = Callable[[Object], Object]

log = logging.getLogger(__name__)


class Delta(NamedTuple):
    """One change. `old` is what the cache held before; `final` is false for a deletion that was missed, where `object` is the last
    state seen. A resync is an update of an object to itself."""

    kind: Literal["added", "updated", "deleted"]
    object: Object
    old: Object | None = None
    final: bool = True


def without_managed_fields(obj: Object) -> Object:
    """What informers keep unless told otherwise: managedFields are a third of many objects, and no controller reads them."""
    obj["metadata"].pop("managedFields", None)
    return obj


class _Shared:
    """What all informers of one selection share: the cache, the reflector that fills it, and the handlers."""

    def __init__(self, client: Client, selection: Selection, transform: Transform, backoff: Backoff | None) -> None:
        self.selection = selection
        self.store = Store()
        self.synced = asyncio.Event()
        self.reflector = Reflector(client, selection, self, backoff=backoff)
        self.handlers: list[Handler] = []
        self.users = 0
        self._transform = transform
        self.task = asyncio.create_task(self.reflector.run(), name=f"reflector of {selection}")

    def replaced(self, items: Sequence[Object]) -> None:
        gone = dict.fromkeys(self.store.keys())
        for item in items:
            obj = self._transform(item)
            gone.pop(key_of(obj), None)
            old = self.store.get(obj["metadata"]["name"], obj["metadata"].get("namespace", ""))
            if old is None or old["metadata"]["resourceVersion"] != obj["metadata"]["resourceVersion"]:
                self._put(obj)
        for key in gone:
            if (old := self.store.remove(key)) is not None:
                self._tell(Delta("deleted", old, old, final=False))
        self.synced.set()

    def changed(self, kind: str, obj: Object) -> None:
        obj = self._transform(obj)
        if kind != "DELETED":
            self._put(obj)
        elif (old := self.store.remove(key_of(obj))) is not None:
            self._tell(Delta("deleted", obj, old))

    def resync(self, handler: Handler) -> None:
        for obj in self.store:
            call(handler, Delta("updated", obj, obj))

    def _put(self, obj: Object) -> None:
        old = self.store.put(obj)
        if old is None:
            self._tell(Delta("added", obj))
        elif old["metadata"].get("uid") != obj["metadata"].get("uid"):
            # The one of this name was deleted and made again while nobody looked.
            self._tell(Delta("deleted", old, old, final=False))
            self._tell(Delta("added", obj))
        else:
            self._tell(Delta("updated", obj, old))

    def _tell(self, delta: Delta) -> None:
        for handler in tuple(self.handlers):
            call(handler, delta)


class Informer:
    """One user's view of a shared selection. `close` takes its handlers along; the last to close ends the watch."""

    def __init__(self, shared: _Shared, close: Callable[[_Shared], None]) -> None:
        self._shared = shared
        self._close = close
        self._handlers: list[Handler] = []
        self._timers: list[asyncio.TimerHandle] = []
        self._closed = False

    @property
    def store(self) -> Store:
        """The cache: current as of the last change that was told."""
        return self._shared.store

    @property
    def synced(self) -> bool:
        """Whether the cache has been filled."""
        return self._shared.synced.is_set()

    @property
    def error(self) -> SliceworksError | None:
        """What stands in the way of reading; None where nothing does."""
        return self._shared.reflector.error

    def add_handler(self, handler: Handler, *, resync: float = 0.0) -> None:
        """Be told of every change, first of all there is; with `resync`, of everything again after so many seconds."""
        for obj in self.store:
            call(handler, Delta("added", obj))
        self._handlers.append(handler)
        self._shared.handlers.append(handler)
        if resync > 0:
            self._resync_later(handler, resync)

    async def wait_synced(self, timeout: float | None = None) -> None:
        """Wait until the cache has been filled; TimedOut says what stood in the way."""
        try:
            async with asyncio.timeout(timeout):
                await self._shared.synced.wait()
        except TimeoutError as error:
            why = f": {self._shared.reflector.error}" if self._shared.reflector.error else ""
            raise TimedOut(f"{self._shared.selection} could not be read in {timeout:g} seconds{why}") from error

    def close(self) -> None:
        """Hear no more."""
        if self._closed:
            return
        self._closed = True
        for timer in self._timers:
            timer.cancel()
        for handler in self._handlers:
            self._shared.handlers.remove(handler)
        self._close(self._shared)

    def _resync_later(self, handler: Handler, seconds: float) -> None:
        def again() -> None:
            self._timers.remove(timer)
            self._resync_later(handler, seconds)
            self._shared.resync(handler)

        timer = asyncio.get_running_loop().call_later(seconds, again)
        self._timers.append(timer)


class Informers:
    """Hands out informers, one shared cache for each selection."""

    def __init__(self, client: Client, *, transform: Transform = without_managed_fields, backoff: Backoff | None = None) -> None:
        self._client = client
        self._transform = transform
        self._backoff = backoff
        self._shared: dict[Selection, _Shared] = {}
        self._opened: list[Informer] = []
        self._ending: set[asyncio.Task[None]] = set()

    def open(self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = "") -> Informer:
        """An informer of these objects; it begins to read at once if nobody reads them yet."""
        selection = Selection(resource, namespace, labels, fields)
        shared = self._shared.get(selection)
        if shared is None:
            shared = self._shared[selection] = _Shared(self._client, selection, self._transform, self._backoff)
        shared.users += 1
        informer = Informer(shared, self._release)
        self._opened.append(informer)
        return informer

    async def wait_synced(self, timeout: float | None = None) -> None:
        """Wait until every cache has been filled."""
        for informer in tuple(self._opened):
            await informer.wait_synced(timeout)

    async def close(self) -> None:
        """Close every informer and wait until their watches have ended."""
        for informer in tuple(self._opened):
            informer.close()
        await asyncio.gather(*self._ending, return_exceptions=True)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _release(self, shared: _Shared) -> None:
        self._opened = [informer for informer in self._opened if not informer._closed]
        shared.users -= 1
        if not shared.users:
            del self._shared[shared.selection]
            shared.task.cancel()
            self._ending.add(shared.task)
            shared.task.add_done_callback(self._ending.discard)


def call(handler: Handler, delta: Delta) -> None:
    """Tell one handler; what goes wrong there is its own matter."""
    try:
        handler(delta)
    except Exception:
        log.exception("a handler failed on %s %s", delta.kind, key_of(delta.object))
