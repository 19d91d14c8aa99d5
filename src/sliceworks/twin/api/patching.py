"""The five kinds of patch: read from a request, and carried out on an object."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base import clock
from sliceworks.base.errors import BadRequest, UnsupportedMediaType
from sliceworks.schemas import applied, managed, patches
from sliceworks.schemas.field_errors import refusal, required
from sliceworks.schemas.strategic import strategic_merge
from sliceworks.twin.api import media, objects

if TYPE_CHECKING:
    from sliceworks.twin.api.calls import Call

Obj = dict[str, Any]
_JSON_PATCH, _MERGE, _STRATEGIC, _APPLY = media.PATCH_TYPES[:4]


@dataclass(frozen=True, slots=True)
class Patch:
    """A patch as it came: its type and its decoded body."""

    type: str
    body: Any
    twice: list[str]

    @property
    def apply(self) -> bool:
        return self.type == _APPLY


def read_patch(call: Call) -> Patch:
    kind = media.content_type(call.request.headers)
    offered = [_JSON_PATCH, _MERGE, _APPLY] if call.resource.custom else [_JSON_PATCH, _MERGE, _STRATEGIC, _APPLY]
    if kind not in media.PATCH_TYPES:
        raise UnsupportedMediaType("415: Unsupported Media Type", details={})
    if kind not in offered:
        raise UnsupportedMediaType(
            f"the body of the request was in an unknown format - accepted media types include: {', '.join(offered)}"
        )
    if kind == _APPLY:
        body, twice = media.read_yaml(call.request.body, "")
        if not call.param("fieldManager"):
            raise refusal("meta.k8s.io", "PatchOptions", "", [required("fieldManager", "is required for apply patch")])
    else:
        body, twice = _read_json(call.request.body)
    return Patch(kind, body, twice)


def _read_json(body: bytes) -> tuple[Any, list[str]]:
    try:
        return media.read_json(body, "")
    except BadRequest as error:
        raise BadRequest(f"error decoding patch: {error.message}") from error


def apply_patch(call: Call, patch: Patch, old: Obj | None) -> Obj:
    """The object after the patch, decoded and defaulted. Without an old object only apply can make one."""
    if patch.apply:
        return _apply(call, patch, old)
    assert old is not None
    if patch.type == _JSON_PATCH:
        objects.report(call, patches.unknown_fields(patch.body))
        new = patches.json_patch(old, patch.body)
    elif patch.type == _MERGE:
        new = patches.merge_patch(old, patch.body)
    else:
        new = strategic_merge(old, patch.body, call.version.schema())
    if not isinstance(new, dict):
        raise BadRequest("the patch leaves no object")
    if not isinstance(new.get("metadata"), dict):
        new["metadata"] = {}
    try:
        # A patched object shares parts with the old one, and decoding changes what it reads.
        return objects.decode(call, fresh(new), patch.twice)
    except BadRequest as error:
        shown = applied.shown(patch.body) if patch.type == _STRATEGIC else orjson.dumps(new).decode()
        why = error.message.partition(f"cannot be handled as a {call.resource.kind}: ")[2] or error.message
        raise patches.unreadable(shown, why) from error


def _apply(call: Call, patch: Patch, old: Obj | None) -> Obj:
    body = patch.body
    if not isinstance(body, dict):
        raise BadRequest("error decoding YAML: the patch is no object")
    body.setdefault("metadata", {})
    _check_applied(call, body)
    objects.check_kind(call, body)
    strategy = call.resource.strategy
    reset: Obj = {"f:status": {}} if strategy.has_status and not call.target.subresource else {}
    if call.target.subresource == "status":
        reset = dict(strategy.status_resets)
    merged = managed.apply(
        old, body, call.version.schema(), kind=call.resource.kind, manager=call.param("fieldManager"), force=call.flag("force"),
        subresource=call.target.subresource, api_version=call.api_version, now=clock.timestamp(), reset_fields=reset,
    )  # fmt: skip
    merged["metadata"].setdefault("name", call.name)
    return objects.decode(call, fresh(merged), patch.twice)


def fresh(obj: Obj) -> Obj:
    """A copy that shares nothing."""
    try:
        copied: Obj = orjson.loads(orjson.dumps(obj))
    except (orjson.JSONEncodeError, orjson.JSONDecodeError) as error:
        raise BadRequest(f"the patched object cannot be written: {error}") from error
    return copied


def _check_applied(call: Call, applied: Obj) -> None:
    metadata = applied["metadata"]
    if not isinstance(metadata, dict):
        raise BadRequest("metadata must be an object")
    name, namespace = metadata.get("name"), metadata.get("namespace")
    if name not in (None, "") and name != call.name:
        raise BadRequest(f"the name of the object ({name}) does not match the name on the URL ({call.name})")
    if namespace not in (None, "") and namespace != call.namespace:
        raise BadRequest("the namespace of the provided object does not match the namespace sent on the request")
