"""Apply defaults: static defaults of custom resources and defaulting functions of built-in kinds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base.errors import RequestEntityTooLarge
from sliceworks.schemas.model import MISSING, plan

if TYPE_CHECKING:
    from collections.abc import Callable, Container

    from sliceworks.schemas.model import Defaulter, Plan, Schema

    # A field, the factory of its default, whether the field is nullable, and the size of both as JSON.
    Static = tuple[str, Callable[[], Any], bool, int]
    Work = tuple[list[Defaulter], list[Static]]

MAX_BYTES = 3 * 1024 * 1024
"""Of the defaults of one object: a list of many empty items would otherwise become larger than the memory."""


class _Allowance:
    """How many bytes of defaults an object may still get."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = MAX_BYTES

    def take(self, size: int) -> None:
        self.left -= size
        if self.left < 0:
            raise RequestEntityTooLarge(f"Request entity too large: limit of the defaults of an object is {MAX_BYTES}")


def set_defaults(schema: Schema, value: Any, settled: Container[str] = ()) -> None:
    """Set defaults in place, parents before children, but not inside the `settled` fields.

    Raises RequestEntityTooLarge if the defaults exceed MAX_BYTES; the object has some of them then.
    """
    defaults = plan(schema, "functions", _functions) if schema.name else plan(schema, "defaults", _work)
    if defaults is None:
        return
    allowance = _Allowance()
    if not settled:
        _apply(defaults, value, allowance)
        return
    if defaults.work is not None:
        _fill(defaults.work, value, allowance)
    for field, below in defaults.fields.items():
        if field in value and field not in settled:
            _apply(below, value[field], allowance)


def _apply(node: Plan[Work], value: Any, allowance: _Allowance) -> None:
    if value.__class__ is list:
        if node.items is not None:
            _apply_items(node.items, value, allowance)
        return
    if value.__class__ is not dict:
        return
    if node.work is not None:
        _fill(node.work, value, allowance)
    # Iterate over the value: it has fewer fields than its schema.
    find = node.fields.get
    for field, item in value.items():
        if item.__class__ is dict or item.__class__ is list:
            below = find(field)
            if below is not None:
                _apply(below, item, allowance)
    if node.values is not None:
        for key, item in value.items():
            if key not in node.schema.properties:
                value[key] = _filled(node.values, item, allowance)


def _fill(work: Work, value: dict[str, Any], allowance: _Allowance) -> None:
    functions, statics = work
    for function in functions:
        function(value)
    for field, make, nullable, size in statics:
        if field not in value or (value[field] is None and not nullable):
            allowance.take(size)
            value[field] = make()


def _apply_items(node: Plan[Work], values: list[Any], allowance: _Allowance) -> None:
    for index, item in enumerate(values):
        values[index] = _filled(node, item, allowance)


def _filled(node: Plan[Work], item: Any, allowance: _Allowance) -> Any:
    """The item with its defaults set; `null` is replaced with the default of the item schema, if any."""
    if item is None and not node.schema.nullable:
        default = node.schema.default
        if isinstance(default, bytes):
            allowance.take(len(default))
            item = orjson.loads(default)
    _apply(node, item, allowance)
    return item


def _functions(schema: Schema) -> Work | None:
    """The defaulting functions of a built-in kind. The `default` keywords of its schema are only Go's zero values."""
    return (schema.defaulters, []) if schema.defaulters else None


def _work(schema: Schema) -> Work | None:
    statics = [] if schema.name else [_static(field, child) for field, child in schema.properties.items() if _has_default(child)]
    # The node's own default applies to `null` items only: see `_filled`.
    return (schema.defaulters, statics) if schema.defaulters or statics or _has_default(schema) else None


def _has_default(schema: Schema) -> bool:
    return schema.default is not MISSING and not schema.name


def _static(field: str, child: Schema) -> Static:
    text = child.default if isinstance(child.default, bytes) else b"null"
    value, size = orjson.loads(text), len(field) + len(text)
    if isinstance(value, dict | list):
        return field, lambda: orjson.loads(text), child.nullable, size
    return field, lambda: value, child.nullable, size
