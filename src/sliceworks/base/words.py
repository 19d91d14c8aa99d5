"""Pieces of sentences: numbers with their nouns, and names that may have been meant."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def counted(number: int, one: str, many: str = "") -> str:
    """`1 job`, `2 jobs`; `many` is for words whose plural is another."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def closest(name: str, known: Iterable[str], *, cutoff: float = 0.6) -> str:
    """`did you mean …?` for the most similar known name, or nothing. Large letters and small ones are alike."""
    from difflib import get_close_matches

    lowered = {each.lower(): each for each in known}
    found = get_close_matches(name.lower(), lowered, n=1, cutoff=cutoff)
    return f"did you mean {lowered[found[0]]}?" if found else ""
