"""SimpleSchema's markers: `required=true default="x y" minimum=1`, read from their text and put into a schema."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base.words import closest
from sliceworks.schemas.patterns import compiled

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.graph.model import Object

_YES, _NO = ("1", "t", "T", "TRUE", "true", "True"), ("0", "f", "F", "FALSE", "false", "False")
_INTEGER = re.compile(r"[+-]?[0-9]+\Z")
_LIST_TYPES = ("atomic", "set", "map")


class WrongMarker(ValueError):
    """A marker that cannot be used; `remedy` says what could."""

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.remedy = remedy


def parse(text: str) -> list[tuple[str, str]]:
    """Names and values, in order. Values with spaces stand in quotes; lists and objects in their brackets."""
    found: list[tuple[str, str]] = []
    name, buffer, quoted, escaped, depth = "", "", False, False, 0
    for letter in text:
        if letter == "=" and not name and not quoted and not depth:
            name, buffer = _known(buffer.strip()), ""
            continue
        if letter.isspace() and not quoted and not depth:
            if name:
                found.append((name, _value(buffer)))
                name, buffer = "", ""
            continue
        if letter == '"' and not escaped:
            quoted = not quoted
        elif letter in "{[" and not quoted:
            depth += 1
        elif letter in "}]" and not quoted:
            depth -= 1
            if depth < 0:
                raise WrongMarker(f"a closing {letter} has no opening one")
        escaped = letter == "\\" and quoted and not escaped
        buffer += letter
    if not name and not buffer:
        raise WrongMarker("nothing follows the last space", "end the line with the last marker")
    if not name:
        last = text.rsplit(maxsplit=1)[-1]
        remedy = f"write {last}=…" if not found else f'a value with spaces stands in quotes, such as {found[-1][0]}="…"'
        raise WrongMarker(f"the marker {last} has no value", remedy)
    if quoted or depth:
        raise WrongMarker("a quote is never closed" if quoted else "a bracket is never closed")
    return [*found, (name, _value(buffer))]


def _known(name: str) -> str:
    if name not in _APPLY:
        raise WrongMarker(f"unknown marker {name or '?'}", closest(name, _APPLY) or f"known are {', '.join(_APPLY)}")
    return name


def _value(text: str) -> str:
    if len(text) > 1 and text.startswith('"') and text.endswith('"'):
        return re.sub(r'\\(["\\])', r"\1", text[1:-1])
    return text.strip()


def apply(schema: Object, markers: list[tuple[str, str]]) -> bool:
    """Put markers into a schema. Tells whether the field is required."""
    required = False
    for name, value in markers:
        required |= bool(_APPLY[name](schema, value))
    keys, kind = schema.get("x-kubernetes-list-map-keys"), schema.get("x-kubernetes-list-type")
    if keys and kind != "map":
        raise WrongMarker(f"listMapKey needs listType=map, and listType is {kind or 'not set'}")
    return required


def _truth(name: str, value: str) -> bool:
    if value not in (*_YES, *_NO):
        raise WrongMarker(f"{name} must be true or false, not {value}")
    return value in _YES


def _number(name: str, value: str) -> int | float:
    try:
        number = float(value)
    except ValueError as error:
        raise WrongMarker(f"{name} must be a number, not {value}") from error
    if not math.isfinite(number):
        raise WrongMarker(f"{name} must be a number, not {value}")
    return int(number) if number.is_integer() else number


def _integer(name: str, value: str) -> int:
    if not _INTEGER.match(value):
        raise WrongMarker(f"{name} must be a whole number, not {value}")
    return int(value)


def _for(name: str, schema: Object, *kinds: str) -> None:
    if schema.get("type") not in kinds:
        raise WrongMarker(f"{name} is for {' and '.join(kinds)}, and this is {schema.get('type', 'of another type')}")


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
        return _truth("default", value)
    try:
        return orjson.loads(value)
    except orjson.JSONDecodeError as error:
        raise WrongMarker(f"default must be JSON for {kind}, not {value}", 'such as ["a"] or {"a": 1}') from error


def _enum(schema: Object, value: str) -> None:
    _for("enum", schema, "string", "integer")
    values = [one.strip() for one in value.split(",")]
    if not all(values):
        raise WrongMarker("enum has an empty value")
    schema["enum"] = values if schema["type"] == "string" else [_integer("enum", one) for one in values]


def _pattern(schema: Object, value: str) -> None:
    _for("pattern", schema, "string")
    try:
        compiled(value)
    except ValueError as error:
        raise WrongMarker(f"pattern is no regular expression: {error}") from error
    if not value:
        raise WrongMarker("pattern must not be empty")
    schema["pattern"] = value


def _rule(schema: Object, rule: str, message: str) -> None:
    schema.setdefault("x-kubernetes-validations", []).append({"rule": rule, "message": message})


def _validation(schema: Object, value: str) -> None:
    if not value.strip():
        raise WrongMarker("validation must not be empty")
    _rule(schema, value, "validation failed")


def _immutable(schema: Object, value: str) -> None:
    if _truth("immutable", value):
        _rule(schema, "self == oldSelf", "field is immutable")


def _list_type(schema: Object, value: str) -> None:
    _for("listType", schema, "array")
    if value not in _LIST_TYPES:
        raise WrongMarker(f"listType must be one of {', '.join(_LIST_TYPES)}, not {value}")
    if schema.setdefault("x-kubernetes-list-type", value) != value:
        raise WrongMarker(f"listType is both {schema['x-kubernetes-list-type']} and {value}")


def _list_map_key(schema: Object, value: str) -> None:
    _for("listMapKey", schema, "array")
    keys = schema.setdefault("x-kubernetes-list-map-keys", [])
    if value in keys:
        raise WrongMarker(f"listMapKey {value} is given twice")
    keys.append(value)


def _unique(schema: Object, value: str) -> None:
    unique = _truth("uniqueItems", value)
    _for("uniqueItems", schema, "array")
    if unique:
        _list_type(schema, "set")


def _setter(name: str, read: Callable[[str, str], Any], *kinds: str) -> Callable[[Object, str], None]:
    def put(schema: Object, value: str) -> None:
        if kinds:
            _for(name, schema, *kinds)
        schema[name] = read(name, value)

    return put


_APPLY: dict[str, Callable[[Object, str], bool | None]] = {
    "required": lambda _, value: _truth("required", value),
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
