"""Topologies: how the chips of a slice are laid out, by rule.

Two dimensions: a square whose side is a power of two, or two such squares side by side; only 1x2 is missing. Three dimensions:
four small boxes, then boxes of 4x4x4 cubes. Of several boxes with as many cubes the most compact, with the least sum of its sides,
is the one that a bare type name means.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING

from sliceworks.base.errors import WrongShape

if TYPE_CHECKING:
    from collections.abc import Iterator

Axes = tuple[int, ...]

CUBE = 4
CHIPS_OF_CUBE = CUBE**3
LONGEST_AXIS = 256
SINGLE_CHIP: Axes = (1, 1, 1)
SMALL_BOXES: tuple[Axes, ...] = ((2, 2, 1), (2, 2, 2), (2, 2, 4), (2, 4, 4))


def parse(text: str) -> Axes:
    """The axes that `2x2x4` names."""
    parts = text.split("x")
    if not (
        2 <= len(parts) <= 3 and all(part.isascii() and part.isdigit() and part[0] != "0" and len(part) <= 4 for part in parts)
    ):
        raise WrongShape(f"{text!r} is no topology", hint="two or three whole numbers joined by x, such as 4x8 or 2x2x4")
    return tuple(int(part) for part in parts)


def render(axes: Axes) -> str:
    """The axes as text, such as `2x2x4`."""
    return "x".join(map(str, axes))


@lru_cache(maxsize=8)
def flat(most_chips: int) -> tuple[Axes, ...]:
    """Every two-dimensional topology of at most so many chips, small ones first."""
    found: list[Axes] = [(1, 1)]
    side = 2
    while side * side <= most_chips:
        found += [axes for axes in ((side, side), (side, 2 * side)) if prod(axes) <= most_chips]
        side *= 2
    return tuple(found)


@lru_cache(maxsize=1024)
def boxes(chips: int) -> tuple[Axes, ...]:
    """Every three-dimensional topology of so many chips with A ≤ B ≤ C (2x2x1 aside), the most compact first."""
    small = tuple(axes for axes in SMALL_BOXES if prod(axes) == chips)
    if small or chips % CHIPS_OF_CUBE or chips <= 0:
        return small
    found = [(CUBE * a, CUBE * b, CUBE * c) for a, b, c in _factorings(chips // CHIPS_OF_CUBE) if CUBE * c <= LONGEST_AXIS]
    return tuple(sorted(found, key=lambda axes: (sum(axes), axes)))


def _factorings(number: int) -> Iterator[tuple[int, int, int]]:
    """Every a ≤ b ≤ c whose product is the number."""
    for a in range(1, round(number ** (1 / 3)) + 1):
        if number % a:
            continue
        rest = number // a
        for b in range(a, int(rest**0.5) + 1):
            if rest % b == 0:
                yield a, b, rest // b
