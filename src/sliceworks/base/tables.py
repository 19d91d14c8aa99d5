"""Plain tables for terminals and pipes: columns aligned by spaces, as kubectl prints them."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_GAP = "   "


def render(columns: Sequence[str], rows: Iterable[Sequence[object]], *, header: bool = True) -> str:
    """The table as text, each line ended; nothing at all when there is nothing to show."""
    texts = [[cell(value) for value in row] for row in rows]
    if header and columns:
        texts.insert(0, [name.upper() for name in columns])
    if not texts:
        return ""
    widths = [max(width(text) for text in column) for column in zip(*texts, strict=True)]
    return "".join(_line(row, widths) + "\n" for row in texts)


def cell(value: object) -> str:
    """One value in one line: what is missing is `<none>`, control characters are shown, not obeyed."""
    if value is None or value == "":
        return "<none>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple | set | frozenset):
        return ",".join(cell(item) for item in value) or "<none>"
    text = str(value)
    return text if text.isprintable() else "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)


def width(text: str) -> int:
    """The number of terminal cells a text takes."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(letter) else 2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    padded = [text + " " * (size - width(text)) for text, size in zip(row, widths, strict=True)]
    return _GAP.join(padded).rstrip()
