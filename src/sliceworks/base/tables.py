"""Plain tables for terminals and pipes: columns aligned by spaces, as kubectl prints them."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_GAP = "   "


def render(columns: Sequence[str], rows: Iterable[Sequence[object]], *, header: bool = True) -> str:
    """The table, each line ended with a newline; empty if there are neither rows nor a header."""
    cells = [[cell(value) for value in row] for row in rows]
    if header and columns:
        cells.insert(0, [name.upper() for name in columns])
    if not cells:
        return ""
    widths = [max(width(text) for text in column) for column in zip(*cells, strict=True)]
    return "".join(_line(row, widths) + "\n" for row in cells)


def cell(value: object) -> str:
    """A value on one line: `<none>` if it is empty; control characters are escaped."""
    if value is None or value == "":
        return "<none>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple | set | frozenset):
        return ",".join(cell(item) for item in value) or "<none>"
    return printable(str(value))


def printable(text: str) -> str:
    """A string whose control characters are escaped: a terminal would obey them, and show a line in another direction."""
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)


def width(text: str) -> int:
    """The number of terminal columns that a string takes."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(character) else 2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text
    )


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    padded = [text + " " * (size - width(text)) for text, size in zip(row, widths, strict=True)]
    return _GAP.join(padded).rstrip()
