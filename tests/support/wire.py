"""Writes objects as Kubernetes' protobuf bodies, by the same table of field numbers that the twin reads them with."""

from __future__ import annotations

import base64
import re
from datetime import datetime
from functools import cache
from typing import Any

import orjson

from sliceworks.schemas.builtins import DATA, component_name
from sliceworks.schemas.protobuf import MAGIC
from sliceworks.schemas.wire_writer import flag, number, part, real, text

Object = dict[str, Any]
PROTOBUF = "application/vnd.kubernetes.protobuf"
_SPECIAL = re.compile(r"\.(Time|MicroTime|Quantity|IntOrString|RawExtension|FieldsV1|JSON)$")


@cache
def _wire() -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = orjson.loads((DATA / "wire.json").read_bytes())
    return found


def encode(obj: Object) -> bytes:
    """An object with its kind and version as a request body."""
    group, _, version = str(obj["apiVersion"]).rpartition("/")
    component = component_name(group, version, obj["kind"])
    inside = {key: value for key, value in obj.items() if key not in {"kind", "apiVersion"}}
    return envelope(str(obj["apiVersion"]), str(obj["kind"]), message(inside, component))


def envelope(api_version: str, kind: str, raw: bytes) -> bytes:
    """A message in the frame that names its kind."""
    return MAGIC + part(1, text(1, api_version) + text(2, kind)) + part(2, raw) + part(3, b"") + part(4, b"")


def message(obj: Any, component: str) -> bytes:
    """One message; fields that the table does not know are an error of the test."""
    special = _SPECIAL.search(component)
    if special:
        return _special(special[1], obj)
    written, left = b"", dict(obj)
    for field, spec in _wire()[component].items():
        name, mark, below = (*spec.split(" "), "")[:3]
        if not name:
            inside = {key: left.pop(key) for key in list(left) if key in _names(below)}
            written += part(int(field), message(inside, below))
        elif name in left:
            written += _field(int(field), mark, below, left.pop(name))
    assert not left, f"{component} has no {sorted(left)}"
    return written


def _names(component: str) -> set[str]:
    return {spec.split(" ")[0] for spec in _wire()[component].values()}


def _field(field: int, mark: str, below: str, value: Any) -> bytes:
    if mark.startswith("[]"):
        return b"".join(_field(field, mark[2:], below, item) for item in value)
    if mark.startswith("{}"):
        return b"".join(part(field, text(1, key) + _entry(mark[2:], below, item)) for key, item in value.items())
    match mark.removeprefix("*"):
        case "s":
            return text(field, value)
        case "i":
            return number(field, value)
        case "b":
            return flag(field, value)
        case "f":
            return real(field, value)
        case "B":
            return part(field, base64.b64decode(value))
        case _:
            return part(field, message(value, below))


def _entry(mark: str, below: str, value: Any) -> bytes:
    """The value of a map's entry. A list there stands in a message of its own."""
    return part(2, _field(1, mark, below, value)) if mark.startswith("[]") else _field(2, mark, below, value)


def _special(kind: str, value: Any) -> bytes:
    if kind in {"Time", "MicroTime"}:
        moment = datetime.fromisoformat(value)
        return number(1, int(moment.timestamp())) + number(2, moment.microsecond * 1000)
    if kind == "Quantity":
        return text(1, value)
    if kind == "IntOrString":
        return number(1, 1) + text(3, value) if isinstance(value, str) else number(2, value)
    return part(1, orjson.dumps(value))
