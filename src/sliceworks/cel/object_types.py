"""Types that mutations construct, `Object{…}`, `Object.spec{…}` and `JSONPatch{…}`: they have any field, and no schema.

The engine knows messages only, so the types that an expression names are declared as messages without dots in their names, and
their values become maps that hold the name of their type.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from sliceworks.cel import syntax
from sliceworks.cel.types import DYN, STRING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.cel.syntax import Tree
    from sliceworks.cel.types import CelType

OBJECT, JSON_PATCH = "Object", "JSONPatch"
TYPE = "@sliceworks.type"
"""The key of the type's name in a value. No expression can name a field like this."""
# A string that is not closed ends with the expression: scanning it again from each of its quotes would take quadratic time.
_STRUCTS = re.compile(
    r"""\"(?:\\[\s\S]|[^"\\])*+(?:\"|\\?\Z)|'(?:\\[\s\S]|[^'\\])*+(?:'|\\?\Z)|(?<![\w.])Object(?:\.[A-Za-z_]\w*+)++(?=\s*\{)"""
)
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")


class ObjectTypes:
    """The constructed types of one expression. `source` is the expression with their declared names; positions stay the same."""

    def __init__(self, expression: str) -> None:
        self.shown: dict[str, str] = {OBJECT: OBJECT, JSON_PATCH: JSON_PATCH}
        """The names of types by the names of their messages."""
        self.source = _STRUCTS.sub(self._declare, expression)
        self._fields = sorted(set(_IDENTIFIER.findall(expression)))

    def _declare(self, match: re.Match[str]) -> str:
        name = match[0]
        if name[0] in "\"'":
            return name
        self.shown[name.replace(".", "_")] = name
        return name.replace(".", "_")

    def messages(self) -> dict[str, dict[str, CelType]]:
        """The fields of each message."""
        fields = dict.fromkeys(self._fields, DYN)
        patch = {"op": STRING, "path": STRING, "from": STRING, "value": DYN}
        return {name: patch if name == JSON_PATCH else fields for name in self.shown}

    def show(self, text: str) -> str:
        """A message of the engine with the names of types."""
        for name in sorted(self.shown, key=len, reverse=True):
            text = text.replace(name, self.shown[name])
        return text

    def construct_maps(self, tree: Tree) -> None:
        """Replace constructed values by maps."""
        for node in syntax.walk(tree.checked.expr):
            if syntax.kind(node) == "struct" and node.struct.message in self.shown:
                shown = self.shown[node.struct.message]
                node.struct.ClearField("message")
                for entry in node.struct.entries:
                    key = entry.field
                    entry.ClearField("field")
                    tree.set_key(entry, key)
                marker = node.struct.entries.add()
                tree.set_key(marker, TYPE)
                tree.set_value(marker, shown)


def type_problems(value: Any, path: str) -> Iterator[str]:
    """Constructed values whose type is not that of the field they are in."""
    if isinstance(value, list):
        for item in value:
            yield from type_problems(item, path)
    elif isinstance(value, dict):
        name = value.get(TYPE)
        if name is not None and name != path:
            shown = "which matches field name path from root Object type"
            yield f'unexpected type name "{name}", expected "{path}", {shown}'
        for key, item in value.items():
            yield from type_problems(item, path if name is None else f"{path}.{key}")


def plain(value: Any) -> Any:
    """A value without the names of types."""
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items() if key != TYPE}
    return value
