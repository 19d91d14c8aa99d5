"""Resource templates: finds `${...}` expressions, checks literals against schemas, and renders objects from evaluated fields."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base.names import suggest_name
from sliceworks.cel.expressions import ABSENT
from sliceworks.graph.model import Issue, Note, format_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sliceworks.graph.model import Path
    from sliceworks.schemas import Schema


EXPRESSION_START = "${"
NESTED_EXPRESSION_MESSAGE = "nested expressions must be quoted"


class NestedExpressionError(ValueError):
    """`${…}` inside `${…}`, outside of a quoted string."""


@dataclass(frozen=True, slots=True)
class RawExpression:
    """An expression, without its `${` and `}`."""

    text: str


def split_expressions(text: str) -> list[str | RawExpression]:
    """The string split into literals and expressions. An unclosed `${` is a literal."""
    parts: list[str | RawExpression] = []
    start = position_after = 0
    while (opening := text.find(EXPRESSION_START, position_after)) >= 0:
        end = _end(text, opening + len(EXPRESSION_START))
        if end is None:
            position_after = opening + 1
            continue
        if opening > start:
            parts.append(text[start:opening])
        parts.append(RawExpression(text[opening + len(EXPRESSION_START) : end]))
        start = position_after = end + 1
    if start < len(text):
        parts.append(text[start:])
    return parts


def standalone_expression(text: str) -> str | None:
    """The expression if the string consists of exactly one, else None."""
    parts = split_expressions(text)
    return parts[0].text if len(parts) == 1 and isinstance(parts[0], RawExpression) else None


def has_expressions(text: str) -> bool:
    """Whether the string contains an expression."""
    return EXPRESSION_START in text and any(isinstance(piece, RawExpression) for piece in split_expressions(text))


def _end(text: str, position: int) -> int | None:
    """The position of the brace that closes an expression, ignoring quoted braces."""
    depth, quote = 1, ""
    while position < len(text):
        character = text[position]
        if quote:
            if character == "\\":
                position += 1
            elif character == quote:
                quote = ""
        elif character in "\"'":
            quote = character
        elif character == "{":
            depth += 1
        elif character == "}":
            depth -= 1
            if not depth:
                return position
        elif text.startswith(EXPRESSION_START, position):
            raise NestedExpressionError(NESTED_EXPRESSION_MESSAGE)
        position += 1
    return None


_ANY = "any"
_TYPE_NAMES = {
    "object": "an object",
    "array": "a list",
    "string": "a string",
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
}


@dataclass(frozen=True, slots=True)
class TemplateField:
    """A string with expressions. `path` is relative to the template; `schema` is None if the field's type is unknown."""

    path: Path
    text: str
    schema: Schema | None


@dataclass(slots=True)
class ParsedTemplate:
    """The expressions, issues and notes of a template at path `root` of the document."""

    root: Path
    fields: list[TemplateField] = field(default_factory=list)
    issues: list[Issue] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)

    def add_issue(self, path: Path, message: str, hint: str = "", expression: str = "") -> None:
        self.issues.append(Issue((*self.root, *path), message, expression, hint))


def parse_template(template: Any, schema: Schema | None, root: Path, start: Path = ()) -> ParsedTemplate:
    """Parse a template. Without a schema only its expressions are collected; `start` is its path relative to `root`."""
    parsed = ParsedTemplate(root)
    _visit(template, schema, start, parsed)
    return parsed


def _visit(value: Any, schema: Schema | None, path: Path, parsed: ParsedTemplate, *, free: bool = False) -> None:
    """`free`: inside an object that preserves unknown fields, where any value is valid."""
    if value is None:
        return
    free = free or schema is None or schema.preserve_unknown
    expected = _expected(schema) if schema is not None and not free else (_ANY,)
    if not expected:
        parsed.add_issue(path, f"{format_path(path)}: the schema has no type for this field")
    elif isinstance(value, str):
        _visit_string(TemplateField(path, value, schema), expected, parsed)
    elif isinstance(value, dict) and (free or "object" in expected or (schema is not None and schema.additional_allowed)):
        for name, child in value.items():
            _visit_field(child, schema, (*path, name), parsed, free=free)
    elif isinstance(value, list) and (free or "array" in expected):
        for index, child in enumerate(value):
            _visit(child, schema.items if schema is not None else None, (*path, index), parsed, free=free)
    elif isinstance(value, dict | list) or not _is_valid_literal(value, expected):
        parsed.add_issue(path, _mismatch(path, expected, value))


def _visit_field(value: Any, owner: Schema | None, path: Path, parsed: ParsedTemplate, *, free: bool) -> None:
    schema = owner.properties.get(str(path[-1]), owner.additional) if owner is not None else None
    if schema is None and owner is not None and not free and not owner.additional_allowed:
        parsed.add_issue(path, f"unknown field {format_path(path)}", suggest_name(str(path[-1]), owner.properties))
    else:
        _visit(value, schema, path, parsed, free=free)


def _visit_string(string_field: TemplateField, expected: tuple[str, ...], parsed: ParsedTemplate) -> None:
    try:
        pieces = split_expressions(string_field.text)
    except NestedExpressionError as error:
        parsed.add_issue(string_field.path, str(error), 'such as ${outer("${inner}")}', string_field.text)
        return
    takes_string = "string" in expected or _ANY in expected
    has_expressions = any(isinstance(piece, RawExpression) for piece in pieces)
    if has_expressions and (takes_string or len(pieces) == 1):
        parsed.fields.append(string_field)
    elif not takes_string:
        hint = "a single ${…} can have any type" if has_expressions else ""
        parsed.add_issue(string_field.path, _mismatch(string_field.path, expected, string_field.text), hint)
    elif EXPRESSION_START in string_field.text:
        message = f"{format_path(string_field.path)}: unclosed ${{ is not an expression"
        parsed.notes.append(Note((*parsed.root, *string_field.path), message, "close it with }"))


def _expected(schema: Schema) -> tuple[str, ...]:
    """The valid types of a value; empty if the schema does not have a type."""
    if schema.preserve_unknown:
        return (_ANY,)
    if schema.int_or_string:
        return ("string", "integer")
    for branches in (schema.one_of, schema.any_of):
        types = [kind for branch in branches for kind in _branch_types(branch)]
        if types:
            return tuple(dict.fromkeys(types))
    if schema.type:
        return (schema.type,)
    return (_ANY,) if schema.additional_allowed else ()


def _branch_types(branch: Schema) -> list[str]:
    implied = ["object"] if branch.required or branch.negated is not None else []
    return [*implied, *([branch.type] if branch.type else [])]


def _is_valid_literal(value: Any, expected: tuple[str, ...]) -> bool:
    if _ANY in expected:
        return True
    if isinstance(value, bool):
        return "boolean" in expected
    return "number" in expected or ("integer" in expected and (isinstance(value, int) or value.is_integer()))


def _mismatch(path: Path, expected: tuple[str, ...], value: Any) -> str:
    types = " or ".join(_TYPE_NAMES.get(kind, kind) for kind in expected)
    actual = "an object" if isinstance(value, dict) else "a list" if isinstance(value, list) else orjson.dumps(value).decode()
    return f"{format_path(path)}: must be {types}, got {actual}"


class _Placeholder:
    """The position of a field's value in the list of values."""

    __slots__ = ("index",)

    def __init__(self, index: int) -> None:
        self.index = index


class CompiledTemplate:
    """A template whose expressions are placeholders."""

    __slots__ = ("_root",)

    def __init__(self, template: Any, paths: Iterable[Path]) -> None:
        placeholders = {path: _Placeholder(index) for index, path in enumerate(paths)}
        self._root = _with_placeholders(template, (), placeholders)

    def render(self, values: Sequence[Any]) -> Any:
        """A new object, without the fields and items whose value is ABSENT."""
        return _render(self._root, values)

    def render_known_fields(self, values: Sequence[Any]) -> Any:
        """As `render`, and without objects and lists that become empty."""
        return _pruned(_render(self._root, values))


def _with_placeholders(part: Any, path: Path, placeholders: dict[Path, _Placeholder]) -> Any:
    if path in placeholders:
        return placeholders[path]
    if isinstance(part, dict):
        return {name: _with_placeholders(child, (*path, name), placeholders) for name, child in part.items()}
    if isinstance(part, list):
        return [_with_placeholders(child, (*path, index), placeholders) for index, child in enumerate(part)]
    return part


def _render(part: Any, values: Sequence[Any]) -> Any:
    kind = type(part)
    if kind is dict:
        rendered = {}
        for name, child in part.items():
            value = _render(child, values)
            if value is not ABSENT:
                rendered[name] = value
        return rendered
    if kind is list:
        return [value for child in part if (value := _render(child, values)) is not ABSENT]
    return values[part.index] if kind is _Placeholder else part


def _pruned(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: child for name, child in ((name, _pruned(child)) for name, child in value.items()) if child not in ({}, [])}
    return value
