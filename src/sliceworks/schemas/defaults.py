"""Apply defaults: static defaults of custom resources and defaulting functions of built-in kinds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.schemas.model import MISSING, plan

if TYPE_CHECKING:
    from collections.abc import Callable, Container

    from sliceworks.schemas.model import Defaulter, Plan, Schema

    # A field, the factory of its default, and whether the field is nullable.
    Static = tuple[str, Callable[[], Any], bool]
    Work = tuple[list[Defaulter], list[Static]]


def set_defaults(schema: Schema, value: Any, settled: Container[str] = ()) -> None:
    """Set defaults in place, parents before children, but not inside the `settled` fields."""
    wanted = plan(schema, "functions", _functions) if schema.name else plan(schema, "defaults", _work)
    if wanted is None:
        return
    if not settled:
        _apply(wanted, value)
        return
    if wanted.work is not None:
        _fill(wanted.work, value)
    for field, below in wanted.fields.items():
        if field in value and field not in settled:
            _apply(below, value[field])


def _apply(wanted: Plan[Work], value: Any) -> None:
    if value.__class__ is list:
        if wanted.items is not None:
            _apply_items(wanted.items, value)
        return
    if value.__class__ is not dict:
        return
    if wanted.work is not None:
        _fill(wanted.work, value)
    # Iterate over the value: it has fewer fields than its schema.
    find = wanted.fields.get
    for field, item in value.items():
        if item.__class__ is dict or item.__class__ is list:
            below = find(field)
            if below is not None:
                _apply(below, item)
    if wanted.values is not None:
        for key, item in value.items():
            if key not in wanted.schema.properties:
                value[key] = _filled(wanted.values, item)


def _fill(work: Work, value: dict[str, Any]) -> None:
    functions, statics = work
    for function in functions:
        function(value)
    for field, make, nullable in statics:
        if field not in value or (value[field] is None and not nullable):
            value[field] = make()


def _apply_items(wanted: Plan[Work], values: list[Any]) -> None:
    for index, item in enumerate(values):
        values[index] = _filled(wanted, item)


def _filled(wanted: Plan[Work], item: Any) -> Any:
    """The item with its defaults set; `null` is replaced with the default of the item schema, if any."""
    if item is None and not wanted.schema.nullable:
        default = wanted.schema.default
        item = orjson.loads(default) if isinstance(default, bytes) else None
    _apply(wanted, item)
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
    value = orjson.loads(text)
    if isinstance(value, dict | list):
        return field, lambda: orjson.loads(text), child.nullable
    return field, lambda: value, child.nullable
