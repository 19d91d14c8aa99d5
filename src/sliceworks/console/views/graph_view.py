"""ResourceGraphDefinitions and instances with their state, and the SVG of a graph."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from sliceworks.graph import diagram, layout

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sliceworks.graph.diagram import Box
    from sliceworks.graph.layout import Layout, Position

Object = dict[str, Any]
_ICON_WIDTH = 26.0  # for the state icon, left of the label
_MARGIN = 10.0
_PREFIXES = ("resource reconciliation failed: ", "awaiting resource readiness: ", "waiting for unresolved resource: ")
_MIN_SCALE = 0.7  # smaller graphs scroll instead of shrinking
_ARROW = (
    '<defs><marker id="sw-arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    '<path d="M0.5 0.8 L7 4 L0.5 7.2 Z" class="sw-arrow"/></marker></defs>'
)
_SIGNS = {
    diagram.READY: "M-4 0.5L-1 3.5L4 -3",
    diagram.PENDING: "M0 -4A4 4 0 1 1 -4 0",
    diagram.FAILED: "M-3.4 -3.4L3.4 3.4M-3.4 3.4L3.4 -3.4",
    diagram.MISSING: "M-3.6 0H3.6",
    diagram.EXCLUDED: "M-3.4 3.4L3.4 -3.4",
}
TONES = {"Active": "good", "ACTIVE": "good", "Inactive": "bad", "ERROR": "bad", "IN_PROGRESS": "wait", "DELETING": "wait"}
"""The color of each state in kro's status."""


@dataclass(frozen=True, slots=True)
class Definition:
    """A ResourceGraphDefinition: the kind that it defines, its state and its problem, if any."""

    name: str
    kind: str
    group: str
    version: str
    state: str
    problem: str
    resources: int
    created: str

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}"

    @property
    def tone(self) -> str:
        return TONES.get(self.state, "idle")


@dataclass(frozen=True, slots=True)
class Instance:
    """An instance of a definition. `why` is what it is waiting for, empty when ready."""

    name: str
    namespace: str
    state: str
    why: str
    created: str

    @property
    def tone(self) -> str:
        return TONES.get(self.state, "wait")

    @property
    def word(self) -> str:
        return self.state.lower().replace("_", " ")


def definition(obj: Object) -> Definition:
    """The view of a ResourceGraphDefinition."""
    spec = obj.get("spec") or {}
    schema, status = spec.get("schema") or {}, obj.get("status") or {}
    state = str(status.get("state") or "not reconciled yet")
    return Definition(
        name=obj["metadata"]["name"],
        kind=str(schema.get("kind") or ""),
        group=str(schema.get("group") or "kro.run"),
        version=str(schema.get("apiVersion") or "v1alpha1"),
        state=state,
        problem=_problem(status),
        resources=len(spec.get("resources") or ()),
        created=obj["metadata"].get("creationTimestamp", ""),
    )


def instance(obj: Object) -> Instance:
    """The view of an instance."""
    metadata, status = obj["metadata"], obj.get("status") or {}
    state = "DELETING" if metadata.get("deletionTimestamp") else str(status.get("state") or "not reconciled yet")
    return Instance(metadata["name"], metadata.get("namespace", ""), state, _problem(status), metadata.get("creationTimestamp", ""))


def definitions(objects: Iterable[Object]) -> list[Definition]:
    """All definitions, those with a problem first."""
    return sorted(map(definition, objects), key=lambda view: (view.state in ("Active", "ACTIVE"), view.name))


def instances(objects: Iterable[Object]) -> list[Instance]:
    """All instances, those that are not ready first."""
    return sorted(map(instance, objects), key=lambda view: (view.state == "ACTIVE", view.namespace, view.name))


def _problem(status: Object) -> str:
    """The message of the false condition that changed last: that is the blocking one."""
    conditions = [
        condition for condition in status.get("conditions") or () if condition.get("status") != "True" and condition.get("message")
    ]
    own = [item for item in conditions if item.get("type") != "Ready"] or conditions
    latest = sorted(own, key=lambda condition: str(condition.get("lastTransitionTime") or ""))
    return _strip_prefix(str(latest[-1]["message"])) if latest else ""


def _strip_prefix(message: str) -> str:
    """The message without kro's generic prefixes."""
    for prefix in _PREFIXES:
        message = message.removeprefix(prefix)
    return message


def graph_svg(drawn: Sequence[Box], title: str) -> str:
    """The SVG of a graph. Each resource has keyboard focus and a label with its state."""
    blocks = [layout.Block(box.id, box.rank, box.width + (_ICON_WIDTH if box.state else 0), box.dependencies) for box in drawn]
    placed = layout.place(blocks)
    wide, high = placed.width + 2 * _MARGIN + 4, placed.height + 2 * _MARGIN + 4
    label = escape(f"Graph of {title}: {len(drawn)} resources")
    size = f'viewBox="{-_MARGIN:g} {-_MARGIN:g} {wide:.0f} {high:.0f}"'
    widths = f"min-width:{wide * _MIN_SCALE:.0f}px;max-width:{wide:.0f}px"
    parts = [
        f'<svg class="sw-dag" {size} style="{widths}" role="group" aria-label="{label}">{_ARROW}',
        *_edges(placed),
        *(_box(box, placed.positions[box.id]) for box in drawn),
        "</svg>",
    ]
    return "".join(parts)


def _edges(placed: Layout) -> list[str]:
    return [
        f'<path class="sw-edge" d="{diagram.path_data(points)}" marker-end="url(#sw-arrow)"/>' for points in placed.edges.values()
    ]


def _box(box: Box, spot: Position) -> str:
    left, top = spot.x, spot.y - spot.height / 2
    label = f"{box.id}, {box.subtitle}" + (f": {box.state}" if box.state else "")
    frame = f'width="{spot.width:.1f}" height="{spot.height:.1f}" rx="9"'
    behind = f'<rect class="sw-box" x="{left + 4:.1f}" y="{top + 4:.1f}" {frame}/>' if box.type.is_list else ""
    outside = " sw-external" if box.type.is_external else ""
    words = left + spot.width / 2 + (_ICON_WIDTH / 2 if box.state else 0)
    return (
        f'<g class="sw-node sw-node-{box.state.replace(" ", "-") or "plain"}{outside}" tabindex="0" role="button" '
        f'data-act="node:{escape(box.id)}" aria-label="{escape(label)}"><title>{escape(label)}</title>{behind}'
        f'<rect class="sw-box" x="{left:.1f}" y="{top:.1f}" {frame}/>{_mark(box.state, left + 20, spot.y)}'
        f'<text x="{words:.1f}" y="{top + 20:.1f}" class="sw-id">{escape(box.id)}</text>'
        f'<text x="{words:.1f}" y="{top + 36:.1f}" class="sw-kind">{escape(box.subtitle)}</text></g>'
    )


def state_icon(state: str) -> str:
    """The icon of a state for a legend."""
    cls = f"sw-sign sw-node-{state.replace(' ', '-')}"
    return f'<svg class="{cls}" viewBox="-10 -10 20 20" aria-hidden="true">{_mark(state, 0, 0)}</svg>'


def _mark(state: str, x: float, y: float) -> str:
    if not state:
        return ""
    return (
        f'<g transform="translate({x:.1f} {y:.1f})"><circle r="9" class="sw-dot"/><path d="{_SIGNS[state]}" class="sw-stroke"/></g>'
    )
