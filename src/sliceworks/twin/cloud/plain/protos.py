"""Schemas of topics, written as protocol buffers: read, and used to check and to unpack messages.

One message of scalar fields, such as records of measurements are; what is beyond that is refused by its words.
"""

from __future__ import annotations

import base64
import re
from functools import lru_cache
from typing import Any

import orjson

from sliceworks.twin.cloud.errors import GoogleError, invalid

Obj = dict[str, Any]
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_HEAD = re.compile(r"^\s*(?:syntax\s*=\s*[\"'](proto[23])[\"']\s*;)?\s*(?:package\s+[\w.]+\s*;)?\s*")
_BODY = re.compile(r"message\s+(\w+)\s*\{([^{}]*)\}\s*$", re.DOTALL)
_FIELD = re.compile(r"(?:(optional|required|repeated)\s+)?(\w+)\s+(\w+)\s*=\s*([0-9]+)\s*(?:\[[^\]]*\])?")
_TYPES = {
    "double": 1, "float": 2, "int64": 3, "uint64": 4, "int32": 5, "fixed64": 6, "fixed32": 7, "bool": 8, "string": 9, "bytes": 12,
    "uint32": 13, "sfixed32": 15, "sfixed64": 16, "sint32": 17, "sint64": 18,
}  # fmt: skip
_LABELS = {"optional": 1, "required": 2, "repeated": 3, "": 1}


def check(definition: str) -> None:
    """Refuse a definition that cannot be read."""
    _message(definition)


def unpacked(definition: str, encoding: str, data: bytes) -> Obj:
    """The fields of a message, each by its name; raises GoogleError for one that does not fit the schema."""
    from google.protobuf import json_format
    from google.protobuf.message import DecodeError

    found = _message(definition)()
    try:
        if encoding == "JSON":
            json_format.Parse(data.decode(), found)
        else:
            found.MergeFromString(data)
    except (json_format.ParseError, DecodeError, UnicodeDecodeError) as error:
        said = " ".join(str(error).split())
        raise GoogleError(
            "INVALID_ARGUMENT", f"Invalid data in message: Message failed schema validation. Errors encountered: {said}"
        ) from error
    told: Obj = json_format.MessageToDict(found, preserving_proto_field_name=True, always_print_fields_with_no_presence=True)
    return {field.name: told[field.name] for field in _sent(found, encoding, data) if field.name in told}


def _sent(message: Any, encoding: str, data: bytes) -> list[Any]:
    """The fields that somebody wrote: of JSON those that stand in it, whatever their value."""
    if encoding != "JSON":
        return [field for field, _ in message.ListFields()]
    names = orjson.loads(data)
    return [field for field in message.DESCRIPTOR.fields if field.name in names or field.json_name in names]


@lru_cache(maxsize=64)
def _message(definition: str) -> Any:
    """The class of the message that a definition has."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    text = _COMMENT.sub(" ", definition)
    head = _HEAD.match(text)
    body = _BODY.match(text[head.end() if head else 0 :])
    if body is None:
        raise invalid("Invalid schema definition: the twin reads one message of scalar fields, without others inside it.")
    syntax = (head[1] if head else "") or "proto2"
    file = descriptor_pb2.FileDescriptorProto(name="schema.proto", package="topic", syntax=syntax)
    described = file.message_type.add(name=body[1])
    for line in filter(None, (each.strip() for each in body[2].split(";"))):
        field = _FIELD.fullmatch(line)
        if field is None or field[2] not in _TYPES:
            raise invalid(f"Invalid schema definition: the twin does not read `{line}`.")
        kept: Any = described.field.add(name=field[3], number=int(field[4]))
        kept.type, kept.label = _TYPES[field[2]], _LABELS[field[1] or ""]
        if field[1] == "optional" and syntax == "proto3":
            kept.proto3_optional, kept.oneof_index = True, len(described.oneof_decl)
            described.oneof_decl.add(name=f"_{field[3]}")
    pool = descriptor_pool.DescriptorPool()
    try:
        pool.AddSerializedFile(file.SerializeToString())
        return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"topic.{body[1]}"))
    except (TypeError, KeyError) as error:
        raise invalid(f"Invalid schema definition: {' '.join(str(error).split())}") from error


def bare(data: str) -> str:
    """A message's data as text, for a column of its own."""
    try:
        return base64.b64decode(data).decode()
    except UnicodeDecodeError:
        return data
