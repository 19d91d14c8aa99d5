"""SimpleSchema: converts `integer | default=1 minimum=1` to an OpenAPI schema."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from sliceworks.base.names import suggest_name
from sliceworks.graph import markers
from sliceworks.graph.dag import CycleError, topological_sort
from sliceworks.graph.markers import SimpleSchemaError
from sliceworks.graph.model import Issue

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.graph.model import Path

Object = dict[str, Any]

MAX_DEPTH = 16
_ATOMS = {"string": "string", "integer": "integer", "boolean": "boolean", "float": "number"}
_ANYTHING: Object = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
# A field with an invalid type accepts any expression, so that the type is reported once.
_UNKNOWN: Object = {"x-kubernetes-int-or-string": True}
_ALIASES = {
    "int": "integer",
    "bool": "boolean",
    "number": "float",
    "double": "float",
    "str": "string",
    "map": "map[string]string",
}


def to_openapi(spec: Object, types: Object, path: Path) -> tuple[Object, list[Issue]]:
    """The OpenAPI schema of `spec`, and all issues. `path` is the path of the block that contains `spec` and `types`."""
    converter = _Converter(path)
    converter.add_types(types)
    schema = converter.object(spec, (*path, "spec"))
    return schema, converter.issues


class _Converter:
    """Converts fields; keeps the custom types and the issues."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._types: dict[str, tuple[Object, bool]] = {}
        self.issues: list[Issue] = []

    def add_types(self, types: Object) -> None:
        """Convert the custom types, in dependency order."""
        dependencies = {name: [used for used in _used_types(declared) if used in types] for name, declared in types.items()}
        try:
            order = topological_sort(dependencies)
        except CycleError as error:
            first = (*self._path, "types", error.cycle[0])
            self.issues.append(Issue(first, f"custom types contain a cycle: {' -> '.join(error.cycle)}"))
            self._types = {name: ({"type": "object"}, False) for name in types}
            return
        for name in order:
            self._types[name] = self._field(types[name], (*self._path, "types", name))

    def object(self, fields: Object, path: Path) -> Object:
        """The schema of an object with these fields."""
        properties: Object = {}
        required = []
        for name, declared in fields.items():
            properties[name], needed = self._field(declared, (*path, name))
            if needed:
                required.append(name)
        schema: Object = {"type": "object", "properties": properties}
        if required:
            schema["required"] = sorted(required)
        elif any("default" in child for child in properties.values()):
            schema["default"] = {}
        return schema

    def _field(self, declared: Any, path: Path) -> tuple[Object, bool]:
        """The schema of one field, and whether it is required."""
        if isinstance(declared, dict):
            return self.object(declared, path), False
        if not isinstance(declared, str):
            self._add_issue(path, f"{path[-1]}: must be a type such as string, or an object")
            return {"type": "string"}, False
        kind, bar, rest = declared.partition("|")
        schema, required = dict(_UNKNOWN), False
        try:
            schema, required = self._type(kind.strip(), 0)
            if bar:
                required |= markers.apply(schema, markers.parse(rest))
        except SimpleSchemaError as error:
            self._add_issue(path, f"{path[-1]}: {error}", declared, error.hint)
        return schema, required

    def _type(self, name: str, depth: int) -> tuple[Object, bool]:
        if depth > MAX_DEPTH:
            raise SimpleSchemaError(f"types must be nested at most {MAX_DEPTH} levels deep")
        if name in _ATOMS:
            return {"type": _ATOMS[name]}, False
        if name == "object":
            return dict(_ANYTHING), False
        if name.startswith("[]"):
            return {"type": "array", "items": self._type(_element_type(name, "[]"), depth + 1)[0]}, False
        if name.startswith("map["):
            return {"type": "object", "additionalProperties": self._type(_element_type(name, "map[string]"), depth + 1)[0]}, False
        if name not in self._types:
            raise SimpleSchemaError(f"unknown type {name or '?'}", self._suggestion(name))
        schema, required = self._types[name]
        return copy.deepcopy(schema), required

    def _suggestion(self, name: str) -> str:
        if name.lower() in _ALIASES:
            return f"did you mean {_ALIASES[name.lower()]}?"
        known = (*_ATOMS, "object", *self._types)
        return suggest_name(name, known) or f"known types: {', '.join(known)}, []T and map[string]T"

    def _add_issue(self, path: Path, message: str, expression: str = "", hint: str = "") -> None:
        self.issues.append(Issue(path, message, expression, hint))


def _element_type(name: str, prefix: str) -> str:
    inner = name.removeprefix(prefix).strip()
    if not name.startswith(prefix):
        raise SimpleSchemaError("map keys must be strings", "write map[string]T")
    if not inner:
        raise SimpleSchemaError(f"{name} has no element type", f"such as {prefix}string")
    return inner


def _used_types(declared: Any) -> Iterator[str]:
    """The type names that a custom type uses."""
    if isinstance(declared, dict):
        for child in declared.values():
            yield from _used_types(child)
    elif isinstance(declared, str):
        name = declared.partition("|")[0].strip()
        while name.startswith(("[]", "map[string]")):
            name = name.removeprefix("[]").removeprefix("map[string]").strip()
        yield name
