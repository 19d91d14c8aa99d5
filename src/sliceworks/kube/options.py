"""The options of requests, by verb: typed keywords that become query parameters or a DeleteOptions body."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypedDict

from sliceworks.base.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.kube.selectors import FieldSelector, LabelSelector

PropagationPolicy = Literal["Background", "Foreground", "Orphan"]
FieldValidation = Literal["Ignore", "Warn", "Strict"]
Query = tuple[tuple[str, str], ...]


class ListOptions(TypedDict, total=False):
    """What to list or watch, and how much of it."""

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
    """How to write an object."""

    field_manager: str
    field_validation: FieldValidation
    dry_run: bool


class PatchOptions(WriteOptions, total=False):
    """How to patch; `force` takes fields from other managers and is for apply alone."""

    force: bool


class DeleteOptions(TypedDict, total=False):
    """How to delete; `uid` and `resource_version` are preconditions."""

    propagation_policy: PropagationPolicy
    grace_period_seconds: int
    uid: str
    resource_version: str
    dry_run: bool


class LogOptions(TypedDict, total=False):
    """Which part of a container's log."""

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


def query(options: Mapping[str, Any]) -> Query:
    """The query parameters that say these options. Empty ones are left out; zero is not empty."""
    parameters: list[tuple[str, str]] = []
    for name, value in options.items():
        if value is None or value is False or value == "":
            continue
        if name == "dry_run":
            parameters.append(("dryRun", "All"))
            continue
        if getattr(value, "nothing", False):
            raise UsageError("a selector that selects nothing cannot be sent: leave the request out")
        text = "true" if value is True else str(value)
        if text:
            parameters.append((_PARAMETERS[name], text))
    return tuple(parameters)


def delete_body(options: Mapping[str, Any]) -> dict[str, Any] | None:
    """The DeleteOptions that say these options; none where there is nothing to say."""
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
