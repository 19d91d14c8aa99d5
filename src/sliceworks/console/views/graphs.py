"""Self-service definitions and their instances: how each stands, why one is not ready, and the picture of its graph. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from sliceworks.graph import layout, pictures

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sliceworks.graph.layout import Layout, Spot
    from sliceworks.graph.pictures import Box

Object = dict[str, Any]
_ROOM = 26.0  # for the sign of a state, left of the words
_MARGIN = 10.0
_BEFORE = ("resource reconciliation failed: ", "awaiting resource readiness: ", "waiting for unresolved resource: ")
_SMALLEST = 0.7  # of its size, before one has to scroll
_ARROW = (
    '<defs><marker id="sw-arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    '<path d="M0.5 0.8 L7 4 L0.5 7.2 Z" class="sw-arrow"/></marker></defs>'
)
_SIGNS = {
    pictures.READY: "M-4 0.5L-1 3.5L4 -3",
    pictures.WAITING: "M0 -4A4 4 0 1 1 -4 0",
    pictures.FAILED: "M-3.4 -3.4L3.4 3.4M-3.4 3.4L3.4 -3.4",
    pictures.ABSENT: "M-3.6 0H3.6",
    pictures.LEFT_OUT: "M-3.4 3.4L3.4 -3.4",
}
TONES = {"Active": "good", "ACTIVE": "good", "Inactive": "bad", "ERROR": "bad", "IN_PROGRESS": "wait", "DELETING": "wait"}
"""By the state that kro's status gives: how the console colours it."""


@dataclass(frozen=True, slots=True)
class Definition:
    """A ResourceGraphDefinition: the kind that it gives to users, and what is wrong with it, if anything."""

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
    """What a user asked for. `why` says what it waits for; it is empty where all is ready."""

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
    """One definition of the cluster."""
    spec = obj.get("spec") or {}
    schema, status = spec.get("schema") or {}, obj.get("status") or {}
    state = str(status.get("state") or "not looked at yet")
    return Definition(
        name=obj["metadata"]["name"],
        kind=str(schema.get("kind") or ""),
        group=str(schema.get("group") or "kro.run"),
        version=str(schema.get("apiVersion") or "v1alpha1"),
        state=state,
        problem=_complaint(status),
        resources=len(spec.get("resources") or ()),
        created=obj["metadata"].get("creationTimestamp", ""),
    )


def instance(obj: Object) -> Instance:
    """One instance of the cluster."""
    metadata, status = obj["metadata"], obj.get("status") or {}
    state = "DELETING" if metadata.get("deletionTimestamp") else str(status.get("state") or "not looked at yet")
    return Instance(
        metadata["name"], metadata.get("namespace", ""), state, _complaint(status), metadata.get("creationTimestamp", "")
    )


def definitions(objects: Iterable[Object]) -> list[Definition]:
    """All, those with a problem first."""
    return sorted(map(definition, objects), key=lambda each: (each.state in ("Active", "ACTIVE"), each.name))


def instances(objects: Iterable[Object]) -> list[Instance]:
    """All, those that are not ready first."""
    return sorted(map(instance, objects), key=lambda each: (each.state == "ACTIVE", each.namespace, each.name))


def _complaint(status: Object) -> str:
    """What the worst condition says: of several that are not true, the last to change is the one that is stuck."""
    conditions = [each for each in status.get("conditions") or () if each.get("status") != "True" and each.get("message")]
    own = [each for each in conditions if each.get("type") != "Ready"] or conditions
    latest = sorted(own, key=lambda each: str(each.get("lastTransitionTime") or ""))
    return _bare(str(latest[-1]["message"])) if latest else ""


def _bare(message: str) -> str:
    """What is waited for, without the words before it that say that something is."""
    for words in _BEFORE:
        message = message.removeprefix(words)
    return message


def dag(drawn: Sequence[Box], title: str) -> str:
    """The picture of a graph. Each resource can be reached by the keyboard, and says how it stands in words."""
    blocks = [layout.Block(box.id, box.rank, box.width + (_ROOM if box.state else 0), box.needs) for box in drawn]
    placed = layout.place(blocks)
    wide, high = placed.width + 2 * _MARGIN + 4, placed.height + 2 * _MARGIN + 4
    label = escape(f"Graph of {title}: {len(drawn)} resources")
    size = f'viewBox="{-_MARGIN:g} {-_MARGIN:g} {wide:.0f} {high:.0f}"'
    widths = f"min-width:{wide * _SMALLEST:.0f}px;max-width:{wide:.0f}px"
    parts = [
        f'<svg class="sw-dag" {size} style="{widths}" role="group" aria-label="{label}">{_ARROW}',
        *_edges(placed),
        *(_box(box, placed.spots[box.id]) for box in drawn),
        "</svg>",
    ]
    return "".join(parts)


def _edges(placed: Layout) -> list[str]:
    return [f'<path class="sw-edge" d="{pictures.curve(points)}" marker-end="url(#sw-arrow)"/>' for points in placed.lines.values()]


def _box(box: Box, spot: Spot) -> str:
    left, top = spot.x, spot.y - spot.height / 2
    told = f"{box.id}, {box.subtitle}" + (f": {box.state}" if box.state else "")
    frame = f'width="{spot.width:.1f}" height="{spot.height:.1f}" rx="9"'
    behind = f'<rect class="sw-box" x="{left + 4:.1f}" y="{top + 4:.1f}" {frame}/>' if box.role.is_list else ""
    outside = " sw-external" if box.role.is_external else ""
    words = left + spot.width / 2 + (_ROOM / 2 if box.state else 0)
    return (
        f'<g class="sw-node sw-node-{box.state.replace(" ", "-") or "plain"}{outside}" tabindex="0" role="button" '
        f'data-act="node:{escape(box.id)}" aria-label="{escape(told)}"><title>{escape(told)}</title>{behind}'
        f'<rect class="sw-box" x="{left:.1f}" y="{top:.1f}" {frame}/>{_mark(box.state, left + 20, spot.y)}'
        f'<text x="{words:.1f}" y="{top + 20:.1f}" class="sw-id">{escape(box.id)}</text>'
        f'<text x="{words:.1f}" y="{top + 36:.1f}" class="sw-kind">{escape(box.subtitle)}</text></g>'
    )


def sign(state: str) -> str:
    """A state's mark for a legend."""
    cls = f"sw-sign sw-node-{state.replace(' ', '-')}"
    return f'<svg class="{cls}" viewBox="-10 -10 20 20" aria-hidden="true">{_mark(state, 0, 0)}</svg>'


def _mark(state: str, x: float, y: float) -> str:
    if not state:
        return ""
    return (
        f'<g transform="translate({x:.1f} {y:.1f})"><circle r="9" class="sw-dot"/><path d="{_SIGNS[state]}" class="sw-stroke"/></g>'
    )
