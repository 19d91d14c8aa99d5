"""Strategic merge patch: Kubernetes' own, in which schemas say how lists merge and the patch carries directives.

Returns a new document and leaves the old one as it was; what did not change is shared between the two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base.errors import BadRequest
from sliceworks.schemas.applied import shown
from sliceworks.schemas.golang import json_kind
from sliceworks.schemas.strategic_lists import DIRECTIVE, bad_type, in_set_order, merged_items, plain

if TYPE_CHECKING:
    from sliceworks.schemas.structural import Schema

Object = dict[str, Any]

RETAIN = "$retainKeys"
ORDER = "$setElementOrder"
DELETE = "$deleteFromPrimitiveList"


def strategic_merge(doc: Object, patch: Any, schema: Schema) -> Object:
    """The document after a strategic merge patch."""
    if type(patch) is not dict:
        raise BadRequest(f"json: cannot unmarshal {json_kind(patch)} into Go value of type map[string]interface {{}}")
    return merge_maps(doc, patch, schema)


def merge_maps(original: Object, patch: Object, schema: Schema | None) -> Object:
    """One map merged with the patch of it."""
    if DIRECTIVE in patch:
        return _directed(patch)
    merged = dict(original)
    patch = _retained(merged, patch) if RETAIN in patch else patch
    if any(key[0:1] == "$" and key.startswith(ORDER) for key in patch):
        patch = _ordered(merged, dict(patch), schema)
    for key, value in patch.items():
        if key.startswith(DELETE):
            _delete_from_list(merged, _below(key, DELETE, "primitive list"), value)
        elif value is None:
            merged.pop(key, None)
        else:
            _merge_field(merged, key, value, schema)
    return merged


def _directed(patch: Object) -> Object:
    match patch[DIRECTIVE]:
        case "replace":
            return {key: value for key, value in patch.items() if key != DIRECTIVE}
        case "delete":
            return {}
        case other:
            raise BadRequest(f"unknown patch type: {shown(other)} in map: {shown(patch)}")


def _retained(merged: Object, patch: Object) -> Object:
    """Drops the fields that `$retainKeys` does not name; the patch must not set any other."""
    kept = patch[RETAIN]
    if type(kept) is not list:
        raise BadRequest("invalid patch format of retainKeys")
    rest = {key: value for key, value in patch.items() if key != RETAIN}
    if any(value is not None and key not in kept and not key.startswith((DELETE, ORDER)) for key, value in rest.items()):
        raise BadRequest("invalid patch format of retainKeys")
    for key in [key for key in merged if key not in kept]:
        del merged[key]
    return rest


def _ordered(merged: Object, patch: Object, schema: Schema | None) -> Object:
    """Merges the lists whose order the patch states, and returns the rest of the patch."""
    for directive in [key for key in patch if key.startswith(ORDER)]:
        order = patch.pop(directive)
        if type(order) is not list:
            raise bad_type("[]interface {}", order)
        key = _below(directive, ORDER, "setElementOrder list")
        for found in (merged.get(key), patch.get(key)):
            if found is not None and type(found) is not list:
                raise bad_type("[]interface {}", found)
        field = _field(schema, key)
        result = in_set_order(merged.get(key), patch.get(key), order, field=field, merge=merge_maps)
        if result is not None:
            merged[key] = result
            patch.pop(key, None)
    return patch


def remainder(patch: Object) -> Object:
    """What is left of a patch after the real server worked on it, which its refusals show: ordered lists are gone."""
    taken = {key.partition("/")[2] for key in patch if key.startswith(ORDER)}
    return {
        key: remainder(value) if type(value) is dict else value
        for key, value in patch.items()
        if key not in taken and not key.startswith(ORDER)
    }


def _below(key: str, directive: str, what: str) -> str:
    """The field that a directive speaks of."""
    prefix, slash, name = key.partition("/")
    if prefix != directive or not slash:
        raise BadRequest(f"invalid patch format of {what}")
    return name


def _delete_from_list(merged: Object, key: str, values: Any) -> None:
    current = merged.get(key)
    if values is None:
        merged.pop(key, None)
    elif type(current) is list and type(values) is list:
        merged[key] = [item for item in current if item not in values]


def _merge_field(merged: Object, key: str, value: Any, schema: Schema | None) -> None:
    current = merged.get(key)
    if type(value) is dict and type(current) is dict:
        field = _field(schema, key)
        replaces = field is not None and "replace" in field.patch_strategy
        merged[key] = value if replaces else merge_maps(current, value, field)
    elif type(value) is list and type(current) is list:
        field = _field(schema, key)
        merges = field is not None and "merge" in field.patch_strategy
        merged[key] = merged_items(current, value, field, merge_maps) if merges and field is not None else value
    else:
        cleaned, keep = plain(value)
        if keep:
            merged[key] = cleaned
        else:
            merged.pop(key, None)


def _field(schema: Schema | None, key: str) -> Schema | None:
    """The schema of a field; None inside untyped values."""
    if schema is None or not schema.properties:
        return schema.additional if schema is not None else None
    field = schema.properties.get(key)
    if field is None:
        struct = schema.name.rpartition(".")[2]
        raise BadRequest(f'unable to find api field in struct {struct} for the json field "{key}"')
    return field
