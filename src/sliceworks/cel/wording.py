"""The engine's messages in the words of Kubernetes' engine, which people know and clients may match."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_STATUS = re.compile(r"\A[A-Z_]+: (.*?)(?: \[[A-Z_]+\])?\Z", re.DOTALL)
_ISSUE = re.compile(r"ERROR: <input>:(-?\d+):(-?\d+): (.*?)(?:\n \| (.*?)\n \| \.*\^|\Z)", re.DOTALL)
_MESSAGE_TYPE = re.compile(r"sliceworks\.types\.M\d+")
_OVERLOAD = re.compile(r"found no matching overload for '([^']*)' applied to '\((.*)\)'\Z")
_COMPILE = tuple(
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
_FOLLOWS_FROM_ANOTHER = "'*error*'"
NO_OVERLOAD, COST_EXCEEDED = "no such overload", "operation cancelled: actual cost limit exceeded"
_MISSING_KEY = re.compile(r'Key not found in map : "?(.*?)"?\Z', re.DOTALL)
_RUN = tuple(
    (re.compile(pattern, re.DOTALL), replacement)
    for pattern, replacement in (
        (r"Type conversion error", "type conversion error"),
        (r"String to (Timestamp|Duration) conversion failed", r"type conversion error from 'string' to 'google.protobuf.\1'"),
        (r"\w+ out of uint64 range", "unsigned integer overflow"),
        (r"\w+ out of int64 range", "integer overflow"),
        (r"cannot convert (\w+) to (\w+)", r"type conversion error from '\1' to '\2'"),
        (r"Index error: index=(-?\d+) size=\d+\Z", r"index out of bounds: \1"),
        (r"No matching overloads found : (?:\(\w+\)\.)?size\(.*", f"{NO_OVERLOAD}: size"),
        (r"No matching overloads found.*", NO_OVERLOAD),
        (r"Applying SELECT to non-message type", NO_OVERLOAD),
        (r"divide by zero", "division by zero"),
        (r"modulo by zero", "modulus by zero"),
        (r"Iteration budget exceeded", COST_EXCEEDED),
        (r"invalid regular expression: missing ([\])]): (.*)", r"error parsing regexp: missing closing \1: `\2`"),
        (
            r"invalid regular expression: no argument for repetition operator: (.*)",
            r"error parsing regexp: missing argument to repetition operator: `\1`",
        ),
        (
            r"invalid regular expression: bad repetition operator: (.*)",
            r"error parsing regexp: invalid nested repetition operator: `\1`",
        ),
        (
            r"invalid regular expression: invalid perl operator: (.*)",
            r"error parsing regexp: invalid or unsupported Perl syntax: `\1`",
        ),
        (r"invalid regular expression: (.*?): (.*)", r"error parsing regexp: \1: `\2`"),
    )
)


def compile_failure(message: str, text: str, shown: Mapping[str, str]) -> str:
    """Why an expression does not compile: every issue in the order of the text. `shown` gives the names of object types."""
    body = _without_status(message)
    issues = {}
    for found in _ISSUE.finditer(body):
        line, column, what, _ = found.groups()
        if _FOLLOWS_FROM_ANOTHER not in what:
            issues[int(line), int(column), _issue_text(what, text, int(line), int(column), shown)] = found
    if not issues:
        return body
    return "\n".join(_with_line(found, line, column, what) for (line, column, what), found in sorted(issues.items()))


def engine_issues(message: str, text: str) -> list[tuple[int, str]]:
    """Each issue in the engine's own words, with its place in the text, in order. What follows from another is left out."""
    lines = text.split("\n")
    found: dict[tuple[int, str], None] = {}
    for issue in _ISSUE.finditer(_without_status(message)):
        line, column, what, _ = issue.groups()
        if _FOLLOWS_FROM_ANOTHER not in what:
            before = sum(len(each) + 1 for each in lines[: int(line) - 1])
            found[before + max(int(column) - 1, 0), what] = None
    return sorted(found)


def _issue_text(what: str, text: str, line: int, column: int, shown: Mapping[str, str]) -> str:
    for pattern, replacement in _COMPILE:
        what = pattern.sub(replacement, what)
    what = _MESSAGE_TYPE.sub(lambda found: shown.get(found[0], found[0]), what)
    overload = _OVERLOAD.match(what)
    if overload and _called_on_receiver(overload[1], text, line, column):
        receiver, _, arguments = overload[2].partition(", ")
        return f"found no matching overload for '{overload[1]}' applied to '{receiver}.({arguments})'"
    return what


def _called_on_receiver(function: str, text: str, line: int, column: int) -> bool:
    """Whether the call that opens its parenthesis here is `x.f()` and not `f(x)`."""
    lines = text.split("\n")
    before = lines[line - 1][: column - 1] if 0 < line <= len(lines) else ""
    return re.search(rf"\.\s*{re.escape(function)}\s*\Z", before) is not None


def _with_line(found: re.Match[str], line: int, column: int, what: str) -> str:
    shown = found[4]
    place = f"ERROR: <input>:{line}:{column}: {what}"
    return place if shown is None else f"{place}\n | {shown}\n | {'.' * (column - 1)}^"


def run_failure(message: str, renamed: Mapping[str, str] | None = None) -> str:
    """Why an expression has no value. `renamed` gives the names of fields as the expression writes them."""
    body = _without_status(message)
    missing = _MISSING_KEY.match(body)
    if missing:
        return f"no such key: {(renamed or {}).get(missing[1], missing[1])}"
    for pattern, replacement in _RUN:
        changed = pattern.sub(replacement, body)
        if changed != body:
            return changed
    return body


_MISSING_INDEX = re.compile(r"Index error: index=(-?\d+) size=\d+\Z")


def missing_key(message: str) -> str | None:
    """The key or index that the engine did not find, or None where something else went wrong."""
    body = _without_status(message)
    found = _MISSING_KEY.match(body) or _MISSING_INDEX.match(body)
    return found[1] if found else None


def _without_status(message: str) -> str:
    found = _STATUS.match(message)
    return found[1] if found else message
