"""Messages of protocol buffers, declared field by field in a few words and built when first needed: no generated code is kept.

    Messages("shop", {"Order": "number:int items:*Item notes:@string", "Item": "name:string - price:double"})

Fields are in the order of their numbers; `-` leaves a number out, `*` is a list, `@` a map from names, and the fields of a message
in `choices` exclude each other.
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
    "enum": _Field.TYPE_INT32,
    "double": _Field.TYPE_DOUBLE,
    "float": _Field.TYPE_FLOAT,
}
"""An enumeration is read and written as its number: on the wire both are the same."""


class Messages:
    """The messages of one package."""

    def __init__(self, package: str, declared: Mapping[str, str], choices: Iterable[str] = ()) -> None:
        self.package, self._declared, self._choices = package, declared, frozenset(choices)
        self._classes: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        """The class of a message."""
        found = self._classes.get(name)
        if found is None:
            described = self._pool.FindMessageTypeByName(f"{self.package}.{name}")
            found = self._classes[name] = message_factory.GetMessageClass(described)
        return found

    @cached_property
    def _pool(self) -> Any:
        file = descriptor_pb2.FileDescriptorProto(name=f"{self.package}.proto", package=self.package, syntax="proto3")
        for name, fields in self._declared.items():
            described = file.message_type.add(name=name)
            for number, field in enumerate(fields.split(), start=1):
                if field != "-":
                    self._add_field(described, number, *field.split(":"))
        made = descriptor_pool.DescriptorPool()
        made.AddSerializedFile(file.SerializeToString())
        return made

    def _add_field(self, described: Any, number: int, name: str, kind: str) -> None:
        repeated = kind[0] in "*@"
        field = described.field.add(name=name, number=number, label=_Field.LABEL_REPEATED if repeated else _Field.LABEL_OPTIONAL)
        if kind[0] == "@":
            field.type, field.type_name = _Field.TYPE_MESSAGE, self._add_entry(described, name, kind[1:])
        else:
            self._set_kind(field, kind.lstrip("*"))
        if described.name in self._choices:
            if not described.oneof_decl:
                described.oneof_decl.add(name="choice")
            field.oneof_index = 0

    def _add_entry(self, described: Any, name: str, kind: str) -> str:
        """The entries of a map are messages of their own."""
        entry = described.nested_type.add(name="".join(part.title() for part in name.split("_")) + "Entry")
        entry.options.map_entry = True
        entry.field.add(name="key", number=1, label=_Field.LABEL_OPTIONAL, type=_Field.TYPE_STRING)
        self._set_kind(entry.field.add(name="value", number=2, label=_Field.LABEL_OPTIONAL), kind)
        return f".{self.package}.{described.name}.{entry.name}"

    def _set_kind(self, field: Any, kind: str) -> None:
        if kind in _SCALARS:
            field.type = _SCALARS[kind]
        else:
            field.type, field.type_name = _Field.TYPE_MESSAGE, f".{self.package}.{kind}"
