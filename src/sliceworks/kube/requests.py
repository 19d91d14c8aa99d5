"""Requests as data: pure functions that say what to ask a cluster, and send nothing."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, Unpack

import orjson

from sliceworks.base.errors import UsageError
from sliceworks.kube.options import DeleteOptions, ListOptions, LogOptions, PatchOptions, WriteOptions, delete_body, query
from sliceworks.kube.transport import Request

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sliceworks.kube.resources import Object, Resource

_ACCEPT: Mapping[str, str] = {"accept": "application/json"}
_SEND_JSON: Mapping[str, str] = {"accept": "application/json", "content-type": "application/json"}
_ACCEPT_TEXT: Mapping[str, str] = {"accept": "*/*"}


class PatchType(Enum):
    """How a patch is meant; the value is its content type."""

    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    APPLY = "application/apply-patch+yaml"


_PATCH_HEADERS: dict[PatchType, Mapping[str, str]] = {
    kind: {"accept": "application/json", "content-type": kind.value} for kind in PatchType
}


def get(
    resource: Resource, name: str, namespace: str | None = None, *, subresource: str = "", resource_version: str = ""
) -> Request:
    """Read one object, or a part of it."""
    parameters = (("resourceVersion", resource_version),) if resource_version else ()
    return Request("GET", resource.path(namespace, name, subresource), parameters, _ACCEPT)


def list_(resource: Resource, namespace: str | None = None, **options: Unpack[ListOptions]) -> Request:
    """List a collection: of one namespace, or of all."""
    return Request("GET", resource.path(namespace), query(options), _ACCEPT)


def watch(resource: Resource, namespace: str | None = None, **options: Unpack[ListOptions]) -> Request:
    """Follow the changes of a collection."""
    return Request("GET", resource.path(namespace), (("watch", "true"), *query(options)), _ACCEPT)


def create(
    resource: Resource,
    obj: Object,
    namespace: str | None = None,
    *,
    name: str | None = None,
    subresource: str = "",
    **options: Unpack[WriteOptions],
) -> Request:
    """Make an object; with `name` and `subresource`, post to a part of an existing one."""
    if resource.namespaced and not namespace:
        raise UsageError(f"{resource.kind} {_name_in(obj)} needs a namespace")
    return Request("POST", resource.path(namespace, name, subresource), query(options), _SEND_JSON, orjson.dumps(obj))


def replace(
    resource: Resource, obj: Object, namespace: str | None = None, *, subresource: str = "", **options: Unpack[WriteOptions]
) -> Request:
    """Put a whole object in place of the stored one, or only a part of it."""
    path = resource.path(namespace, obj["metadata"]["name"], subresource)
    return Request("PUT", path, query(options), _SEND_JSON, orjson.dumps(obj))


def patch(
    resource: Resource,
    name: str,
    change: Object | Sequence[Object],
    namespace: str | None = None,
    *,
    kind: PatchType = PatchType.MERGE,
    subresource: str = "",
    **options: Unpack[PatchOptions],
) -> Request:
    """Change a stored object, or only a part of it."""
    if kind is PatchType.APPLY and not options.get("field_manager"):
        raise UsageError("server-side apply needs a field manager")
    return Request("PATCH", resource.path(namespace, name, subresource), query(options), _PATCH_HEADERS[kind], orjson.dumps(change))


def apply(
    resource: Resource, obj: Object, namespace: str | None = None, *, subresource: str = "", **options: Unpack[PatchOptions]
) -> Request:
    """Server-side apply: these fields are to be so, and belong to the field manager."""
    return patch(resource, obj["metadata"]["name"], obj, namespace, kind=PatchType.APPLY, subresource=subresource, **options)


def delete(resource: Resource, name: str, namespace: str | None = None, **options: Unpack[DeleteOptions]) -> Request:
    """Delete one object."""
    return _delete(resource.path(namespace, name), (), delete_body(options))


def delete_collection(
    resource: Resource, namespace: str | None = None, selection: ListOptions | None = None, **options: Unpack[DeleteOptions]
) -> Request:
    """Delete everything that is selected."""
    if resource.namespaced and not namespace:
        raise UsageError(f"deleting {resource.plural} needs a namespace")
    return _delete(resource.path(namespace), query(selection or {}), delete_body(options))


def log(resource: Resource, name: str, namespace: str, *, follow: bool = False, **options: Unpack[LogOptions]) -> Request:
    """Read a container's log."""
    parameters = query(options)
    if follow:
        parameters = (("follow", "true"), *parameters)
    return Request("GET", resource.path(namespace, name, "log"), parameters, _ACCEPT_TEXT)


def _delete(path: str, parameters: tuple[tuple[str, str], ...], body: dict[str, Any] | None) -> Request:
    if body is None:
        return Request("DELETE", path, parameters, _ACCEPT)
    return Request("DELETE", path, parameters, _SEND_JSON, orjson.dumps(body))


def _name_in(obj: Object) -> str:
    metadata = obj.get("metadata") or {}
    return str(metadata.get("name") or metadata.get("generateName") or "without a name")
