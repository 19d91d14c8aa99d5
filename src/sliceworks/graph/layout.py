"""Where the boxes of a diagram stand and how the lines between them run: columns from left to right, few crossings, no overlaps.

Boxes are put into the columns of their ranks. A line that spans several columns gets a place in each column between, so that it
runs between boxes and not through them. The order within a column follows that of its neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

HEIGHT, GAP, COLUMN_GAP = 46.0, 20.0, 64.0
_BEND = 12.0  # the height of the place that a passing line takes
_SWEEPS = 8


@dataclass(frozen=True, slots=True)
class Block:
    """A box to be placed: `rank` counts from 1, `needs` are the ids it depends on, all of smaller ranks."""

    id: str
    rank: int
    width: float
    needs: tuple[str, ...]


@dataclass(slots=True)
class Spot:
    """A place: its left edge, its middle from the top, and its size."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Layout:
    """The places of all boxes, the points each line goes through, and the size of the whole."""

    spots: dict[str, Spot]
    lines: dict[tuple[str, str], list[tuple[float, float]]]
    width: float
    height: float


def reduced(blocks: Iterable[Block]) -> dict[str, tuple[str, ...]]:
    """What each box needs, without what it needs anyway because something else that it needs does."""
    needs = {block.id: block.needs for block in blocks}
    reach: dict[str, set[str]] = {}

    def reached(name: str) -> set[str]:
        if name not in reach:
            reach[name] = {far for near in needs[name] for far in (near, *reached(near))}
        return reach[name]

    return {
        name: tuple(each for each in near if not any(each in reached(other) for other in near if other != each))
        for name, near in needs.items()
    }


def place(blocks: Sequence[Block]) -> Layout:
    """Place all boxes."""
    needs = reduced(blocks)
    columns, links = _columns(blocks, needs)
    _order(columns, links)
    widths = {block.id: block.width for block in blocks}
    spots = _coordinates(columns, links, widths)
    lines = {(near, block.id): _line(near, block, spots) for block in blocks for near in needs[block.id]}
    right = max((spot.x + spot.width for spot in spots.values()), default=0.0)
    bottom = max((spot.y + spot.height / 2 for spot in spots.values()), default=0.0)
    return Layout({block.id: spots[block.id] for block in blocks}, lines, right, bottom)


def _passing(near: str, far: str, rank: int) -> str:
    """The name of the place that a line takes in a column between."""
    return f"{near}>{far}>{rank}"


def _columns(blocks: Sequence[Block], needs: dict[str, tuple[str, ...]]) -> tuple[list[list[str]], dict[str, list[str]]]:
    """Boxes and passing lines by column, and what is linked to what in the column before."""
    ranks = {block.id: block.rank for block in blocks}
    columns: list[list[str]] = [[] for _ in range(max(ranks.values(), default=0))]
    links: dict[str, list[str]] = {}
    for block in blocks:
        columns[block.rank - 1].append(block.id)
        links.setdefault(block.id, [])
    for block in blocks:
        for near in needs[block.id]:
            before = near
            for rank in range(ranks[near] + 1, block.rank):
                name = _passing(near, block.id, rank)
                columns[rank - 1].append(name)
                links[name] = [before]
                before = name
            links[block.id].append(before)
    return columns, links


def _order(columns: list[list[str]], links: dict[str, list[str]]) -> None:
    """Bring each column into the order of its neighbours, to and fro."""
    after: dict[str, list[str]] = {}
    for name, near in links.items():
        for each in near:
            after.setdefault(each, []).append(name)
    for sweep in range(_SWEEPS):
        forward = sweep % 2 == 0
        for index in range(1, len(columns)) if forward else range(len(columns) - 2, -1, -1):
            beside = columns[index - 1 if forward else index + 1]
            position = {name: float(number) for number, name in enumerate(beside)}
            neighbours = links if forward else after
            own = {name: float(number) for number, name in enumerate(columns[index])}
            columns[index].sort(key=lambda name, own=own, near=neighbours, at=position: _middle(near.get(name, ()), at, own[name]))  # type: ignore[misc]


def _middle(names: Iterable[str], position: dict[str, float], otherwise: float) -> float:
    found = [position[name] for name in names if name in position]
    return sum(found) / len(found) if found else otherwise


def _coordinates(columns: list[list[str]], links: dict[str, list[str]], widths: dict[str, float]) -> dict[str, Spot]:
    spots: dict[str, Spot] = {}
    left = 0.0
    for column in columns:
        width = max((widths.get(name, 0.0) for name in column), default=0.0)
        top = 0.0
        for name in column:
            height = HEIGHT if name in widths else _BEND
            spots[name] = Spot(left, top + height / 2, width, height)
            top += height + GAP
        left += width + COLUMN_GAP
    _settle(columns, links, spots)
    lowest = min((spot.y - spot.height / 2 for spot in spots.values()), default=0.0)
    for spot in spots.values():
        spot.y -= lowest
    return spots


def _settle(columns: list[list[str]], links: dict[str, list[str]], spots: dict[str, Spot]) -> None:
    """Move boxes to the height of their neighbours, as far as those above and below let them."""
    after: dict[str, list[str]] = {}
    for name, near in links.items():
        for each in near:
            after.setdefault(each, []).append(name)
    for sweep in range(_SWEEPS):
        for column in columns if sweep % 2 == 0 else reversed(columns):
            wanted = {}
            for name in column:
                beside = [*links.get(name, ()), *after.get(name, ())]
                wanted[name] = sum(spots[each].y for each in beside) / len(beside) if beside else spots[name].y
            _spread(column, wanted, spots)
    for column in columns:
        for above, name in pairwise(column):
            if not links.get(name) and not after.get(name):  # nothing draws it anywhere: close up
                spots[name].y = spots[above].y + _extent([above], name, spots)


def _spread(column: list[str], wanted: dict[str, float], spots: dict[str, Spot]) -> None:
    """Places in their order, none over another, each as near as can be to where it wants to be; those that touch move as one."""
    groups: list[tuple[list[str], float]] = []  # names, and where the first of them is to be
    for name in column:
        group, first = [name], wanted[name]
        while groups and groups[-1][1] + _extent(groups[-1][0], group[0], spots) > first:
            before, _ = groups.pop()
            group = [*before, *group]
            first = sum(wanted[each] - _extent(group[:index], each, spots) for index, each in enumerate(group)) / len(group)
        groups.append((group, first))
    for group, first in groups:
        for index, name in enumerate(group):
            spots[name].y = first + _extent(group[:index], name, spots)


def _extent(above: list[str], name: str, spots: dict[str, Spot]) -> float:
    """How far below the middle of the first of some places the middle of the next one is."""
    total = 0.0
    for upper, lower in pairwise([*above, name]):
        total += spots[upper].height / 2 + GAP + spots[lower].height / 2
    return total


def _line(near: str, block: Block, spots: dict[str, Spot]) -> list[tuple[float, float]]:
    """From the right edge of one box to the left edge of another, through the places between."""
    start, end = spots[near], spots[block.id]
    points = [(start.x + start.width, start.y)]
    for name, spot in spots.items():
        if name.startswith(f"{near}>{block.id}>"):
            points += [(spot.x, spot.y), (spot.x + spot.width, spot.y)]
    return [*points, (end.x, end.y)]
