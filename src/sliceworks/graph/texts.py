"""Texts with `${…}` in them: where each expression begins and ends."""

from __future__ import annotations

from dataclasses import dataclass

OPENING = "${"
NESTED = "an expression inside an expression must stand in quotes"


class NestedExpression(ValueError):
    """`${…}` inside `${…}`, outside of a quoted text."""


@dataclass(frozen=True, slots=True)
class Inner:
    """An expression of a text, without its `${` and `}`."""

    text: str


def pieces(text: str) -> list[str | Inner]:
    """The text cut into plain pieces and expressions. What is never closed is plain."""
    found: list[str | Inner] = []
    start = searched = 0
    while (opening := text.find(OPENING, searched)) >= 0:
        end = _end(text, opening + len(OPENING))
        if end is None:
            searched = opening + 1
            continue
        if opening > start:
            found.append(text[start:opening])
        found.append(Inner(text[opening + len(OPENING) : end]))
        start = searched = end + 1
    if start < len(text):
        found.append(text[start:])
    return found


def lone(text: str) -> str | None:
    """The one expression that the whole text is, or None."""
    found = pieces(text)
    return found[0].text if len(found) == 1 and isinstance(found[0], Inner) else None


def has_expressions(text: str) -> bool:
    """Whether there is any expression."""
    return OPENING in text and any(isinstance(piece, Inner) for piece in pieces(text))


def _end(text: str, position: int) -> int | None:
    """The place of the brace that closes an expression: braces in quotes do not count."""
    depth, quote = 1, ""
    while position < len(text):
        letter = text[position]
        if quote:
            if letter == "\\":
                position += 1
            elif letter == quote:
                quote = ""
        elif letter in "\"'":
            quote = letter
        elif letter == "{":
            depth += 1
        elif letter == "}":
            depth -= 1
            if not depth:
                return position
        elif text.startswith(OPENING, position):
            raise NestedExpression(NESTED)
        position += 1
    return None
