"""Checks that Kubernetes makes and the engine does not: literals, homogeneous lists and maps."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from sliceworks.cel import syntax
from sliceworks.cel.engine import load_engine
from sliceworks.cel.types import PACKAGE, PRIMITIVES
from sliceworks.schemas.patterns import PatternError, compile_pattern

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.cel.syntax import Positions

_WELL_KNOWN = {2: "timestamp", 3: "duration"}

_PARSED_LITERALS = {
    "duration": "duration(text) == duration(text)",
    "timestamp": "timestamp(text) == timestamp(text)",
    "matches": "''.matches(text)",
}


def find_literal_issues(tree: syntax.Tree, positions: Positions) -> list[str]:
    """Every issue in source order."""
    nodes = syntax.walk(tree.checked.expr)
    # Arguments of format() can have any types.
    untyped_lists = {
        node.call.args[0].id for node in nodes if syntax.kind(node) == "call" and node.call.function == "format" and node.call.args
    }
    issues = [
        positions.issue(issue_node, message)
        for node in nodes
        for issue_node, message in (
            *_invalid_literals(node),
            *_unknown_types(node),
            *(() if node.id in untyped_lists else _mixed_types(node, tree)),
        )
    ]
    return [issue for _, issue in sorted(issues)]


def find_pattern_error(tree: syntax.Tree) -> str:
    """The error of a literal pattern of find or findAll, or an empty string."""
    for node in syntax.walk(tree.checked.expr):
        if syntax.kind(node) == "call" and node.call.function in ("find", "findAll") and node.call.args:
            pattern = _string_literal(node.call.args[0])
            try:
                compile_pattern(pattern or "")
            except PatternError as error:
                return str(error)
    return ""


def _invalid_literals(node: Any) -> Iterator[tuple[Any, str]]:
    if syntax.kind(node) != "call" or node.call.function not in _PARSED_LITERALS or not node.call.args:
        return
    argument = node.call.args[-1]
    literal = _string_literal(argument)
    if literal is not None and _failure(_PARSED_LITERALS[node.call.function], literal):
        yield argument, f"invalid {node.call.function} argument"


def _string_literal(node: Any) -> str | None:
    return str(node.const.string) if syntax.kind(node) == "const" and node.const.HasField("string") else None


@cache
def _program(text: str) -> Any:
    cel = load_engine()
    return cel.NewEnv(variables={"text": cel.Type.STRING}).compile(text)


def _failure(program: str, literal: str) -> str:
    result = _program(program).eval(data={"text": literal})
    return str(result.plain_value()) if result.type().name() == "ERROR" else ""


def _mixed_types(node: Any, tree: syntax.Tree) -> Iterator[tuple[Any, str]]:
    """Issues of list and map literals with mixed types."""
    what = syntax.kind(node)
    if what == "list":
        yield from _mismatches(list(node.list.elements), tree)
    elif what == "struct" and not node.struct.message:
        yield from _mismatches([entry.key for entry in node.struct.entries], tree)
        yield from _mismatches([entry.value for entry in node.struct.entries], tree)


def _mismatches(nodes: list[Any], tree: syntax.Tree) -> Iterator[tuple[Any, str]]:
    expected = ""
    for node in nodes:
        actual = _format_checked_type(tree.types.get(node.id))
        if actual and expected and actual != expected:
            yield node, f"expected type '{expected}' but found '{actual}'"
        expected = expected or actual


def _unknown_types(node: Any) -> Iterator[tuple[Any, str]]:
    """Issues of object types, which have no name in an expression."""
    if syntax.kind(node) == "struct" and node.struct.message.startswith(PACKAGE):
        yield node, f"undeclared reference to '{node.struct.message}' (in container '')"


def _format_checked_type(kind: Any) -> str:
    """A type as error messages show it; empty if it is not fully known."""
    if kind is None:
        return ""
    what = kind.ListFields()[0][0].name if kind.ListFields() else ""
    if what == "dyn":
        return "dyn"
    if what == "primitive":
        return PRIMITIVES.get(kind.primitive, "")
    if what == "well_known":
        return _WELL_KNOWN.get(kind.well_known, "")
    if what == "list":
        element = _format_checked_type(kind.list.element)
        return f"list({element})" if element else ""
    if what == "map":
        key, value = _format_checked_type(kind.map.key), _format_checked_type(kind.map.value)
        return f"map({key}, {value})" if key and value else ""
    return str(kind.message) if what == "message" else ""
