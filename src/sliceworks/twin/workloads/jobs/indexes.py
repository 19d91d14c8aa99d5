"""Sets of completion indexes in the form a Job's status has them: `1,3-5,7`. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

Spans = tuple[tuple[int, int], ...]
"""Ordered spans of indexes, first and last included, that neither touch nor overlap."""


def parse(text: str, completions: int) -> Spans:
    """The indexes below `completions` that a text names; parts that cannot be read are left out."""
    found: list[tuple[int, int]] = []
    for part in text.split(",") if text else ():
        first_text, dash, last_text = part.partition("-")
        if not first_text.isdigit() or (dash and not last_text.isdigit()):
            continue
        first = int(first_text)
        if first >= completions:
            break
        found.append((first, min(int(last_text), completions - 1) if dash else first))
    return union(found)


def show(spans: Spans) -> str:
    """The text that a status has."""
    parts = []
    for first, last in spans:
        joint = "" if first == last else f",{last}" if last == first + 1 else f"-{last}"
        parts.append(f"{first}{joint}")
    return ",".join(parts)


def of(indexes: Iterable[int]) -> Spans:
    """The spans that hold just these."""
    return union((index, index) for index in indexes)


def union(*many: Iterable[tuple[int, int]]) -> Spans:
    """The spans that hold everything in any of these."""
    found: list[tuple[int, int]] = []
    for first, last in sorted(span for spans in many for span in spans):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    return tuple(found)


def total(spans: Spans) -> int:
    """How many indexes there are."""
    return sum(last - first + 1 for first, last in spans)


def has(spans: Spans, index: int) -> bool:
    """Whether an index is among them."""
    return any(first <= index <= last for first, last in spans)


def common(one: Spans, other: Spans) -> int:
    """How many indexes are in both."""
    return sum(max(0, min(a[1], b[1]) - max(a[0], b[0]) + 1) for a in one for b in other)


def missing(spans: Spans, count: int, completions: int) -> list[int]:
    """The first `count` indexes below `completions` that are not among them."""
    found: list[int] = []
    candidate = 0
    for first, last in (*spans, (completions, completions)):
        stop = min(first, completions, candidate + count - len(found))
        found.extend(range(candidate, stop))
        candidate = max(candidate, last + 1)
        if len(found) >= count:
            break
    return found
