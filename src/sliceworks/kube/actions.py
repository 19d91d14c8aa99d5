"""What can be done with a part of an object: scale, evict, bind, a token for a service account, logs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from sliceworks.kube import requests
from sliceworks.kube.options import delete_body
from sliceworks.kube.sender import Sender, close_stream
from sliceworks.kube.well_known import POD, SERVICE_ACCOUNT

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from sliceworks.kube.options import DeleteOptions, LogOptions, WriteOptions
    from sliceworks.kube.resources import Object, Resource


class Actions(Sender):
    """Calls on subresources that have their own shape."""

    async def get_scale(self, resource: Resource, name: str, namespace: str) -> Object:
        """The Scale of an object."""
        return await self.send(requests.get(resource, name, namespace, subresource="scale"))

    async def scale(self, resource: Resource, name: str, namespace: str, replicas: int, **options: Unpack[WriteOptions]) -> Object:
        """Set the wanted replicas; returns the Scale."""
        change = {"spec": {"replicas": replicas}}
        return await self.send(requests.patch(resource, name, change, namespace, subresource="scale", **options))

    async def evict(self, pod: str, namespace: str, **options: Unpack[DeleteOptions]) -> Object:
        """Delete a pod if its disruption budget allows; TooManyRequests when it does not."""
        body: Object = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": namespace}}
        if delete_options := delete_body(options):
            body["deleteOptions"] = delete_options
        return await self.send(requests.create(POD, body, namespace, name=pod, subresource="eviction"))

    async def bind(self, pod: str, namespace: str, node: str, *, uid: str = "") -> Object:
        """Give a pod to a node."""
        metadata = {"name": pod, "namespace": namespace, **({"uid": uid} if uid else {})}
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        body: Object = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
        return await self.send(requests.create(POD, body, namespace, name=pod, subresource="binding"))

    async def token(
        self, service_account: str, namespace: str, *, audiences: Sequence[str] = (), seconds: int | None = None
    ) -> Object:
        """A TokenRequest answered: `status.token` and `status.expirationTimestamp`."""
        spec: dict[str, Any] = {"audiences": list(audiences)}
        if seconds is not None:
            spec["expirationSeconds"] = seconds
        body: Object = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "metadata": {}, "spec": spec}
        return await self.send(requests.create(SERVICE_ACCOUNT, body, namespace, name=service_account, subresource="token"))

    async def logs(self, pod: str, namespace: str, **options: Unpack[LogOptions]) -> str:
        """What a container has written so far."""
        response = await self.exchange(requests.log(POD, pod, namespace, **options))
        return response.body.decode(errors="replace")

    async def follow_logs(self, pod: str, namespace: str, **options: Unpack[LogOptions]) -> AsyncGenerator[bytes, None]:
        """What a container writes, in pieces, until it ends."""
        response = await self.exchange(requests.log(POD, pod, namespace, follow=True, **options), stream=True)
        if response.stream is None:
            yield response.body
            return
        try:
            async for piece in response.stream:
                yield piece
        finally:
            await close_stream(response.stream)
