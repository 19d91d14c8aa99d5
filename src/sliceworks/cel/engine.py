"""Loads the CEL engine at first use (30 MB), and translates its error messages into cel-go's."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from sliceworks.schemas.patterns import go_error

if TYPE_CHECKING:
    from collections.abc import Mapping


_NO_OVERLOAD, _COST_EXCEEDED = "no such overload", "operation cancelled: actual cost limit exceeded"


class EvaluationError(Exception):
    """An expression failed during evaluation."""


class NoSuchOverload(EvaluationError):
    """A function or operator does not accept arguments of these types."""


class CostExceeded(EvaluationError):
    """The expression needs more iterations than allowed."""

    def __init__(self, message: str = _COST_EXCEEDED) -> None:
        super().__init__(message)


def load_engine() -> Any:
    """The engine's module, imported at first use."""
    from cel_expr_python import cel  # type: ignore[import-untyped]

    return cel


def plain_value(result: Any, *, has_optionals: bool) -> Any:
    """A value of the engine in Python's types. `has_optionals`: it may contain optional values, which have no such type.

    The engine's own conversion crashes on a map with an optional value. Raises EvaluationError.
    """
    try:
        return _convert(result) if has_optionals else result.plain_value()
    except (TypeError, SystemError) as error:
        raise EvaluationError(_OPTIONAL) from error


_OPTIONAL = "an optional value cannot be returned: use orValue()"


def _convert(value: Any) -> Any:
    name = value.type().name()
    if name.startswith("MAP<"):
        return {key: _convert_item(item) for key, item in value.value().items()}
    if name.startswith("LIST<"):
        return [_convert_item(item) for item in value.value()]
    return value.plain_value()


def _convert_item(item: Any) -> Any:
    if item.type().name() == "ERROR":  # the engine has no name for the type of optional values
        raise EvaluationError(_OPTIONAL)
    return _convert(item)


_STATUS = re.compile(r"\A[A-Z_]+: (.*?)(?: \[[A-Z_]+\])?\Z", re.DOTALL)
_ISSUE = re.compile(r"ERROR: <input>:(-?\d+):(-?\d+): (.*?)(?:\n \| (.*?)\n \| \.*\^|\Z)", re.DOTALL)
_MESSAGE_TYPE = re.compile(r"sliceworks\.types\.M\d+")
_OVERLOAD = re.compile(r"found no matching overload for '([^']*)' applied to '\((.*)\)'\Z")

_COMPILE_TRANSLATIONS = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"undefined field '([^']*)' not found in struct '[^']*'", r"undefined field '\1'"),
        (r"cannot be the range of a comprehension", "cannot be range of a comprehension"),
        (r"has\(\) argument must be a field selection", "invalid argument to has() macro"),
        (r"\w+\(\) variable name must be a simple identifier", "argument is not an identifier"),
        (r"expression of type '(kubernetes|net)\.(\w+)' cannot be the operand.*", r"unexpected failed resolution of '\1.\2'"),
        (
            r"expression of type '([^']*)' cannot be the operand of a select operation",
            r"type '\1' does not support field selection",
        ),
        (r"google\.protobuf\.Timestamp", "timestamp"),
        (r"google\.protobuf\.Duration", "duration"),
        (r"\bnull_type\b", "null"),
        (r"'\\u003F', ", ""),
    )
)

_CONSEQUENTIAL = "'*error*'"
_REGEX_ERROR = "invalid regular expression: "
_MISSING_KEY = re.compile(r'Key not found in map : "?(.*?)"?\Z', re.DOTALL)

_RUNTIME_TRANSLATIONS = tuple(
    (re.compile(pattern, re.DOTALL), replacement)
    for pattern, replacement in (
        (r"Type conversion error", "type conversion error"),
        (r"String to (Timestamp|Duration) conversion failed", r"type conversion error from 'string' to 'google.protobuf.\1'"),
        (r"\b\w{1,64} out of uint64 range", "unsigned integer overflow"),
        (r"\b\w{1,64} out of int64 range", "integer overflow"),
        (r"cannot convert (\w+) to (\w+)", r"type conversion error from '\1' to '\2'"),
        (r"Index error: index=(-?\d+) size=\d+\Z", r"index out of bounds: \1"),
        (r"No matching overloads found : (?:\(\w+\)\.)?size\(.*", f"{_NO_OVERLOAD}: size"),
        (r"No matching overloads found.*", _NO_OVERLOAD),
        (r"Applying SELECT to non-message type", _NO_OVERLOAD),
        (r"divide by zero", "division by zero"),
        (r"modulo by zero", "modulus by zero"),
        (r"Iteration budget exceeded", _COST_EXCEEDED),
    )
)


_UNDECLARED = re.compile(r"(undeclared reference to )'(\w+)((?:\.\w+)+)'(.*)", re.DOTALL)


def translate_compile_error(message: str, expression: str, shown: Mapping[str, str]) -> str:
    """The compile error in cel-go's format, with every issue in source order. `shown` maps object types to display names."""
    body = _without_status(message)
    issues = {}
    for match in _ISSUE.finditer(body):
        line, column, issue, _ = match.groups()
        if _CONSEQUENTIAL in issue or (int(line) < 0 and len(body.split("ERROR:")) > 2):
            continue
        if qualified := _UNDECLARED.match(issue):
            # cel-go reports the variable, not the field that is selected from it.
            issue, column = (
                f"{qualified[1]}'{qualified[2]}'{qualified[4]}",
                int(column) - qualified[3].rfind(".") - len(qualified[2]),
            )
        issues[int(line), int(column), _translate_issue(issue, expression, int(line), int(column), shown)] = match
    if not issues:
        return body
    return "\n".join(_with_source_line(match, line, column, issue) for (line, column, issue), match in sorted(issues.items()))


def parse_engine_issues(message: str, expression: str) -> list[tuple[int, str]]:
    """The engine's issues with their source positions, in order, without consequential errors."""
    lines = expression.split("\n")
    issues: dict[tuple[int, str], None] = {}
    for match in _ISSUE.finditer(_without_status(message)):
        line, column, issue_message, _ = match.groups()
        if _CONSEQUENTIAL not in issue_message:
            line_start = sum(len(earlier) + 1 for earlier in lines[: int(line) - 1])
            issues[line_start + max(int(column) - 1, 0), issue_message] = None
    return sorted(issues)


def _translate_issue(issue: str, expression: str, line: int, column: int, shown: Mapping[str, str]) -> str:
    for pattern, replacement in _COMPILE_TRANSLATIONS:
        issue = pattern.sub(replacement, issue)
    issue = _MESSAGE_TYPE.sub(lambda match: shown.get(match[0], match[0]), issue)
    overload = _OVERLOAD.match(issue)
    if overload and _called_on_receiver(overload[1], expression, line, column):
        receiver, _, arguments = overload[2].partition(", ")
        return f"found no matching overload for '{overload[1]}' applied to '{receiver}.({arguments})'"
    return issue


def _called_on_receiver(function: str, expression: str, line: int, column: int) -> bool:
    """Whether the call at this parenthesis is `x.f()` rather than `f(x)`."""
    lines = expression.split("\n")
    before = lines[line - 1][: column - 1] if 0 < line <= len(lines) else ""
    return re.search(rf"\.\s*{re.escape(function)}\s*\Z", before) is not None


def _with_source_line(match: re.Match[str], line: int, column: int, issue: str) -> str:
    source_line = match[4]
    located = f"ERROR: <input>:{line}:{column}: {issue}"
    return located if source_line is None else f"{located}\n | {source_line}\n | {'.' * (column - 1)}^"


def runtime_error(message: str, renamed: Mapping[str, str] | None = None) -> EvaluationError:
    """The error for a message of the engine, in cel-go's words. `renamed` maps document fields to names in the expression."""
    reason = _translate_runtime_error(message, renamed)
    if reason.startswith(_NO_OVERLOAD):
        return NoSuchOverload(reason)
    return CostExceeded(reason) if reason.startswith(_COST_EXCEEDED) else EvaluationError(reason)


def _translate_runtime_error(message: str, renamed: Mapping[str, str] | None) -> str:
    body = _without_status(message)
    missing = _MISSING_KEY.match(body)
    if missing:
        return f"no such key: {(renamed or {}).get(missing[1], missing[1])}"
    if body.startswith(_REGEX_ERROR):
        return str(go_error(body.removeprefix(_REGEX_ERROR)))
    for pattern, replacement in _RUNTIME_TRANSLATIONS:
        changed = pattern.sub(replacement, body)
        if changed != body:
            return changed
    return body


_MISSING_INDEX = re.compile(r"Index error: index=(-?\d+) size=\d+\Z")


def find_missing_key(message: str) -> str | None:
    """The missing key or index, or None for any other error."""
    body = _without_status(message)
    match = _MISSING_KEY.match(body) or _MISSING_INDEX.match(body)
    return match[1] if match else None


def _without_status(message: str) -> str:
    match = _STATUS.match(message)
    return match[1] if match else message
