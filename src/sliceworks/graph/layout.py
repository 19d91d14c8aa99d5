"""Lays out a diagram: columns from left to right, few crossings, no overlaps.

Each box is in the column of its rank. An edge that spans several columns gets a waypoint in each column between, so that it does
not cross boxes. The order within a column follows the order of the neighbors.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

HEIGHT, GAP, COLUMN_GAP = 46.0, 20.0, 64.0
_WAYPOINT_HEIGHT = 12.0  # the height of an edge's waypoint
_SWEEPS = 8


@dataclass(frozen=True, slots=True)
class Block:
    """A box to place. `rank` starts at 1; `dependencies` are the ids of its dependencies, which have lower ranks."""

    id: str
    rank: int
    width: float
    dependencies: tuple[str, ...]


@dataclass(slots=True)
class Position:
    """Left edge, vertical center and size."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Layout:
    """The positions of the boxes, the points of each edge, and the total size."""

    positions: dict[str, Position]
    edges: dict[tuple[str, str], list[tuple[float, float]]]
    width: float
    height: float


def transitive_reduction(blocks: Iterable[Block]) -> dict[str, tuple[str, ...]]:
    """The dependencies of each box, without those that another dependency implies."""
    dependencies = {block.id: block.dependencies for block in blocks}
    reach: dict[str, set[str]] = {}

    def reached(name: str) -> set[str]:
        if name not in reach:
            reach[name] = {far for target in dependencies[name] for far in (target, *reached(target))}
        return reach[name]

    return {
        name: tuple(target for target in near if not any(target in reached(other) for other in near if other != target))
        for name, near in dependencies.items()
    }


def place(blocks: Sequence[Block]) -> Layout:
    """Lay out all boxes."""
    dependencies = transitive_reduction(blocks)
    columns, links = _columns(blocks, dependencies)
    _order(columns, links)
    widths = {block.id: block.width for block in blocks}
    positions = _coordinates(columns, links, widths)
    edges = {(target, block.id): _edge(target, block, positions) for block in blocks for target in dependencies[block.id]}
    right = max((position.x + position.width for position in positions.values()), default=0.0)
    bottom = max((position.y + position.height / 2 for position in positions.values()), default=0.0)
    return Layout({block.id: positions[block.id] for block in blocks}, edges, right, bottom)


def _waypoint(target: str, far: str, rank: int) -> str:
    """The name of an edge's waypoint in a column between."""
    return f"{target}>{far}>{rank}"


def _columns(blocks: Sequence[Block], dependencies: dict[str, tuple[str, ...]]) -> tuple[list[list[str]], dict[str, list[str]]]:
    """Boxes and waypoints by column, and their links to the previous column."""
    ranks = {block.id: block.rank for block in blocks}
    columns: list[list[str]] = [[] for _ in range(max(ranks.values(), default=0))]
    links: dict[str, list[str]] = {}
    for block in blocks:
        columns[block.rank - 1].append(block.id)
        links.setdefault(block.id, [])
    for block in blocks:
        for target in dependencies[block.id]:
            before = target
            for rank in range(ranks[target] + 1, block.rank):
                name = _waypoint(target, block.id, rank)
                columns[rank - 1].append(name)
                links[name] = [before]
                before = name
            links[block.id].append(before)
    return columns, links


def _order(columns: list[list[str]], links: dict[str, list[str]]) -> None:
    """Sort each column by the positions of its neighbors, in alternating sweeps."""
    after = _reverse(links)
    for sweep in range(_SWEEPS):
        forward = sweep % 2 == 0
        for index in range(1, len(columns)) if forward else range(len(columns) - 2, -1, -1):
            neighbors = links if forward else after
            fixed = {name: float(number) for number, name in enumerate(columns[index - 1 if forward else index + 1])}
            current = {name: float(number) for number, name in enumerate(columns[index])}
            key = {name: _middle(neighbors.get(name, ()), fixed, current[name]) for name in columns[index]}
            columns[index].sort(key=key.__getitem__)


def _reverse(links: dict[str, list[str]]) -> dict[str, list[str]]:
    reverse: dict[str, list[str]] = {}
    for name, targets in links.items():
        for target in targets:
            reverse.setdefault(target, []).append(name)
    return reverse


def _middle(names: Iterable[str], position: dict[str, float], otherwise: float) -> float:
    positions = [position[name] for name in names if name in position]
    return sum(positions) / len(positions) if positions else otherwise


def _coordinates(columns: list[list[str]], links: dict[str, list[str]], widths: dict[str, float]) -> dict[str, Position]:
    positions: dict[str, Position] = {}
    left = 0.0
    for column in columns:
        width = max((widths.get(name, 0.0) for name in column), default=0.0)
        top = 0.0
        for name in column:
            height = HEIGHT if name in widths else _WAYPOINT_HEIGHT
            positions[name] = Position(left, top + height / 2, width, height)
            top += height + GAP
        left += width + COLUMN_GAP
    _align(columns, links, positions)
    lowest = min((position.y - position.height / 2 for position in positions.values()), default=0.0)
    for position in positions.values():
        position.y -= lowest
    return positions


def _align(columns: list[list[str]], links: dict[str, list[str]], positions: dict[str, Position]) -> None:
    """Move boxes towards the height of their neighbors, without overlaps."""
    after = _reverse(links)
    for sweep in range(_SWEEPS):
        for column in columns if sweep % 2 == 0 else reversed(columns):
            desired = {}
            for name in column:
                neighbors = [*links.get(name, ()), *after.get(name, ())]
                desired[name] = (
                    sum(positions[neighbor].y for neighbor in neighbors) / len(neighbors) if neighbors else positions[name].y
                )
            _spread(column, desired, positions)
    for column in columns:
        for above, name in pairwise(column):
            if not links.get(name) and not after.get(name):  # without edges: directly below the one above
                positions[name].y = positions[above].y + _extent([above], name, positions)


def _spread(column: list[str], desired: dict[str, float], positions: dict[str, Position]) -> None:
    """Set the heights of a column: in order, without overlaps, as close as possible to `desired`. Touching boxes move together."""
    groups: list[tuple[list[str], float]] = []  # names, and the height of the first
    for name in column:
        group, first = [name], desired[name]
        while groups and groups[-1][1] + _extent(groups[-1][0], group[0], positions) > first:
            before, _ = groups.pop()
            group = [*before, *group]
            first = sum(desired[member] - _extent(group[:index], member, positions) for index, member in enumerate(group)) / len(
                group
            )
        groups.append((group, first))
    for group, first in groups:
        for index, name in enumerate(group):
            positions[name].y = first + _extent(group[:index], name, positions)


def _extent(above: list[str], name: str, positions: dict[str, Position]) -> float:
    """The distance from the center of the first of `above` to the center of `name`."""
    total = 0.0
    for upper, lower in pairwise([*above, name]):
        total += positions[upper].height / 2 + GAP + positions[lower].height / 2
    return total


def _edge(target: str, block: Block, positions: dict[str, Position]) -> list[tuple[float, float]]:
    """The points from the right edge of one box to the left edge of another, through the waypoints."""
    start, end = positions[target], positions[block.id]
    points = [(start.x + start.width, start.y)]
    for name, position in positions.items():
        if name.startswith(f"{target}>{block.id}>"):
            points += [(position.x, position.y), (position.x + position.width, position.y)]
    return [*points, (end.x, end.y)]
