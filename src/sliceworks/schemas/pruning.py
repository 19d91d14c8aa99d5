"""Drop unknown fields from custom resources and decode their metadata as ObjectMeta."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.schemas.decoder import decode, prefix_paths
from sliceworks.schemas.golang import TypeMismatch
from sliceworks.schemas.model import MISSING, plan

if TYPE_CHECKING:
    from sliceworks.schemas.model import Plan, Schema

_META_FIELDS = frozenset({"apiVersion", "kind", "metadata"})


def prune(schema: Schema, value: Any, unknown: list[str], *, nulls: bool = True) -> Any:
    """Prune a custom resource in place. Appends the paths of dropped fields; raises TypeMismatch for mistyped metadata.

    Also drops nulls that are not allowed. Without `nulls` it keeps those that validation rejects.
    """
    _read_metadata(value, unknown)
    dropped: list[str] = []
    _prune_map(schema, value, dropped, nulls, keep=schema.preserve_unknown, meta=True)
    unknown.extend(sorted(dropped))
    embedded = plan(schema, "embedded", is_embedded)
    if embedded is not None:
        inside: list[str] = []
        _read_embedded(embedded, value, inside)
        unknown.extend(sorted(inside))
    return value


def prune_value(schema: Schema, value: Any, unknown: list[str]) -> None:
    """Prune a value inside a custom resource in place."""
    _prune(schema, value, unknown, nulls=True)
    embedded = plan(schema, "embedded", is_embedded)
    if embedded is not None:
        _read_embedded(embedded, value, unknown)


def _prune(schema: Schema | None, value: Any, unknown: list[str], nulls: bool) -> None:
    if value.__class__ is dict:
        if schema is None:
            unknown.extend(value)
            value.clear()
        else:
            _prune_map(schema, value, unknown, nulls, keep=schema.preserve_unknown, meta=schema.embedded_resource)
    elif value.__class__ is list:
        _prune_list(schema, value, unknown, nulls)


def _prune_map(schema: Schema, value: dict[str, Any], unknown: list[str], nulls: bool, *, keep: bool, meta: bool) -> None:
    dropped: list[str] = []
    open_map = schema.additional is not None or schema.additional_allowed
    for key, item in value.items():
        if meta and key in _META_FIELDS:
            continue
        child = schema.properties.get(key)
        if child is None and not open_map:
            if not keep:
                unknown.append(key)
                dropped.append(key)
            continue
        child = child or schema.additional
        if item is None:
            if child is not None and not child.nullable and child.default is MISSING and (nulls or not _rejects_null(child)):
                dropped.append(key)
        elif item.__class__ is dict or item.__class__ is list:
            count = len(unknown)
            _prune(child, item, unknown, nulls)
            if len(unknown) != count:
                prefix_paths(unknown, count, key)
        elif item.__class__ is float and item.is_integer():
            # Go encodes a float with an integral value without decimals.
            value[key] = int(item)
    for key in dropped:
        del value[key]


def _rejects_null(schema: Schema) -> bool:
    return bool(schema.type or schema.int_or_string or schema.enum is not None)


def _prune_list(schema: Schema | None, value: list[Any], unknown: list[str], nulls: bool) -> None:
    below = schema.items if schema is not None else None
    keep_all = schema is not None and schema.preserve_unknown
    for index, item in enumerate(value):
        count = len(unknown)
        if item.__class__ is float and item.is_integer():
            value[index] = int(item)
        if keep_all and item.__class__ is dict:
            if below is not None:
                _prune_map(below, item, unknown, nulls, keep=True, meta=below.embedded_resource)
        elif not (keep_all and below is None):
            _prune(below, item, unknown, nulls)
        if len(unknown) != count:
            prefix_paths(unknown, count, f"[{index}]")


def is_embedded(schema: Schema) -> bool | None:
    """Whether the schema describes an embedded resource."""
    return schema.embedded_resource or None


def _read_embedded(node: Plan[bool], value: Any, unknown: list[str]) -> None:
    if value.__class__ is dict:
        if node.work:
            for key in ("apiVersion", "kind"):
                if key in value and value[key].__class__ is not str:
                    raise TypeMismatch("", "", f"{key}: Invalid value: must be a string")
            _read_metadata(value, unknown)
        for key, item in value.items():
            below = node.fields.get(key) or (node.values if key not in node.schema.properties else None)
            if below is not None:
                _read_below(below, item, unknown, key)
    elif value.__class__ is list and node.items is not None:
        for index, item in enumerate(value):
            _read_below(node.items, item, unknown, f"[{index}]")


def _read_below(node: Plan[bool], value: Any, unknown: list[str], key: str) -> None:
    count = len(unknown)
    _read_embedded(node, value, unknown)
    prefix_paths(unknown, count, key)


def _read_metadata(value: dict[str, Any], unknown: list[str]) -> None:
    if "metadata" not in value:
        return
    from sliceworks.schemas.builtins import OBJECT_META, builtin_scheme

    unknown_fields: list[str] = []
    if value["metadata"] is None:
        value["metadata"] = {}
    decode(builtin_scheme().component(OBJECT_META), value["metadata"], unknown_fields)
    unknown.extend(f"metadata.{path}" for path in unknown_fields)
