"""One client for any cluster: reads, writes, watches and subresource calls on plain dicts."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self, Unpack

from sliceworks.base.errors import Expired, Gone, NotFound
from sliceworks.kube import requests
from sliceworks.kube.discovery import Discovery
from sliceworks.kube.requests import PatchType, delete_body
from sliceworks.kube.resources import POD, SERVICE_ACCOUNT, find_builtin, gvk_of
from sliceworks.kube.rest import RestClient, close_stream, read_event_batches

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence

    from sliceworks.base.retry import Retry
    from sliceworks.base.transport import Transport
    from sliceworks.kube.requests import DeleteOptions, ListOptions, LogOptions, PatchOptions, WriteOptions
    from sliceworks.kube.resources import Object, Resource
    from sliceworks.kube.rest import Batch, Event, OnWarning


class SubresourceClient(RestClient):
    """Calls on subresources with their own request and response types."""

    async def evict(self, pod: str, namespace: str, **options: Unpack[DeleteOptions]) -> Object:
        """Evict a pod; TooManyRequests if its disruption budget does not allow it."""
        body: Object = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": namespace}}
        if delete_options := delete_body(options):
            body["deleteOptions"] = delete_options
        return await self.send(requests.create(POD, body, namespace, name=pod, subresource="eviction"))

    async def create_token(
        self,
        service_account: str,
        namespace: str,
        *,
        audiences: Sequence[str] = (),
        seconds: int | None = None,
        pod: Object | None = None,
    ) -> Object:
        """Create a TokenRequest, bound to a pod if given; the response has `status.token` and `status.expirationTimestamp`."""
        spec: dict[str, Any] = {"audiences": list(audiences)}
        if seconds is not None:
            spec["expirationSeconds"] = seconds
        if pod is not None:
            name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
            spec["boundObjectRef"] = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid}
        body: Object = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "metadata": {}, "spec": spec}
        return await self.send(requests.create(SERVICE_ACCOUNT, body, namespace, name=service_account, subresource="token"))

    async def logs(self, pod: str, namespace: str, **options: Unpack[LogOptions]) -> str:
        """The log of a container so far."""
        response = await self.exchange(requests.log(POD, pod, namespace, **options))
        return response.body.decode(errors="replace")

    async def follow_logs(self, pod: str, namespace: str, **options: Unpack[LogOptions]) -> AsyncGenerator[bytes, None]:
        """The log of a container in chunks, until the container ends."""
        response = await self.exchange(requests.log(POD, pod, namespace, follow=True, **options), stream=True)
        if response.stream is None:
            yield response.body
            return
        try:
            async for chunk in response.stream:
                yield chunk
        finally:
            await close_stream(response.stream)


CHUNK = 500  # objects per request when a collection is read in chunks; kubectl uses the same


@dataclass(slots=True)
class Items:
    """A list: its objects, its resource version, and the token of the next chunk, if any."""

    items: list[Object] = field(default_factory=list)
    resource_version: str = ""
    continue_token: str = ""
    remaining: int = 0


class Client(SubresourceClient):
    """Reads and writes objects of a cluster.

    A namespaced object is written to the given namespace, else to the one in its metadata, else to the client's default. A list or
    watch without a namespace covers all namespaces.
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
        """A client on the same connection with another retry policy, field manager or namespace."""
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
        """The resource of an object: built in, or found by discovery."""
        gvk = gvk_of(obj)
        return find_builtin(gvk) or await self.discovery.by_gvk(gvk)

    async def get(
        self, resource: Resource, name: str, namespace: str | None = None, *, subresource: str = "", resource_version: str = ""
    ) -> Object:
        """Read an object or a subresource."""
        namespace = namespace or self.namespace
        return await self.send(requests.get(resource, name, namespace, subresource=subresource, resource_version=resource_version))

    async def find(self, resource: Resource, name: str, namespace: str | None = None) -> Object | None:
        """Read an object; None if it does not exist."""
        try:
            return await self.get(resource, name, namespace)
        except NotFound:
            return None

    async def create(
        self, obj: Object, namespace: str | None = None, *, resource: Resource | None = None, **options: Unpack[WriteOptions]
    ) -> Object:
        """Create an object."""
        resource = resource or await self.resource_of(obj)
        options.setdefault("field_manager", self.field_manager)
        return await self.send(requests.create(resource, obj, self._namespace_of(obj, namespace), **options))

    async def replace(
        self,
        obj: Object,
        namespace: str | None = None,
        *,
        resource: Resource | None = None,
        subresource: str = "",
        **options: Unpack[WriteOptions],
    ) -> Object:
        """Update a whole object that was read before; Conflict if it has changed since."""
        resource = resource or await self.resource_of(obj)
        options.setdefault("field_manager", self.field_manager)
        return await self.send(
            requests.replace(resource, obj, self._namespace_of(obj, namespace), subresource=subresource, **options)
        )

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
        """Patch an object or a subresource."""
        options.setdefault("field_manager", self.field_manager)
        namespace = namespace or self.namespace
        return await self.send(requests.patch(resource, name, change, namespace, kind=kind, subresource=subresource, **options))

    async def remove_finalizer(
        self, resource: Resource, metadata: Mapping[str, Any], finalizer: str, **options: Unpack[PatchOptions]
    ) -> Object | None:
        """Remove a finalizer; None if the object does not have it or is deleted. Raises Conflict if the object has changed."""
        finalizers = metadata.get("finalizers") or ()
        if finalizer not in finalizers:
            return None
        remaining = [name for name in finalizers if name != finalizer]
        patch: Object = {"metadata": {"resourceVersion": metadata["resourceVersion"], "finalizers": remaining}}
        try:
            return await self.patch(resource, metadata["name"], patch, metadata.get("namespace"), **options)
        except NotFound:
            return None

    async def apply(
        self,
        obj: Object,
        namespace: str | None = None,
        *,
        resource: Resource | None = None,
        subresource: str = "",
        **options: Unpack[PatchOptions],
    ) -> Object:
        """Server-side apply: set these fields and own them; Conflict if another manager owns one and `force` is not set."""
        resource = resource or await self.resource_of(obj)
        options.setdefault("field_manager", self.field_manager)
        return await self.send(
            requests.apply(resource, obj, self._namespace_of(obj, namespace), subresource=subresource, **options)
        )

    async def delete(self, resource: Resource, name: str, namespace: str | None = None, **options: Unpack[DeleteOptions]) -> Object:
        """Delete an object; returns it while it is terminating, or a Status if it is deleted."""
        return await self.send(requests.delete(resource, name, namespace or self.namespace, **options))

    async def delete_collection(
        self,
        resource: Resource,
        namespace: str | None = None,
        selection: ListOptions | None = None,
        **options: Unpack[DeleteOptions],
    ) -> Object:
        """Delete all selected objects of a namespace."""
        return await self.send(requests.delete_collection(resource, namespace or self.namespace, selection, **options))

    async def list(self, resource: Resource, namespace: str | None = None, **options: Unpack[ListOptions]) -> Items:
        """One list request: all objects, or the first `limit`."""
        response = await self.send(requests.list_(resource, namespace, **options))
        metadata = response.get("metadata") or {}
        items: list[Object] = response.get("items") or []
        # kube-apiserver omits apiVersion and kind of the items of a list.
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
        """A whole list, read in chunks. If the continue token expires, the list is read again in one request."""
        result = await self.list(resource, namespace, **_limited(options, chunk))
        while result.continue_token:
            try:
                part = await self.list(resource, namespace, **_next_chunk(options, chunk, result.continue_token))
            except (Expired, Gone):
                return await self.list(resource, namespace, **_limited(options, 0))
            result.items += part.items
            result.resource_version, result.continue_token = part.resource_version, part.continue_token
        result.remaining = 0
        return result

    async def iterate(
        self, resource: Resource, namespace: str | None = None, *, chunk: int = CHUNK, **options: Unpack[ListOptions]
    ) -> AsyncGenerator[Object, None]:
        """All objects of a list, read in chunks on demand; none is repeated if the list has to be read again."""
        seen: set[str] = set()
        part = await self.list(resource, namespace, **_limited(options, chunk))
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
                part = await self.list(resource, namespace, **_limited(options, 0))

    async def watch(
        self, resource: Resource, namespace: str | None = None, **options: Unpack[ListOptions]
    ) -> AsyncGenerator[Event, None]:
        """Watch events, one by one, until the server ends the watch. An ERROR event is raised.

        Close it if you stop early: `async with aclosing(client.watch(...)) as events`.
        """
        async with aclosing(self.watch_batches(resource, namespace, **options)) as batches:
            async for batch in batches:
                for event in batch:
                    yield event

    async def watch_batches(
        self, resource: Resource, namespace: str | None = None, **options: Unpack[ListOptions]
    ) -> AsyncGenerator[Batch, None]:
        """Watch events in batches as they arrive. The first batch is empty: the server has accepted the watch."""
        response = await self.exchange(requests.watch(resource, namespace, **options), stream=True)
        if response.stream is None:
            return
        try:
            yield []
            async with aclosing(read_event_batches(response.stream)) as batches:
                async for batch in batches:
                    yield batch
        finally:
            await close_stream(response.stream)

    async def close(self) -> None:
        """Close the transport."""
        await self.transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _namespace_of(self, obj: Object, namespace: str | None) -> str:
        return namespace or (obj.get("metadata") or {}).get("namespace") or self.namespace


def _limited(options: ListOptions, limit: int) -> ListOptions:
    return {**options, "limit": limit}


def _next_chunk(options: ListOptions, chunk: int, token: str) -> ListOptions:
    # The token contains the resource version; kube-apiserver rejects requests with both.
    next_options: ListOptions = {**options, "limit": chunk, "continue_token": token}
    next_options.pop("resource_version", None)
    next_options.pop("resource_version_match", None)
    return next_options
