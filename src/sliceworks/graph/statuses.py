"""An instance's status: the author's fields, compiled, and the schema that their types imply."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.cel.types import DYN, TIMESTAMP, CelType
from sliceworks.graph.model import Field
from sliceworks.graph.templates import shown_path, survey

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.cel.scopes import Scope
    from sliceworks.cel.types import Declarations
    from sliceworks.graph.expressions import Workshop
    from sliceworks.graph.model import Expression, Object, Path

ROOT: Path = ("spec", "schema", "status")
OWN = ("conditions", "state")
"""Fields of the status that are not the author's: conditions have a form of their own, and the state is the controller's."""
_KEEP = "x-kubernetes-preserve-unknown-fields"
_PRIMITIVES: dict[str, Object] = {
    "bool": {"type": "boolean"},
    "int": {"type": "integer"},
    "uint": {"type": "integer"},
    "double": {"type": "number"},
    "string": {"type": "string"},
    "bytes": {"type": "string", "format": "byte"},
    "null": {"description": "null type - any value allowed", _KEEP: True},
}
_DEEPEST = 24


def compile_status(status: Object, workshop: Workshop, scope: Scope) -> tuple[tuple[Field, ...], Object]:
    """The author's fields, and the schema of the status that they make up."""
    found = survey(status, None, ROOT)
    workshop.issues.extend(found.issues)
    slots = {slot.path for slot in found.slots}
    for path in _leaves(status, ()):
        if path not in slots:
            remedy = "such as ${deployment.status.replicas}"
            workshop.wrong((*ROOT, *path), f"status.{shown_path(path)} must be an expression", remedy=remedy)
    fields: list[Field] = []
    schema: Object = {"type": "object", "properties": {}}
    for slot in found.slots:
        expression = workshop.value(slot.text, (*ROOT, *slot.path), scope, DYN)
        if expression is not None and _usable(expression, slot.path, workshop):
            fields.append(Field(slot.path, expression))
            _put(schema, slot.path, implied_schema(expression.program.result, workshop.types.declarations))
    return tuple(fields), schema


def _usable(expression: Expression, path: Path, workshop: Workshop) -> bool:
    if expression.program.omits:
        workshop.wrong(expression.path, "omit() can be used in the fields of a template only", expression.written)
    elif not expression.names:
        message = f"status.{shown_path(path)} must refer to a resource or to schema"
        workshop.wrong(expression.path, message, expression.written, "a value that never changes belongs into the documentation")
    return bool(expression.names) and not expression.program.omits


def _leaves(value: Any, path: Path) -> Iterator[Path]:
    if isinstance(value, dict):
        for name, child in value.items():
            yield from _leaves(child, (*path, name))
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from _leaves(child, (*path, index))
    else:
        yield path


def implied_schema(kind: CelType, declarations: Declarations) -> Object:
    """The OpenAPI schema of values of a type."""
    if kind.kind in _PRIMITIVES:
        return dict(_PRIMITIVES[kind.kind])
    if kind.kind == "list":
        return {"type": "array", "items": implied_schema(kind.element or DYN, declarations)}
    if kind.kind == "map":
        return {"type": "object", "additionalProperties": implied_schema(kind.element or DYN, declarations)}
    if kind.kind == "message":
        return _inside(kind, declarations, 0)
    if kind.kind == "dyn":
        return {_KEEP: True}
    if kind.kind == TIMESTAMP:
        return {"description": "Timestamp representing a creation time", "type": "string", "format": "date-time"}
    name = f"optional_type({kind.element.text if kind.element else 'dyn'})" if kind.kind == "optional" else kind.kind
    return {"description": f"unknown CEL type: {name}", _KEEP: True}


def _inside(kind: CelType, declarations: Declarations, depth: int) -> Object:
    """The schema of a type that is part of an object: what is neither primitive nor made of parts may be anything there."""
    if depth > _DEEPEST:
        return {"type": "object", _KEEP: True}
    if kind.kind == "list":
        return {"type": "array", "items": _inside(kind.element or DYN, declarations, depth + 1)}
    if kind.kind == "map":
        return {"type": "object", "additionalProperties": _inside(kind.element or DYN, declarations, depth + 1)}
    if kind.kind != "message":
        return dict(_PRIMITIVES.get(kind.kind) or {_KEEP: True})
    message = declarations.messages[kind.message]
    fields = {message.names.get(name, name): child for name, child in message.fields.items()}
    properties = {name: _inside(child, declarations, depth + 1) for name, child in fields.items()}
    made: Object = {"type": "object", "properties": properties} if properties else {"type": "object"}
    if message.schema is not None and message.schema.preserve_unknown:
        made[_KEEP] = True
    return made


def _put(schema: Object, path: Path, leaf: Object) -> None:
    step, rest = path[0], path[1:]
    if isinstance(step, int):
        schema["type"] = "array"
        schema.pop("properties", None)
        if not rest:
            schema["items"] = leaf
        else:
            _put(schema.setdefault("items", {"type": "object", "properties": {}}), rest, leaf)
        return
    properties = schema.setdefault("properties", {})
    if not rest:
        properties[step] = leaf
    else:
        _put(properties.setdefault(step, {"type": "object", "properties": {}}), rest, leaf)
