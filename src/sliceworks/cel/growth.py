"""How large the values of an expression may become: what could fill the memory is refused before it ever runs.

Kubernetes estimates what a rule may cost. This is coarser: it asks only how values grow out of one another, where a list of a
document counts as 2^7 items and a text as 2^6 letters. Sizes are powers of two.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log2
from typing import TYPE_CHECKING, Any

from sliceworks.cel import syntax

if TYPE_CHECKING:
    from collections.abc import Mapping

_TEXT, _ITEMS, _RANGE, _UNKNOWN = 6.0, 7.0, 13.0, 7.0
LARGEST = 24.0
_STRING_OR_BYTES = (5, 6)


@dataclass(frozen=True, slots=True)
class Size:
    """How many letters or items there are, and for items how large each of them is."""

    count: float = 0.0
    item: Size | None = None

    @property
    def total(self) -> float:
        return self.count + (self.item.total if self.item else 0.0)


_NOTHING = Size()


def grows_too_large(tree: syntax.Tree) -> bool:
    """Whether some value of the expression may become larger than is reasonable."""
    found = _Growth(tree)
    found.visit(tree.checked.expr, {})
    return found.largest > LARGEST


class _Growth:
    """One pass over a tree, noting the largest value on the way."""

    def __init__(self, tree: syntax.Tree) -> None:
        self._tree = tree
        self.largest = 0.0

    def visit(self, node: Any, scope: Mapping[str, Size]) -> Size:
        found = self._size(node, scope)
        self.largest = max(self.largest, found.total)
        return found

    def _size(self, node: Any, scope: Mapping[str, Size]) -> Size:
        what = syntax.kind(node)
        if what == "ident" and node.ident.name in scope:
            return scope[node.ident.name]
        if what == "const":
            return Size(log2(len(node.const.string or node.const.bytes) + 1))
        if what == "select":
            inside = self.visit(node.select.operand, scope).item
            return _larger(inside, self._by_type(node)) if inside else self._by_type(node)
        if what == "list":
            return _collection([self.visit(one, scope) for one in node.list.elements])
        if what == "struct":
            return _collection([self.visit(entry.value, scope) for entry in node.struct.entries])
        if what == "call":
            return self._call(node, scope)
        return self._loop(node.comprehension, scope) if what == "comprehension" else self._by_type(node)

    def _by_type(self, node: Any) -> Size:
        return _of_type(self._tree.types.get(node.id))

    def _call(self, node: Any, scope: Mapping[str, Size]) -> Size:
        call = node.call
        target = [call.target] if syntax.kind(call.target) else []
        parts = [self.visit(part, scope) for part in (*target, *call.args)]
        function, kind = call.function, self._by_type(node)
        if function == "_+_":
            kept = [part for part in parts if part is not _ACCUMULATED]
            return _sum(kept) if kind.total else _NOTHING
        if function in ("_[_]", "_[?_]"):
            return parts[0].item or kind
        if function == "lists.range":
            return Size(_RANGE)
        if function in ("replace", "join", "format"):
            return Size(
                sum(part.total for part in parts if part is not parts[1]) + (parts[-1].total if function == "format" else 0)
            )
        if function == "flatten" and parts[0].item:
            return Size(parts[0].count + parts[0].item.count, parts[0].item.item)
        return _largest([kind, *parts]) if kind.total else _NOTHING

    def _loop(self, loop: Any, scope: Mapping[str, Size]) -> Size:
        over = self.visit(loop.range, scope)
        item = over.item or Size(_UNKNOWN if over.count else 0)
        inner = {**scope, loop.variable: item, loop.second: item, loop.accumulator: _ACCUMULATED}
        self.visit(loop.condition, inner)
        step = self.visit(loop.step, inner)
        gathers = _of_type(self._tree.types.get(loop.step.id)).total > 0
        made = Size(over.count + step.count, step.item) if gathers else _NOTHING
        self.largest = max(self.largest, made.total)
        return self.visit(loop.result, {**scope, loop.accumulator: made})


_ACCUMULATED = Size(0.0, None)
"""What a loop has gathered so far: it counts once, with the number of rounds."""


def _of_type(kind: Any) -> Size:
    if kind is None:
        return _NOTHING
    if kind.HasField("primitive"):
        return Size(_TEXT) if kind.primitive in _STRING_OR_BYTES else _NOTHING
    if kind.HasField("list"):
        return Size(_ITEMS, _of_type(kind.list.element))
    if kind.HasField("map"):
        return Size(_ITEMS, _of_type(kind.map.value))
    if kind.HasField("abstract") and kind.abstract.parameters:
        return _of_type(kind.abstract.parameters[0])
    return Size(_UNKNOWN) if kind.HasField("dyn") else _NOTHING


def _collection(items: list[Size]) -> Size:
    return Size(log2(len(items) + 1) if len(items) > 1 else 0.0, _largest(items) if items else None)


def _larger(one: Size, other: Size) -> Size:
    return one if one.total >= other.total else other


def _largest(sizes: list[Size]) -> Size:
    return max(sizes, key=lambda size: size.total)


def _sum(parts: list[Size]) -> Size:
    if len(parts) < 2:
        return parts[0] if parts else _NOTHING
    item = _largest([part.item or _NOTHING for part in parts])
    return Size(max(part.count for part in parts) + 1, item if item.total else None)
