"""Requests as data: pure functions that build list, watch, get, create, patch and delete requests from typed options."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

import orjson

from sliceworks.base.errors import UsageError
from sliceworks.base.transport import Request

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sliceworks.kube.field_selectors import FieldSelector
    from sliceworks.kube.resources import Object, Resource
    from sliceworks.kube.selectors import LabelSelector


PropagationPolicy = Literal["Background", "Foreground", "Orphan"]
FieldValidation = Literal["Ignore", "Warn", "Strict"]
Query = tuple[tuple[str, str], ...]


class ListOptions(TypedDict, total=False):
    """Options of list and watch requests."""

    labels: str | LabelSelector
    fields: str | FieldSelector
    limit: int
    continue_token: str
    resource_version: str
    resource_version_match: Literal["Exact", "NotOlderThan"]
    timeout_seconds: int
    allow_watch_bookmarks: bool
    send_initial_events: bool


class WriteOptions(TypedDict, total=False):
    """Options of create and update requests."""

    field_manager: str
    field_validation: FieldValidation
    dry_run: bool


class PatchOptions(WriteOptions, total=False):
    """Options of patch requests; `force` takes over fields from other managers (apply only)."""

    force: bool


class DeleteOptions(TypedDict, total=False):
    """Options of delete requests; `uid` and `resource_version` are preconditions."""

    propagation_policy: PropagationPolicy
    grace_period_seconds: int
    uid: str
    resource_version: str
    dry_run: bool


class LogOptions(TypedDict, total=False):
    """Options of log requests."""

    container: str
    previous: bool
    since_seconds: int
    since_time: str
    tail_lines: int
    limit_bytes: int
    timestamps: bool


_PARAMETERS = {
    "labels": "labelSelector",
    "fields": "fieldSelector",
    "limit": "limit",
    "continue_token": "continue",
    "resource_version": "resourceVersion",
    "resource_version_match": "resourceVersionMatch",
    "timeout_seconds": "timeoutSeconds",
    "allow_watch_bookmarks": "allowWatchBookmarks",
    "send_initial_events": "sendInitialEvents",
    "field_manager": "fieldManager",
    "field_validation": "fieldValidation",
    "force": "force",
    "container": "container",
    "previous": "previous",
    "since_seconds": "sinceSeconds",
    "since_time": "sinceTime",
    "tail_lines": "tailLines",
    "limit_bytes": "limitBytes",
    "timestamps": "timestamps",
}


def query_parameters(options: Mapping[str, Any]) -> Query:
    """Options as query parameters. Empty values are omitted; zero is sent."""
    parameters: list[tuple[str, str]] = []
    for name, value in options.items():
        if value is None or value is False or value == "":
            continue
        if name == "dry_run":
            parameters.append(("dryRun", "All"))
            continue
        if getattr(value, "matches_nothing", False):
            raise UsageError("a selector that matches nothing cannot be sent to the API server")
        if parameter := "true" if value is True else str(value):
            parameters.append((_PARAMETERS[name], parameter))
    return tuple(parameters)


def delete_body(options: Mapping[str, Any]) -> dict[str, Any] | None:
    """Options as a DeleteOptions object; None if all are defaults."""
    body: dict[str, Any] = {}
    if policy := options.get("propagation_policy"):
        body["propagationPolicy"] = policy
    if (seconds := options.get("grace_period_seconds")) is not None:
        body["gracePeriodSeconds"] = seconds
    if options.get("dry_run"):
        body["dryRun"] = ["All"]
    preconditions = {"uid": options.get("uid"), "resourceVersion": options.get("resource_version")}
    if any(preconditions.values()):
        body["preconditions"] = {name: value for name, value in preconditions.items() if value}
    return {"kind": "DeleteOptions", "apiVersion": "v1", **body} if body else None


_ACCEPT: Mapping[str, str] = {"accept": "application/json"}
_SEND_JSON: Mapping[str, str] = {"accept": "application/json", "content-type": "application/json"}
_ACCEPT_TEXT: Mapping[str, str] = {"accept": "*/*"}


class PatchType(Enum):
    """The type of a patch; the value is its content type."""

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
    """Read an object or a subresource."""
    parameters = (("resourceVersion", resource_version),) if resource_version else ()
    return Request("GET", resource.path(namespace, name, subresource), parameters, _ACCEPT)


def list_(resource: Resource, namespace: str | None = None, **options: Unpack[ListOptions]) -> Request:
    """List a collection in one namespace, or in all."""
    return Request("GET", resource.path(namespace), query_parameters(options), _ACCEPT)


def watch(resource: Resource, namespace: str | None = None, **options: Unpack[ListOptions]) -> Request:
    """Watch a collection."""
    return Request("GET", resource.path(namespace), (("watch", "true"), *query_parameters(options)), _ACCEPT)


def create(
    resource: Resource,
    obj: Object,
    namespace: str | None = None,
    *,
    name: str | None = None,
    subresource: str = "",
    **options: Unpack[WriteOptions],
) -> Request:
    """Create an object; with `name` and `subresource`, post to a subresource."""
    if resource.namespaced and not namespace:
        raise UsageError(f"{resource.kind} {_name_of(obj)}: namespace is required")
    return Request("POST", resource.path(namespace, name, subresource), query_parameters(options), _SEND_JSON, orjson.dumps(obj))


def replace(
    resource: Resource, obj: Object, namespace: str | None = None, *, subresource: str = "", **options: Unpack[WriteOptions]
) -> Request:
    """Update a whole object or a subresource."""
    path = resource.path(namespace, obj["metadata"]["name"], subresource)
    return Request("PUT", path, query_parameters(options), _SEND_JSON, orjson.dumps(obj))


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
    """Patch an object or a subresource."""
    if kind is PatchType.APPLY and not options.get("field_manager"):
        raise UsageError("field_manager is required for server-side apply")
    return Request(
        "PATCH", resource.path(namespace, name, subresource), query_parameters(options), _PATCH_HEADERS[kind], orjson.dumps(change)
    )


def apply(
    resource: Resource, obj: Object, namespace: str | None = None, *, subresource: str = "", **options: Unpack[PatchOptions]
) -> Request:
    """Server-side apply: set these fields and own them as the field manager."""
    return patch(resource, obj["metadata"]["name"], obj, namespace, kind=PatchType.APPLY, subresource=subresource, **options)


def delete(resource: Resource, name: str, namespace: str | None = None, **options: Unpack[DeleteOptions]) -> Request:
    """Delete one object."""
    return _delete(resource.path(namespace, name), (), delete_body(options))


def delete_collection(
    resource: Resource, namespace: str | None = None, selection: ListOptions | None = None, **options: Unpack[DeleteOptions]
) -> Request:
    """Delete all selected objects of a namespace."""
    if resource.namespaced and not namespace:
        raise UsageError(f"deleting {resource.plural}: namespace is required")
    return _delete(resource.path(namespace), query_parameters(selection or {}), delete_body(options))


def log(resource: Resource, name: str, namespace: str, *, follow: bool = False, **options: Unpack[LogOptions]) -> Request:
    """Read a container's log."""
    parameters = query_parameters(options)
    if follow:
        parameters = (("follow", "true"), *parameters)
    return Request("GET", resource.path(namespace, name, "log"), parameters, _ACCEPT_TEXT)


def _delete(path: str, parameters: tuple[tuple[str, str], ...], body: dict[str, Any] | None) -> Request:
    if body is None:
        return Request("DELETE", path, parameters, _ACCEPT)
    return Request("DELETE", path, parameters, _SEND_JSON, orjson.dumps(body))


def _name_of(obj: Object) -> str:
    metadata = obj.get("metadata") or {}
    return str(metadata.get("name") or metadata.get("generateName") or "<no name>")
