"""What controllers do to the metadata of objects: patch, delete, and say why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.base.errors import NotFound
from sliceworks.twin.controllers.world import MERGE, Key, Served, World

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.twin.auth.identity import User

Metadata = dict[str, Any]


class Hands:
    """Acts as one controller's user. An object that is gone already is no error; one that has changed is a Conflict."""

    def __init__(self, world: World, user: User, component: str) -> None:
        self._world = world
        self._user = user
        self._component = component

    async def let_go(self, served: Served, key: Key, metadata: Metadata, uids: set[str]) -> None:
        """Take owners out of an object."""
        left = [ref for ref in metadata.get("ownerReferences") or () if ref.get("uid") not in uids]
        await self.patch(served, key, metadata, {"ownerReferences": left or None})

    async def drop_finalizer(self, served: Served, key: Key, metadata: Metadata, finalizer: str) -> None:
        left = [each for each in metadata.get("finalizers") or () if each != finalizer]
        await self.patch(served, key, metadata, {"finalizers": left or None})

    async def patch(self, served: Served, key: Key, metadata: Metadata, fields: Mapping[str, Any]) -> None:
        """Change metadata, provided that the object is still as it was seen."""
        body = {"metadata": {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"], **fields}}
        try:
            await self._world.send(self._user, "PATCH", served.path(key.namespace, key.name), body, content_type=MERGE)
        except NotFound:
            return

    async def delete(self, served: Served, key: Key, metadata: Metadata, policy: str) -> None:
        """Delete an object, provided that it is still as it was seen."""
        conditions = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
        body = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": conditions, "propagationPolicy": policy}
        try:
            await self._world.send(self._user, "DELETE", served.path(key.namespace, key.name), body)
        except NotFound:
            return

    async def warn(self, served: Served, obj: Mapping[str, Any], reason: str, message: str) -> None:
        """Leave a Warning event on an object."""
        metadata, now = obj["metadata"], clock.timestamp()
        namespace = metadata.get("namespace") or "default"
        about = {"kind": served.kind, "apiVersion": obj.get("apiVersion", ""), "name": metadata["name"], "uid": metadata["uid"]}
        if metadata.get("namespace"):
            about["namespace"] = namespace
        event = {
            "metadata": {"name": f"{metadata['name']}.{clock.randomness().getrandbits(64):016x}", "namespace": namespace},
            "involvedObject": about,
            "reason": reason,
            "message": message,
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
            "type": "Warning",
        }
        await self._world.send(self._user, "POST", f"/api/v1/namespaces/{namespace}/events", event)
