"""Lists that are made from maps get an order: that of the keys.

The engine goes through a map in an order that changes from one time to the next. A list made in it would change too, and whoever
writes that list into an object would write for ever. So where an expression gathers a list, a map is gone through by its sorted
keys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.cel import syntax
from sliceworks.cel.libraries.functions import Function

if TYPE_CHECKING:
    from sliceworks.cel.syntax import Tree


def settle(tree: Tree) -> None:
    """Let every loop that gathers a list from something that may be a map go through it in order."""
    for node in syntax.walk(tree.checked.expr):
        if syntax.kind(node) == "comprehension" and _gathers(node.comprehension) and _may_be_map(node.comprehension, tree):
            _settle_loop(node, tree)


def _gathers(loop: Any) -> bool:
    return syntax.kind(loop.init) == "list"


def _may_be_map(loop: Any, tree: Tree) -> bool:
    kind = tree.types.get(loop.range.id)
    return kind is None or kind.HasField("map") or kind.HasField("dyn")


def _settle_loop(node: Any, tree: Tree) -> None:
    loop = node.comprehension
    if not loop.second:
        tree.wrap(loop.range, "@ordered", "@ordered")
        return
    # Key and value are the two items of an entry.
    entry = f"@entry{node.id}"
    names = {loop.variable: 0, loop.second: 1}
    tree.wrap(loop.range, "@entries", "@entries")
    loop.variable, loop.second = entry, ""
    for part in (loop.condition, loop.step):
        _replace(part, names, entry, tree)


def _replace(node: Any, names: dict[str, int], entry: str, tree: Tree) -> None:
    """Put an item of the entry in the place of each name."""
    what = syntax.kind(node)
    if what == "ident" and node.ident.name in names:
        position = names[node.ident.name]
        node.ident.name = entry
        tree.refer(node, entry)
        tree.wrap(node, "_[_]", "index_list")
        tree.add_number(node, position)
    elif what == "comprehension":
        loop = node.comprehension
        _replace(loop.range, names, entry, tree)
        _replace(loop.init, names, entry, tree)
        inner = {name: index for name, index in names.items() if name not in (loop.variable, loop.second, loop.accumulator)}
        for part in (loop.condition, loop.step, loop.result):
            _replace(part, inner, entry, tree)
    else:
        for child in syntax.children(node):
            _replace(child, names, entry, tree)


def ordered(items: Any) -> list[Any]:
    return sorted(items, key=_rank) if isinstance(items, dict) else items


def entries(items: Any) -> list[list[Any]]:
    pairs = ((key, items[key]) for key in ordered(items)) if isinstance(items, dict) else enumerate(items)
    return [[key, value] for key, value in pairs]


def _rank(key: Any) -> tuple[str, Any]:
    return type(key).__name__, key


RUN_ONLY = [
    Function(name, f"{name}({kind})", "list<dyn>", run)
    for name, run in (("@ordered", ordered), ("@entries", entries))
    for kind in ("map<dyn, dyn>", "list<dyn>")
]
