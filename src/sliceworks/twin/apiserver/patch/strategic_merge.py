"""Strategic merge patch: merge keys, directives and element order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base.errors import BadRequest, Invalid
from sliceworks.schemas.golang import json_kind
from sliceworks.twin.apiserver.fieldmanager.typed_value import GO_TYPES, format_go_value

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    from sliceworks.schemas import Schema

    Merge = Callable[[dict[str, Any], dict[str, Any], Schema | None], dict[str, Any]]

Items = list[Any]
DIRECTIVE = "$patch"


def bad_type(expected: str, value: Any) -> BadRequest:
    return BadRequest(f"expected a {expected}, but received a {GO_TYPES.get(type(value), '%!s(<nil>)')}")


def merge_items(original: Items, patch: Items, field: Schema, merge: Merge) -> Items:
    """A list merged with its patch: scalars are added, maps merge by key; patched items follow the order of the patch."""
    if not original and not patch:
        return original
    if _element_type(original, patch) is not dict:
        both = list(dict.fromkeys([*original, *patch]))
        return _in_order(both, patch, original, "")
    key = _merge_key(field)
    original, patch = _apply_item_directives(original, patch, key)
    merged = _merged_maps(original, patch, field, merge)
    return _in_order(merged, patch, original, key)


def apply_element_order(
    original: Items | None, patch: Items | None, order: Items, *, field: Schema | None, merge: Merge
) -> Items | None:
    """A list merged in the order of `$setElementOrder`; None if neither side has the list."""
    key = (field.patch_merge_key if field is not None else None) or ""
    _check_order(patch or [], order, key)
    if original is None and patch is None:
        return None
    if patch is None:
        merged = original or []
    elif original is None:
        merged = strip_directives(patch)[0]
    else:
        merges = field is not None and "merge" in field.patch_strategy
        merged = merge_items(original, patch, field, merge) if merges and field is not None else patch
    _element_type(original or [], patch or [])
    return _in_order(merged, order, original or [], key)


def _merge_key(field: Schema) -> str:
    if not field.patch_merge_key:
        raise BadRequest("cannot merge lists without merge key for struct")
    return field.patch_merge_key


def _element_type(*lists: Items) -> type:
    """The common type of all items."""
    kinds = {type(item) for items in lists for item in items}
    if list in kinds:
        raise Invalid("the server rejected our request due to an error in our request")
    if len(kinds) > 1:
        raise BadRequest(f"list element types are not identical: {format_go_value(list(lists))}")
    if not kinds:
        raise BadRequest("no elements in any of the given slices")
    return kinds.pop()


def _apply_item_directives(original: Items, patch: Items, key: str) -> tuple[Items, Items]:
    """Apply the directives among the items of a patch; returns the list and the patch without them."""
    rest: Items = []
    deleted: set[Hashable] = set()
    replace = False
    for item in patch:
        match item.get(DIRECTIVE, ""):
            case "" if DIRECTIVE not in item:
                rest.append(item)
            case "delete":
                deleted.add(_index_key(_key_of(item, key)))
            case "replace":
                replace = True
            case "merge":
                raise BadRequest("merging lists cannot yet be specified in the patch")
            case other:
                raise BadRequest(f"unknown patch type: {format_go_value(other)} in map: {format_go_value(item)}")
    if replace:
        return rest, []
    return ([item for item in original if _index_key(item.get(key)) not in deleted] if deleted else original), rest


def _merged_maps(original: Items, patch: Items, field: Schema, merge: Merge) -> Items:
    key = _merge_key(field)
    merged = list(original)
    places: dict[Hashable, int] = {}
    for index, item in enumerate(original):
        if key in item:
            places.setdefault(_index_key(item[key]), index)
    for item in patch:
        place = places.setdefault(_index_key(_key_of(item, key)), len(merged))
        if place == len(merged):
            merged.append(item)
        else:
            merged[place] = merge(merged[place], item, field.items)
    return merged


def _index_key(value: Any) -> Hashable:
    """A merge key value as the key of a dict: lists of thousands of items are merged in linear time."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS) if isinstance(value, dict | list) else value


def _places(values: Iterable[Any]) -> dict[Hashable, int]:
    """The first index of each value."""
    places: dict[Hashable, int] = {}
    for index, value in enumerate(values):
        places.setdefault(_index_key(value), index)
    return places


def _key_of(item: dict[str, Any], key: str) -> Any:
    if key not in item:
        raise BadRequest(f"map: {format_go_value(item)} does not contain declared merge key: {key}")
    return item[key]


def _value(item: Any, key: str) -> Any:
    """The merge key value of an item, or the scalar itself."""
    if not key:
        return item
    if type(item) is not dict:
        raise bad_type("map[string]interface {}", item)
    return _key_of(item, key)


def _ordered_value(index: int, item: Any, key: str) -> Any:
    if key and type(item) is not dict:
        raise BadRequest(f"value for key {index} is not a map")
    return _value(item, key)


def _in_order(merged: Items, patch: Items, original: Items, key: str) -> Items:
    """Patched items in the order of the patch, with the other items at their original relative positions."""
    patched = _places(_ordered_value(index, item, key) for index, item in enumerate(patch))
    before = _places(_value(item, key) for item in original)
    known = [(_index_key(_value(item, key)), item) for item in merged]
    right = sorted((pair for pair in known if pair[0] in patched), key=lambda pair: patched[pair[0]])
    left = [pair for pair in known if pair[0] not in patched]
    result: Items = []
    i = 0
    for value, item in right:
        while i < len(left) and _stands_before(left[i][0], value, before):
            result.append(left[i][1])
            i += 1
        result.append(item)
    return [*result, *(item for _, item in left[i:])]


def _stands_before(left: Hashable, right: Hashable, places: dict[Hashable, int]) -> bool:
    return left in places and right in places and places[left] < places[right]


def _check_order(patch: Items, order: Items, key: str) -> None:
    """The patched items must appear in `$setElementOrder`, in the same order."""
    if not order or not patch:
        return
    patched = [item for item in patch if not (key and type(item) is dict and DIRECTIVE in item)]
    remaining = iter([_value(item, key) for item in order])
    if all(_value(item, key) in remaining for item in patched):
        return
    raise BadRequest(
        f"The order in patch list:\n{format_go_value(patch)}\n doesn't match $setElementOrder list:\n{format_go_value(order)}\n"
    )


def strip_directives(value: Any) -> tuple[Any, bool]:
    """A value added to the document, without directives and nulls, and whether to keep it."""
    if type(value) is dict:
        if DIRECTIVE in value:
            return None, False
        stripped = {key: strip_directives(item) for key, item in value.items() if item is not None}
        return {key: item for key, (item, keep) in stripped.items() if keep}, True
    if type(value) is list:
        return [item for item, keep in map(strip_directives, value) if keep], True
    return value, True


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
    """A map merged with its patch."""
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
            raise BadRequest(f"unknown patch type: {format_go_value(other)} in map: {format_go_value(patch)}")


def _retained(merged: Object, patch: Object) -> Object:
    """Drop the fields that `$retainKeys` does not list; the patch can only set listed fields."""
    kept = patch[RETAIN]
    if type(kept) is not list:
        raise BadRequest("invalid patch format of retainKeys")
    kept = _places(kept)
    rest = {key: value for key, value in patch.items() if key != RETAIN}
    if any(value is not None and key not in kept and not key.startswith((DELETE, ORDER)) for key, value in rest.items()):
        raise BadRequest("invalid patch format of retainKeys")
    for key in [key for key in merged if key not in kept]:
        del merged[key]
    return rest


def _ordered(merged: Object, patch: Object, schema: Schema | None) -> Object:
    """Merge the lists with a `$setElementOrder` directive, and return the rest of the patch."""
    for directive in [key for key in patch if key.startswith(ORDER)]:
        order = patch.pop(directive)
        if type(order) is not list:
            raise bad_type("[]interface {}", order)
        key = _below(directive, ORDER, "setElementOrder list")
        for items in (merged.get(key), patch.get(key)):
            if items is not None and type(items) is not list:
                raise bad_type("[]interface {}", items)
        field = _field(schema, key)
        result = apply_element_order(merged.get(key), patch.get(key), order, field=field, merge=merge_maps)
        if result is not None:
            merged[key] = result
            patch.pop(key, None)
    return patch


def remainder(patch: Object) -> Object:
    """The patch as kube-apiserver's errors show it: without the ordered lists, which it has already consumed."""
    taken = {key.partition("/")[2] for key in patch if key.startswith(ORDER)}
    return {
        key: remainder(value) if type(value) is dict else value
        for key, value in patch.items()
        if key not in taken and not key.startswith(ORDER)
    }


def _below(key: str, directive: str, what: str) -> str:
    """The field that a directive such as `$setElementOrder/containers` refers to."""
    prefix, slash, name = key.partition("/")
    if prefix != directive or not slash:
        raise BadRequest(f"invalid patch format of {what}")
    return name


def _delete_from_list(merged: Object, key: str, values: Any) -> None:
    current = merged.get(key)
    if values is None:
        merged.pop(key, None)
    elif type(current) is list and type(values) is list:
        deleted = _places(values)
        merged[key] = [item for item in current if _index_key(item) not in deleted]


def _merge_field(merged: Object, key: str, value: Any, schema: Schema | None) -> None:
    current = merged.get(key)
    if type(value) is dict and type(current) is dict:
        field = _field(schema, key)
        replaces = field is not None and "replace" in field.patch_strategy
        merged[key] = value if replaces else merge_maps(current, value, field)
    elif type(value) is list and type(current) is list:
        field = _field(schema, key)
        merges = field is not None and "merge" in field.patch_strategy
        merged[key] = merge_items(current, value, field, merge_maps) if merges and field is not None else value
    else:
        cleaned, keep = strip_directives(value)
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
