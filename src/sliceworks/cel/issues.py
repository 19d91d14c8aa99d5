"""Translates the engine's compile errors into typed issues with the closest known name."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from sliceworks.base.names import suggest_name
from sliceworks.cel.engine import parse_engine_issues
from sliceworks.cel.libraries.standard import REVERSE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sliceworks.cel.types import Declarations

_FIELD = re.compile(r"undefined field '([^']*)' not found in struct '([^']*)'")
_NAME = re.compile(r"undeclared reference to '([^']*)'")
_OVERLOAD = re.compile(r"found no matching overload for '([^']*)' applied to '\((.*)\)'", re.DOTALL)
_MESSAGE = re.compile(r"sliceworks\.types\.\w+")
_OPERATORS = {"_?_:_": "? :", "_[_]": "[ ]", "!_": "!", "-_": "-", "_in_": "in", "@in": "in"}
_MAX_SHOWN = 24


class IssueKind(Enum):
    """The kinds of compile issues."""

    UNKNOWN_FIELD = "unknown field"
    UNKNOWN_NAME = "unknown name"
    UNKNOWN_FUNCTION = "unknown function"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class CompileIssue:
    """One compile error of an expression. `name` is the unknown field, variable or function; `owner` the type without the field."""

    message: str
    hint: str = ""
    kind: IssueKind = IssueKind.OTHER
    name: str = ""
    owner: str = ""


@dataclass(frozen=True, slots=True)
class KnownNames:
    """The types, variables and functions that an expression can use, for suggestions."""

    declarations: Declarations
    variables: tuple[str, ...]
    functions: tuple[str, ...]


def parse_issues(raw: str, expression: str, known: KnownNames) -> list[CompileIssue]:
    """Every issue in the engine's message, in the order of the expression."""
    issues = [_translate_issue(message, expression[position:], known) for position, message in parse_engine_issues(raw, expression)]
    return list(dict.fromkeys(_merge_namespace(issues, expression, known))) or [CompileIssue(" ".join(raw.split()))]


def _merge_namespace(issues: list[CompileIssue], expression: str, known: KnownNames) -> list[CompileIssue]:
    """Report an unknown function in an unknown namespace once."""
    if [issue.kind for issue in issues[:2]] != [IssueKind.UNKNOWN_NAME, IssueKind.UNKNOWN_FUNCTION]:
        return issues
    namespace, function = issues[0].name, issues[1].name
    if re.search(rf"\b{re.escape(namespace)}\s*\.\s*{re.escape(function)}\s*\(", expression):
        return [_unknown_function(f"{namespace}.{function}", known), *issues[2:]]
    return issues


def _translate_issue(message: str, rest: str, known: KnownNames) -> CompileIssue:
    """Translate one message of the engine. `rest` is the expression from the issue's position."""
    declarations = known.declarations
    field = _FIELD.search(message)
    if field:
        owner = declarations.messages.get(field[2])
        names = [name for name in owner.fields if not name.startswith("__")] if owner else []
        hint = suggest_name(field[1], names) or _list_known(names)
        return CompileIssue(f"unknown field {field[1]}", hint, IssueKind.UNKNOWN_FIELD, field[1], field[2])
    name = _NAME.search(message)
    if name:
        return _unknown_function(name[1], known) if rest.lstrip().startswith("(") else _unknown_name(name[1], known)
    overload = _OVERLOAD.search(message)
    if overload:
        shown = _no_overload(overload[1], _shown_types(overload[2], declarations))
        return CompileIssue(shown, _conversion(overload[1], overload[2]))
    return CompileIssue(_shown_types(message, declarations))


def _unknown_function(name: str, known: KnownNames) -> CompileIssue:
    return CompileIssue(f"unknown function {name}", suggest_name(name, known.functions), IssueKind.UNKNOWN_FUNCTION, name)


def _unknown_name(name: str, known: KnownNames) -> CompileIssue:
    first = name.partition(".")[0]
    hint = suggest_name(first, known.variables) or _list_known(known.variables)
    return CompileIssue(f"unknown name {first}", hint, IssueKind.UNKNOWN_NAME, first)


def _list_known(names: Sequence[str]) -> str:
    return f"known here: {', '.join(sorted(names))}" if 0 < len(names) <= _MAX_SHOWN else ""


def _no_overload(function: str, types: str) -> str:
    if function in _OPERATORS:
        return f"{_OPERATORS[function]} cannot be used on {types}"
    if function.startswith("_"):
        return f"{function.strip('_')} cannot be used between {types.replace(', ', ' and ', 1)}"
    return f"{function.replace(REVERSE, 'reverse')} does not accept ({types})"


def _conversion(function: str, types: str) -> str:
    kinds = [kind.strip() for kind in types.split(",")]
    if function == "_+_" and "string" in kinds and any(kind in ("int", "uint", "double", "bool") for kind in kinds):
        return "use string(…)"
    return ""


def _shown_types(message: str, declarations: Declarations) -> str:
    def name(match: re.Match[str]) -> str:
        known = declarations.messages.get(match[0])
        return known.shown.rpartition(".")[2] or "object" if known else match[0]

    shown = _MESSAGE.sub(name, message)
    for long, short in (
        ("google.protobuf.Timestamp", "timestamp"),
        ("google.protobuf.Duration", "duration"),
        ("null_type", "null"),
    ):
        shown = shown.replace(long, short)
    return shown
