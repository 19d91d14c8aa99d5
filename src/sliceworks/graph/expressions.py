"""Expressions of a definition, compiled; what is wrong with them becomes issues that name their place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.cel.formulas import TextFormula
from sliceworks.cel.results import shown
from sliceworks.cel.scopes import WrongExpression
from sliceworks.cel.types import BOOL, DURATION, STRING, TIMESTAMP, CelType
from sliceworks.graph import texts
from sliceworks.graph.compatibility import misfit
from sliceworks.graph.model import EACH, RUNTIME, SCHEMA, Expression, Issue
from sliceworks.graph.templates import shown_path

if TYPE_CHECKING:
    from sliceworks.cel.complaints import Complaint
    from sliceworks.cel.formulas import Formula
    from sliceworks.cel.scopes import Scope, Types
    from sliceworks.graph.model import Path

_ELSEWHERE = {
    f"unknown name {EACH}": "each is known in readyWhen of a resource with forEach only",
    f"unknown name {RUNTIME}": "runtime is known in status.conditions only",
}
_ONLY_IN_TEMPLATES = "omit() can be used in the fields of a template only"


class Workshop:
    """Compiles the expressions of one definition and gathers what is wrong with them."""

    def __init__(self, types: Types) -> None:
        self.types = types
        self.issues: list[Issue] = []

    def wrong(self, path: Path, message: str, expression: str = "", remedy: str = "") -> None:
        self.issues.append(Issue(path, message, expression, remedy))

    def lone(self, text: str, path: Path, scope: Scope, what: str) -> Expression | None:
        """A text that must be exactly one expression, outside of templates."""
        inner = self._lone_text(text, path, what)
        formula = self._formula(inner, text, path, scope) if inner is not None else None
        if formula is None:
            return None
        if formula.omits:
            self.wrong(path, _ONLY_IN_TEMPLATES, text)
            return None
        return Expression(text, path, formula.names, formula)

    def condition(self, text: str, path: Path, scope: Scope, what: str) -> Expression | None:
        """One expression that says yes or no."""
        found = self.lone(text, path, scope, what)
        if found is None:
            return None
        result = found.program.result
        if BOOL in (result, result.element if result.kind == "optional" else None):
            return found
        self.wrong(path, f"{what} must give true or false, and this gives {shown(result)}", text)
        return None

    def value(self, text: str, path: Path, scope: Scope, expected: CelType) -> Expression | None:
        """A field's text: one expression of the expected type, or a text with expressions that give texts."""
        inner = texts.lone(text)
        formula: Formula | TextFormula | None
        if inner is not None:
            formula = self._formula(inner, text, path, scope)
            result = formula.result if formula is not None else None
        else:
            formula, result = self._text(text, path, scope), STRING
        if formula is None or result is None:
            return None
        problem = misfit(result, expected, self.types.declarations) or _unwritable(result)
        if problem:
            self.wrong(path, f"{problem}, for {field_name(path)}", text, _conversion(result, expected, inner))
            return None
        return Expression(text, path, formula.names, formula)

    def _lone_text(self, text: str, path: Path, what: str) -> str | None:
        try:
            inner = texts.lone(text)
        except texts.NestedExpression as error:
            self.wrong(path, str(error), text)
            return None
        if inner is None:
            self.wrong(path, f"{what} must be exactly one ${{…}}, not {text!r}", remedy=_wrapped(text))
        return inner

    def _text(self, text: str, path: Path, scope: Scope) -> TextFormula | None:
        parts: list[str | Formula] = []
        sound = True
        for piece in texts.pieces(text):
            part = piece if isinstance(piece, str) else self._formula(piece.text, text, path, scope)
            sound &= part is not None
            if part is not None:
                parts.append(part)
            if part is not None and not isinstance(part, str) and part.result.kind not in ("string", "dyn"):
                sound = False
                remedy = _conversion(part.result, STRING, part.text)
                self.wrong(path, f"{part.text} gives {shown(part.result)}, and inside a text only texts can stand", text, remedy)
        return TextFormula(text, tuple(parts)) if sound else None

    def _formula(self, inner: str, text: str, path: Path, scope: Scope) -> Formula | None:
        try:
            return scope.compile(inner)
        except WrongExpression as error:
            for complaint in error.complaints:
                self.wrong(path, complaint.message, text, self._remedy(complaint))
            return None

    def _remedy(self, complaint: Complaint) -> str:
        if complaint.field == "status" and complaint.owner == self.types.variables[SCHEMA].message:
            return "an instance's own status cannot be read; read the resource it comes from"
        return _ELSEWHERE.get(complaint.message, complaint.remedy)


def field_name(path: Path) -> str:
    """The field that a path of the document leads to, as its template or status block names it."""
    start = next((index for index, step in enumerate(path) if step in ("template", "externalRef", "status")), -1)
    return shown_path(path[start + (path[start] != "status") :])


def _unwritable(kind: CelType) -> str:
    """Why no document can hold a value of a type, or nothing where it can."""
    kind = kind.element or kind if kind.kind == "optional" else kind
    opaque = kind.kind == "type" or ("." in kind.kind and kind.kind not in (TIMESTAMP, DURATION))
    return f"gives {shown(kind)}, which no field can hold" if opaque else ""


def _conversion(given: CelType, expected: CelType, inner: str | None) -> str:
    """The function that makes one type of the other, where there is one."""
    if given.kind == "optional":
        return f"use {inner}.orValue(…)" if inner else ""
    numbers = ("int", "uint", "double")
    if expected.kind == "string" and given.kind in (*numbers, "bool", "bytes"):
        return f"use string({inner})"
    if expected.kind in numbers and given.kind in (*numbers, "string"):
        return f"use {expected.kind}({inner})"
    return ""


def _wrapped(text: str) -> str:
    return f"write ${{{text}}}" if texts.OPENING not in text else ""
