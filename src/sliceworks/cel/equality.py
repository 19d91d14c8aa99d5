"""Equality and concatenation of lists that are sets or maps by their schema: the order of their items does not count.

The engine knows only lists, so where a schema says otherwise an expression's `==` and `+` are replaced by functions that are
given the schema's shape as a text.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.cel.libraries.functions import Function

if TYPE_CHECKING:
    from sliceworks.schemas.structural import Schema

Shape = dict[str, Any]


def shape(schema: Schema | None) -> Shape | None:
    """What is special in comparing values of this schema, or None where plain equality is right."""
    return _shape(schema, frozenset())


def _shape(schema: Schema | None, above: frozenset[int]) -> Shape | None:
    if schema is None or id(schema) in above:
        return None
    above |= {id(schema)}
    if schema.type == "array":
        items = _shape(schema.items, above)
        if schema.list_type == "map":
            return {"list": "map", "keys": list(schema.list_map_keys), "items": items}
        if schema.list_type == "set":
            return {"list": "set"}
        return {"list": "atomic", "items": items} if items else None
    fields = {name: found for name, child in schema.properties.items() if (found := _shape(child, above))}
    if fields:
        return {"fields": fields}
    values = _shape(schema.additional, above)
    return {"values": values} if values else None


def same(one: Any, other: Any, text: str) -> bool:
    """Whether two values are equal in the eyes of their schema."""
    return _same(one, other, _read(text))


def combined(one: list[Any], other: list[Any], text: str) -> list[Any]:
    """`one + other`: the union of sets; in maps the later entry of a key takes the place of the earlier."""
    kept: dict[Any, Any] = {}
    read = _read(text)
    for item in (*one, *other):
        key = _key(item, read)
        if key not in kept or read["list"] == "map":
            kept[key] = item
    return list(kept.values())


@lru_cache(maxsize=1024)
def _read(text: str) -> Shape:
    found: Shape = orjson.loads(text)
    return found


def _same(one: Any, other: Any, form: Shape | None) -> bool:
    if form is None or type(one) is not type(other):
        return bool(one == other)
    if isinstance(one, list):
        return len(one) == len(other) and _same_items(one, other, form)
    if not isinstance(one, dict) or one.keys() != other.keys():
        return bool(one == other)
    fields, values = form.get("fields", {}), form.get("values")
    return all(_same(value, other[name], fields.get(name, values)) for name, value in one.items())


def _same_items(one: list[Any], other: list[Any], form: Shape) -> bool:
    items = form.get("items")
    if form.get("list") not in ("set", "map"):
        return all(_same(left, right, items) for left, right in zip(one, other, strict=True))
    by_key = {_key(item, form): item for item in one}
    missing = object()
    return all(_same(by_key.get(_key(item, form), missing), item, items) for item in other)


def _key(item: Any, form: Shape) -> Any:
    """What an item is found by: a set's item by itself, a map's by its keys. Numbers and truth values are told apart."""
    if form["list"] == "set":
        return (type(item), item)
    return tuple((type(item.get(key)), item.get(key)) for key in form["keys"])


RUN_ONLY = [
    Function("@same", "@same(list<dyn>, list<dyn>, string)", "bool", same),
    Function("@same", "@same(map<dyn, dyn>, map<dyn, dyn>, string)", "bool", same),
    Function("@combined", "@combined(list<dyn>, list<dyn>, string)", "list<dyn>", combined),
]
