"""Converts document values for the engine, and results of expressions back into document values."""

from __future__ import annotations

import base64
import binascii
import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from math import isfinite
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base import duration

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.schemas import Schema

    Convert = Callable[[Any], Any]

_NUL_SUBSTITUTE = "\ue000"
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-zµ]+)")

_UNITS = {
    "ns": 1,
    "us µs": 1_000,
    "ms": 1_000_000,
    "s sec secs second seconds": 10**9,
    "m min mins minute minutes": 60 * 10**9,
    "h hr hrs hour hours": 3600 * 10**9,
    "d day days": 86400 * 10**9,
    "w wk wks week weeks": 7 * 86400 * 10**9,
}
_NANOS = {unit: nanoseconds for units, nanoseconds in _UNITS.items() for unit in units.split()}


def to_engine(value: Any) -> Any:
    """Convert a function's result: the engine needs timestamps and durations as messages, and truncates `bytes` at NUL."""
    if isinstance(value, list):
        return [to_engine(item) for item in value]
    if isinstance(value, dict):
        return {key: to_engine(item) for key, item in value.items()}
    if isinstance(value, bytes):
        return bytearray(value)
    if isinstance(value, timedelta):
        return _duration_message(_nanoseconds(value))
    if isinstance(value, datetime):
        return parse_timestamp(value.isoformat())
    return value


def replace_nul(value: Any) -> Any:
    """Replace NUL characters, at which the engine truncates strings."""
    encoded = orjson.dumps(value, default=lambda _: None, option=orjson.OPT_NON_STR_KEYS)
    return _replace_in(value) if b"\\u0000" in encoded else value


def wrap_nul_strings(data: dict[str, Any]) -> dict[str, Any]:
    """Wrap strings that contain NUL as messages, because the engine truncates plain strings at NUL."""
    if b"\\u0000" not in orjson.dumps(data, default=lambda _: None):
        return data
    wrapped: dict[str, Any] = _wrap_strings(data)
    return wrapped


def _wrap_strings(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _wrap_strings(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_wrap_strings(item) for item in value]
    if isinstance(value, str) and "\x00" in value:
        from google.protobuf.wrappers_pb2 import StringValue

        return StringValue(value=value)
    return value


def _replace_in(value: Any) -> Any:
    if isinstance(value, str):
        return value.replace("\x00", _NUL_SUBSTITUTE)
    if isinstance(value, dict):
        return {_replace_in(key): _replace_in(item) for key, item in value.items()}
    return [_replace_in(item) for item in value] if isinstance(value, list) else value


def converter(schema: Schema | None, *, resource: bool = False) -> Convert | None:
    """Conversion of document values for the engine, or None if they are identical. Metadata of a resource is not converted."""
    return _converter(schema, frozenset(), resource=resource)


def _converter(schema: Schema | None, above: frozenset[int], *, resource: bool = False) -> Convert | None:
    if schema is None or schema.int_or_string or id(schema) in above:
        return None
    above |= {id(schema)}
    if schema.type == "number":
        return _double
    if schema.type == "string":
        return _FORMATS.get(schema.format or "")
    if schema.type == "array":
        item = _converter(schema.items, above)
        return _list_converter(item) if item else None
    if schema.type != "object":
        return None
    if schema.properties:
        known = {name: child for name, child in schema.properties.items() if not (resource and name == "metadata")}
        fields = {name: convert for name, child in known.items() if (convert := _converter(child, above))}
        nullable = frozenset(name for name, child in known.items() if child.nullable)
        return _object_converter(fields, nullable) if fields or nullable else None
    value = _converter(schema.additional, above)
    return _map_converter(value) if value else None


def _list_converter(item: Convert) -> Convert:
    return lambda value: [None if element is None else item(element) for element in value] if isinstance(value, list) else value


def _map_converter(convert: Convert) -> Convert:
    def converted(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {key: None if item is None else convert(item) for key, item in value.items()}

    return converted


def _object_converter(fields: dict[str, Convert], nullable: frozenset[str]) -> Convert:
    """Conversion of an object; null fields are dropped."""

    def converted(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        result = {key: item for key, item in value.items() if item is not None or key not in nullable}
        for name, convert in fields.items():
            if result.get(name) is not None:
                result[name] = convert(result[name])
        return result

    return converted


def _double(value: Any) -> Any:
    return float(value) if isinstance(value, int) else value


def _bytes(value: Any) -> Any:
    try:
        return bytearray(base64.b64decode(value, validate=True))
    except (binascii.Error, ValueError, TypeError):
        return value


@lru_cache(maxsize=256)
def parse_duration(text: str) -> Any:
    """A duration message, or the string itself if it is invalid. Accepts Go's format and `3 days`."""
    parts = _DURATION_PART.findall(text)
    sign = -1 if text.startswith("-") else 1
    if not parts or any(unit.lower() not in _NANOS for _, unit in parts):
        return _duration_message(0) if text == "0" else text
    return _duration_message(sign * sum(round(float(number) * _NANOS[unit.lower()]) for number, unit in parts))


def _nanoseconds(delta: timedelta) -> int:
    return delta // timedelta(microseconds=1) * 1000


def _duration_message(nanos: int) -> Any:
    from google.protobuf.duration_pb2 import Duration

    message = Duration()
    message.FromNanoseconds(nanos)
    return message


@lru_cache(maxsize=256)
def parse_timestamp(text: str) -> Any:
    """A timestamp message, or the string itself if it is invalid."""
    from google.protobuf.timestamp_pb2 import Timestamp

    message = Timestamp()
    try:
        message.FromJsonString(text.upper() if "T" in text.upper() else f"{text}T00:00:00Z")
    except ValueError:
        return text
    return message


_FORMATS: dict[str, Convert] = {"byte": _bytes, "duration": parse_duration, "date": parse_timestamp, "date-time": parse_timestamp}
_MAX_WHOLE_FLOAT = 1e21


def to_document(value: Any) -> Any:
    """The value in JSON types; ValueError if JSON cannot represent it."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, dict):
        invalid_key = next((key for key in value if not isinstance(key, str)), None)
        if invalid_key is not None:
            raise ValueError(f"the keys of a map must be strings, not {invalid_key!r}")
        # The engine's maps are unordered: sort keys so that written objects are stable.
        return {key: to_document(value[key]) for key in sorted(value)}
    if isinstance(value, list | tuple):
        return [to_document(item) for item in value]
    if isinstance(value, float):
        if not isfinite(value):
            raise ValueError(f"{value} is not a valid JSON number")
        return int(value) if value.is_integer() and abs(value) < _MAX_WHOLE_FLOAT else value
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    if isinstance(value, timedelta):
        return duration.render_nanoseconds(_nanoseconds(value))
    raise ValueError(f"{value} is not a JSON value")
