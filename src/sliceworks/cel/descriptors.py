"""Declared types as protobuf descriptors, the only message types that the engine supports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from google.protobuf import descriptor_pb2, descriptor_pool, duration_pb2, struct_pb2, timestamp_pb2

from sliceworks.cel.types import DURATION, PACKAGE, STRING, TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.cel.types import CelType, Declarations, Message

_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    "int": _Field.TYPE_INT64,
    "double": _Field.TYPE_DOUBLE,
    "bool": _Field.TYPE_BOOL,
    "string": _Field.TYPE_STRING,
    "bytes": _Field.TYPE_BYTES,
}
_VALUE, _STRUCT, _LIST = (f".google.protobuf.{name}" for name in ("Value", "Struct", "ListValue"))
_IMPORTS = (timestamp_pb2, duration_pb2, struct_pb2)


def build_pool(
    declarations: Declarations, constructed: Mapping[str, Mapping[str, CelType]] | None = None
) -> descriptor_pool.DescriptorPool:
    """A pool with every declared message, and with messages that expressions can construct."""
    pool = descriptor_pool.DescriptorPool()
    file = descriptor_pb2.FileDescriptorProto(name="types.proto", package=PACKAGE)
    for imported in _IMPORTS:
        pool.AddSerializedFile(imported.DESCRIPTOR.serialized_pb)
        file.dependency.append(imported.DESCRIPTOR.name)
    for message in declarations.messages.values():
        _add_message(file, message)
    pool.AddSerializedFile(file.SerializeToString())
    if constructed:
        file = descriptor_pb2.FileDescriptorProto(name="constructed.proto", dependency=[struct_pb2.DESCRIPTOR.name])
        for name, fields in constructed.items():
            descriptor = file.message_type.add(name=name)
            for field, kind in fields.items():
                _add_field(descriptor, field, _Field.LABEL_OPTIONAL, kind)
        pool.AddSerializedFile(file.SerializeToString())
    return pool


def _add_message(file: Any, message: Message) -> None:
    descriptor = file.message_type.add(name=message.name.removeprefix(f"{PACKAGE}."))
    # JSON names may collide (`a_b`, `aB`): nothing is parsed from JSON through these types.
    descriptor.options.deprecated_legacy_json_field_conflicts = True
    entries: set[str] = set()
    for name, kind in message.fields.items():
        if kind.kind == "map" and not _nested(kind.element) and _entry_name(name) not in entries:
            entries.add(_entry_name(name))
            _add_map(descriptor, message.name, name, kind.element)
        elif kind.kind == "list" and not _nested(kind.element):
            _add_field(descriptor, name, _Field.LABEL_REPEATED, kind.element)
        else:
            _add_field(descriptor, name, _Field.LABEL_OPTIONAL, kind)


def _nested(element: CelType | None) -> bool:
    """Whether the element is itself a list or map: descriptors cannot express it, so it is checked at run time."""
    return element is None or element.kind in ("list", "map")


def _add_field(descriptor: Any, name: str, label: Any, kind: CelType | None) -> None:
    number = len(descriptor.field) + 1
    field = descriptor.field.add(name=name, number=number, label=label, json_name=f"f{number}")
    if kind is not None and kind.kind in _SCALARS:
        field.type = _SCALARS[kind.kind]
    else:
        field.type, field.type_name = _Field.TYPE_MESSAGE, _message_name(kind)


def _message_name(kind: CelType | None) -> str:
    if kind is None or kind.kind == "dyn":
        return _VALUE
    if kind.kind in (TIMESTAMP, DURATION):
        return f".{kind.kind}"
    return {"list": _LIST, "map": _STRUCT}.get(kind.kind) or f".{kind.message}"


def _add_map(descriptor: Any, owner: str, name: str, element: CelType | None) -> None:
    entry = descriptor.nested_type.add(name=_entry_name(name))
    entry.options.map_entry = True
    _add_field(entry, "key", _Field.LABEL_OPTIONAL, STRING)
    _add_field(entry, "value", _Field.LABEL_OPTIONAL, element)
    for field, json_name in zip(entry.field, ("key", "value"), strict=True):
        field.json_name = json_name
    number = len(descriptor.field) + 1
    descriptor.field.add(
        name=name,
        number=number,
        json_name=f"f{number}",
        label=_Field.LABEL_REPEATED,
        type=_Field.TYPE_MESSAGE,
        type_name=f".{owner}.{entry.name}",
    )


def _entry_name(field: str) -> str:
    """The entry message name that protobuf requires for a map field."""
    return "".join(part[:1].upper() + part[1:] for part in field.split("_")) + "Entry"
