"""Lists in a strategic merge patch: merged by key or by value, with directives among their items, and brought into order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base.errors import BadRequest, Invalid
from sliceworks.schemas.applied import GO_TYPES, shown

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.schemas.structural import Schema

    Merge = Callable[[dict[str, Any], dict[str, Any], Schema | None], dict[str, Any]]

Items = list[Any]

DIRECTIVE = "$patch"


def bad_type(expected: str, found: Any) -> BadRequest:
    return BadRequest(f"expected a {expected}, but received a {GO_TYPES.get(type(found), '%!s(<nil>)')}")


def merged_items(original: Items, patch: Items, field: Schema, merge: Merge) -> Items:
    """A list merged with the patch of it: scalars join, maps merge by key; patched items stand in the order of the patch."""
    if not original and not patch:
        return original
    if _element_type(original, patch) is not dict:
        both = list(dict.fromkeys([*original, *patch]))
        return _in_order(both, patch, original, "")
    key = _merge_key(field)
    original, patch = _directed(original, patch, key)
    merged = _merged_maps(original, patch, field, merge)
    return _in_order(merged, patch, original, key)


def in_set_order(original: Items | None, patch: Items | None, order: Items, *, field: Schema | None, merge: Merge) -> Items | None:
    """A list whose order the patch states with `$setElementOrder`; None when neither side has the list."""
    key = (field.patch_merge_key if field is not None else None) or ""
    _check_order(patch or [], order, key)
    if original is None and patch is None:
        return None
    if patch is None:
        merged = original or []
    elif original is None:
        merged = plain(patch)[0]
    else:
        merges = field is not None and "merge" in field.patch_strategy
        merged = merged_items(original, patch, field, merge) if merges and field is not None else patch
    _element_type(original or [], patch or [])
    return _in_order(merged, order, original or [], key)


def _merge_key(field: Schema) -> str:
    if not field.patch_merge_key:
        raise BadRequest("cannot merge lists without merge key for struct")
    return field.patch_merge_key


def _element_type(*lists: Items) -> type:
    """The one type that all items have."""
    kinds = {type(item) for items in lists for item in items}
    if list in kinds:
        raise Invalid("the server rejected our request due to an error in our request")
    if len(kinds) > 1:
        raise BadRequest(f"list element types are not identical: {shown(list(lists))}")
    if not kinds:
        raise BadRequest("no elements in any of the given slices")
    return kinds.pop()


def _directed(original: Items, patch: Items, key: str) -> tuple[Items, Items]:
    """Carries out the directives among the items of a patch; returns the list and the patch without them."""
    rest: Items = []
    replace = False
    for item in patch:
        match item.get(DIRECTIVE, ""):
            case "" if DIRECTIVE not in item:
                rest.append(item)
            case "delete":
                value = _key_of(item, key)
                original = [one for one in original if one.get(key) != value]
            case "replace":
                replace = True
            case "merge":
                raise BadRequest("merging lists cannot yet be specified in the patch")
            case other:
                raise BadRequest(f"unknown patch type: {shown(other)} in map: {shown(item)}")
    return (rest, []) if replace else (original, rest)


def _merged_maps(original: Items, patch: Items, field: Schema, merge: Merge) -> Items:
    key = _merge_key(field)
    merged = list(original)
    for item in patch:
        value = _key_of(item, key)
        place = next((index for index, one in enumerate(merged) if key in one and one[key] == value), None)
        if place is None:
            merged.append(item)
        else:
            merged[place] = merge(merged[place], item, field.items)
    return merged


def _key_of(item: dict[str, Any], key: str) -> Any:
    if key not in item:
        raise BadRequest(f"map: {shown(item)} does not contain declared merge key: {key}")
    return item[key]


def _value(item: Any, key: str) -> Any:
    """What an item is known by."""
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
    """Patched items in the order of the patch, and the others put between them where the original had them."""
    wanted = [_ordered_value(index, item, key) for index, item in enumerate(patch)]
    before = [_value(item, key) for item in original]
    known = [(_value(item, key), item) for item in merged]
    right = sorted((pair for pair in known if pair[0] in wanted), key=lambda pair: wanted.index(pair[0]))
    left = [pair for pair in known if pair[0] not in wanted]
    result: Items = []
    i = 0
    for value, item in right:
        while i < len(left) and _stands_before(left[i][0], value, before):
            result.append(left[i][1])
            i += 1
        result.append(item)
    return [*result, *(item for _, item in left[i:])]


def _stands_before(left: Any, right: Any, order: Items) -> bool:
    return left in order and right in order and order.index(left) < order.index(right)


def _check_order(patch: Items, order: Items, key: str) -> None:
    """The patched items must stand in the stated order, and be named there."""
    if not order or not patch:
        return
    wanted = [item for item in patch if not (key and type(item) is dict and DIRECTIVE in item)]
    remaining = iter([_value(item, key) for item in order])
    if all(_value(item, key) in remaining for item in wanted):
        return
    raise BadRequest(f"The order in patch list:\n{shown(patch)}\n doesn't match $setElementOrder list:\n{shown(order)}\n")


def plain(value: Any) -> tuple[Any, bool]:
    """A value that is new to the document, without directives and nulls, and whether it is kept at all."""
    if type(value) is dict:
        if DIRECTIVE in value:
            return None, False
        found = {key: plain(item) for key, item in value.items() if item is not None}
        return {key: item for key, (item, keep) in found.items() if keep}, True
    if type(value) is list:
        return [item for item, keep in map(plain, value) if keep], True
    return value, True
