"""Read the patch of a request and apply it to an object."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks import schemas
from sliceworks.base.errors import BadRequest, UnsupportedMediaType
from sliceworks.schemas.field_errors import new_invalid, required
from sliceworks.twin.apiserver import codec
from sliceworks.twin.apiserver.fieldmanager import typed_value, updater
from sliceworks.twin.apiserver.patch import jsonpatch
from sliceworks.twin.apiserver.patch.strategic_merge import remainder, strategic_merge
from sliceworks.twin.apiserver.request_info import check_write_options

if TYPE_CHECKING:
    from sliceworks.twin.apiserver.request_info import Call

Obj = dict[str, Any]
_JSON_PATCH, _MERGE, _STRATEGIC, _APPLY = codec.PATCH_TYPES[:4]
_TYPE = ("kind", "apiVersion")
_ABSENT = object()


@dataclass(frozen=True, slots=True)
class Patch:
    """A patch request: its type and its decoded body."""

    type: str
    body: Any
    duplicates: list[str]

    @property
    def apply(self) -> bool:
        return self.type == _APPLY


def patch_type(call: Call) -> str:
    """The patch type of a request; raises an error if the resource does not support it."""
    kind = codec.content_type(call.request.headers)
    if kind not in codec.PATCH_TYPES:
        raise UnsupportedMediaType("415: Unsupported Media Type", details={})
    offered = [_JSON_PATCH, _MERGE, _APPLY] if call.resource.custom else [_JSON_PATCH, _MERGE, _STRATEGIC, _APPLY]
    if kind not in offered:
        raise UnsupportedMediaType(
            f"the body of the request was in an unknown format - accepted media types include: {', '.join(offered)}"
        )
    return kind


def check_patch_options(call: Call) -> bool:
    """Reject invalid options; returns whether the patch is an apply."""
    kind = patch_type(call)
    if kind == _APPLY and not call.param("fieldManager"):
        raise new_invalid("meta.k8s.io", "PatchOptions", "", [required("fieldManager", "is required for apply patch")])
    check_write_options(call, "PatchOptions", force_allowed=kind == _APPLY)
    return kind == _APPLY


def read_patch(call: Call) -> Patch:
    kind = patch_type(call)
    try:
        body, duplicates = codec.read_yaml(call.request.body) if kind == _APPLY else codec.read_json(call.request.body)
    except codec.DecodeError as error:
        prefix = {_APPLY: "error decoding YAML: error converting YAML to JSON: ", _STRATEGIC: ""}.get(
            kind, "error decoding patch: "
        )
        raise BadRequest(f"{prefix}{error}") from error
    return Patch(kind, body, duplicates)


def apply_patch(call: Call, patch: Patch, old: Obj | None, now: str) -> Obj:
    """The object after the patch, decoded and defaulted. Only apply can create one without an old object."""
    if patch.apply:
        return _apply(call, patch, old, now)
    assert old is not None
    if patch.type == _JSON_PATCH:
        codec.report_field_problems(call, jsonpatch.unknown_fields(patch.body))
        new = jsonpatch.json_patch(old, patch.body)
    elif patch.type == _MERGE:
        new = jsonpatch.merge_patch(old, patch.body)
    else:
        new = strategic_merge(old, patch.body, call.version.schema())
    if not isinstance(new, dict):
        raise BadRequest("the patch leaves no object")
    if not isinstance(new.get("metadata"), dict):
        new["metadata"] = {}
    try:
        return _decoded(call, patch, new, *(({}, {}) if call.resource.custom else _untouched(new, old)))
    except BadRequest as error:
        why = error.problem if isinstance(error, codec.ObjectDecodeError) else error.message
        if patch.type != _STRATEGIC:
            raise jsonpatch.undecodable_result(orjson.dumps(_in_order(new, patch.body)).decode(), why) from error
        cause = error.__cause__
        if isinstance(cause, schemas.TypeMismatch):
            why = _restoring(cause)
        raise jsonpatch.undecodable_result(typed_value.format_go_value(remainder(patch.body)), why) from error


def _untouched(new: Obj, old: Obj) -> tuple[Obj, Obj]:
    """The fields, and those of metadata, that a patch did not change: they are already decoded and need not be decoded again."""
    # A null that the patch adds is not in the old object.
    same = {field: value for field, value in new.items() if value is old.get(field, _ABSENT) and field not in (*_TYPE, "metadata")}
    # Later steps modify metadata: it must not be shared with the old object.
    kept = old["metadata"]
    return same, {name: _copied(value) for name, value in new["metadata"].items() if _is_same(value, kept.get(name, _ABSENT))}


def _is_same(value: Any, old: Any) -> bool:
    """Whether a value is unchanged. Strings compare by value, others by identity, since `1 == 1.0 == True`."""
    return value is old or (type(value) is str and value == old)


def _copied(value: Any) -> Any:
    return dict(value) if type(value) is dict else list(value) if type(value) is list else value


def _decoded(call: Call, patch: Patch, new: Obj, untouched: Obj, kept: Obj) -> Obj:
    """The object decoded; `untouched` are the fields and `kept` the fields of metadata that are decoded already."""
    touched = {field: value for field, value in new.items() if field not in untouched}
    touched["metadata"] = {name: value for name, value in new["metadata"].items() if name not in kept}
    # Decoding modifies its input.
    read = codec.decode_only(call, copy_patched(touched), patch.duplicates, by_name=patch.type == _STRATEGIC)
    complete = {"kind": read.pop("kind"), "apiVersion": read.pop("apiVersion")}
    complete["metadata"] = _in_order_of(new["metadata"], kept, read.pop("metadata"))
    complete |= _in_order_of(new, untouched, read)
    return codec.apply_defaults(call, complete, settled=untouched)


def _in_order_of(new: Obj, untouched: Obj, read: Obj) -> Obj:
    """The untouched and the decoded fields in the order of the new object."""
    if not read:
        return untouched
    complete: Obj = {}
    for field in {**new, **read}:
        if field in untouched:
            complete[field] = untouched[field]
        elif field in read:
            complete[field] = read[field]
    return complete


def _in_order(new: Any, patch: Any) -> Any:
    """The object in the field order that Go writes after a patch: changed fields are sorted by name."""
    if not isinstance(new, dict) or not isinstance(patch, dict | list):
        return new
    below = patch if isinstance(patch, dict) else {}
    return {key: _in_order(new[key], below.get(key)) for key in sorted(new)}


def _restoring(mismatch: schemas.TypeMismatch) -> str:
    """Go's message for a mistyped value after a strategic merge patch, which Go decodes from maps and not from JSON."""
    actual = {"array": "slice", "object": "map", "number": "int64"}.get(mismatch.actual, mismatch.actual)
    if mismatch.expected.startswith("[]"):
        return f"cannot restore slice from {actual}"
    if mismatch.expected.startswith("map["):
        return f"cannot restore map from {actual}"
    if "." in mismatch.expected:
        return f"cannot restore struct from: {actual}"
    return f"unrecognized type: {mismatch.expected}"


def _apply(call: Call, patch: Patch, old: Obj | None, now: str) -> Obj:
    body = patch.body
    if not isinstance(body, dict):
        raise BadRequest("error decoding YAML: the patch is not an object")
    if body.get("kind") != call.resource.kind or body.get("apiVersion") != call.api_version:
        group, _, version = str(body.get("apiVersion") or "").rpartition("/")
        raise BadRequest(f"invalid object type: {group}/{version}, Kind={body.get('kind') or ''}")
    body.setdefault("metadata", {})
    _check_applied(call, body)
    strategy = call.resource.strategy
    reset: Obj = dict(strategy.reset_fields) if strategy.has_status and not call.target.subresource else {}
    if call.target.subresource in strategy.parts:
        reset = dict(strategy.parts[call.target.subresource].reset_fields)
    elif call.target.subresource == "status":
        reset = dict(strategy.status_reset_fields)
    try:
        merged = updater.apply(
            old, body, call.version.schema(), kind=call.resource.kind, manager=call.param("fieldManager"), force=call.flag("force"),
            subresource=call.target.subresource, api_version=call.api_version, now=now, reset_fields=reset,
        )  # fmt: skip
    except typed_value.MissingKeyError as error:
        raise BadRequest(f"failed to create typed live object: {error}") from error
    merged["metadata"].setdefault("name", call.name)
    return codec.decode(call, copy_patched(merged), patch.duplicates)


def copy_patched(obj: Obj) -> Obj:
    """A copy of a patched object, which shares values with the old one."""
    try:
        copied: Obj = codec.deep_copy(obj)
    except (orjson.JSONEncodeError, orjson.JSONDecodeError) as error:
        raise BadRequest(f"the patched object cannot be written: {error}") from error
    return copied


def _check_applied(call: Call, applied: Obj) -> None:
    metadata = applied["metadata"]
    if not isinstance(metadata, dict):
        raise BadRequest("metadata must be an object")
    name, namespace = metadata.get("name"), metadata.get("namespace")
    if name in (None, ""):
        raise BadRequest(f"the name of the object ({call.name} based on URL) was undeterminable: name must be provided")
    if name != call.name:
        raise BadRequest(f"the name of the object ({name}) does not match the name on the URL ({call.name})")
    if call.resource.namespaced and namespace not in (None, "") and namespace != call.namespace:
        raise BadRequest("the namespace of the provided object does not match the namespace sent on the request")
