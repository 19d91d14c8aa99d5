"""Conversion webhooks of CustomResourceDefinitions: ConversionReviews, and checks of what a webhook returns."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks import schemas
from sliceworks.base import budget, clock
from sliceworks.base.errors import ApiError
from sliceworks.schemas.field_errors import quoted
from sliceworks.twin.apiserver.fieldmanager.typed_value import GO_TYPES
from sliceworks.twin.apiserver.validation.error_list import ErrorList
from sliceworks.twin.apiserver.validation.object_meta import validate_annotations, validate_labels
from sliceworks.twin.apiserver.version_conversion import ConvertedEntry
from sliceworks.twin.apiserver.webhook_client import CallError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sliceworks.schemas import Schema
    from sliceworks.twin.apiserver.registry.resources import Resource, Version
    from sliceworks.twin.apiserver.webhook_client import WebhookClient
    from sliceworks.twin.store.entry import Entry

Obj = dict[str, Any]
_TIMEOUT_SECONDS = 30.0
_REVIEW_VERSIONS = ("v1", "v1beta1")
_GROUP = "apiextensions.k8s.io"
_CHANGEABLE = ("labels", "annotations")


class ConversionError(ApiError):
    """A conversion that failed."""

    code, reason = 500, ""


async def convert_entries(client: WebhookClient, resource: Resource, version: Version, entries: Sequence[Entry]) -> list[Entry]:
    """The entries in a version; those that are stored in another one go through the webhook, in one request."""
    desired = resource.api_version(version.name)
    objects = await budget.run_by_size(sum(len(entry.data) for entry in entries), lambda: [entry.object() for entry in entries])
    stored = [obj for obj in objects if obj["apiVersion"] != desired]
    converted = iter(await convert(client, resource, version, stored) if stored else ())
    return [
        entry if obj["apiVersion"] == desired else _converted_entry(entry, next(converted))
        for entry, obj in zip(entries, objects, strict=True)
    ]


def _converted_entry(entry: Entry, obj: Obj) -> Entry:
    return ConvertedEntry(entry.resource, entry.namespace, entry.name, entry.revision, orjson.dumps(obj))


async def convert(client: WebhookClient, resource: Resource, version: Version, objects: Sequence[Obj]) -> list[Obj]:
    """The objects in another version. Raises ConversionError."""
    config = resource.conversion
    assert config is not None
    desired, uid = resource.api_version(version.name), clock.uid()
    supported = [name for name in config["conversionReviewVersions"] if name in _REVIEW_VERSIONS]
    kind = _format_kind(objects[0])
    if not supported:
        raise ConversionError("no supported conversion review versions")
    review = {
        "kind": "ConversionReview",
        "apiVersion": f"{_GROUP}/{supported[0]}",
        "request": {"uid": uid, "desiredAPIVersion": desired, "objects": list(objects)},
    }
    try:
        answer = await client.post(config["clientConfig"], review, _TIMEOUT_SECONDS)
        converted = _read_response(answer, supported[0], uid)
    except CallError as error:
        raise ConversionError(f"conversion webhook for {kind} failed: {error}") from error
    if len(converted) != len(objects):
        raise ConversionError(f"conversion webhook for {kind} returned {len(converted)} objects, expected {len(objects)}")
    await budget.run_by_size(len(orjson.dumps(converted)), partial(_complete, version.schema(), objects, converted, desired))
    return converted


def _complete(schema: Schema, objects: Sequence[Obj], converted: Sequence[Obj], desired: str) -> None:
    """Check converted objects, and prune and default them. Raises ConversionError."""
    for index, (old, new) in enumerate(zip(objects, converted, strict=True)):
        if problem := _problem(old, new, desired, index):
            raise ConversionError(f"conversion webhook for {_format_kind(objects[0])} returned {problem}")
        _restore_metadata(old, new)
        schemas.prune(schema, new, [])
        schemas.set_defaults(schema, new)


def _format_kind(obj: Mapping[str, Any]) -> str:
    return f"{obj['apiVersion']}, Kind={obj['kind']}"


def _read_response(answer: Mapping[str, Any], version: str, uid: str) -> list[Obj]:
    response = answer.get("response")
    kind, api_version = answer.get("kind") or "", answer.get("apiVersion") or ""
    if (kind, api_version) != ("ConversionReview", f"{_GROUP}/{version}"):
        raise CallError(f'no kind "{kind}" is registered for version "{api_version}" in scheme "pkg/runtime/scheme.go:111"')
    if not isinstance(response, dict):
        raise CallError("no response provided")
    if version == "v1" and response.get("uid") != uid:
        raise CallError(f"expected response.uid={quoted(uid)}, got {quoted(str(response.get('uid') or ''))}")
    result = response.get("result")
    result = result if isinstance(result, dict) else {}
    if result.get("status") != "Success":
        message = result.get("message")
        raise CallError(str(message) if message else f"response.result.status was '{result.get('status') or ''}', not 'Success'")
    converted = response.get("convertedObjects") or []
    if not isinstance(converted, list) or not all(isinstance(obj, dict) for obj in converted):
        raise CallError("response.convertedObjects is not a list of objects")
    return converted


def _problem(old: Mapping[str, Any], new: Mapping[str, Any], desired: str, index: int) -> str:
    """What is wrong with a converted object; empty if it may be used."""
    where = f"invalid object at index {index}"
    if new.get("apiVersion") != desired:
        return f"{where}: invalid groupVersion (expected {desired}, received {new.get('apiVersion') or ''})"
    if new.get("kind") != old["kind"]:
        return f"{where}: invalid kind (expected {old['kind']}, received {new.get('kind') or ''})"
    metadata = new.get("metadata")
    given = metadata if isinstance(metadata, dict) else {}
    for field, noun in (("name", "name"), ("namespace", "namespace"), ("uid", "UID")):
        before, after = old["metadata"].get(field) or "", given.get(field) or ""
        if before != after:
            return f"invalid object: must have the same {noun}: {before} != {after}"
    for field in _CHANGEABLE:
        if problem := _map_problem(field, given.get(field), old["metadata"].get(field) or {}):
            return f"invalid metadata: {problem}"
    return ""


def _map_problem(field: str, values: Any, before: Mapping[str, str]) -> str:
    """What is wrong with the labels or annotations of a converted object."""
    if values is None:
        return ""
    if not isinstance(values, dict):
        return f"invalid metadata.{field} of type {GO_TYPES[type(values)]} in converted object"
    for key, value in values.items():
        if not isinstance(value, str):
            return f"metadata.{field}[{key}] must be a string, but is {GO_TYPES.get(type(value), '<nil>')} in converted object"
    errors = ErrorList()
    if values != before and field == "labels":
        validate_labels(errors, values, "metadata.labels")
    elif values != before:
        validate_annotations(errors, values, "metadata.annotation")
    messages = list(dict.fromkeys(map(str, errors)))
    return messages[0] if len(messages) == 1 else f"[{', '.join(messages)}]" if messages else ""


def _restore_metadata(old: Mapping[str, Any], new: Obj) -> None:
    """A webhook may change labels and annotations only."""
    metadata = {key: value for key, value in old["metadata"].items() if key not in _CHANGEABLE}
    kept: Iterable[str] = (field for field in _CHANGEABLE if new["metadata"].get(field))
    new["metadata"] = {**metadata, **{field: new["metadata"][field] for field in kept}}
