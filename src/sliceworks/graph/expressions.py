"""Compiles the CEL expressions of a definition and checks that their types fit the fields they fill."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.cel.expressions import StringTemplate
from sliceworks.cel.issues import IssueKind
from sliceworks.cel.scopes import InvalidExpression
from sliceworks.cel.types import BOOL, DURATION, DYN, STRING, TIMESTAMP, CelType, format_type
from sliceworks.graph import templates
from sliceworks.graph.model import EACH, RUNTIME, SCHEMA, Expression, Issue, format_path

if TYPE_CHECKING:
    from sliceworks.cel.expressions import CompiledExpression
    from sliceworks.cel.issues import CompileIssue
    from sliceworks.cel.scopes import Scope, Types
    from sliceworks.cel.types import Declarations
    from sliceworks.graph.model import Path


_MAX_DEPTH = 32


def type_mismatch(actual: CelType, expected: CelType, declarations: Declarations, depth: int = 0) -> str:
    """Why a value of type `actual` is not valid for `expected`; empty if it is valid."""
    if "dyn" in (actual.kind, expected.kind) or depth > _MAX_DEPTH:
        return ""
    if actual.kind == "optional":
        return type_mismatch(actual.element or DYN, expected, declarations, depth)
    if expected.kind == "list" and actual.kind == "list":
        return type_mismatch(actual.element or DYN, expected.element or DYN, declarations, depth + 1)
    if expected.kind == "map" and actual.kind == "map":
        keys = type_mismatch(actual.key or STRING, expected.key or STRING, declarations, depth + 1)
        return keys or type_mismatch(actual.element or DYN, expected.element or DYN, declarations, depth + 1)
    if expected.kind == "message" and actual.kind == "null":
        return ""
    if expected.kind == "message" and actual.kind in ("map", "message"):
        fits = _map_in_object if actual.kind == "map" else _object_in_object
        return fits(actual, expected, declarations, depth + 1)
    if expected.kind == "map" and actual.kind == "message":
        return _object_in_map(actual, expected, declarations, depth + 1)
    return "" if actual.kind == expected.kind else f"must return {format_type(expected)}, got {format_type(actual)}"


def _object_in_object(actual: CelType, expected: CelType, declarations: Declarations, depth: int) -> str:
    actual_message, expected_message = declarations.messages.get(actual.message), declarations.messages.get(expected.message)
    if (
        actual_message is None
        or expected_message is None
        or actual_message is expected_message
        or (expected_message.schema is not None and expected_message.schema.preserve_unknown)
    ):
        return ""
    for name, kind in actual_message.fields.items():
        if name not in expected_message.fields:
            return f"returns an object with the unknown field {actual_message.names.get(name, name)}"
        problem = type_mismatch(kind, expected_message.fields[name], declarations, depth)
        if problem:
            return f"field {actual_message.names.get(name, name)}: {problem}"
    return ""


def _map_in_object(actual: CelType, expected: CelType, declarations: Declarations, depth: int) -> str:
    expected_message = declarations.messages.get(expected.message)
    if expected_message is None or not expected_message.fields:
        return ""
    if (actual.key or STRING).kind not in ("string", "dyn"):
        return "must return a map with string keys"
    for name, kind in expected_message.fields.items():
        problem = type_mismatch(actual.element or DYN, kind, declarations, depth)
        if problem:
            return f"field {expected_message.names.get(name, name)}: {problem}"
    return ""


def _object_in_map(actual: CelType, expected: CelType, declarations: Declarations, depth: int) -> str:
    actual_message = declarations.messages.get(actual.message)
    for name, kind in actual_message.fields.items() if actual_message is not None else ():
        problem = type_mismatch(kind, expected.element or DYN, declarations, depth)
        if problem:
            return f"field {name}: {problem}"
    return ""


_RESTRICTED_VARIABLES = {
    EACH: "each is available in readyWhen of a resource with forEach only",
    RUNTIME: "runtime is available in status.conditions only",
}
OMIT_OUTSIDE_TEMPLATE = "omit() is allowed in template fields only"


class ExpressionCompiler:
    """Compiles the expressions of one definition and collects their issues."""

    def __init__(self, types: Types) -> None:
        self.types = types
        self.issues: list[Issue] = []

    def add_issue(self, path: Path, message: str, expression: str = "", hint: str = "") -> None:
        self.issues.append(Issue(path, message, expression, hint))

    def compile_standalone(self, source: str, path: Path, scope: Scope, what: str) -> Expression | None:
        """A string outside of templates that must be exactly one expression; `what` names it in issues."""
        inner = self._parse_standalone(source, path, what)
        program = self._compile(inner, source, path, scope) if inner is not None else None
        if program is None:
            return None
        if program.omits:
            self.add_issue(path, OMIT_OUTSIDE_TEMPLATE, source)
            return None
        return Expression(source, path, program.names, program)

    def compile_condition(self, source: str, path: Path, scope: Scope, what: str) -> Expression | None:
        """One expression that returns a boolean."""
        expression = self.compile_standalone(source, path, scope, what)
        if expression is None:
            return None
        result = expression.program.result
        if BOOL in (result, result.element if result.kind == "optional" else None):
            return expression
        self.add_issue(path, f"{what} must return a boolean, got {format_type(result)}", source)
        return None

    def compile_field(self, source: str, path: Path, scope: Scope, expected: CelType) -> Expression | None:
        """A template field: one expression of the expected type, or a string with embedded string expressions."""
        inner = templates.standalone_expression(source)
        program: CompiledExpression | StringTemplate | None
        if inner is not None:
            program = self._compile(inner, source, path, scope)
            result = program.result if program is not None else None
        else:
            program, result = self._compile_string(source, path, scope), STRING
        if program is None or result is None:
            return None
        problem = type_mismatch(result, expected, self.types.declarations) or _unrepresentable(result)
        if problem:
            self.add_issue(path, f"{field_name(path)}: {problem}", source, _conversion(result, expected, inner))
            return None
        return Expression(source, path, program.names, program)

    def _parse_standalone(self, source: str, path: Path, what: str) -> str | None:
        try:
            inner = templates.standalone_expression(source)
        except templates.NestedExpressionError as error:
            self.add_issue(path, str(error), source)
            return None
        if inner is None:
            self.add_issue(path, f"{what} must be exactly one ${{…}}, got {source!r}", hint=_wrap(source))
        return inner

    def _compile_string(self, source: str, path: Path, scope: Scope) -> StringTemplate | None:
        parts: list[str | CompiledExpression] = []
        is_valid = True
        for piece in templates.split_expressions(source):
            part = piece if isinstance(piece, str) else self._compile(piece.text, source, path, scope)
            is_valid &= part is not None
            if part is not None:
                parts.append(part)
            if part is not None and not isinstance(part, str) and part.result.kind not in ("string", "dyn"):
                is_valid = False
                hint = _conversion(part.result, STRING, part.text)
                self.add_issue(path, f"{part.text} must return string, got {format_type(part.result)}", source, hint)
        return StringTemplate(source, tuple(parts)) if is_valid else None

    def _compile(self, inner: str, source: str, path: Path, scope: Scope) -> CompiledExpression | None:
        try:
            return scope.compile(inner)
        except InvalidExpression as error:
            for issue in error.issues:
                self.add_issue(path, issue.message, source, self._hint(issue))
            return None

    def _hint(self, issue: CompileIssue) -> str:
        is_field = issue.kind is IssueKind.UNKNOWN_FIELD
        if is_field and issue.name == "status" and issue.owner == self.types.variables[SCHEMA].message:
            return "the instance's own status is not available; read the resource that provides the value"
        return _RESTRICTED_VARIABLES.get(issue.name, issue.hint) if issue.kind is IssueKind.UNKNOWN_NAME else issue.hint


def field_name(path: Path) -> str:
    """A path of the document, relative to its template or status block."""
    start = next((index for index, step in enumerate(path) if step in ("template", "externalRef", "status")), -1)
    return format_path(path[start + (path[start] != "status") :])


def _unrepresentable(kind: CelType) -> str:
    """Why a document cannot contain values of a type; empty if it can."""
    kind = kind.element or kind if kind.kind == "optional" else kind
    opaque = kind.kind == "type" or ("." in kind.kind and kind.kind not in (TIMESTAMP, DURATION))
    return f"returns {format_type(kind)}, which is not valid in a document" if opaque else ""


def _conversion(actual: CelType, expected: CelType, inner: str | None) -> str:
    """A hint with the function that converts one type to the other, if one exists."""
    if actual.kind == "optional":
        return f"use {inner}.orValue(…)" if inner else ""
    numbers = ("int", "uint", "double")
    if expected.kind == "string" and actual.kind in (*numbers, "bool", "bytes"):
        return f"use string({inner})"
    if expected.kind in numbers and actual.kind in (*numbers, "string"):
        return f"use {expected.kind}({inner})"
    return ""


def _wrap(source: str) -> str:
    return f"write ${{{source}}}" if templates.EXPRESSION_START not in source else ""
