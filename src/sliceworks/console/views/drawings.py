"""Slices as SVG: a small tile that stays light by the thousand, and a large drawing of which every host can be pointed at. Pure.

A host's state is told by its pattern and its sign, too, never by its colour alone. Colours come from the page's style sheet, so
that light and dark need no other drawing. The patterns are defined once on a page, by `patterns`.
"""

from __future__ import annotations

from functools import lru_cache
from html import escape
from typing import TYPE_CHECKING

from sliceworks.console.views import plans
from sliceworks.console.views.hosts import HostState

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sliceworks.console.views.plans import HostPlace, Plan, Point
    from sliceworks.console.views.slices import SliceView

_MOST_CHIPS = 600
"""Chips of a large drawing that are drawn one by one."""
_MOST_DOTS = 64
"""Chips of a tile that are drawn."""
_SIGN = 4.4  # the size of a host's sign
_LARGEST, _TILE = 4.6, 2.0  # pixels that a unit of a drawing takes at most: a slice of one host is no poster

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
"""Strokes in a square from -1 to 1."""

_PATTERNS = {
    HostState.FAILED: "M0 0L6 6M6 0L0 6",
    HostState.PREEMPTED: "M0 3H6",
    HostState.MAINTENANCE: "M3 0V6",
    HostState.DRAINING: "M-1 7L7 -1M-1 1L1 -1M5 7L7 5",
    HostState.BOOTING: "M1.5 1.5h.01M4.5 4.5h.01",
}
"""What a state is drawn over with, in a square of six."""


def patterns() -> str:
    """An invisible SVG with the patterns that all drawings of a page refer to."""
    made = "".join(
        f'<pattern id="sw-{state}" width="6" height="6" patternUnits="userSpaceOnUse">'
        f'<rect width="6" height="6" class="sw-ground-{state}"/><path d="{path}" class="sw-over-{state}"/></pattern>'
        for state, path in _PATTERNS.items()
    )
    return f'<svg width="0" height="0" aria-hidden="true" class="sw-patterns"><defs>{made}</defs></svg>'


def tile(view: SliceView) -> str:
    """The slice in miniature: one path for each state that hosts are in."""
    return _tile(_plan(view), tuple(host.state for host in view.hosts))


@lru_cache(maxsize=4096)
def _tile(plan: Plan, states: tuple[HostState, ...]) -> str:
    by_state: dict[HostState, list[str]] = {}
    for place, state in zip(plan.hosts, states, strict=False):
        by_state.setdefault(state, []).append(_outline(place))
    paths = "".join(f'<path class="sw-host sw-is-{state}" d="{"".join(outlines)}"/>' for state, outlines in by_state.items())
    size = f'viewBox="{_box(plan)}" style="max-width:{plan.width * _TILE:.0f}px"'
    return f'<svg class="sw-tile" {size} aria-hidden="true">{_lines(plan.spines, "sw-links")}{paths}{_dots(plan)}</svg>'


def _dots(plan: Plan) -> str:
    """All chips of a tile as one path: strokes of no length with round ends."""
    chips = [chip for place in plan.hosts for chip in place.chips]
    return f'<path class="sw-dots" d="{"".join(f"M{x:.1f} {y:.1f}h0" for x, y in chips)}"/>' if len(chips) <= _MOST_DOTS else ""


def large(view: SliceView) -> str:
    """The slice with its hosts, chips and links. Each host can be reached by the keyboard, and says how it stands."""
    plan = _plan(view)
    many = sum(len(place.chips) for place in plan.hosts) > _MOST_CHIPS
    size = f'viewBox="{_box(plan, 4)}" style="max-width:{(plan.width + 8) * _LARGEST:.0f}px"'
    parts = [
        f'<svg class="sw-large" {size} role="group" aria-label="{escape(view.summary)}">',
        *(_host(place, host.told, host.state, host.number, many=many) for place, host in zip(plan.hosts, view.hosts, strict=False)),
        "" if many else _lines(plan.links, "sw-links"),
        _lines(plan.spines, "sw-links sw-spines"),
        _wraps(plan),
        "</svg>",
    ]
    return "".join(parts)


def sign(state: HostState) -> str:
    """A state's mark for legends and tables: its pattern with its sign."""
    frame = f'<rect x="0.75" y="0.75" width="12.5" height="12.5" rx="3" class="sw-host sw-is-{state}"/>'
    return f'<svg class="sw-sign" viewBox="0 0 14 14" aria-hidden="true">{frame}{_sign(state, (7, 7), 3.4)}</svg>'


def _host(place: HostPlace, told: str, state: HostState, number: int, *, many: bool) -> str:
    chips = "" if many else "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="1.15"/>' for x, y in place.chips)
    middle = place.middle
    return (
        f'<g class="sw-pick" tabindex="0" role="button" data-act="host:{number}" aria-label="{escape(told)}">'
        f"<title>{escape(told)}</title>"
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


def _wraps(plan: Plan) -> str:
    path = "".join(f"M{a:.1f} {b:.1f}Q{x:.1f} {y:.1f} {c:.1f} {d:.1f}" for (a, b), (c, d), (x, y) in plan.wraps)
    return f'<path class="sw-wraps" d="{path}"/>' if path else ""


def _outline(place: HostPlace) -> str:
    (x, y), *rest = place.outline
    return f"M{x:.1f} {y:.1f}" + "".join(f"L{a:.1f} {b:.1f}" for a, b in rest) + "Z"


def _box(plan: Plan, margin: float = 0) -> str:
    return f"{plan.left - margin:.1f} {plan.top - margin:.1f} {plan.width + 2 * margin:.1f} {plan.height + 2 * margin:.1f}"


def _plan(view: SliceView) -> Plan:
    return plans.plan(view.shape, len(view.hosts), view.chips)


def states_shown(views: Sequence[SliceView]) -> list[HostState]:
    """The states that a legend must explain, in their order."""
    present = {host.state for view in views for host in view.hosts}
    return [state for state in HostState if state in present]
