"""The layout of hosts, chips and links of a slice, and its SVG."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from html import escape
from itertools import product
from math import ceil
from typing import TYPE_CHECKING

from sliceworks.catalog import Slice
from sliceworks.console.views.hosts import HostState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from sliceworks.catalog import Accelerator
    from sliceworks.console.views.slice_view import SliceView

Point = tuple[float, float]
PITCH = 10.0
"""The distance between chips, in SVG units."""

_INSET = 0.9
_SIDE = 2  # a host has 2x2 or 2x4 chips
_DEPTH = (0.56, 0.30)  # x and y offset of one step along the first axis
_GAP = 9.0
_ASPECT = 2.2  # target aspect ratio
_LOOP = 7.0  # bulge of a wrap-around link


@dataclass(frozen=True, slots=True)
class HostOutline:
    """The outline of a host and the positions of its chips."""

    outline: tuple[Point, ...]
    chips: tuple[Point, ...]

    @property
    def middle(self) -> Point:
        return sum(x for x, _ in self.outline) / len(self.outline), sum(y for _, y in self.outline) / len(self.outline)


@dataclass(frozen=True, slots=True)
class SliceLayout:
    """The geometry of a slice. `links` join chips of a layer; `spines` join the corners of layers; `wraps` are quadratic
    curves: two ends and a control point."""

    hosts: tuple[HostOutline, ...]
    links: tuple[tuple[Point, Point], ...]
    spines: tuple[tuple[Point, Point], ...]
    wraps: tuple[tuple[Point, Point, Point], ...]
    left: float
    top: float
    width: float
    height: float


def slice_layout(shape: Accelerator | None, hosts: int, chips: int) -> SliceLayout:
    """The layout of a shape; machines that the catalog does not know are drawn in a row."""
    if isinstance(shape, Slice):
        return _flat(shape) if len(shape.axes) == 2 else _solid(shape)
    return _row(hosts, max(chips // max(hosts, 1), 1))


@lru_cache(maxsize=256)
def _flat(shape: Slice) -> SliceLayout:
    rows, columns = shape.axes
    high = min(rows, _SIDE)
    wide = shape.chips_per_host // high

    def at(row: int, column: int) -> Point:
        return ((column + 0.5) * PITCH, (row + 0.5) * PITCH)

    places = [
        HostOutline(
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
    """One curve per axis stands for all: a whole pod has 32."""
    (left, top), (right, bottom) = at(0, 0), at(rows - 1, columns - 1)
    yield at(0, 0), at(0, columns - 1), ((left + right) / 2, top - 2 * _LOOP)
    yield at(0, 0), at(rows - 1, 0), (left - 2 * _LOOP, (top + bottom) / 2)


@lru_cache(maxsize=256)
def _solid(shape: Slice) -> SliceLayout:
    depth, high, layers = shape.axes
    stack = _Layers(depth, high, layers).in_rows()
    side_a, side_b = min(depth, _SIDE), min(high, _SIDE)
    places = [
        HostOutline(
            stack.outline(a, b, c, side_a, side_b), tuple(stack.at(a + i, b + j, c) for i in range(side_a) for j in range(side_b))
        )
        for c in range(layers)
        for b in range(0, high, side_b)
        for a in range(0, depth, side_a)
    ]
    return _sized(places, list(stack.links()), list(stack.wraps()) if shape.torus else [], list(stack.spines()))


@dataclass(frozen=True, slots=True)
class _Layers:
    """The layers of a 3D topology, side by side in one or more rows."""

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

    def in_rows(self) -> _Layers:
        """Choose the number of layers per row that comes closest to the target aspect ratio."""

        def off(count: int) -> float:
            return abs(count * self.step / (ceil(self.layers / count) * self.tall) - _ASPECT)

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
        """Links between the corners of layers; others would hide the chips."""
        for c in range(self.layers - 1):
            if (c + 1) % self.columns:
                for a, b in dict.fromkeys(product((0, self.depth - 1), (0, self.high - 1))):
                    yield self.at(a, b, c), self.at(a, b, c + 1)

    def wraps(self) -> Iterator[tuple[Point, Point, Point]]:
        """One curve per axis at the first layer; the third joins the last layer to the first."""
        low, high = self.at(0, 0, 0), self.at(0, self.high - 1, 0)
        yield low, high, (low[0] - 2 * _LOOP, (low[1] + high[1]) / 2)
        near, far = self.at(0, 0, 0), self.at(self.depth - 1, 0, 0)
        yield near, far, ((near[0] + far[0]) / 2 + _LOOP, (near[1] + far[1]) / 2 + 2 * _LOOP)
        first, last = self.at(self.depth - 1, self.high - 1, 0), self.at(self.depth - 1, self.high - 1, self.columns - 1)
        if self.columns == self.layers:
            yield first, last, ((first[0] + last[0]) / 2, first[1] - 3 * _LOOP)


@lru_cache(maxsize=256)
def _row(hosts: int, chips: int) -> SliceLayout:
    """Machines side by side, each with its chips in two rows."""
    high = min(chips, _SIDE)
    wide = ceil(chips / high)
    columns = max(1, min(hosts, round((max(hosts, 1) * _ASPECT * high / wide) ** 0.5)))
    places = []
    for number in range(hosts):
        left, top = (number % columns) * (wide * PITCH + 3), (number // columns) * (high * PITCH + 3)
        spots = [(left + (index % wide + 0.5) * PITCH, top + (index // wide + 0.5) * PITCH) for index in range(chips)]
        places.append(HostOutline(_rectangle(left, top, wide * PITCH, high * PITCH), tuple(spots)))
    return _sized(places, [], [])


def _rectangle(x: float, y: float, wide: float, high: float) -> tuple[Point, ...]:
    left, top, right, bottom = x + _INSET, y + _INSET, x + wide - _INSET, y + high - _INSET
    return (left, top), (right, top), (right, bottom), (left, bottom)


def _sized(
    places: list[HostOutline],
    links: list[tuple[Point, Point]],
    wraps: list[tuple[Point, Point, Point]],
    spines: Sequence[tuple[Point, Point]] = (),
) -> SliceLayout:
    points = [point for place in places for point in place.outline]
    # A quadratic curve reaches half of the way to its control point.
    points += [((start[0] + end[0]) / 4 + to[0] / 2, (start[1] + end[1]) / 4 + to[1] / 2) for start, end, to in wraps]
    xs, ys = [x for x, _ in points] or [0.0], [y for _, y in points] or [0.0]
    left, top = min(xs) - 1, min(ys) - 1
    wide, high = max(xs) + 1 - left, max(ys) + 1 - top
    return SliceLayout(tuple(places), tuple(links), tuple(spines), tuple(wraps), left, top, wide, high)


_MOST_CHIPS = 600
"""Larger slices are drawn without chips."""

_MOST_DOTS = 64
"""Tiles of larger slices are drawn without chips."""

_SIGN = 4.4  # the size of a state icon
_LARGEST, _TILE = 4.6, 2.0  # maximum pixels per SVG unit, so that small slices stay small

_SIGNS = {
    HostState.FAILED: "M-1 -1L1 1M-1 1L1 -1",
    HostState.PREEMPTED: "M0.2 -1.1L-0.7 0.2H0.7L-0.2 1.1",
    HostState.MAINTENANCE: "M-1 0H1M0 -1V1",
    HostState.MISSING: "M-0.9 0H0.9",
    HostState.DRAINING: "M0 -1V0.8M-0.8 0L0 0.9L0.8 0",
    HostState.BOOTING: "M0 -0.9A0.9 0.9 0 1 1 -0.9 0",
    HostState.RUNNING: "M-0.6 -0.9L0.9 0L-0.6 0.9Z",
    HostState.READY: "M-0.9 0.1L-0.2 0.8L0.9 -0.7",
}
"""The strokes of each icon, in a square from -1 to 1."""

_PATTERNS = {
    HostState.FAILED: "M0 0L6 6M6 0L0 6",
    HostState.PREEMPTED: "M0 3H6",
    HostState.MAINTENANCE: "M3 0V6",
    HostState.DRAINING: "M-1 7L7 -1M-1 1L1 -1M5 7L7 5",
    HostState.BOOTING: "M1.5 1.5h.01M4.5 4.5h.01",
}
"""The fill pattern of each state, in a 6x6 square."""


def pattern_defs() -> str:
    """An invisible SVG with the patterns that all drawings of a page refer to."""
    patterns = "".join(
        f'<pattern id="sw-{state}" width="6" height="6" patternUnits="userSpaceOnUse">'
        f'<rect width="6" height="6" class="sw-ground-{state}"/><path d="{path}" class="sw-over-{state}"/></pattern>'
        for state, path in _PATTERNS.items()
    )
    return f'<svg width="0" height="0" aria-hidden="true" class="sw-patterns"><defs>{patterns}</defs></svg>'


def tile_svg(view: SliceView) -> str:
    """The slice as a small SVG, with one path per host state."""
    return _tile(_plan(view), tuple(host.state for host in view.hosts))


@lru_cache(maxsize=4096)
def _tile(plan: SliceLayout, states: tuple[HostState, ...]) -> str:
    by_state: dict[HostState, list[str]] = {}
    for place, state in zip(plan.hosts, states, strict=False):
        by_state.setdefault(state, []).append(_outline(place))
    paths = "".join(f'<path class="sw-host sw-is-{state}" d="{"".join(outlines)}"/>' for state, outlines in by_state.items())
    size = f'viewBox="{_box(plan)}" style="max-width:{plan.width * _TILE:.0f}px"'
    return f'<svg class="sw-tile" {size} aria-hidden="true">{_lines(plan.spines, "sw-links")}{paths}{_dots(plan)}</svg>'


def _dots(plan: SliceLayout) -> str:
    """All chips of a tile as one path: zero-length strokes with round ends."""
    chips = [chip for place in plan.hosts for chip in place.chips]
    return f'<path class="sw-dots" d="{"".join(f"M{x:.1f} {y:.1f}h0" for x, y in chips)}"/>' if len(chips) <= _MOST_DOTS else ""


def detail_svg(view: SliceView) -> str:
    """The slice with its hosts, chips and links. Each host has keyboard focus and a label with its state."""
    plan = _plan(view)
    many = sum(len(place.chips) for place in plan.hosts) > _MOST_CHIPS
    size = f'viewBox="{_box(plan, 4)}" style="max-width:{(plan.width + 8) * _LARGEST:.0f}px"'
    parts = [
        f'<svg class="sw-large" {size} role="group" aria-label="{escape(view.summary)}">',
        *(
            _host(place, host.summary, host.state, host.number, many=many)
            for place, host in zip(plan.hosts, view.hosts, strict=False)
        ),
        "" if many else _lines(plan.links, "sw-links"),
        _lines(plan.spines, "sw-links sw-spines"),
        _wraps(plan),
        "</svg>",
    ]
    return "".join(parts)


def state_icon(state: HostState) -> str:
    """The icon of a state for legends and tables."""
    frame = f'<rect x="0.75" y="0.75" width="12.5" height="12.5" rx="3" class="sw-host sw-is-{state}"/>'
    return f'<svg class="sw-sign" viewBox="0 0 14 14" aria-hidden="true">{frame}{_sign(state, (7, 7), 3.4)}</svg>'


def _host(place: HostOutline, label: str, state: HostState, number: int, *, many: bool) -> str:
    chips = "" if many else "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="1.15"/>' for x, y in place.chips)
    middle = place.middle
    return (
        f'<g class="sw-pick" tabindex="0" role="button" data-act="host:{number}" aria-label="{escape(label)}">'
        f"<title>{escape(label)}</title>"
        f'<path class="sw-host sw-is-{state}" d="{_outline(place)}"/><g class="sw-chips">{chips}</g>'
        f"{_sign(state, middle, _SIGN if not many else _SIGN * 0.8)}</g>"
    )


def _sign(state: HostState, middle: Point, size: float) -> str:
    scale = size / 2
    filled = " sw-filled" if state is HostState.RUNNING else ""
    return (
        f'<g transform="translate({middle[0]:.1f} {middle[1]:.1f})"><circle r="{size * 0.72:.2f}" class="sw-mark-ground"/>'
        f'<path transform="scale({scale:.2f})" d="{_SIGNS[state]}" class="sw-mark{filled} sw-mark-{state}"/></g>'
    )


def _lines(lines: Iterable[tuple[Point, Point]], cls: str) -> str:
    path = "".join(f"M{a:.1f} {b:.1f}L{c:.1f} {d:.1f}" for (a, b), (c, d) in lines)
    return f'<path class="{cls}" d="{path}"/>' if path else ""


def _wraps(plan: SliceLayout) -> str:
    path = "".join(f"M{a:.1f} {b:.1f}Q{x:.1f} {y:.1f} {c:.1f} {d:.1f}" for (a, b), (c, d), (x, y) in plan.wraps)
    return f'<path class="sw-wraps" d="{path}"/>' if path else ""


def _outline(place: HostOutline) -> str:
    (x, y), *rest = place.outline
    return f"M{x:.1f} {y:.1f}" + "".join(f"L{a:.1f} {b:.1f}" for a, b in rest) + "Z"


def _box(plan: SliceLayout, margin: float = 0) -> str:
    return f"{plan.left - margin:.1f} {plan.top - margin:.1f} {plan.width + 2 * margin:.1f} {plan.height + 2 * margin:.1f}"


def _plan(view: SliceView) -> SliceLayout:
    return slice_layout(view.shape, len(view.hosts), view.chips)


def legend_states(views: Sequence[SliceView]) -> list[HostState]:
    """The states present in the slices, in order."""
    present = {host.state for view in views for host in view.hosts}
    return [state for state in HostState if state in present]
