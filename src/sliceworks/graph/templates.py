"""Templates against schemas: what is written in them must be of the right type, and where expressions stand is found."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base.words import closest
from sliceworks.graph import texts
from sliceworks.graph.model import Issue, Note

if TYPE_CHECKING:
    from sliceworks.graph.model import Path
    from sliceworks.schemas.structural import Schema

_ANY = "any"
_PLAIN = re.compile(r"[A-Za-z0-9_-]+\Z")
_WORDS = {"object": "an object", "array": "a list", "string": "a text", "integer": "a whole number", "number": "a number"}
_WORDS |= {"boolean": "true or false"}


@dataclass(frozen=True, slots=True)
class Slot:
    """A text with expressions. `path` leads to it inside its template; `schema` is None where nothing is known of the field."""

    path: Path
    text: str
    schema: Schema | None


@dataclass(slots=True)
class Survey:
    """What was found in a template that stands at `root` of the document."""

    root: Path
    slots: list[Slot] = field(default_factory=list)
    issues: list[Issue] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)

    def wrong(self, path: Path, message: str, remedy: str = "", expression: str = "") -> None:
        self.issues.append(Issue((*self.root, *path), message, expression, remedy))


def survey(template: Any, schema: Schema | None, root: Path, start: Path = ()) -> Survey:
    """Look through a template. Without a schema only its expressions are found; `start` is where it begins in the whole."""
    found = Survey(root)
    _visit(template, schema, start, found)
    return found


def _visit(value: Any, schema: Schema | None, path: Path, found: Survey, *, free: bool = False) -> None:
    """`free`: below an object that keeps unknown fields, where anything may be written."""
    if value is None:
        return
    free = free or schema is None or schema.preserve_unknown
    expected = _expected(schema) if schema is not None and not free else (_ANY,)
    if not expected:
        found.wrong(path, f"{shown_path(path)} has no type in its schema, so nothing can be written there")
    elif isinstance(value, str):
        _visit_text(Slot(path, value, schema), expected, found)
    elif isinstance(value, dict) and (free or "object" in expected or (schema is not None and schema.additional_allowed)):
        for name, child in value.items():
            _visit_field(child, schema, (*path, name), found, free=free)
    elif isinstance(value, list) and (free or "array" in expected):
        for index, child in enumerate(value):
            _visit(child, schema.items if schema is not None else None, (*path, index), found, free=free)
    elif isinstance(value, dict | list) or not _fits(value, expected):
        found.wrong(path, _mismatch(path, expected, value))


def _visit_field(value: Any, owner: Schema | None, path: Path, found: Survey, *, free: bool) -> None:
    schema = owner.properties.get(str(path[-1]), owner.additional) if owner is not None else None
    if schema is None and owner is not None and not free and not owner.additional_allowed:
        found.wrong(path, f"unknown field {shown_path(path)}", closest(str(path[-1]), owner.properties))
    else:
        _visit(value, schema, path, found, free=free)


def _visit_text(slot: Slot, expected: tuple[str, ...], found: Survey) -> None:
    try:
        pieces = texts.pieces(slot.text)
    except texts.NestedExpression as error:
        found.wrong(slot.path, str(error), 'such as ${outer("${inner}")}', slot.text)
        return
    takes_text = "string" in expected or _ANY in expected
    has_expressions = any(isinstance(piece, texts.Inner) for piece in pieces)
    if has_expressions and (takes_text or len(pieces) == 1):
        found.slots.append(slot)
    elif not takes_text:
        remedy = "a lone ${…} may give any type" if has_expressions else ""
        found.wrong(slot.path, _mismatch(slot.path, expected, slot.text), remedy)
    elif texts.OPENING in slot.text:
        message = f"{shown_path(slot.path)} opens an expression that is never closed, so it is plain text"
        found.notes.append(Note((*found.root, *slot.path), message, "close it with }"))


def _expected(schema: Schema) -> tuple[str, ...]:
    """The types that a value may have; none where the schema says nothing at all."""
    if schema.preserve_unknown:
        return (_ANY,)
    if schema.int_or_string:
        return ("string", "integer")
    for branches in (schema.one_of, schema.any_of):
        kinds = [kind for branch in branches for kind in _branch_kinds(branch)]
        if kinds:
            return tuple(dict.fromkeys(kinds))
    if schema.type:
        return (schema.type,)
    return (_ANY,) if schema.additional_allowed else ()


def _branch_kinds(branch: Schema) -> list[str]:
    implied = ["object"] if branch.required or branch.negated is not None else []
    return [*implied, *([branch.type] if branch.type else [])]


def _fits(value: Any, expected: tuple[str, ...]) -> bool:
    if _ANY in expected:
        return True
    if isinstance(value, bool):
        return "boolean" in expected
    return "number" in expected or ("integer" in expected and (isinstance(value, int) or value.is_integer()))


def _mismatch(path: Path, expected: tuple[str, ...], value: Any) -> str:
    wanted = " or ".join(_WORDS.get(kind, kind) for kind in expected)
    given = "an object" if isinstance(value, dict) else "a list" if isinstance(value, list) else orjson.dumps(value).decode()
    return f"{shown_path(path)} must be {wanted}, not {given}"


def shown_path(path: Path) -> str:
    """A path as people write it: `spec.ports[0].name`."""
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" if _PLAIN.match(step) else f'["{step}"]' for step in path)
    return "".join(steps).removeprefix(".") or "the template"
