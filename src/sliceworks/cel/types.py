"""CEL types of structural schemas: declarations, escaped field names, and the static type of a checked node."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sliceworks.schemas import Schema

_RESERVED = (
    "true false null in as break const continue else for function if import let loop package namespace return var void while"
)
RESERVED = frozenset(_RESERVED.split())
_ESCAPES = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_ESCAPABLE = re.compile(r"[A-Za-z_./-][A-Za-z0-9_./-]*\Z")
_SPECIAL = re.compile(r"__|[-./]")


def escape_field_name(name: str) -> str | None:
    """The escaped identifier of a field, or None if expressions cannot access it."""
    if name in RESERVED:
        return f"__{name}__"
    if "__" not in name and _PLAIN.match(name):
        return name
    if not _ESCAPABLE.match(name):
        return None
    return _SPECIAL.sub(lambda match: _ESCAPES[match[0]], name)


TIMESTAMP, DURATION = "google.protobuf.Timestamp", "google.protobuf.Duration"
_FORMATS = {"byte": "bytes", "duration": DURATION, "date": TIMESTAMP, "date-time": TIMESTAMP}
_SCALARS = {"boolean": "bool", "number": "double", "integer": "int"}
PACKAGE = "sliceworks.types"


@dataclass(frozen=True, slots=True)
class CelType:
    """A type: a scalar, `list`, `map` or `optional` with an element, or `message` with the name of a declared message.

    The default `key` of a map is string.
    """

    kind: str
    element: CelType | None = None
    message: str = ""
    key: CelType | None = None

    @property
    def text(self) -> str:
        """The type in the engine's configuration format."""
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
    """An object type. `shown` is its display name; `names` maps escaped field names to field names."""

    name: str
    shown: str
    schema: Schema | None
    fields: dict[str, CelType] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)


class Declarations:
    """Message types of one environment's schemas. A recursive schema is declared once."""

    def __init__(self) -> None:
        self.messages: dict[str, Message] = {}
        self._known: dict[tuple[int, bool], CelType | None] = {}
        self._schemas: list[Schema] = []  # keeps schemas alive, because their ids are keys

    def declare(self, schema: Schema, shown: str, *, resource: bool = False) -> CelType | None:
        """The type of a schema, or None if expressions cannot access it. `resource`: has apiVersion, kind and metadata."""
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
        """The field's name in documents."""
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
        self._known[key] = declared = CelType("message", message=message.name)
        self._schemas.append(schema)
        for name, child in schema.properties.items():
            if resource and name == "metadata":
                continue
            escaped = escape_field_name(name)
            kind = self._child(child, f"{message.shown}.{escaped}") if escaped else None
            if escaped and kind:
                message.fields[escaped], message.names[escaped] = kind, name
                if name in RESERVED:  # some reserved words, such as `namespace`, can be selected unescaped
                    message.fields[name] = kind
        if resource:
            self._add_resource_fields(message)
        return declared

    def _add_resource_fields(self, message: Message) -> None:
        """Add apiVersion, kind and the accessible metadata fields, whether the schema declares them or not."""
        names = self._new_message(None, f"{message.shown}.metadata")
        names.fields.update(name=STRING, generateName=STRING)
        message.fields.update(apiVersion=STRING, kind=STRING, metadata=CelType("message", message=names.name))

    def _new_message(self, schema: Schema | None, shown: str) -> Message:
        message = Message(f"{PACKAGE}.M{len(self.messages)}", schema.name if schema and schema.name else shown, schema)
        self.messages[message.name] = message
        return message


PRIMITIVES = {1: "bool", 2: "int", 3: "uint", 4: "double", 5: "string", 6: "bytes"}
_WELL_KNOWN = {2: TIMESTAMP, 3: DURATION}
_DISPLAY_NAMES = {TIMESTAMP: "timestamp", DURATION: "duration"}


def result_type(kind: Any) -> CelType:
    """The type of a checked node, or `dyn`."""
    if kind is None or not kind.ListFields():
        return DYN
    what = kind.ListFields()[0][0].name
    if what in ("primitive", "wrapper"):
        return CelType(PRIMITIVES.get(getattr(kind, what), "dyn"))
    if what == "well_known":
        return CelType(_WELL_KNOWN.get(kind.well_known, "dyn"))
    if what == "list":
        return CelType("list", result_type(kind.list.element))
    if what == "map":
        key = result_type(kind.map.key)
        return CelType("map", result_type(kind.map.value), key=None if key == STRING else key)
    if what == "message":
        return CelType("message", message=str(kind.message))
    if what == "abstract":
        parameters = [result_type(parameter) for parameter in kind.abstract.parameters]
        optional = kind.abstract.name == "optional_type"
        return CelType("optional", parameters[0]) if optional and parameters else CelType(str(kind.abstract.name))
    return CelType({"null": "null", "type": "type"}.get(what, "dyn"))


def format_type(kind: CelType) -> str:
    """A type as error messages show it."""
    if kind.kind == "message":
        return "object"
    if kind.kind == "list":
        return f"list of {format_type(kind.element)}" if kind.element and kind.element.kind != "dyn" else "list"
    if kind.kind == "map":
        return f"map of {format_type(kind.element)}" if kind.element and kind.element.kind != "dyn" else "map"
    if kind.kind == "optional":
        return f"optional {format_type(kind.element or DYN)}"
    return {"dyn": "any type", "double": "number", "int": "integer", "bool": "boolean", **_DISPLAY_NAMES}.get(kind.kind, kind.kind)
