"""Finds what a list item was before an update: only items of a keyed list have a history of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.schemas.model import MISSING

if TYPE_CHECKING:
    from sliceworks.schemas.model import Schema


def old_items(schema: Schema, value: list[Any], old: Any) -> list[Any]:
    """For each item of `value`, the item of `old` with the same keys, or MISSING."""
    if schema.list_type != "map" or old.__class__ is not list:
        return [MISSING] * len(value)
    before: dict[bytes, Any] = {}
    for item in old:
        before.setdefault(item_key(schema, item), item)
    return [before.get(item_key(schema, item), MISSING) for item in value]


def item_key(schema: Schema, item: Any) -> bytes:
    """What tells an item of a keyed list from the others."""
    if not isinstance(item, dict):
        return b""
    return orjson.dumps([item.get(key, _default(schema, key)) for key in schema.list_map_keys], option=orjson.OPT_SORT_KEYS)


def _default(schema: Schema, key: str) -> Any:
    child = schema.items.properties.get(key) if schema.items is not None else None
    return orjson.loads(child.default) if child is not None and isinstance(child.default, bytes) and not child.name else None
