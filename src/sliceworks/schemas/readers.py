"""Reads the values that have no fields of their own, one function for each: scalars, and lists and maps of strings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.schemas import golang
from sliceworks.schemas.golang import mismatch

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.schemas.model import Decoder, Schema

CLASSES: dict[str | None, type] = {"string": str, "integer": int, "boolean": bool, "array": list, "object": dict}
_LIMITS = {"int32": golang.INT32, "int64": golang.INT64}


def strings(go_type: str, wanted: str) -> Decoder:
    """A reader of `[]string`; `null` in it is the empty string."""

    def read(value: Any, unknown: list[str]) -> Any:
        if value.__class__ is not list:
            raise mismatch(value, go_type)
        for index, item in enumerate(value):
            if item.__class__ is not str:
                if item is not None:
                    raise mismatch(item, wanted)
                value[index] = ""
        return value

    return read


def string_values(go_type: str, wanted: str) -> Decoder:
    """A reader of `map[string]string`; `null` in it is the empty string."""

    def read(value: Any, unknown: list[str]) -> Any:
        if value.__class__ is not dict:
            raise mismatch(value, go_type)
        for key, item in value.items():
            if item.__class__ is not str:
                if item is not None:
                    raise mismatch(item, wanted)
                value[key] = ""
        return value

    return read


def scalar(schema: Schema, go_type: str) -> Decoder:
    """A reader of one plain value."""
    if schema.format == "byte":
        return lambda value, unknown: golang.read_bytes(value)
    if schema.type == "integer":
        limits, wanted = _LIMITS.get(schema.format or "", golang.INT64), go_type or schema.format or "int64"
        return lambda value, unknown: golang.integer(value, limits, wanted)
    if schema.type == "number":
        return lambda value, unknown: _number(value)
    expected = CLASSES.get(schema.type)

    def read(value: Any, unknown: list[str]) -> Any:
        if expected is not None and value.__class__ is not expected:
            raise mismatch(value, go_type or "string")
        return value

    return read


def _number(value: Any) -> Any:
    if value.__class__ is bool or not isinstance(value, int | float):
        raise mismatch(value, "float64")
    return value


def as_is(value: Any, unknown: list[str]) -> Any:
    """A value that is kept whatever it is."""
    return value


def simple(read_value: Callable[[Any], Any]) -> Callable[[Schema], Decoder]:
    """A reader made from a function of the value alone."""

    def make(_: Schema) -> Decoder:
        return lambda value, unknown: read_value(value)

    return make
