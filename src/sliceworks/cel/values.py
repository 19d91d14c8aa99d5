"""Documents as the engine takes them: times, durations and bytes are values of their own, whole numbers may be doubles."""

from __future__ import annotations

import base64
import binascii
import re
from datetime import datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.schemas.structural import Schema

    Convert = Callable[[Any], Any]

_STANDS_FOR_NUL = "\ue000"
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-zµ]+)")
_UNITS = {
    "ns us µs ms": (1, 1_000, 1_000, 1_000_000),
    "s sec secs second seconds": (10**9,) * 5,
    "m min mins minute minutes": (60 * 10**9,) * 5,
    "h hr hrs hour hours": (3600 * 10**9,) * 5,
    "d day days": (86400 * 10**9,) * 3,
    "w wk wks week weeks": (7 * 86400 * 10**9,) * 5,
}
_NANOS = {unit: size for units, sizes in _UNITS.items() for unit, size in zip(units.split(), sizes, strict=True)}


def to_engine(value: Any) -> Any:
    """A result of one of our functions; the engine takes times and durations only as messages, and cuts `bytes` off at a NUL."""
    if isinstance(value, list):
        return [to_engine(item) for item in value]
    if isinstance(value, dict):
        return {key: to_engine(item) for key, item in value.items()}
    if isinstance(value, bytes):
        return bytearray(value)
    if isinstance(value, timedelta):
        return _duration_message((value.days * 86400 + value.seconds) * 10**9 + value.microseconds * 1000)
    if isinstance(value, datetime):
        return timestamp(value.isoformat())
    return value


def without_nul(value: Any) -> Any:
    """The value with another letter for NUL, at which the engine would cut a text off and so judge only a part of it."""
    return _replaced(value) if b"\\u0000" in orjson.dumps(value) else value


def with_nul_kept(data: dict[str, Any]) -> dict[str, Any]:
    """Values for the engine in which texts with NUL are messages: of a plain text it would take only what comes before."""
    if b"\\u0000" not in orjson.dumps(data, default=lambda _: None):
        return data
    kept: dict[str, Any] = _wrapped(data)
    return kept


def _wrapped(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _wrapped(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_wrapped(item) for item in value]
    if isinstance(value, str) and "\x00" in value:
        from google.protobuf.wrappers_pb2 import StringValue

        return StringValue(value=value)
    return value


def _replaced(value: Any) -> Any:
    if isinstance(value, str):
        return value.replace("\x00", _STANDS_FOR_NUL)
    if isinstance(value, dict):
        return {_replaced(key): _replaced(item) for key, item in value.items()}
    return [_replaced(item) for item in value] if isinstance(value, list) else value


def converter(schema: Schema | None, *, resource: bool = False) -> Convert | None:
    """What turns a document's value into the engine's, or None where they are the same. A resource's metadata stays as it is."""
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
        fields = {name: found for name, child in known.items() if (found := _converter(child, above))}
        nullable = frozenset(name for name, child in known.items() if child.nullable)
        return _object_converter(fields, nullable) if fields or nullable else None
    value = _converter(schema.additional, above)
    return _map_converter(value) if value else None


def _list_converter(item: Convert) -> Convert:
    return lambda value: [None if one is None else item(one) for one in value] if isinstance(value, list) else value


def _map_converter(convert: Convert) -> Convert:
    def converted(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {key: None if one is None else convert(one) for key, one in value.items()}

    return converted


def _object_converter(fields: dict[str, Convert], nullable: frozenset[str]) -> Convert:
    """A field that is null is as good as absent."""

    def converted(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        found = {key: one for key, one in value.items() if one is not None or key not in nullable}
        for name, convert in fields.items():
            if found.get(name) is not None:
                found[name] = convert(found[name])
        return found

    return converted


def _double(value: Any) -> Any:
    return float(value) if isinstance(value, int) else value


def _bytes(value: Any) -> Any:
    try:
        return bytearray(base64.b64decode(value, validate=True))
    except (binascii.Error, ValueError, TypeError):
        return value


@lru_cache(maxsize=256)
def duration(text: str) -> Any:
    """A duration's message, or the text itself where it is none. Go's form and `3 days` are understood."""
    found = _DURATION_PART.findall(text)
    sign = -1 if text.startswith("-") else 1
    if not found or any(unit.lower() not in _NANOS for _, unit in found):
        return _duration_message(0) if text == "0" else text
    return _duration_message(sign * sum(round(float(number) * _NANOS[unit.lower()]) for number, unit in found))


def _duration_message(nanos: int) -> Any:
    from google.protobuf.duration_pb2 import Duration

    message = Duration()
    message.FromNanoseconds(nanos)
    return message


@lru_cache(maxsize=256)
def timestamp(text: str) -> Any:
    """A time's message, or the text itself where it is none."""
    from google.protobuf.timestamp_pb2 import Timestamp

    message = Timestamp()
    try:
        message.FromJsonString(text.upper() if "T" in text.upper() else f"{text}T00:00:00Z")
    except ValueError:
        return text
    return message


_FORMATS: dict[str, Convert] = {"byte": _bytes, "duration": duration, "date": timestamp, "date-time": timestamp}
