"""Draws a graph as SVG or as a Mermaid flowchart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from sliceworks.graph import layout
from sliceworks.graph.model import NodeType

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sliceworks.graph.layout import Layout, Position
    from sliceworks.graph.model import Graph, Node

READY, PENDING, MISSING, FAILED, EXCLUDED = "ready", "pending", "missing", "failed", "excluded"
STATES = (READY, PENDING, FAILED, MISSING, EXCLUDED)
_PLAIN = ("#f5f7fb", "#5b6b8c", "#1c2536")
_COLORS = {
    READY: ("#e6f6ea", "#2f8f4e", "#14532d"),
    PENDING: ("#fff5da", "#c28a12", "#6b4a05"),
    FAILED: ("#fdeaea", "#c73b3b", "#7f1d1d"),
    MISSING: ("#f3f4f6", "#9aa1ad", "#4b5563"),
    EXCLUDED: ("#fafafa", "#cfd3da", "#8b929d"),
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
    """The box of a resource. `note` lists its special properties."""

    id: str
    kind: str
    rank: int
    dependencies: tuple[str, ...]
    type: NodeType
    note: str = ""
    state: str = ""

    @property
    def width(self) -> float:
        """The width of its labels."""
        return max(_NARROWEST, len(self.id) * _ID_LETTER + _PADDING, len(self.subtitle) * _KIND_LETTER + _PADDING)

    @property
    def subtitle(self) -> str:
        """The label below its id."""
        return f"{self.kind} · {self.note}" if self.note else self.kind


def boxes(graph: Graph, states: Mapping[str, str] | None = None) -> list[Box]:
    """The boxes of a graph; `states` has the state of each resource of an instance."""
    known = states or {}
    ranks: dict[str, int] = {}
    for node in graph.nodes:
        ranks[node.id] = 1 + max((ranks[name] for name in node.dependencies), default=0)
    return [
        Box(node.id, node.kind.kind, ranks[node.id], node.dependencies, node.type, _note(node), known.get(node.id, ""))
        for node in graph.nodes
    ]


def _note(node: Node) -> str:
    labels = {NodeType.COLLECTION: "collection", NodeType.EXTERNAL: "external", NodeType.EXTERNAL_COLLECTION: "external collection"}
    parts = [labels[node.type]] if node.type in labels else []
    if node.include_when:
        parts.append("optional")
    if node.lifecycle.on_delete != "delete":
        parts.append({"retain": "retained", "restore": "restored"}[node.lifecycle.on_delete])
    return ", ".join(parts)


def render_mermaid(boxes: Sequence[Box]) -> str:
    """A Mermaid flowchart."""
    shapes = {
        NodeType.RESOURCE: "[{}]",
        NodeType.COLLECTION: "[[{}]]",
        NodeType.EXTERNAL: "([{}])",
        NodeType.EXTERNAL_COLLECTION: "([{}])",
    }
    dependencies = layout.transitive_reduction(_blocks(boxes))
    lines = ["flowchart LR"]
    for box in boxes:
        text = f'"<b>{box.id}</b><br/>{box.subtitle}"'
        lines.append(f"  {box.id}{shapes.get(box.type, '([{}])').format(text)}" + (f":::{_class(box.state)}" if box.state else ""))
    lines += [f"  {target} --> {box.id}" for box in boxes for target in dependencies[box.id]]
    for state in STATES:
        if any(box.state == state for box in boxes):
            fill, stroke, text = _COLORS[state]
            lines.append(f"  classDef {_class(state)} fill:{fill},stroke:{stroke},color:{text}")
    return "\n".join(lines) + "\n"


def _class(state: str) -> str:
    return state.replace(" ", "-")


def _blocks(boxes: Sequence[Box]) -> list[layout.Block]:
    return [layout.Block(box.id, box.rank, box.width, box.dependencies) for box in boxes]


def render_svg(boxes: Sequence[Box], title: str, subtitle: str = "") -> str:
    """A standalone SVG image."""
    placed = layout.place(_blocks(boxes))
    states = [state for state in STATES if any(box.state == state for box in boxes)]
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
        *_edges(placed),
        *(_box(box, placed.positions[box.id]) for box in boxes),
        "</g>",
        *_legend(states, high - _MARGIN),
        "</svg>",
    ]
    return "\n".join(part for part in parts if part) + "\n"


def _edges(placed: Layout) -> list[str]:
    return [
        f'<path d="{path_data(points)}" fill="none" stroke="#aab2c0" stroke-width="1.4" marker-end="url(#end)"/>'
        for points in placed.edges.values()
    ]


def path_data(points: Sequence[tuple[float, float]]) -> str:
    """The SVG path of an edge through its points."""
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


def _box(box: Box, position: Position) -> str:
    fill, stroke, text = _COLORS.get(box.state, _PLAIN)
    left, top = position.x, position.y - position.height / 2
    dashed = ' stroke-dasharray="5 3"' if box.type.is_external or box.state == EXCLUDED else ""
    frame = f'width="{position.width:.1f}" height="{position.height:.1f}" rx="8" fill="{fill}" stroke="{stroke}" stroke-width="1.3"'
    behind = ""
    if box.type.is_list:
        behind = f'<rect x="{left + 4:.1f}" y="{top + 4:.1f}" {frame}{dashed}/>'
    middle = left + position.width / 2
    return (
        f"<g><title>{escape(f'{box.id}: {box.state}' if box.state else box.id)}</title>{behind}"
        f'<rect x="{left:.1f}" y="{top:.1f}" {frame}{dashed}/>'
        + _text((middle, top + 20), box.id, 13.5, text, weight="600", anchor="middle")
        + _text((middle, top + 36), box.subtitle, 11.5, stroke, anchor="middle")
        + "</g>"
    )


def _legend(states: Sequence[str], y: float) -> list[str]:
    elements, x = [], _MARGIN
    for state in states:
        fill, stroke, _ = _COLORS[state]
        elements.append(f'<rect x="{x:.1f}" y="{y - 9:.1f}" width="12" height="12" rx="3" fill="{fill}" stroke="{stroke}"/>')
        elements.append(_text((x + 18, y + 1), state, 11.5, "#5b6b8c"))
        x += 40 + len(state) * _KIND_LETTER
    return elements


def _text(at: tuple[float, float], text: str, size: float, color: str, *, weight: str = "400", anchor: str = "start") -> str:
    if not text:
        return ""
    x, y = at
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size:g}" fill="{color}" font-weight="{weight}" '
        f'text-anchor="{anchor}">{escape(text)}</text>'
    )
