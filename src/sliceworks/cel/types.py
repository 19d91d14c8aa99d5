"""The CEL types of structural schemas: what an expression may select, and what type it finds there."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sliceworks.cel.names import RESERVED, escape

if TYPE_CHECKING:
    from sliceworks.schemas.structural import Schema

TIMESTAMP, DURATION = "google.protobuf.Timestamp", "google.protobuf.Duration"
_FORMATS = {"byte": "bytes", "duration": DURATION, "date": TIMESTAMP, "date-time": TIMESTAMP}
_SCALARS = {"boolean": "bool", "number": "double", "integer": "int"}
PACKAGE = "sliceworks.types"


@dataclass(frozen=True, slots=True)
class CelType:
    """A type: a scalar's name, `list`, `map` or `optional` with an element, or `message` with the name of a declared one.

    Maps without a `key` have texts as their keys.
    """

    kind: str
    element: CelType | None = None
    message: str = ""
    key: CelType | None = None

    @property
    def text(self) -> str:
        """The type as the engine's configuration writes it."""
        if self.kind == "message":
            return self.message
        if self.kind == "list":
            return f"list<{self.element.text}>" if self.element else "list<dyn>"
        if self.kind == "map":
            return f"map<string, {self.element.text}>" if self.element else "map<string, dyn>"
        return self.kind


DYN, STRING, BOOL = CelType("dyn"), CelType("string"), CelType("bool")


@dataclass(slots=True)
class Message:
    """An object type. `shown` is its name in messages; `names` gives a field's real name for each escaped one."""

    name: str
    shown: str
    schema: Schema | None
    fields: dict[str, CelType] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)


class Declarations:
    """The messages that the schemas of one environment need. A schema that contains itself is declared once."""

    def __init__(self) -> None:
        self.messages: dict[str, Message] = {}
        self._known: dict[tuple[int, bool], CelType | None] = {}
        self._kept: list[Schema] = []  # identities are keys only as long as their objects live

    def declare(self, schema: Schema, shown: str, *, resource: bool = False) -> CelType | None:
        """The type of a schema, or None where expressions cannot see it. `resource`: has apiVersion, kind and metadata."""
        if schema.int_or_string:
            return DYN
        if schema.type == "array":
            item = self._child(schema.items, f"{shown}.@idx")
            return CelType("list", item) if item else None
        if schema.type == "string":
            return CelType(_FORMATS.get(schema.format or "", "string"))
        if schema.type != "object":
            return CelType(_SCALARS[schema.type]) if schema.type in _SCALARS else None
        if schema.additional is not None and not schema.properties:
            value = self._child(schema.additional, f"{shown}.@elem")
            return CelType("map", value) if value else None
        return self._object(schema, shown, resource)

    def real_name(self, message: str, name: str) -> str:
        """The name of a field as documents write it."""
        known = self.messages.get(message)
        return known.names.get(name, name) if known else name

    def _child(self, schema: Schema | None, shown: str) -> CelType | None:
        return self.declare(schema, shown, resource=schema.embedded_resource) if schema is not None else None

    def _object(self, schema: Schema, shown: str, resource: bool) -> CelType:
        key = (id(schema), resource)
        if key in self._known:
            known = self._known[key]
            assert known is not None
            return known
        message = self._new_message(schema, shown)
        self._known[key] = found = CelType("message", message=message.name)
        self._kept.append(schema)
        for name, child in schema.properties.items():
            if resource and name == "metadata":
                continue
            escaped = escape(name)
            kind = self._child(child, f"{message.shown}.{escaped}") if escaped else None
            if escaped and kind:
                message.fields[escaped], message.names[escaped] = kind, name
                if name in RESERVED:  # some of them, such as `namespace`, may be selected as they are
                    message.fields[name] = kind
        if resource:
            self._add_resource_fields(message)
        return found

    def _add_resource_fields(self, message: Message) -> None:
        """A resource shows its type and names even where its schema says nothing of them, and nothing else of its metadata."""
        names = self._new_message(None, f"{message.shown}.metadata")
        names.fields.update(name=STRING, generateName=STRING)
        message.fields.update(apiVersion=STRING, kind=STRING, metadata=CelType("message", message=names.name))

    def _new_message(self, schema: Schema | None, shown: str) -> Message:
        message = Message(f"{PACKAGE}.M{len(self.messages)}", schema.name if schema and schema.name else shown, schema)
        self.messages[message.name] = message
        return message
