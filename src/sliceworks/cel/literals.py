"""What Kubernetes refuses in an expression and the engine accepts: wrong literals, mixed lists and maps, types of our making."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from sliceworks.cel import syntax
from sliceworks.cel.engine import engine
from sliceworks.cel.types import PACKAGE
from sliceworks.cel.wording import run_failure

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.cel.positions import Positions

_PRIMITIVES = {1: "bool", 2: "int", 3: "uint", 4: "double", 5: "string", 6: "bytes"}
_WELL_KNOWN = {2: "timestamp", 3: "duration"}
_PARSED_LITERALS = {
    "duration": "duration(text) == duration(text)",
    "timestamp": "timestamp(text) == timestamp(text)",
    "matches": "''.matches(text)",
}


def literal_issues(tree: syntax.Tree, positions: Positions) -> list[str]:
    """Every issue, in the order of the text."""
    nodes = syntax.walk(tree.checked.expr)
    # What a text is formatted with may be of any types.
    free = {
        node.call.args[0].id for node in nodes if syntax.kind(node) == "call" and node.call.function == "format" and node.call.args
    }
    found = [
        positions.issue(place, message)
        for node in nodes
        for place, message in (*_wrong_literals(node), *_unknown_types(node), *(() if node.id in free else _mixed(node, tree)))
    ]
    return [text for _, text in sorted(found)]


def bad_pattern(tree: syntax.Tree) -> str:
    """Why a literal pattern of find or findAll cannot be used, or nothing."""
    for node in syntax.walk(tree.checked.expr):
        if syntax.kind(node) == "call" and node.call.function in ("find", "findAll") and node.call.args:
            pattern = _text_literal(node.call.args[0])
            reason = _failure(_PARSED_LITERALS["matches"], pattern) if pattern is not None else ""
            if reason:
                return run_failure(reason)
    return ""


def _wrong_literals(node: Any) -> Iterator[tuple[Any, str]]:
    if syntax.kind(node) != "call" or node.call.function not in _PARSED_LITERALS or not node.call.args:
        return
    argument = node.call.args[-1]
    literal = _text_literal(argument)
    if literal is not None and _failure(_PARSED_LITERALS[node.call.function], literal):
        yield argument, f"invalid {node.call.function} argument"


def _text_literal(node: Any) -> str | None:
    return str(node.const.string) if syntax.kind(node) == "const" and node.const.HasField("string") else None


@cache
def _program(text: str) -> Any:
    cel = engine()
    return cel.NewEnv(variables={"text": cel.Type.STRING}).compile(text)


def _failure(program: str, literal: str) -> str:
    result = _program(program).eval(data={"text": literal})
    return str(result.plain_value()) if result.type().name() == "ERROR" else ""


def _mixed(node: Any, tree: syntax.Tree) -> Iterator[tuple[Any, str]]:
    """Elements of a list, and keys and values of a map, must be of one type."""
    what = syntax.kind(node)
    if what == "list":
        yield from _differing(list(node.list.elements), tree)
    elif what == "struct" and not node.struct.message:
        yield from _differing([entry.key for entry in node.struct.entries], tree)
        yield from _differing([entry.value for entry in node.struct.entries], tree)


def _differing(nodes: list[Any], tree: syntax.Tree) -> Iterator[tuple[Any, str]]:
    expected = ""
    for node in nodes:
        found = type_text(tree.types.get(node.id))
        if found and expected and found != expected:
            yield node, f"expected type '{expected}' but found '{found}'"
        expected = expected or found


def _unknown_types(node: Any) -> Iterator[tuple[Any, str]]:
    """The types of objects have no names in an expression."""
    if syntax.kind(node) == "struct" and node.struct.message.startswith(PACKAGE):
        yield node, f"undeclared reference to '{node.struct.message}' (in container '')"


def type_text(kind: Any) -> str:
    """A type in messages; nothing where it is not fully known."""
    if kind is None:
        return ""
    what = kind.ListFields()[0][0].name if kind.ListFields() else ""
    if what == "dyn":
        return "dyn"
    if what == "primitive":
        return _PRIMITIVES.get(kind.primitive, "")
    if what == "well_known":
        return _WELL_KNOWN.get(kind.well_known, "")
    if what == "list":
        element = type_text(kind.list.element)
        return f"list({element})" if element else ""
    if what == "map":
        key, value = type_text(kind.map.key), type_text(kind.map.value)
        return f"map({key}, {value})" if key and value else ""
    return str(kind.message) if what == "message" else ""
