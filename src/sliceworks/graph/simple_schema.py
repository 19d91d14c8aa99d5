"""SimpleSchema: `integer | default=1 minimum=1` becomes an OpenAPI schema."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from sliceworks.base.words import closest
from sliceworks.graph import markers
from sliceworks.graph.model import Issue
from sliceworks.graph.order import CycleFound, topological

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.graph.model import Path

Object = dict[str, Any]

DEEPEST = 16
_ATOMS = {"string": "string", "integer": "integer", "boolean": "boolean", "float": "number"}
_ANYTHING: Object = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
# Nothing is said of expressions that use a field whose own type is wrong.
_UNKNOWN: Object = {"x-kubernetes-int-or-string": True}
_OTHER_WORDS = {
    "int": "integer",
    "bool": "boolean",
    "number": "float",
    "double": "float",
    "str": "string",
    "map": "map[string]string",
}


class WrongType(ValueError):
    """A type that cannot be used; `remedy` says what could."""

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.remedy = remedy


def convert(spec: Object, types: Object, path: Path) -> tuple[Object, list[Issue]]:
    """The OpenAPI schema of `spec`, and all that is wrong. `path` is where the block with `spec` and `types` stands."""
    converter = _Converter(path)
    converter.learn(types)
    schema = converter.object(spec, (*path, "spec"))
    return schema, converter.issues


class _Converter:
    """The custom types known so far, and the issues found so far."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._types: dict[str, tuple[Object, bool]] = {}
        self.issues: list[Issue] = []

    def learn(self, types: Object) -> None:
        """Take custom types in, those that others need first."""
        needs = {name: [each for each in _mentioned(given) if each in types] for name, given in types.items()}
        try:
            order = topological(needs)
        except CycleFound as error:
            first = (*self._path, "types", error.cycle[0])
            self.issues.append(Issue(first, f"custom types contain a cycle: {' -> '.join(error.cycle)}"))
            self._types = {name: ({"type": "object"}, False) for name in types}
            return
        for name in order:
            self._types[name] = self._field(types[name], (*self._path, "types", name))

    def object(self, fields: Object, path: Path) -> Object:
        """The schema of a mapping of fields."""
        properties: Object = {}
        required = []
        for name, given in fields.items():
            properties[name], needed = self._field(given, (*path, name))
            if needed:
                required.append(name)
        schema: Object = {"type": "object", "properties": properties}
        if required:
            schema["required"] = sorted(required)
        elif any("default" in child for child in properties.values()):
            schema["default"] = {}
        return schema

    def _field(self, given: Any, path: Path) -> tuple[Object, bool]:
        """The schema of one field, and whether it is required."""
        if isinstance(given, dict):
            return self.object(given, path), False
        if not isinstance(given, str):
            self._wrong(path, f"{path[-1]} must be a type such as string, or a mapping of fields")
            return {"type": "string"}, False
        kind, bar, rest = given.partition("|")
        schema, required = dict(_UNKNOWN), False
        try:
            schema, required = self._type(kind.strip(), 0)
            if bar:
                required |= markers.apply(schema, markers.parse(rest))
        except (WrongType, markers.WrongMarker) as error:
            self._wrong(path, f"{path[-1]}: {error}", given, error.remedy)
        return schema, required

    def _type(self, text: str, depth: int) -> tuple[Object, bool]:
        if depth > DEEPEST:
            raise WrongType(f"types are nested more than {DEEPEST} deep")
        if text in _ATOMS:
            return {"type": _ATOMS[text]}, False
        if text == "object":
            return dict(_ANYTHING), False
        if text.startswith("[]"):
            return {"type": "array", "items": self._type(_inner(text, "[]"), depth + 1)[0]}, False
        if text.startswith("map["):
            return {"type": "object", "additionalProperties": self._type(_inner(text, "map[string]"), depth + 1)[0]}, False
        if text not in self._types:
            raise WrongType(f"unknown type {text or '?'}", self._suggestion(text))
        schema, required = self._types[text]
        return copy.deepcopy(schema), required

    def _suggestion(self, text: str) -> str:
        if text.lower() in _OTHER_WORDS:
            return f"did you mean {_OTHER_WORDS[text.lower()]}?"
        known = (*_ATOMS, "object", *self._types)
        return closest(text, known) or f"known are {', '.join(known)}, []T and map[string]T"

    def _wrong(self, path: Path, message: str, expression: str = "", remedy: str = "") -> None:
        self.issues.append(Issue(path, message, expression, remedy))


def _inner(text: str, prefix: str) -> str:
    inner = text.removeprefix(prefix).strip()
    if not text.startswith(prefix):
        raise WrongType("the keys of a map must be string", "write map[string]T")
    if not inner:
        raise WrongType(f"{text} does not say what it holds", f"write {prefix}string, for example")
    return inner


def _mentioned(given: Any) -> Iterator[str]:
    """The names of custom types that a definition uses."""
    if isinstance(given, dict):
        for child in given.values():
            yield from _mentioned(child)
    elif isinstance(given, str):
        name = given.partition("|")[0].strip()
        while name.startswith(("[]", "map[string]")):
            name = name.removeprefix("[]").removeprefix("map[string]").strip()
        yield name
