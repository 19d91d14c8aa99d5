"""What a controller sees of the cluster and does to it: reads come from the store, writes go through the API like anyone's."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar, cast
from urllib.parse import quote

import orjson

from sliceworks.base.errors import from_status
from sliceworks.kube.transport import Request
from sliceworks.twin.auth.identity import service_account

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping

    from sliceworks.kube.transport import Response
    from sliceworks.twin.api.resources import Registry
    from sliceworks.twin.auth.identity import User
    from sliceworks.twin.controllers.loop import Change, Controller
    from sliceworks.twin.store.store import Store

    Handle = Callable[[Request, User], Awaitable[Response]]

log = logging.getLogger("sliceworks.twin.controllers")
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"


class Index(Protocol):
    """Something that several controllers look things up in."""

    @property
    def watches(self) -> frozenset[str]:
        """The resources whose changes it is told of."""

    def observe(self, change: Change) -> None:
        """Take note of a change, before any controller does."""


I = TypeVar("I", bound=Index)  # noqa: E741 - the type of an index


class Key(NamedTuple):
    """One object: `resource` is the `group/plural` it is stored under."""

    resource: str
    namespace: str
    name: str


class Served(NamedTuple):
    """How a resource is reached."""

    resource: str
    stored_as: str
    base: str
    plural: str
    kind: str
    namespaced: bool
    verbs: tuple[str, ...]

    def path(self, namespace: str, name: str = "", subresource: str = "") -> str:
        path = (
            f"{self.base}/namespaces/{namespace}/{self.plural}" if self.namespaced and namespace else f"{self.base}/{self.plural}"
        )
        return path + (f"/{quote(name, safe=':')}" if name else "") + (f"/{subresource}" if subresource else "")


class World:
    """The cluster as controllers know it."""

    def __init__(self, store: Store, registry: Registry, handle: Handle) -> None:
        self._store = store
        self._registry = registry
        self._handle = handle
        self._generation = -1
        self._by_kind: dict[tuple[str, str], Served] = {}
        self._by_resource: dict[str, Served] = {}
        self._indexes: dict[type[Any], Index] = {}
        self._interested: dict[str, tuple[Index, ...]] = {}

    def shared(self, kind: type[I]) -> I:
        """The one index of this kind that all controllers of the cluster share. Ask for it before anything runs."""
        if kind not in self._indexes:
            self._indexes[kind] = kind()
        return cast("I", self._indexes[kind])

    @property
    def indexes(self) -> tuple[type[Index], ...]:
        """Which indexes there are."""
        return tuple(self._indexes)

    def forget(self, kinds: Iterable[type[Index]]) -> None:
        """Drop indexes: whoever asks for one again gets one that is empty."""
        for kind in kinds:
            self._indexes.pop(kind, None)
        self._interested.clear()

    def observe(self, change: Change) -> None:
        """Bring the shared indexes up to date."""
        interested = self._interested.get(change.resource)
        if interested is None:
            found = (index for index in self._indexes.values() if change.resource in index.watches)
            interested = self._interested[change.resource] = tuple(found)
        for index in interested:
            tell(index, change)

    def of_kind(self, api_version: str, kind: str) -> Served | None:
        """The resource that serves a kind; None when there is none."""
        self._refresh()
        return self._by_kind.get((api_version.rpartition("/")[0], kind))

    def of(self, resource: str) -> Served | None:
        """The resource stored under this name."""
        self._refresh()
        return self._by_resource.get(resource)

    def namespaced(self) -> list[Served]:
        """All that lives in namespaces and can be deleted there."""
        self._refresh()
        return [served for served in self._by_resource.values() if served.namespaced and "delete" in served.verbs]

    def get(self, resource: str, namespace: str, name: str) -> dict[str, Any] | None:
        entry = self._store.get(resource, namespace, name)
        return entry.object() if entry else None

    def find_all(self, resource: str, namespace: str | None = None) -> Iterator[dict[str, Any]]:
        return (entry.object() for entry in self._store.scan(resource, namespace))

    def holding(self, resource: str, text: bytes) -> Iterator[dict[str, Any]]:
        """The objects of a resource in which some text occurs: cheaper than to decode them all."""
        return (entry.object() for entry in self._store.scan(resource) if text in entry.data)

    async def send(
        self, user: User, method: str, path: str, body: Mapping[str, Any] | None = None, **options: str
    ) -> dict[str, Any]:
        """Ask the API for something as a controller's user; raises the ApiError it answers with."""
        found: dict[str, Any] = orjson.loads(await self._send(user, method, path, body, options) or b"{}")
        return found

    async def tell(self, user: User, method: str, path: str, body: Mapping[str, Any] | None = None, **options: str) -> None:
        """The same for those who do not look at the answer: to read it is much of what a write costs."""
        await self._send(user, method, path, body, options)

    async def _send(self, user: User, method: str, path: str, body: Mapping[str, Any] | None, options: dict[str, str]) -> bytes:
        kind = options.pop("content_type", "application/json")
        agent = options.pop("user_agent", "kube-controller-manager")
        headers = {"user-agent": agent, "accept": "application/json", "content-type": kind}
        data = orjson.dumps(body) if body is not None else b""
        response = await self._handle(Request(method, path, tuple(options.items()), headers, data), user)
        if response.status >= 400:
            raise from_status(response.status, orjson.loads(response.body) if response.body else {})
        return response.body

    def _refresh(self) -> None:
        if self._generation == self._registry.generation:
            return
        self._generation = self._registry.generation
        self._by_kind, self._by_resource = {}, {}
        for resource in self._registry:
            version = resource.versions.get(resource.storage_version) or next(iter(resource.versions.values()), None)
            if version is None:
                continue
            base = f"/apis/{resource.group}/{version.name}" if resource.group else f"/api/{version.name}"
            served = Served(
                resource.key, resource.stored_as, base, resource.plural, resource.kind, resource.namespaced, tuple(version.verbs)
            )
            self._by_kind[resource.group, resource.kind] = served
            # Two groups may serve what is stored once, as with events: one of them is enough.
            self._by_resource.setdefault(resource.stored_as, served)


def tell(observer: Index | Controller[Any], change: Change) -> None:
    """Tell one of a change: where it cannot make sense of it, the others must hear of it all the same."""
    try:
        observer.observe(change)
    except Exception:
        log.exception("%s failed on %s %s/%s", type(observer).__name__, change.resource, change.namespace, change.name)


def controller_user(name: str) -> User:
    """The user a controller acts as; the bootstrap policy gives it its rights."""
    return service_account("kube-system", name)
