"""Where the hosts and chips of a slice stand in a drawing, and which links join them. Pure, and the same for all slices of a shape.

A flat slice is a grid. A solid one is drawn as its layers along the third axis, like cards that stand behind one another a little
turned: a host's four chips lie in one layer, so every host is seen and none hides another.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from math import ceil
from typing import TYPE_CHECKING

from sliceworks.catalog import Slice

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sliceworks.catalog import Accelerator

Point = tuple[float, float]
PITCH = 10.0
"""From one chip to the next, in the drawing's own units."""
_INSET = 0.9
_SIDE = 2  # a host's chips lie two by two, or two by four
_DEPTH = (0.56, 0.30)  # how far one step along the first axis goes to the right, and up
_GAP = 9.0
_WIDER = 2.2  # a drawing should be about so much wider than high
_LOOP = 7.0  # how far a link that wraps around bulges out


@dataclass(frozen=True, slots=True)
class HostPlace:
    """The outline of a host, and where its chips are."""

    outline: tuple[Point, ...]
    chips: tuple[Point, ...]

    @property
    def middle(self) -> Point:
        return sum(x for x, _ in self.outline) / len(self.outline), sum(y for _, y in self.outline) / len(self.outline)


@dataclass(frozen=True, slots=True)
class Plan:
    """A drawing before anything is known of its hosts. `links` join chips of a layer; `spines` join layers, at their corners;
    `wraps` are curves: two ends, and the point they are drawn to."""

    hosts: tuple[HostPlace, ...]
    links: tuple[tuple[Point, Point], ...]
    spines: tuple[tuple[Point, Point], ...]
    wraps: tuple[tuple[Point, Point, Point], ...]
    left: float
    top: float
    width: float
    height: float


def plan(shape: Accelerator | None, hosts: int, chips: int) -> Plan:
    """The plan of a shape; machines that the catalogue does not know stand in a row."""
    if isinstance(shape, Slice):
        return _flat(shape) if len(shape.axes) == 2 else _solid(shape)
    return _row(hosts, max(chips // max(hosts, 1), 1))


@lru_cache(maxsize=256)
def _flat(shape: Slice) -> Plan:
    rows, columns = shape.axes
    high = min(rows, _SIDE)
    wide = shape.chips_per_host // high

    def at(row: int, column: int) -> Point:
        return ((column + 0.5) * PITCH, (row + 0.5) * PITCH)

    places = [
        HostPlace(
            _rectangle(column * PITCH, row * PITCH, wide * PITCH, high * PITCH),
            tuple(at(row + down, column + right) for down in range(high) for right in range(wide)),
        )
        for row in range(0, rows, high)
        for column in range(0, columns, wide)
    ]
    links = [(at(row, column), at(row, column + 1)) for row in range(rows) for column in range(columns - 1)]
    links += [(at(row, column), at(row + 1, column)) for row in range(rows - 1) for column in range(columns)]
    wraps = list(_flat_wraps(rows, columns, at)) if shape.torus else []
    return _sized(places, links, wraps)


def _flat_wraps(rows: int, columns: int, at: Callable[[int, int], Point]) -> Iterator[tuple[Point, Point, Point]]:
    """One curve for each direction stands for all: a whole pod has thirty-two."""
    (left, top), (right, bottom) = at(0, 0), at(rows - 1, columns - 1)
    yield at(0, 0), at(0, columns - 1), ((left + right) / 2, top - 2 * _LOOP)
    yield at(0, 0), at(rows - 1, 0), (left - 2 * _LOOP, (top + bottom) / 2)


@lru_cache(maxsize=256)
def _solid(shape: Slice) -> Plan:
    depth, high, layers = shape.axes
    cards = _Cards(depth, high, layers).in_rows()
    side_a, side_b = min(depth, _SIDE), min(high, _SIDE)
    places = [
        HostPlace(
            cards.outline(a, b, c, side_a, side_b), tuple(cards.at(a + i, b + j, c) for i in range(side_a) for j in range(side_b))
        )
        for c in range(layers)
        for b in range(0, high, side_b)
        for a in range(0, depth, side_a)
    ]
    return _sized(places, list(cards.links()), list(cards.wraps()) if shape.torus else [], list(cards.spines()))


@dataclass(frozen=True, slots=True)
class _Cards:
    """The layers of a box. A row of them that grows too long goes on below."""

    depth: int
    high: int
    layers: int
    columns: int = 0

    @property
    def step(self) -> float:
        return self.depth * PITCH * _DEPTH[0] + _GAP

    @property
    def tall(self) -> float:
        return (self.high + self.depth * _DEPTH[1]) * PITCH + _GAP

    def in_rows(self) -> _Cards:
        """With as many in a row as make the whole neither a ribbon nor a tower."""

        def off(count: int) -> float:
            return abs(count * self.step / (ceil(self.layers / count) * self.tall) - _WIDER)

        short = self.layers <= 2 * _SIDE**2
        return replace(self, columns=self.layers if short else min(range(1, self.layers + 1), key=off))

    def corner(self, a: float, b: float, c: int) -> Point:
        row, column = divmod(c, self.columns)
        x = column * self.step + a * PITCH * _DEPTH[0]
        return x, row * self.tall + (self.high - b + (self.depth - a) * _DEPTH[1]) * PITCH

    def at(self, a: int, b: int, c: int) -> Point:
        return self.corner(a + 0.5, b + 0.5, c)

    def outline(self, a: int, b: int, c: int, wide: int, high: int) -> tuple[Point, ...]:
        inset = _INSET / PITCH
        ends = (
            (a + inset, b + inset),
            (a + wide - inset, b + inset),
            (a + wide - inset, b + high - inset),
            (a + inset, b + high - inset),
        )
        return tuple(self.corner(x, y, c) for x, y in ends)

    def links(self) -> Iterator[tuple[Point, Point]]:
        """Within each layer."""
        for a, b, c in product(range(self.depth), range(self.high), range(self.layers)):
            if a + 1 < self.depth:
                yield self.at(a, b, c), self.at(a + 1, b, c)
            if b + 1 < self.high:
                yield self.at(a, b, c), self.at(a, b + 1, c)

    def spines(self) -> Iterator[tuple[Point, Point]]:
        """Between layers, at the corners: the others would hide what they join."""
        for c in range(self.layers - 1):
            if (c + 1) % self.columns:
                for a, b in dict.fromkeys(product((0, self.depth - 1), (0, self.high - 1))):
                    yield self.at(a, b, c), self.at(a, b, c + 1)

    def wraps(self) -> Iterator[tuple[Point, Point, Point]]:
        """One for each axis, drawn at the first layer; the third goes over the top from the last layer to the first."""
        low, high = self.at(0, 0, 0), self.at(0, self.high - 1, 0)
        yield low, high, (low[0] - 2 * _LOOP, (low[1] + high[1]) / 2)
        near, far = self.at(0, 0, 0), self.at(self.depth - 1, 0, 0)
        yield near, far, ((near[0] + far[0]) / 2 + _LOOP, (near[1] + far[1]) / 2 + 2 * _LOOP)
        first, last = self.at(self.depth - 1, self.high - 1, 0), self.at(self.depth - 1, self.high - 1, self.columns - 1)
        if self.columns == self.layers:
            yield first, last, ((first[0] + last[0]) / 2, first[1] - 3 * _LOOP)


@lru_cache(maxsize=256)
def _row(hosts: int, chips: int) -> Plan:
    """Machines side by side, each with its chips two by two."""
    high = min(chips, _SIDE)
    wide = ceil(chips / high)
    columns = max(1, min(hosts, round((max(hosts, 1) * _WIDER * high / wide) ** 0.5)))
    places = []
    for number in range(hosts):
        left, top = (number % columns) * (wide * PITCH + 3), (number // columns) * (high * PITCH + 3)
        spots = [(left + (index % wide + 0.5) * PITCH, top + (index // wide + 0.5) * PITCH) for index in range(chips)]
        places.append(HostPlace(_rectangle(left, top, wide * PITCH, high * PITCH), tuple(spots)))
    return _sized(places, [], [])


def _rectangle(x: float, y: float, wide: float, high: float) -> tuple[Point, ...]:
    left, top, right, bottom = x + _INSET, y + _INSET, x + wide - _INSET, y + high - _INSET
    return (left, top), (right, top), (right, bottom), (left, bottom)


def _sized(
    places: list[HostPlace],
    links: list[tuple[Point, Point]],
    wraps: list[tuple[Point, Point, Point]],
    spines: Sequence[tuple[Point, Point]] = (),
) -> Plan:
    points = [point for place in places for point in place.outline]
    # A curve stays within half of the way to the point that it is drawn to.
    points += [((start[0] + end[0]) / 4 + to[0] / 2, (start[1] + end[1]) / 4 + to[1] / 2) for start, end, to in wraps]
    xs, ys = [x for x, _ in points] or [0.0], [y for _, y in points] or [0.0]
    left, top = min(xs) - 1, min(ys) - 1
    wide, high = max(xs) + 1 - left, max(ys) + 1 - top
    return Plan(tuple(places), tuple(links), tuple(spines), tuple(wraps), left, top, wide, high)
