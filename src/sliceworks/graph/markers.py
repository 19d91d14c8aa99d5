"""SimpleSchema markers: parses `required=true default="x y" minimum=1` and applies them to a schema."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base.names import suggest_name
from sliceworks.schemas.patterns import compile_pattern

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.graph.model import Object

_TRUE, _FALSE = ("1", "t", "T", "TRUE", "true", "True"), ("0", "f", "F", "FALSE", "false", "False")
_INTEGER = re.compile(r"[+-]?[0-9]+\Z")
_LIST_TYPES = ("atomic", "set", "map")


class SimpleSchemaError(ValueError):
    """An invalid type or marker; `hint` names a valid form."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


def parse(text: str) -> list[tuple[str, str]]:
    """Names and values, in order. Values with spaces are quoted; lists and objects are in brackets."""
    markers: list[tuple[str, str]] = []
    name, buffer, quoted, escaped, depth = "", "", False, False, 0
    for character in text:
        if character == "=" and not name and not quoted and not depth:
            name, buffer = _check_name(buffer.strip()), ""
            continue
        if character.isspace() and not quoted and not depth:
            if name:
                markers.append((name, _unquote(buffer)))
                name, buffer = "", ""
            continue
        if character == '"' and not escaped:
            quoted = not quoted
        elif character in "{[" and not quoted:
            depth += 1
        elif character in "}]" and not quoted:
            depth -= 1
            if depth < 0:
                raise SimpleSchemaError(f"unmatched {character}")
        escaped = character == "\\" and quoted and not escaped
        buffer += character
    if not name and not buffer:
        raise SimpleSchemaError("no marker after the last space", "remove the trailing space")
    if not name:
        last = text.rsplit(maxsplit=1)[-1]
        hint = f"write {last}=…" if not markers else f'quote values that contain spaces, such as {markers[-1][0]}="…"'
        raise SimpleSchemaError(f"marker {last} has no value", hint)
    if quoted or depth:
        raise SimpleSchemaError("unclosed quote" if quoted else "unclosed bracket")
    return [*markers, (name, _unquote(buffer))]


def _check_name(name: str) -> str:
    if name not in _APPLY:
        raise SimpleSchemaError(
            f"unknown marker {name or '?'}", suggest_name(name, _APPLY) or f"known markers: {', '.join(_APPLY)}"
        )
    return name


def _unquote(text: str) -> str:
    if len(text) > 1 and text.startswith('"') and text.endswith('"'):
        return re.sub(r'\\(["\\])', r"\1", text[1:-1])
    return text.strip()


def apply(schema: Object, markers: list[tuple[str, str]]) -> bool:
    """Add the markers to a schema; returns whether the field is required."""
    required = False
    for name, value in markers:
        required |= bool(_APPLY[name](schema, value))
    keys, kind = schema.get("x-kubernetes-list-map-keys"), schema.get("x-kubernetes-list-type")
    if keys and kind != "map":
        raise SimpleSchemaError(f"listMapKey requires listType=map, got {kind or 'no listType'}")
    return required


def _boolean(name: str, value: str) -> bool:
    if value not in (*_TRUE, *_FALSE):
        raise SimpleSchemaError(f"{name}: must be true or false, got {value}")
    return value in _TRUE


def _number(name: str, value: str) -> int | float:
    try:
        number = float(value)
    except ValueError as error:
        raise SimpleSchemaError(f"{name}: must be a number, got {value}") from error
    if not math.isfinite(number):
        raise SimpleSchemaError(f"{name}: must be a number, got {value}")
    return int(number) if number.is_integer() else number


def _integer(name: str, value: str) -> int:
    if not _INTEGER.match(value):
        raise SimpleSchemaError(f"{name}: must be an integer, got {value}")
    return int(value)


def _require_type(name: str, schema: Object, *kinds: str) -> None:
    if schema.get("type") not in kinds:
        raise SimpleSchemaError(f"{name} applies to {' and '.join(kinds)}, got {schema.get('type', 'another type')}")


def _default(schema: Object, value: str) -> None:
    schema["default"] = _default_value(str(schema.get("type")), value)


def _default_value(kind: str, value: str) -> Any:
    if kind == "string":
        try:
            return orjson.loads(f'"{value}"')
        except orjson.JSONDecodeError:
            return value
    if kind in ("integer", "number"):
        return _integer("default", value) if kind == "integer" else _number("default", value)
    if kind == "boolean":
        return _boolean("default", value)
    try:
        return orjson.loads(value)
    except orjson.JSONDecodeError as error:
        raise SimpleSchemaError(f"default: must be JSON for type {kind}, got {value}", 'such as ["a"] or {"a": 1}') from error


def _enum(schema: Object, value: str) -> None:
    _require_type("enum", schema, "string", "integer")
    values = [item.strip() for item in value.split(",")]
    if not all(values):
        raise SimpleSchemaError("enum has an empty value")
    schema["enum"] = values if schema["type"] == "string" else [_integer("enum", item) for item in values]


def _pattern(schema: Object, value: str) -> None:
    _require_type("pattern", schema, "string")
    try:
        compile_pattern(value)
    except ValueError as error:
        raise SimpleSchemaError(f"pattern is not a valid regular expression: {error}") from error
    if not value:
        raise SimpleSchemaError("pattern must not be empty")
    schema["pattern"] = value


def _rule(schema: Object, rule: str, message: str) -> None:
    schema.setdefault("x-kubernetes-validations", []).append({"rule": rule, "message": message})


def _validation(schema: Object, value: str) -> None:
    if not value.strip():
        raise SimpleSchemaError("validation must not be empty")
    _rule(schema, value, "validation failed")


def _immutable(schema: Object, value: str) -> None:
    if _boolean("immutable", value):
        _rule(schema, "self == oldSelf", "field is immutable")


def _list_type(schema: Object, value: str) -> None:
    _require_type("listType", schema, "array")
    if value not in _LIST_TYPES:
        raise SimpleSchemaError(f"listType: must be one of {', '.join(_LIST_TYPES)}, got {value}")
    if schema.setdefault("x-kubernetes-list-type", value) != value:
        raise SimpleSchemaError(f"listType: conflicting values {schema['x-kubernetes-list-type']} and {value}")


def _list_map_key(schema: Object, value: str) -> None:
    _require_type("listMapKey", schema, "array")
    keys = schema.setdefault("x-kubernetes-list-map-keys", [])
    if value in keys:
        raise SimpleSchemaError(f"duplicate listMapKey {value}")
    keys.append(value)


def _unique(schema: Object, value: str) -> None:
    unique = _boolean("uniqueItems", value)
    _require_type("uniqueItems", schema, "array")
    if unique:
        _list_type(schema, "set")


def _setter(name: str, read: Callable[[str, str], Any], *kinds: str) -> Callable[[Object, str], None]:
    def set_keyword(schema: Object, value: str) -> None:
        if kinds:
            _require_type(name, schema, *kinds)
        schema[name] = read(name, value)

    return set_keyword


_APPLY: dict[str, Callable[[Object, str], bool | None]] = {
    "required": lambda _, value: _boolean("required", value),
    "default": _default,
    "description": _setter("description", lambda _, value: value),
    "minimum": _setter("minimum", _number),
    "maximum": _setter("maximum", _number),
    "enum": _enum,
    "minLength": _setter("minLength", _integer, "string"),
    "maxLength": _setter("maxLength", _integer, "string"),
    "pattern": _pattern,
    "uniqueItems": _unique,
    "minItems": _setter("minItems", _integer, "array"),
    "maxItems": _setter("maxItems", _integer, "array"),
    "listType": _list_type,
    "listMapKey": _list_map_key,
    "immutable": _immutable,
    "validation": _validation,
}
