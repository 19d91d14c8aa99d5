"""Kubernetes' protobuf responses: the same bytes that Go's generated marshalers write.

Go writes fields in order of their numbers, with zero values, except pointers, lists and maps that are nil.
"""

from __future__ import annotations

import base64
import re
import struct
from datetime import datetime
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base.protobuf_wire import double, length_delimited, string, varint
from sliceworks.schemas.builtins import component_name
from sliceworks.twin.apiserver.protobuf import JSON_SCHEMA_PROPS, MAGIC, is_special, wire_format

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Obj = dict[str, Any]
_LENGTHS = [bytes((size,)) for size in range(128)]
_LENGTH_DELIMITED, _VARINT, _DOUBLE = 2, 0, 1
_ENVELOPE_END = b'\x1a\x00"\x00'
"""Content encoding and content type, both empty."""
_LIST_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta"
_DURATION = re.compile(r"([0-9.]+)(h|ms|m|s|us|µs|ns)")
_NANOSECONDS = {"h": 3600e9, "m": 60e9, "s": 1e9, "ms": 1e6, "us": 1e3, "µs": 1e3, "ns": 1.0}


def encode(obj: Obj) -> bytes:
    """A document with its kind and version, as a body."""
    group, _, version = str(obj.get("apiVersion", "")).rpartition("/")
    kind = str(obj["kind"])
    return envelope(str(obj.get("apiVersion", "")), kind, encode_message(component_name(group, version or "v1", kind), obj))


def envelope(api_version: str, kind: str, message: bytes) -> bytes:
    """A message in the envelope that names its kind."""
    return b"".join((_envelope_start(api_version, kind), _varint(len(message)), message, _ENVELOPE_END))


@lru_cache(maxsize=1024)
def _envelope_start(api_version: str, kind: str) -> bytes:
    return MAGIC + length_delimited(1, string(1, api_version) + string(2, kind)) + b"\x12"


def watch_event(type_: str, body: bytes) -> bytes:
    """A frame of a watch: its length, and an event with an object that `encode` or `envelope` returned."""
    event = string(1, type_) + length_delimited(2, length_delimited(1, body))
    return struct.pack(">I", len(event)) + event


def list_parts(head: Obj, messages: Iterable[bytes]) -> list[bytes]:
    """The parts of a body with a list: `head` is the list without items, each of which is a message."""
    metadata = length_delimited(1, encode_message(_LIST_META, head["metadata"]))
    items = [part for message in messages for part in (b"\x12" + _varint(len(message)), message)]
    types = length_delimited(1, string(1, head["apiVersion"]) + string(2, head["kind"]))
    size = len(metadata) + sum(map(len, items))
    return [MAGIC + types + b"\x12" + _varint(size) + metadata, *items, _ENVELOPE_END]


def encode_message(component: str, obj: Obj) -> bytes:
    """The message of a component, such as `io.k8s.api.core.v1.Pod`; fields that it does not have are ignored."""
    return _message(component).encode(obj)


class _Message:
    """The fields of a component in order: JSON name, encoder, and what is written if the field is absent."""

    __slots__ = ("fields",)

    def __init__(self) -> None:
        self.fields: tuple[tuple[str, Callable[[Any], bytes], bytes], ...] = ()

    def encode(self, obj: Obj) -> bytes:
        parts = []
        for name, encode_field, absent in self.fields:
            # The fields of an embedded Go struct belong to its parent.
            value = obj.get(name) if name else obj
            if value is not None:
                parts.append(encode_field(value))
            elif absent:
                parts.append(absent)
        return b"".join(parts)


_messages: dict[str, _Message] = {}
"""Complete messages by component: threads encode at the same time."""


def _message(component: str) -> _Message:
    message = _messages.get(component)
    if message is None:
        built: dict[str, _Message] = {}
        message = _build(component, built)
        _messages.update(built)
    return message


def _build(component: str, built: dict[str, _Message]) -> _Message:
    """A message, with those of its fields in `built`."""
    message = _messages.get(component) or built.get(component)
    if message is None:
        message = built[component] = _Message()
        fields = sorted((int(number), spec) for number, spec in wire_format()[component].items())
        message.fields = tuple(_field(built, number, *(*spec.split(" "), "")[:3]) for number, spec in fields)
    return message


def _field(
    built: dict[str, _Message], number: int, name: str, mark: str, component: str
) -> tuple[str, Callable[[Any], bytes], bytes]:
    if mark.startswith("[]"):
        return name, partial(_repeated, _encoder(number, mark[2:], component, built)), b""
    if mark.startswith("{}"):
        return name, partial(_map, _tag(number, _LENGTH_DELIMITED), _map_value(mark[2:], component, built)), b""
    encode_value = _encoder(number, mark.removeprefix("*"), component, built)
    if mark.startswith("*") or mark == "B":
        return name, encode_value, b""
    return name, encode_value, encode_value(_zero(mark, component))


def _zero(mark: str, component: str) -> Any:
    if mark == "m":
        return None if is_special(component) else {}
    return "" if mark == "s" else 0


def _encoder(number: int, mark: str, component: str, built: dict[str, _Message]) -> Callable[[Any], bytes]:
    """The encoder of one value, with its tag."""
    if mark == "i":
        return partial(_integer, _tag(number, _VARINT))
    if mark == "b":
        return {True: varint(number, 1), False: varint(number, 0)}.__getitem__
    if mark == "f":
        return partial(double, number)
    return partial(_delimited, _tag(number, _LENGTH_DELIMITED), _content(mark, component, built))


def _content(mark: str, component: str, built: dict[str, _Message]) -> Callable[[Any], bytes]:
    if mark == "s":
        return str.encode
    if mark == "B":
        return base64.b64decode
    return _SPECIAL[component.rpartition(".")[2]] if is_special(component) else _build(component, built).encode


def _map_value(mark: str, component: str, built: dict[str, _Message]) -> Callable[[Any], bytes]:
    """The encoder of the values of a map; a list is wrapped in its own message."""
    if mark.startswith("[]"):
        return partial(_delimited, _tag(2, _LENGTH_DELIMITED), partial(_repeated, _encoder(1, mark[2:], component, built)))
    return _encoder(2, mark, component, built)


def _tag(number: int, wire_type: int) -> bytes:
    return _varint(number << 3 | wire_type)


def _varint(value: int) -> bytes:
    if value < 128:
        return _LENGTHS[value]
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _integer(tag: bytes, value: int) -> bytes:
    return tag + _varint(int(value) & (1 << 64) - 1)


def _delimited(tag: bytes, content: Callable[[Any], bytes], value: Any) -> bytes:
    data = content(value)
    size = len(data)
    return tag + (_LENGTHS[size] if size < 128 else _varint(size)) + data


def _repeated(encode_item: Callable[[Any], bytes], items: list[Any]) -> bytes:
    return b"".join([encode_item(item) for item in items])


def _map(tag: bytes, encode_value: Callable[[Any], bytes], pairs: dict[str, Any]) -> bytes:
    entries: list[bytes] = []
    for key in sorted(pairs):
        entry = string(1, key) + encode_value(pairs[key])
        entries += (tag, _varint(len(entry)), entry)
    return b"".join(entries)


@lru_cache(maxsize=4096)
def _time(value: str | None) -> bytes:
    if value is None:
        return b""
    time = datetime.fromisoformat(value)
    return varint(1, int(time.timestamp() // 1)) + varint(2, time.microsecond * 1000)


def _duration(value: str | None) -> bytes:
    sign = -1 if value and value.startswith("-") else 1
    return varint(1, sign * int(sum(float(number) * _NANOSECONDS[unit] for number, unit in _DURATION.findall(value or ""))))


def _int_or_string(value: int | str | None) -> bytes:
    if isinstance(value, str):
        return varint(1, 1) + varint(2, 0) + string(3, value)
    return varint(1, 0) + varint(2, value or 0) + string(3, "")


def _raw_json(value: Any) -> bytes:
    return b"" if value is None else length_delimited(1, orjson.dumps(value))


def _props(value: Any) -> bytes:
    return encode_message(JSON_SCHEMA_PROPS, value)


def _schema_or_bool(value: Any) -> bytes:
    if isinstance(value, dict):
        return varint(1, 1) + length_delimited(2, _props(value))
    return varint(1, int(value))


def _schema_or_array(value: Any) -> bytes:
    if isinstance(value, list):
        return b"".join(length_delimited(2, _props(item)) for item in value)
    return length_delimited(1, _props(value))


def _schema_or_names(value: Any) -> bytes:
    if isinstance(value, list):
        return b"".join(string(2, item) for item in value)
    return length_delimited(1, _props(value))


_SPECIAL: dict[str, Callable[[Any], bytes]] = {
    "Time": _time,
    "MicroTime": _time,
    "Quantity": lambda value: string(1, value or "0"),
    "IntOrString": _int_or_string,
    "Duration": _duration,
    "RawExtension": _raw_json,
    "FieldsV1": _raw_json,
    # In a list, such as an enum, null is a value.
    "JSON": lambda value: length_delimited(1, orjson.dumps(value)),
    "JSONSchemaPropsOrBool": _schema_or_bool,
    "JSONSchemaPropsOrArray": _schema_or_array,
    "JSONSchemaPropsOrStringArray": _schema_or_names,
}
