"""Protobuf messages declared in a compact notation and built at first use, without generated code.

    MessagePackage("shop", {"Order": "number:int items:*Item notes:@string", "Item": "name:string - price:double"})

Fields are listed in the order of their numbers; `-` skips a number, `*` is a repeated field and `@` a map with string keys. The
fields of a message in `choices` form a oneof.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    "bytes": _Field.TYPE_BYTES,
    "string": _Field.TYPE_STRING,
    "bool": _Field.TYPE_BOOL,
    "int": _Field.TYPE_INT64,
    "uint": _Field.TYPE_UINT64,
    "enum": _Field.TYPE_INT32,
    "double": _Field.TYPE_DOUBLE,
    "float": _Field.TYPE_FLOAT,
}
"""An enum field is declared as an int32: the wire format is the same."""


class MessagePackage:
    """The messages of one protobuf package, by name."""

    def __init__(self, package: str, declarations: Mapping[str, str], choices: Iterable[str] = ()) -> None:
        self.package, self._declarations, self._choices = package, declarations, frozenset(choices)
        self._classes: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        """The class of a message."""
        message_class = self._classes.get(name)
        if message_class is None:
            descriptor = self._pool.FindMessageTypeByName(f"{self.package}.{name}")
            message_class = self._classes[name] = message_factory.GetMessageClass(descriptor)
        return message_class

    @cached_property
    def _pool(self) -> Any:
        file = descriptor_pb2.FileDescriptorProto(name=f"{self.package}.proto", package=self.package, syntax="proto3")
        for name, fields in self._declarations.items():
            message = file.message_type.add(name=name)
            for number, field in enumerate(fields.split(), start=1):
                if field != "-":
                    self._add_field(message, number, *field.split(":"))
        pool = descriptor_pool.DescriptorPool()
        pool.AddSerializedFile(file.SerializeToString())
        return pool

    def _add_field(self, message: Any, number: int, name: str, kind: str) -> None:
        repeated = kind[0] in "*@"
        field = message.field.add(name=name, number=number, label=_Field.LABEL_REPEATED if repeated else _Field.LABEL_OPTIONAL)
        if kind[0] == "@":
            field.type, field.type_name = _Field.TYPE_MESSAGE, self._add_map_entry(message, name, kind[1:])
        else:
            self._set_type(field, kind.lstrip("*"))
        if message.name in self._choices:
            if not message.oneof_decl:
                message.oneof_decl.add(name="choice")
            field.oneof_index = 0

    def _add_map_entry(self, message: Any, name: str, kind: str) -> str:
        """Add the nested message type of a map's entries; returns its name."""
        entry = message.nested_type.add(name="".join(part.title() for part in name.split("_")) + "Entry")
        entry.options.map_entry = True
        entry.field.add(name="key", number=1, label=_Field.LABEL_OPTIONAL, type=_Field.TYPE_STRING)
        self._set_type(entry.field.add(name="value", number=2, label=_Field.LABEL_OPTIONAL), kind)
        return f".{self.package}.{message.name}.{entry.name}"

    def _set_type(self, field: Any, kind: str) -> None:
        if kind in _SCALARS:
            field.type = _SCALARS[kind]
        else:
            field.type, field.type_name = _Field.TYPE_MESSAGE, f".{self.package}.{kind}"
