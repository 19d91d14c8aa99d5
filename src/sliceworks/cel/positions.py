"""Where in an expression's text a node stands, and an issue there as compilers show it."""

from __future__ import annotations

from typing import Any


class Positions:
    """The places of a tree's nodes in the text it was read from."""

    def __init__(self, checked: Any, text: str) -> None:
        self._offsets = {entry.key: entry.value for entry in checked.source.positions}
        self._text = text

    def issue(self, node: Any, message: str) -> tuple[int, str]:
        """The offset, to sort by, and the issue with the line it is in and a mark below."""
        offset = self._offsets.get(node.id, 0)
        before = self._text[:offset]
        line, column = before.count("\n") + 1, offset - (before.rfind("\n") + 1)
        shown = self._text.split("\n")[line - 1]
        return offset, f"ERROR: <input>:{line}:{column + 1}: {message}\n | {shown}\n | {'.' * column}^"
