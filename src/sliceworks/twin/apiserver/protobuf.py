"""Kubernetes' protobuf request bodies.

Go clients send and accept built-in kinds this way. The field numbers are data (`wire.json`, written by
tests/real/extract_wire.py); types with another form in JSON are decoded by functions.
"""

from __future__ import annotations

import base64
import struct
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base.protobuf_wire import VARINT, DecodeError, read_fields

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MAGIC = b"k8s\x00"
WIRE = Path(__file__).parent / "data" / "kubernetes-1.35" / "wire.json"
_MAX_DEPTH = 64
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_META = "io.k8s.apimachinery.pkg.apis.meta.v1."


class ProtobufError(ValueError):
    """The bytes are not a Kubernetes protobuf body, or its kind is unknown."""


def decode(body: bytes, component: Callable[[str, str, str], str]) -> dict[str, Any]:
    """The object in a body; `component(group, version, kind)` returns the schema component of its kind."""
    if not body.startswith(MAGIC):
        raise ProtobufError("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")
    envelope = dict(_fields(body[len(MAGIC) :]))
    types = dict(_fields(_bytes(envelope.get(1, b""))))
    api_version, kind = _string(types.get(1, b"")), _string(types.get(2, b""))
    if not kind:
        raise ProtobufError("Object 'Kind' is missing in the protobuf envelope")
    group, _, version = api_version.rpartition("/")
    name = component(group, version, kind)
    if name not in wire_format():
        raise ProtobufError(f'no kind "{kind}" is registered for version "{api_version}"')
    obj = _message(_bytes(envelope.get(2, b"")), name, _MAX_DEPTH)
    return {"kind": kind, "apiVersion": api_version, **obj}


@cache
def wire_format() -> dict[str, dict[str, str]]:
    """By component and field number: the JSON name, the mark and the component of each field."""
    table: dict[str, dict[str, str]] = orjson.loads(WIRE.read_bytes())
    return table


def is_special(component: str) -> bool:
    """Whether a type has another form in JSON than its message has."""
    return component.rpartition(".")[2] in _SPECIAL and component.startswith(_SPECIAL_PACKAGES)


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message in order: numbers for varints, bytes for all other types."""
    try:
        for field, wire_type, start, end, number in read_fields(data):
            yield field, number if wire_type == VARINT else data[start:end]
    except DecodeError as error:
        raise ProtobufError(str(error)) from error


def _message(data: bytes, component: str, depth: int) -> Any:
    if is_special(component):
        return _SPECIAL[component.rpartition(".")[2]](data, depth)
    if not depth:
        raise ProtobufError("message is nested too deeply")
    shape = wire_format().get(component)
    if shape is None:
        raise ProtobufError(f"unknown message type {component}")
    obj: dict[str, Any] = {}
    for number, raw in _fields(data):
        spec = shape.get(str(number))
        if spec is not None:
            _put(obj, spec, raw, depth)
    return obj


def _put(obj: dict[str, Any], spec: str, raw: int | bytes, depth: int) -> None:
    name, mark, component = (*spec.split(" "), "")[:3]
    if mark.startswith("[]"):
        obj.setdefault(name, []).append(_value(mark[2:], component, raw, depth))
    elif mark.startswith("{}"):
        pair = dict(_fields(_bytes(raw)))
        obj.setdefault(name, {})[_string(pair.get(1, b""))] = _map_value(mark[2:], component, pair.get(2), depth)
    else:
        value = _value(mark.removeprefix("*"), component, raw, depth)
        if not name:
            # An embedded Go struct: its fields belong to the parent.
            obj.update(value)
        elif mark.startswith("*") or value not in ("", 0, False, None, {}):
            obj[name] = value


def _map_value(mark: str, component: str, raw: int | bytes | None, depth: int) -> Any:
    if mark == "[]s":
        # A list in a map is wrapped in a message.
        return [_string(item) for number, item in _fields(_bytes(raw or b"")) if number == 1]
    return _value(mark, component, raw if raw is not None else (0 if mark in "ib" else b""), depth)


def _value(mark: str, component: str, raw: int | bytes, depth: int) -> Any:
    if mark == "s":
        return _string(raw)
    if mark == "i":
        return _signed(raw)
    if mark == "b":
        return bool(raw)
    if mark == "B":
        return base64.b64encode(_bytes(raw)).decode()
    if mark == "f":
        return struct.unpack("<d", _bytes(raw))[0] if len(_bytes(raw)) == 8 else 0.0
    return _message(_bytes(raw), component, depth - 1)


def _bytes(raw: int | bytes) -> bytes:
    if isinstance(raw, int):
        raise ProtobufError("wrong wire type for a message or string")
    return raw


def _string(raw: int | bytes) -> str:
    try:
        return _bytes(raw).decode()
    except UnicodeDecodeError as error:
        raise ProtobufError("string is not valid UTF-8") from error


def _signed(raw: int | bytes) -> int:
    if isinstance(raw, bytes):
        raise ProtobufError("wrong wire type for a number")
    return raw - (1 << 64) if raw >= 1 << 63 else raw


def _time(data: bytes, digits: int) -> str | None:
    fields = dict(_fields(data))
    seconds, nanos = _signed(fields.get(1, 0)), _signed(fields.get(2, 0))
    if not seconds and not nanos:
        return None
    try:
        time = _EPOCH + timedelta(seconds=seconds, microseconds=nanos // 1000)
    except OverflowError as error:
        raise ProtobufError("time is out of range") from error
    return time.replace(tzinfo=None).isoformat(timespec="microseconds" if digits else "seconds") + "Z"


def _int_or_string(data: bytes, depth: int) -> int | str:
    fields = dict(_fields(data))
    return _string(fields.get(3, b"")) if fields.get(1) else _signed(fields.get(2, 0))


def _json(data: bytes, depth: int) -> Any:
    raw = _bytes(dict(_fields(data)).get(1, b""))
    try:
        return orjson.loads(raw) if raw else None
    except orjson.JSONDecodeError as error:
        raise ProtobufError(f"embedded JSON: {error}") from error


def _duration(data: bytes, depth: int) -> str:
    return f"{_signed(dict(_fields(data)).get(1, 0)) / 1e9:g}s"


def _schema_or_bool(data: bytes, depth: int) -> Any:
    fields = dict(_fields(data))
    if 2 in fields:
        return _message(_bytes(fields[2]), JSON_SCHEMA_PROPS, depth - 1)
    return bool(fields.get(1, 0))


def _schema_or_array(data: bytes, depth: int) -> Any:
    fields = list(_fields(data))
    several = [_message(_bytes(raw), JSON_SCHEMA_PROPS, depth - 1) for number, raw in fields if number == 2]
    if several:
        return several
    return next((_message(_bytes(raw), JSON_SCHEMA_PROPS, depth - 1) for number, raw in fields if number == 1), None)


def _schema_or_names(data: bytes, depth: int) -> Any:
    fields = list(_fields(data))
    single = next((_message(_bytes(raw), JSON_SCHEMA_PROPS, depth - 1) for number, raw in fields if number == 1), None)
    return single if single is not None else [_string(raw) for number, raw in fields if number == 2]


_CRD = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."
JSON_SCHEMA_PROPS = f"{_CRD}JSONSchemaProps"
_SPECIAL_PACKAGES = (_META, _CRD, "io.k8s.apimachinery.pkg.")
_SPECIAL: dict[str, Callable[[bytes, int], Any]] = {
    "Time": lambda data, depth: _time(data, 0),
    "MicroTime": lambda data, depth: _time(data, 6),
    "Quantity": lambda data, depth: _string(dict(_fields(data)).get(1, b"")),
    "IntOrString": _int_or_string,
    "Duration": _duration,
    "RawExtension": _json,
    "FieldsV1": _json,
    "JSON": _json,
    "JSONSchemaPropsOrBool": _schema_or_bool,
    "JSONSchemaPropsOrArray": _schema_or_array,
    "JSONSchemaPropsOrStringArray": _schema_or_names,
}
