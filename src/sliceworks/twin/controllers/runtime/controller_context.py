"""A controller's access to the cluster: reads come from the store, writes go through the API as the controller's user."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar, cast

import orjson

from sliceworks.base import budget
from sliceworks.base.errors import from_status
from sliceworks.base.transport import Request
from sliceworks.kube.resources import Resource
from sliceworks.twin.apiserver.auth.authentication import service_account

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping

    from sliceworks.base.transport import Response
    from sliceworks.twin.apiserver.auth.authentication import User
    from sliceworks.twin.apiserver.registry.resources import Registry
    from sliceworks.twin.controllers.runtime.controller import Change, Controller
    from sliceworks.twin.store.entry import Entry
    from sliceworks.twin.store.store import Store

    Handle = Callable[[Request, User], Awaitable[Response]]

log = logging.getLogger("sliceworks.twin.controllers")
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
WRITES_PER_TURN = 25
"""How many writes all controllers make in one turn of the event loop: about 20 ms."""
_LARGE_BYTES = 128 * 1024
NamespacedName = tuple[str, str]


class Index(Protocol):
    """An index that several controllers share."""

    @property
    def watches(self) -> frozenset[str]:
        """The resources that `observe` is called for."""

    def observe(self, change: Change) -> None:
        """Update the index; called before the controllers see the change."""


I = TypeVar("I", bound=Index)  # noqa: E741 - the type of an index
T = TypeVar("T")


class ObjectKey(NamedTuple):
    """The key of an object; `resource` is the `group/plural` it is stored under."""

    resource: str
    namespace: str
    name: str


def object_key(resource: str, obj: Mapping[str, Any]) -> ObjectKey:
    metadata = obj["metadata"]
    return ObjectKey(resource, metadata.get("namespace", ""), metadata["name"])


class CloudAccess(Protocol):
    """The permissions of the cluster's service accounts in the twin's cloud."""

    def find_error(self, service_account: str, email: str, permission: str, project: str) -> str:
        """Why `namespace/name` lacks a permission as a Google service account; empty if it does not."""
        ...


class ServedResource(NamedTuple):
    """A resource that the API serves, in its storage version, and the key that its objects are stored under."""

    resource: Resource
    storage_key: str


class ControllerContext:
    """A controller's access to its cluster: reads come from the store, writes go through the API."""

    def __init__(self, store: Store, registry: Registry, handle: Handle, cloud_access: CloudAccess | None = None) -> None:
        self.cloud_access = cloud_access
        self._store = store
        self.registry = registry
        self._handle = handle
        self._generation = -1
        self._by_kind: dict[tuple[str, str], ServedResource] = {}
        self._by_resource: dict[str, ServedResource] = {}
        self._writes = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._indexes: dict[type[Any], Index] = {}
        self._interested: dict[str, tuple[Index, ...]] = {}

    def shared_index(self, kind: type[I]) -> I:
        """The index of this type that all controllers of the cluster share. Call it before the controllers start."""
        if kind not in self._indexes:
            self._indexes[kind] = kind()
        return cast("I", self._indexes[kind])

    @property
    def indexes(self) -> tuple[type[Index], ...]:
        """The types of the shared indexes."""
        return tuple(self._indexes)

    def drop_indexes(self, kinds: Iterable[type[Index]]) -> None:
        """Drop shared indexes; `shared_index` then creates empty ones."""
        for kind in kinds:
            self._indexes.pop(kind, None)
        self._interested.clear()

    def observe(self, change: Change) -> None:
        """Update the shared indexes."""
        interested = self._interested.get(change.resource)
        if interested is None:
            watching = (index for index in self._indexes.values() if change.resource in index.watches)
            interested = self._interested[change.resource] = tuple(watching)
        for index in interested:
            notify(index, change)

    def resource_for_kind(self, api_version: str, kind: str) -> ServedResource | None:
        """The resource of a kind; None if the API does not serve it."""
        self._refresh()
        return self._by_kind.get((api_version.rpartition("/")[0], kind))

    def resource_for(self, resource: str) -> ServedResource | None:
        """The resource stored under `group/plural`; None if the API does not serve it."""
        self._refresh()
        return self._by_resource.get(resource)

    def namespaced_resources(self) -> list[ServedResource]:
        """The namespaced resources that support delete."""
        self._refresh()
        return [served for served in self._by_resource.values() if served.resource.namespaced and "delete" in served.resource.verbs]

    def get(self, resource: str, namespace: str, name: str) -> dict[str, Any] | None:
        entry = self.entry(resource, namespace, name)
        return entry.object() if entry else None

    def entry(self, resource: str, namespace: str, name: str) -> Entry | None:
        """A stored object, not decoded."""
        return self._store.get(resource, namespace, name)

    async def decode(self, entry: Entry, function: Callable[[Entry], T]) -> T:
        """Call a function that decodes an object, in a thread if the object is large."""
        if entry.size < _LARGE_BYTES:
            return function(entry)
        return await budget.run_in_thread(partial(function, entry))

    def list_objects(self, resource: str, namespace: str | None = None) -> Iterator[dict[str, Any]]:
        return (entry.object() for entry in self._store.scan(resource, namespace))

    def entries(self, resource: str, namespace: str | None = None) -> list[Entry]:
        """The stored objects of a resource, not decoded."""
        return list(self._store.scan(resource, namespace))

    async def send(
        self, user: User, method: str, path: str, body: Mapping[str, Any] | None = None, **options: str
    ) -> dict[str, Any]:
        """Send a request as a user and decode the response; raises the ApiError of an error response.

        `options` are query parameters, and `content_type` and `user_agent`.
        """
        response: dict[str, Any] = orjson.loads(await self.write(user, method, path, body, **options) or b"{}")
        return response

    async def write(self, user: User, method: str, path: str, body: Mapping[str, Any] | None = None, **options: str) -> bytes:
        """Send a request like `send`, without decoding the response: decoding is much of a write's cost."""
        content_type = options.pop("content_type", "application/json")
        agent = options.pop("user_agent", "kube-controller-manager")
        headers = {"user-agent": agent, "accept": "application/json", "content-type": content_type}
        data = orjson.dumps(body) if body is not None else b""
        await self._take_turn()
        response = await self._handle(Request(method, path, tuple(options.items()), headers, data), user)
        if response.status >= 400:
            # The body of an unknown path is not a Status.
            is_status = response.body.startswith(b"{")
            raise from_status(response.status, orjson.loads(response.body) if is_status else {})
        return response.body

    async def _take_turn(self) -> None:
        """Wait for a turn of the event loop that has room for a write, so that requests of clients run in between."""
        loop = asyncio.get_running_loop()
        if self._writes >= WRITES_PER_TURN:
            waiter = loop.create_future()
            self._waiting.append(waiter)
            await waiter
            return
        if not self._writes:
            loop.call_soon(self._begin_turn)
        self._writes += 1

    def _begin_turn(self) -> None:
        self._writes = 0
        while self._waiting and self._writes < WRITES_PER_TURN:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                self._writes += 1
        if self._writes:
            asyncio.get_running_loop().call_soon(self._begin_turn)

    def _refresh(self) -> None:
        if self._generation == self.registry.generation:
            return
        self._generation = self.registry.generation
        self._by_kind, self._by_resource = {}, {}
        for resource in self.registry:
            version = resource.versions.get(resource.storage_version) or next(iter(resource.versions.values()), None)
            if version is None:
                continue
            verbs = tuple(version.verbs)
            built = Resource(resource.group, version.name, resource.kind, resource.plural, resource.namespaced, verbs=verbs)
            served = ServedResource(built, resource.storage_key)
            self._by_kind[resource.group, resource.kind] = served
            # Two groups may serve one stored resource, as with events: the first is enough.
            self._by_resource.setdefault(resource.storage_key, served)


def notify(observer: Index | Controller[Any], change: Change) -> None:
    """Pass a change to one observer; an exception is logged, so that the other observers still see the change."""
    try:
        observer.observe(change)
    except Exception:
        log.exception("%s failed on %s %s/%s", type(observer).__name__, change.resource, change.namespace, change.name)


def controller_user(name: str) -> User:
    """The service account that a controller acts as; the bootstrap policy grants its permissions."""
    return service_account("kube-system", name)
