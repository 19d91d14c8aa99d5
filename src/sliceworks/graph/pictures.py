"""Draws a graph: as SVG, which needs nothing else, and as Mermaid, which many viewers of Markdown draw by themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from sliceworks.graph import layout
from sliceworks.graph.model import Role

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sliceworks.graph.layout import Layout, Spot
    from sliceworks.graph.model import Graph, Node

READY, WAITING, ABSENT, FAILED, LEFT_OUT = "ready", "waiting", "absent", "failed", "left out"
STATES = (READY, WAITING, FAILED, ABSENT, LEFT_OUT)
_PLAIN = ("#f5f7fb", "#5b6b8c", "#1c2536")
_COLOURS = {
    READY: ("#e6f6ea", "#2f8f4e", "#14532d"),
    WAITING: ("#fff5da", "#c28a12", "#6b4a05"),
    FAILED: ("#fdeaea", "#c73b3b", "#7f1d1d"),
    ABSENT: ("#f3f4f6", "#9aa1ad", "#4b5563"),
    LEFT_OUT: ("#fafafa", "#cfd3da", "#8b929d"),
}
_MARGIN, _HEAD, _FOOT = 28.0, 62.0, 34.0
_NARROWEST, _ID_LETTER, _KIND_LETTER, _PADDING = 132.0, 8.2, 6.6, 32.0
_FONT = "-apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', 'Liberation Sans', Arial, sans-serif"
_ARROW = (
    '<defs><marker id="end" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    '<path d="M0.5 0.8 L7 4 L0.5 7.2 Z" fill="#8a94a6"/></marker></defs>'
)


@dataclass(frozen=True, slots=True)
class Box:
    """A resource as it is drawn. `note` says what is special about it."""

    id: str
    kind: str
    rank: int
    needs: tuple[str, ...]
    role: Role
    note: str = ""
    state: str = ""

    @property
    def width(self) -> float:
        """Room for what is written in it."""
        return max(_NARROWEST, len(self.id) * _ID_LETTER + _PADDING, len(self.subtitle) * _KIND_LETTER + _PADDING)

    @property
    def subtitle(self) -> str:
        """The line under its id."""
        return f"{self.kind} · {self.note}" if self.note else self.kind


def boxes(graph: Graph, states: Mapping[str, str] | None = None) -> list[Box]:
    """What is drawn of a graph; `states` tells how each resource of an instance stands."""
    known = states or {}
    ranks: dict[str, int] = {}
    for node in graph.nodes:
        ranks[node.id] = 1 + max((ranks[name] for name in node.dependencies), default=0)
    return [
        Box(node.id, node.kind.kind, ranks[node.id], node.dependencies, node.role, _note(node), known.get(node.id, ""))
        for node in graph.nodes
    ]


def _note(node: Node) -> str:
    notes = {Role.COLLECTION: "one for each", Role.EXTERNAL: "external", Role.EXTERNAL_COLLECTION: "all that match"}
    found = [notes[node.role]] if node.role in notes else []
    if node.include_when:
        found.append("optional")
    if node.lifecycle.on_delete != "delete":
        found.append({"retain": "stays", "restore": "given back"}[node.lifecycle.on_delete])
    return ", ".join(found)


def mermaid(drawn: Sequence[Box]) -> str:
    """A flowchart in Mermaid's language."""
    shapes = {Role.RESOURCE: "[{}]", Role.COLLECTION: "[[{}]]", Role.EXTERNAL: "([{}])", Role.EXTERNAL_COLLECTION: "([{}])"}
    needs = layout.reduced(_blocks(drawn))
    lines = ["flowchart LR"]
    for box in drawn:
        text = f'"<b>{box.id}</b><br/>{box.subtitle}"'
        lines.append(f"  {box.id}{shapes[box.role].format(text)}" + (f":::{_class(box.state)}" if box.state else ""))
    lines += [f"  {near} --> {box.id}" for box in drawn for near in needs[box.id]]
    for state in STATES:
        if any(box.state == state for box in drawn):
            fill, stroke, text = _COLOURS[state]
            lines.append(f"  classDef {_class(state)} fill:{fill},stroke:{stroke},color:{text}")
    return "\n".join(lines) + "\n"


def _class(state: str) -> str:
    return state.replace(" ", "-")


def _blocks(drawn: Sequence[Box]) -> list[layout.Block]:
    return [layout.Block(box.id, box.rank, box.width, box.needs) for box in drawn]


def svg(drawn: Sequence[Box], title: str, subtitle: str = "") -> str:
    """A picture that stands on its own."""
    placed = layout.place(_blocks(drawn))
    states = [state for state in STATES if any(box.state == state for box in drawn)]
    foot = _FOOT if states else 0.0
    wide = max(placed.width, len(title) * 10.0, len(subtitle) * _KIND_LETTER, len(states) * 90.0) + 2 * _MARGIN
    high = placed.height + _HEAD + foot + 2 * _MARGIN - 8
    size = f'width="{wide:.0f}" height="{high:.0f}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {wide:.0f} {high:.0f}" role="img" font-family="{_FONT}">',
        f"<title>{escape(title)}</title>",
        _ARROW,
        f'<rect {size} rx="10" fill="#ffffff"/>',
        _text((_MARGIN, _MARGIN + 18), title, 19, "#1c2536", weight="600"),
        _text((_MARGIN, _MARGIN + 39), subtitle, 12.5, "#5b6b8c"),
        f'<g transform="translate({_MARGIN:.0f} {_HEAD + _MARGIN - 4:.0f})">',
        *_lines(placed),
        *(_box(box, placed.spots[box.id]) for box in drawn),
        "</g>",
        *_legend(states, high - _MARGIN),
        "</svg>",
    ]
    return "\n".join(part for part in parts if part) + "\n"


def _lines(placed: Layout) -> list[str]:
    return [
        f'<path d="{curve(points)}" fill="none" stroke="#aab2c0" stroke-width="1.4" marker-end="url(#end)"/>'
        for points in placed.lines.values()
    ]


def curve(points: Sequence[tuple[float, float]]) -> str:
    """The path of a line through its points."""
    (x, y), *rest = points
    path = [f"M{x:.1f} {y:.1f}"]
    for number, (to_x, to_y) in enumerate(rest):
        if number % 2 == 0:  # across the gap between two columns
            middle = (x + to_x) / 2
            path.append(f"C{middle:.1f} {y:.1f} {middle:.1f} {to_y:.1f} {to_x:.1f} {to_y:.1f}")
        else:  # straight through a column
            path.append(f"L{to_x:.1f} {to_y:.1f}")
        x, y = to_x, to_y
    return " ".join(path)


def _box(box: Box, spot: Spot) -> str:
    fill, stroke, text = _COLOURS.get(box.state, _PLAIN)
    left, top = spot.x, spot.y - spot.height / 2
    dashed = ' stroke-dasharray="5 3"' if box.role.is_external or box.state == LEFT_OUT else ""
    frame = f'width="{spot.width:.1f}" height="{spot.height:.1f}" rx="8" fill="{fill}" stroke="{stroke}" stroke-width="1.3"'
    behind = ""
    if box.role.is_list:
        behind = f'<rect x="{left + 4:.1f}" y="{top + 4:.1f}" {frame}{dashed}/>'
    middle = left + spot.width / 2
    return (
        f"<g><title>{escape(f'{box.id}: {box.state}' if box.state else box.id)}</title>{behind}"
        f'<rect x="{left:.1f}" y="{top:.1f}" {frame}{dashed}/>'
        + _text((middle, top + 20), box.id, 13.5, text, weight="600", anchor="middle")
        + _text((middle, top + 36), box.subtitle, 11.5, stroke, anchor="middle")
        + "</g>"
    )


def _legend(states: Sequence[str], y: float) -> list[str]:
    found, x = [], _MARGIN
    for state in states:
        fill, stroke, _ = _COLOURS[state]
        found.append(f'<rect x="{x:.1f}" y="{y - 9:.1f}" width="12" height="12" rx="3" fill="{fill}" stroke="{stroke}"/>')
        found.append(_text((x + 18, y + 1), state, 11.5, "#5b6b8c"))
        x += 40 + len(state) * _KIND_LETTER
    return found


def _text(at: tuple[float, float], text: str, size: float, colour: str, *, weight: str = "400", anchor: str = "start") -> str:
    if not text:
        return ""
    x, y = at
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size:g}" fill="{colour}" font-weight="{weight}" '
        f'text-anchor="{anchor}">{escape(text)}</text>'
    )
