"""Writes objects as a controller's user. The resource gives the path: callers name objects only."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from sliceworks.base.errors import NotFound
from sliceworks.kube.resources import owner_reference
from sliceworks.twin.controllers.runtime.controller_context import (
    MERGE_PATCH,
    STRATEGIC_MERGE_PATCH,
    ControllerContext,
    ObjectKey,
    object_key,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sliceworks.kube.resources import Object
    from sliceworks.twin.apiserver.auth.authentication import User


class Written(NamedTuple):
    """The response to a write; decode it only if it is needed."""

    data: bytes

    def object(self) -> Object:
        obj: Object = orjson.loads(self.data)
        return obj


class ApiWriter:
    """Writes as one user, with `options` of `ControllerContext.write` such as a field manager.

    Methods raise the ApiError that the API responds with, unless they say otherwise.
    """

    def __init__(self, context: ControllerContext, user: User, **options: str) -> None:
        self._context, self._user, self._options = context, user, options

    async def create(self, resource: str, namespace: str, obj: Mapping[str, Any]) -> Written:
        return await self._send("POST", ObjectKey(resource, namespace, ""), obj)

    async def create_subresource(self, key: ObjectKey, subresource: str, obj: Mapping[str, Any]) -> Written:
        return await self._send("POST", key, obj, subresource)

    async def update(self, resource: str, obj: Mapping[str, Any], subresource: str = "") -> Written:
        return await self._send("PUT", object_key(resource, obj), obj, subresource)

    async def update_status(self, resource: str, obj: Mapping[str, Any], status: Mapping[str, Any] | None = None) -> Written:
        """Update the status subresource, with `status` instead of the object's own if given."""
        return await self.update(resource, obj if status is None else {**obj, "status": status}, "status")

    async def patch(
        self, key: ObjectKey, body: Mapping[str, Any], subresource: str = "", *, content_type: str = MERGE_PATCH, **options: str
    ) -> Written:
        return await self._send("PATCH", key, body, subresource, content_type=content_type, **options)

    async def patch_metadata(self, key: ObjectKey, metadata: Mapping[str, Any], fields: Mapping[str, Any]) -> None:
        """Patch metadata fields if the object is unchanged since `metadata` was read; a deleted object is ignored."""
        body = {"metadata": {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"], **fields}}
        with suppress(NotFound):
            await self.patch(key, body)

    async def remove_owners(self, key: ObjectKey, metadata: Mapping[str, Any], uids: set[str]) -> None:
        """Remove owner references by UID, like `patch_metadata`."""
        remaining = [ref for ref in metadata.get("ownerReferences") or () if ref.get("uid") not in uids]
        await self.patch_metadata(key, metadata, {"ownerReferences": remaining or None})

    async def remove_finalizer(self, key: ObjectKey, metadata: Mapping[str, Any], finalizer: str) -> None:
        """Remove a finalizer, like `patch_metadata`."""
        remaining = [name for name in metadata.get("finalizers") or () if name != finalizer]
        await self.patch_metadata(key, metadata, {"finalizers": remaining or None})

    async def adopt(self, key: ObjectKey, uid: str, owner: Mapping[str, Any], finalizers: Iterable[str] = ()) -> Written:
        """Make `owner` the controller of the object with this UID, and add finalizers."""
        fields: Object = {"ownerReferences": [owner_reference(owner)]}
        if finalizers:
            fields["finalizers"] = list(finalizers)
        return await self.patch_strategic(key, uid, fields)

    async def release(self, key: ObjectKey, uid: str, owner_uid: str, finalizers: Iterable[str] = ()) -> Written:
        """Remove an owner and finalizers from the object with this UID."""
        fields: Object = {"ownerReferences": [{"$patch": "delete", "uid": owner_uid}]}
        if finalizers:
            fields["$deleteFromPrimitiveList/finalizers"] = list(finalizers)
        return await self.patch_strategic(key, uid, fields)

    async def patch_strategic(self, key: ObjectKey, uid: str, fields: Mapping[str, Any]) -> Written:
        """Patch metadata fields of the object with this UID by a strategic merge patch."""
        body = {"metadata": {"uid": uid, **fields} if uid else fields}
        return await self.patch(key, body, content_type=STRATEGIC_MERGE_PATCH)

    async def delete(self, key: ObjectKey, options: Mapping[str, Any] | None = None) -> None:
        """Delete an object, with DeleteOptions if given."""
        await self._send("DELETE", key, options)

    async def delete_if_exists(self, key: ObjectKey, options: Mapping[str, Any] | None = None) -> bool:
        """Delete an object; False if it does not exist."""
        try:
            await self.delete(key, options)
        except NotFound:
            return False
        return True

    async def delete_unchanged(self, key: ObjectKey, metadata: Mapping[str, Any], propagation_policy: str) -> None:
        """Delete an object if it is unchanged since `metadata` was read; a deleted object is ignored."""
        preconditions = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
        options = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": preconditions}
        await self.delete_if_exists(key, {**options, "propagationPolicy": propagation_policy})

    async def _send(
        self, method: str, key: ObjectKey, body: Mapping[str, Any] | None, subresource: str = "", **options: str
    ) -> Written:
        served = self._context.resource_for(key.resource)
        if served is None:
            raise NotFound("the server could not find the requested resource")
        path = served.resource.path(key.namespace, key.name or None, subresource)
        return Written(await self._context.write(self._user, method, path, body, **self._options, **options))
