"""Kubernetes' protobuf request bodies, read as the objects they stand for.

Clients written in Go send built-in kinds this way and take JSON back. The field numbers are data (`wire.json`, written by
tests/real/extract_wire.py); a handful of types that JSON shows in another form than protobuf are read by functions of their own.
"""

from __future__ import annotations

import base64
import struct
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MAGIC = b"k8s\x00"
_WIRE = Path(__file__).parent / "data" / "kubernetes-1.35" / "wire.json"
_DEEPEST = 64
_WIDEST = (1 << 64) - 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_META = "io.k8s.apimachinery.pkg.apis.meta.v1."


class ProtobufRefused(ValueError):
    """The bytes are no Kubernetes protobuf body, or of a kind that is not known."""


def decode(body: bytes, component: Callable[[str, str, str], str]) -> dict[str, Any]:
    """The object in a body; `component(group, version, kind)` names the schema component of its kind."""
    if not body.startswith(MAGIC):
        raise ProtobufRefused("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")
    envelope = dict(_fields(body[len(MAGIC) :]))
    types = dict(_fields(_bytes(envelope.get(1, b""))))
    api_version, kind = _text(types.get(1, b"")), _text(types.get(2, b""))
    if not kind:
        raise ProtobufRefused("Object 'Kind' is missing in the protobuf envelope")
    group, _, version = api_version.rpartition("/")
    name = component(group, version, kind)
    if name not in _wire():
        raise ProtobufRefused(f'no kind "{kind}" is registered for version "{api_version}"')
    obj = _message(_bytes(envelope.get(2, b"")), name, _DEEPEST)
    return {"kind": kind, "apiVersion": api_version, **obj}


@cache
def _wire() -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = orjson.loads(_WIRE.read_bytes())
    return found


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message, in the order in which they came: numbers, or bytes for anything longer."""
    at, end = 0, len(data)
    while at < end:
        key, at = _varint(data, at)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, at = _varint(data, at)
            yield number, value
            continue
        if wire == 2:
            size, at = _varint(data, at)
        elif wire == 1:
            size = 8
        elif wire == 5:
            size = 4
        else:
            raise ProtobufRefused(f"proto: illegal wireType {wire}")
        if at + size > end:
            raise ProtobufRefused("unexpected EOF")
        yield number, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise ProtobufRefused("unexpected EOF")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & _WIDEST, at
        shift += 7


def _message(data: bytes, component: str, depth: int) -> Any:
    special = _SPECIAL.get(component.rpartition(".")[2])
    if special is not None and component.startswith(_SPECIAL_HOMES):
        return special(data, depth)
    if not depth:
        raise ProtobufRefused("the message is nested too deeply")
    shape = _wire().get(component)
    if shape is None:
        raise ProtobufRefused(f"{component} is not known")
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
        obj.setdefault(name, {})[_text(pair.get(1, b""))] = _map_value(mark[2:], component, pair.get(2), depth)
    else:
        value = _value(mark.removeprefix("*"), component, raw, depth)
        if not name:
            # A struct that Go embeds: its fields stand among its owner's.
            obj.update(value)
        elif mark.startswith("*") or value not in ("", 0, False, None, {}):
            obj[name] = value


def _map_value(mark: str, component: str, raw: int | bytes | None, depth: int) -> Any:
    if mark == "[]s":
        # The one kind of list in a map: a message that wraps it.
        return [_text(item) for number, item in _fields(_bytes(raw or b"")) if number == 1]
    return _value(mark, component, raw if raw is not None else (0 if mark in "ib" else b""), depth)


def _value(mark: str, component: str, raw: int | bytes, depth: int) -> Any:
    if mark == "s":
        return _text(raw)
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
        raise ProtobufRefused("wrong wire type for a message or text")
    return raw


def _text(raw: int | bytes) -> str:
    try:
        return _bytes(raw).decode()
    except UnicodeDecodeError as error:
        raise ProtobufRefused("text is no UTF-8") from error


def _signed(raw: int | bytes) -> int:
    if isinstance(raw, bytes):
        raise ProtobufRefused("wrong wire type for a number")
    return raw - (1 << 64) if raw >= 1 << 63 else raw


def _time(data: bytes, digits: int) -> str | None:
    found = dict(_fields(data))
    seconds, nanos = _signed(found.get(1, 0)), _signed(found.get(2, 0))
    if not seconds and not nanos:
        return None
    try:
        moment = _EPOCH + timedelta(seconds=seconds, microseconds=nanos // 1000)
    except OverflowError as error:
        raise ProtobufRefused("a time is out of range") from error
    return moment.strftime("%Y-%m-%dT%H:%M:%S") + (f".{moment.microsecond:06d}" if digits else "") + "Z"


def _int_or_string(data: bytes, depth: int) -> int | str:
    found = dict(_fields(data))
    return _text(found.get(3, b"")) if found.get(1) else _signed(found.get(2, 0))


def _json(data: bytes, depth: int) -> Any:
    raw = _bytes(dict(_fields(data)).get(1, b""))
    try:
        return orjson.loads(raw) if raw else None
    except orjson.JSONDecodeError as error:
        raise ProtobufRefused(f"embedded JSON: {error}") from error


def _duration(data: bytes, depth: int) -> str:
    return f"{_signed(dict(_fields(data)).get(1, 0)) / 1e9:g}s"


def _schema_or_bool(data: bytes, depth: int) -> Any:
    found = dict(_fields(data))
    if 2 in found:
        return _message(_bytes(found[2]), _PROPS, depth - 1)
    return bool(found.get(1, 0))


def _schema_or_array(data: bytes, depth: int) -> Any:
    found = list(_fields(data))
    several = [_message(_bytes(raw), _PROPS, depth - 1) for number, raw in found if number == 2]
    if several:
        return several
    return next((_message(_bytes(raw), _PROPS, depth - 1) for number, raw in found if number == 1), None)


def _schema_or_names(data: bytes, depth: int) -> Any:
    found = list(_fields(data))
    single = next((_message(_bytes(raw), _PROPS, depth - 1) for number, raw in found if number == 1), None)
    return single if single is not None else [_text(raw) for number, raw in found if number == 2]


_CRD = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."
_PROPS = f"{_CRD}JSONSchemaProps"
_SPECIAL_HOMES = (_META, _CRD, "io.k8s.apimachinery.pkg.")
_SPECIAL: dict[str, Callable[[bytes, int], Any]] = {
    "Time": lambda data, depth: _time(data, 0),
    "MicroTime": lambda data, depth: _time(data, 6),
    "Quantity": lambda data, depth: _text(dict(_fields(data)).get(1, b"")),
    "IntOrString": _int_or_string,
    "Duration": _duration,
    "RawExtension": _json,
    "FieldsV1": _json,
    "JSON": _json,
    "JSONSchemaPropsOrBool": _schema_or_bool,
    "JSONSchemaPropsOrArray": _schema_or_array,
    "JSONSchemaPropsOrStringArray": _schema_or_names,
}
