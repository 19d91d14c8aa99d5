"""Encodes objects as Kubernetes protobuf bodies, with the table of field numbers that the twin decodes them with."""

from __future__ import annotations

import base64
import re
from datetime import datetime
from functools import cache
from typing import Any

import orjson

from sliceworks.base.protobuf_wire import boolean, double, length_delimited, string, varint
from sliceworks.schemas.builtins import component_name
from sliceworks.twin.apiserver.protobuf import MAGIC, WIRE

Object = dict[str, Any]
PROTOBUF = "application/vnd.kubernetes.protobuf"
_SPECIAL = re.compile(r"\.(Time|MicroTime|Quantity|IntOrString|RawExtension|FieldsV1|JSON)$")


@cache
def _wire() -> dict[str, dict[str, str]]:
    result: dict[str, dict[str, str]] = orjson.loads(WIRE.read_bytes())
    return result


def encode(obj: Object) -> bytes:
    """Encode an object with its kind and version as a request body."""
    group, _, version = str(obj["apiVersion"]).rpartition("/")
    component = component_name(group, version, obj["kind"])
    inside = {key: value for key, value in obj.items() if key not in {"kind", "apiVersion"}}
    return envelope(str(obj["apiVersion"]), str(obj["kind"]), message(inside, component))


def envelope(api_version: str, kind: str, raw: bytes) -> bytes:
    """Wrap a message in the envelope that names its kind."""
    return (
        MAGIC
        + length_delimited(1, string(1, api_version) + string(2, kind))
        + length_delimited(2, raw)
        + length_delimited(3, b"")
        + length_delimited(4, b"")
    )


def message(obj: Any, component: str) -> bytes:
    """Encode one message; a field that is not in the table is a bug in the test."""
    special = _SPECIAL.search(component)
    if special:
        return _special(special[1], obj)
    written, left = b"", dict(obj)
    for field, spec in _wire()[component].items():
        name, mark, below = (*spec.split(" "), "")[:3]
        if not name:
            inside = {key: left.pop(key) for key in list(left) if key in _names(below)}
            written += length_delimited(int(field), message(inside, below))
        elif name in left:
            written += _field(int(field), mark, below, left.pop(name))
    assert not left, f"{component} has no {sorted(left)}"
    return written


def _names(component: str) -> set[str]:
    """The JSON names of a message's fields, including those of messages that Go embeds in it."""
    names: set[str] = set()
    for spec in _wire()[component].values():
        name, *rest = spec.split(" ")
        names |= {name} if name else _names(rest[1])
    return names


def _field(field: int, mark: str, below: str, value: Any) -> bytes:
    if mark.startswith("[]"):
        return b"".join(_field(field, mark[2:], below, item) for item in value)
    if mark.startswith("{}"):
        return b"".join(length_delimited(field, string(1, key) + _entry(mark[2:], below, item)) for key, item in value.items())
    match mark.removeprefix("*"):
        case "s":
            return string(field, value)
        case "i":
            return varint(field, value)
        case "b":
            return boolean(field, value)
        case "f":
            return double(field, value)
        case "B":
            return length_delimited(field, base64.b64decode(value))
        case _:
            return length_delimited(field, message(value, below))


def _entry(mark: str, below: str, value: Any) -> bytes:
    """Encode the value of a map entry; a list is wrapped in its own message."""
    return length_delimited(2, _field(1, mark, below, value)) if mark.startswith("[]") else _field(2, mark, below, value)


def _special(kind: str, value: Any) -> bytes:
    if kind in {"Time", "MicroTime"}:
        moment = datetime.fromisoformat(value)
        return varint(1, int(moment.timestamp())) + varint(2, moment.microsecond * 1000)
    if kind == "Quantity":
        return string(1, value)
    if kind == "IntOrString":
        return varint(1, 1) + string(3, value) if isinstance(value, str) else varint(2, value)
    return length_delimited(1, orjson.dumps(value))
