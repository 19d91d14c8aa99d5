"""One client for any cluster: requests are built by `requests`, sent by `sender`, and answers are plain dicts."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self, Unpack

from sliceworks.base.errors import Expired, Gone, NotFound
from sliceworks.kube import requests
from sliceworks.kube.actions import Actions
from sliceworks.kube.discovery import Discovery
from sliceworks.kube.requests import PatchType
from sliceworks.kube.resources import gvk_of
from sliceworks.kube.sender import close_stream
from sliceworks.kube.watching import batches
from sliceworks.kube.well_known import well_known

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from sliceworks.kube.backoff import Retry
    from sliceworks.kube.options import DeleteOptions, ListOptions, PatchOptions, WriteOptions
    from sliceworks.kube.resources import Object, Resource
    from sliceworks.kube.sender import OnWarning
    from sliceworks.kube.transport import Transport
    from sliceworks.kube.watching import Batch, Event

CHUNK = 500  # objects in one answer where a collection is read in chunks, as kubectl reads it


@dataclass(slots=True)
class Items:
    """A list: its objects, the version it is of, and where to go on if there is more."""

    items: list[Object] = field(default_factory=list)
    resource_version: str = ""
    continue_token: str = ""
    remaining: int = 0


class Client(Actions):
    """Reads and writes objects of a cluster.

    A write of a namespaced object goes to the namespace given, else the one in the object, else the client's own. A list or a watch
    without a namespace is of all namespaces.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        namespace: str = "default",
        field_manager: str = "sliceworks",
        retry: Retry | None = None,
        on_warning: OnWarning | None = None,
    ) -> None:
        super().__init__(transport, retry=retry, on_warning=on_warning)
        self.namespace = namespace
        self.field_manager = field_manager
        self.discovery = Discovery(self)

    def using(self, *, retry: Retry | None = None, field_manager: str = "", namespace: str = "") -> Client:
        """The same connection under another policy, field manager or namespace."""
        other = Client(
            self.transport,
            namespace=namespace or self.namespace,
            field_manager=field_manager or self.field_manager,
            retry=retry or self.retry,
            on_warning=self.on_warning,
        )
        other.discovery = self.discovery
        return other

    async def resource_of(self, obj: Object) -> Resource:
        """The resource that an object is of: known, or found by discovery."""
        gvk = gvk_of(obj)
        return well_known(gvk) or await self.discovery.by_gvk(gvk)

    async def get(
        self, resource: Resource, name: str, namespace: str | None = None, *, subresource: str = "", resource_version: str = ""
    ) -> Object:
        """Read one object, or a part of it."""
        place = namespace or self.namespace
        return await self.send(requests.get(resource, name, place, subresource=subresource, resource_version=resource_version))

    async def find(self, resource: Resource, name: str, namespace: str | None = None) -> Object | None:
        """The same, or None where there is no such object."""
        try:
            return await self.get(resource, name, namespace)
        except NotFound:
            return None

    async def create(
        self, obj: Object, namespace: str | None = None, *, resource: Resource | None = None, **options: Unpack[WriteOptions]
    ) -> Object:
        """Make an object."""
        resource = resource or await self.resource_of(obj)
        options.setdefault("field_manager", self.field_manager)
        return await self.send(requests.create(resource, obj, self._place(obj, namespace), **options))

    async def replace(
        self,
        obj: Object,
        namespace: str | None = None,
        *,
        resource: Resource | None = None,
        subresource: str = "",
        **options: Unpack[WriteOptions],
    ) -> Object:
        """Put a whole object, as read before and changed, in place of the stored one; Conflict if that has changed meanwhile."""
        resource = resource or await self.resource_of(obj)
        options.setdefault("field_manager", self.field_manager)
        return await self.send(requests.replace(resource, obj, self._place(obj, namespace), subresource=subresource, **options))

    async def patch(
        self,
        resource: Resource,
        name: str,
        change: Object | Sequence[Object],
        namespace: str | None = None,
        *,
        kind: PatchType = PatchType.MERGE,
        subresource: str = "",
        **options: Unpack[PatchOptions],
    ) -> Object:
        """Change a stored object, or a part of it."""
        options.setdefault("field_manager", self.field_manager)
        place = namespace or self.namespace
        return await self.send(requests.patch(resource, name, change, place, kind=kind, subresource=subresource, **options))

    async def apply(
        self,
        obj: Object,
        namespace: str | None = None,
        *,
        resource: Resource | None = None,
        subresource: str = "",
        **options: Unpack[PatchOptions],
    ) -> Object:
        """Server-side apply: make these fields so, and own them; Conflict if another manager does and `force` is not set."""
        resource = resource or await self.resource_of(obj)
        options.setdefault("field_manager", self.field_manager)
        return await self.send(requests.apply(resource, obj, self._place(obj, namespace), subresource=subresource, **options))

    async def delete(self, resource: Resource, name: str, namespace: str | None = None, **options: Unpack[DeleteOptions]) -> Object:
        """Delete one object; returns it as it is going, or a Status when it is gone."""
        return await self.send(requests.delete(resource, name, namespace or self.namespace, **options))

    async def delete_collection(
        self,
        resource: Resource,
        namespace: str | None = None,
        selection: ListOptions | None = None,
        **options: Unpack[DeleteOptions],
    ) -> Object:
        """Delete everything in a namespace that is selected."""
        return await self.send(requests.delete_collection(resource, namespace or self.namespace, selection, **options))

    async def list(self, resource: Resource, namespace: str | None = None, **options: Unpack[ListOptions]) -> Items:
        """One answer to one list request: all of it, or the `limit` first."""
        answer = await self.send(requests.list_(resource, namespace, **options))
        metadata = answer.get("metadata") or {}
        items: list[Object] = answer.get("items") or []
        # A list names its kind once; each object says it too when it travels alone.
        api_version, kind = resource.api_version, resource.kind
        for item in items:
            item["apiVersion"] = api_version
            item["kind"] = kind
        return Items(
            items, metadata.get("resourceVersion", ""), metadata.get("continue", ""), metadata.get("remainingItemCount") or 0
        )

    async def list_all(
        self, resource: Resource, namespace: str | None = None, *, chunk: int = CHUNK, **options: Unpack[ListOptions]
    ) -> Items:
        """A whole list, read in chunks. When the server no longer knows where they left off, it is read anew in one piece."""
        found = await self.list(resource, namespace, **_first_chunk(options, chunk))
        while found.continue_token:
            try:
                part = await self.list(resource, namespace, **_next_chunk(options, chunk, found.continue_token))
            except (Expired, Gone):
                return await self.list(resource, namespace, **_whole(options))
            found.items += part.items
            found.resource_version, found.continue_token = part.resource_version, part.continue_token
        found.remaining = 0
        return found

    async def each(
        self, resource: Resource, namespace: str | None = None, *, chunk: int = CHUNK, **options: Unpack[ListOptions]
    ) -> AsyncGenerator[Object, None]:
        """Every object of a list, read in chunks as they are needed; none is given twice when the list has to be read anew."""
        seen: set[str] = set()
        part = await self.list(resource, namespace, **_first_chunk(options, chunk))
        while True:
            for item in part.items:
                uid = item["metadata"].get("uid", "")
                if uid not in seen:
                    seen.add(uid)
                    yield item
            if not part.continue_token:
                return
            try:
                part = await self.list(resource, namespace, **_next_chunk(options, chunk, part.continue_token))
            except (Expired, Gone):
                part = await self.list(resource, namespace, **_whole(options))

    async def watch(
        self, resource: Resource, namespace: str | None = None, **options: Unpack[ListOptions]
    ) -> AsyncGenerator[Event, None]:
        """The changes of a collection, one by one, until the server ends the watch. An ERROR is raised.

        Whoever leaves early closes it: `async with aclosing(client.watch(...)) as events`.
        """
        async with aclosing(self.watch_batches(resource, namespace, **options)) as arriving:
            async for batch in arriving:
                for event in batch:
                    yield event

    async def watch_batches(
        self, resource: Resource, namespace: str | None = None, **options: Unpack[ListOptions]
    ) -> AsyncGenerator[Batch, None]:
        """The changes of a collection as they arrive: all that came in one piece, together. The first batch is empty: it says that
        the server has taken the watch."""
        response = await self.exchange(requests.watch(resource, namespace, **options), stream=True)
        if response.stream is None:
            return
        try:
            yield []
            async with aclosing(batches(response.stream)) as arriving:
                async for batch in arriving:
                    yield batch
        finally:
            await close_stream(response.stream)

    async def close(self) -> None:
        """Let go of connections."""
        await self.transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _place(self, obj: Object, namespace: str | None) -> str:
        return namespace or (obj.get("metadata") or {}).get("namespace") or self.namespace


def _first_chunk(options: ListOptions, chunk: int) -> ListOptions:
    return {**options, "limit": chunk}


def _whole(options: ListOptions) -> ListOptions:
    return {**options, "limit": 0}


def _next_chunk(options: ListOptions, chunk: int, token: str) -> ListOptions:
    # The token already says of which version the list is; a server refuses to hear it twice.
    following: ListOptions = {**options, "limit": chunk, "continue_token": token}
    following.pop("resource_version", None)
    following.pop("resource_version_match", None)
    return following
