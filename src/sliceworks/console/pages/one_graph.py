"""One graph, drawn: of a definition, or of an instance with the live state, the YAML and the events of each resource."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nicegui import ui

from sliceworks.base.errors import NotFound, SliceworksError
from sliceworks.console import knowing
from sliceworks.console.graph_looks import DEFINITIONS, Graphs, instances_of, shown
from sliceworks.console.nodes import button, drawing, el, empty, facts, heading, link, panel, state
from sliceworks.console.pages.graphs import instances
from sliceworks.console.registry import page_of
from sliceworks.console.tree import Tree
from sliceworks.console.views import graphs
from sliceworks.console.views.times import ago
from sliceworks.graph import pictures

if TYPE_CHECKING:
    from datetime import datetime

    from sliceworks.console.graph_looks import Looked
    from sliceworks.console.here import Here
    from sliceworks.console.nodes import Child, Node
    from sliceworks.graph.model import Graph

Object = dict[str, Any]
_LOOK_EVERY = 2.0  # seconds: the kinds of a graph are many, and are asked for one by one
_MOST_EVENTS = 12


@page_of("graph", title="Graph", path="/graphs/{name}", parent="graphs")
def graph_page(here: Here) -> None:
    """What a definition makes, and in which order."""
    _Drawn(here, here.arguments["name"]).draw()


@page_of("instance", title="Instance", path="/graphs/{name}/{namespace}/{instance}", parent="graphs")
def instance_page(here: Here) -> None:
    """How each resource of an instance stands."""
    namespace = here.arguments["namespace"]
    _Drawn(here, here.arguments["name"], here.arguments["instance"], "" if namespace == "-" else namespace).draw()


class _Drawn:
    """One browser's picture."""

    def __init__(self, here: Here, name: str, instance: str = "", namespace: str = "") -> None:
        self._here, self._name, self._instance, self._namespace = here, name, instance, namespace
        self._graphs = Graphs(here.world.client)
        self._graph: Graph | None = None
        self._problem = ""
        self._looked: Looked | None = None
        self._picked = ""
        self._events: dict[str, list[Object]] = {}

    def draw(self) -> None:
        """Now, and again when something is known or has changed."""
        self._tree = Tree(on_act=self._act)
        self._here.world.table(DEFINITIONS)
        self._tree.show(*self._nodes())
        ui.timer(_LOOK_EVERY, self._look)

    async def _look(self) -> None:
        known = self._here.world.table(DEFINITIONS)
        definition = known.get(self._name)
        try:
            none = known.trouble or "There is no such definition, or not any more."
            compiled = await self._graphs.of(definition) if definition else none
            self._graph, self._problem = (None, compiled) if isinstance(compiled, str) else (compiled, "")
            if self._graph and self._instance:
                self._looked = await self._graphs.look(self._graph, self._instance, self._namespace)
            await self._hear()
        except NotFound:
            self._looked, self._problem = None, "There is no such instance, or not any more."
        except SliceworksError as error:
            self._problem = knowing.said(error)
        self._tree.show(*self._nodes())

    async def _hear(self) -> None:
        """The events of what is picked."""
        objects = self._looked.objects.get(self._picked, []) if self._looked else []
        self._events = {each["metadata"].get("uid", ""): await self._graphs.events(each) for each in objects[:_MOST_EVENTS]}

    async def _act(self, pressed: str) -> None:
        what, _, name = pressed.partition(":")
        self._picked = name if what == "node" and name != self._picked else ""
        self._tree.show(*self._nodes())
        await self._look()

    def _nodes(self) -> list[Node]:
        crumb: list[Node] = [link("Graphs", "/graphs")]
        if self._instance:
            crumb += [" / ", link(self._name, f"/graphs/{self._name}")]
        found = graphs.instance(self._looked.instance) if self._looked else None
        beside = state(found.word, found.tone) if found else None
        head = heading(self._instance or self._name, beside, crumb=el("span", crumb))
        if self._graph is None:
            told = self._problem or "Reading it …"
            return [head, panel("Graph", empty(told, icon_name="account_tree"))]
        waits = found and found.why and found.tone != "good"
        why = panel("Why it is not ready", el("p", found.why, cls="answer"), key="why") if found and waits else None
        return [head, el("div", why, self._parts(self._graph, self._here.world.now()), cls="stack", key="parts")]

    def _parts(self, graph: Graph, now: datetime) -> list[Node]:
        states = self._looked.states if self._looked else None
        block = graph.definition.schema
        boxes = pictures.boxes(graph, states)
        picture = drawing(graphs.dag(boxes, self._instance or block.kind), cls="dag")
        gone = el("p", self._problem, cls="note") if self._problem else None
        parts = [
            panel(
                "Resources",
                gone,
                picture,
                _legend(states),
                note=f"{len(boxes)} · press one to see what it is",
                wide=True,
                key="dag",
            )
        ]
        if self._picked:
            parts.append(self._details(graph, now))
        elif not self._instance:
            parts.append(self._asked(now))
        return parts

    def _asked(self, now: datetime) -> Node:
        definition = self._here.world.table(DEFINITIONS).get(self._name)
        kind = instances_of(definition) if definition else None
        found = graphs.instances(self._here.world.table(kind).all()) if kind else []
        return panel("Instances", instances(found, self._name, now), key="instances")

    def _details(self, graph: Graph, now: datetime) -> Node:
        node = next((each for each in graph.nodes if each.id == self._picked), None)
        objects = self._looked.objects.get(self._picked, []) if self._looked else []
        if node is None:
            return el("div", key="details")
        stands = (self._looked.states if self._looked else {}).get(node.id, "")
        pairs: tuple[tuple[str, Child], ...] = (
            ("Kind", f"{node.kind.kind} of {node.kind.api_version}"),
            ("Needs", ", ".join(node.dependencies) or "nothing"),
            ("Ready when", ", ".join(each.written for each in node.ready_when)),
            ("Only when", ", ".join(each.written for each in node.include_when)),
        )
        made = [_object(each, self._events.get(each["metadata"].get("uid", ""), []), now) for each in objects[:_MOST_EVENTS]]
        if not made and self._instance:
            made = [el("p", "There is no object of it yet.", cls="note")]
        if not self._instance:
            made = [el("pre", shown_template(node.template), cls="log", tabindex="0")]
        close = button("Close", "node:", kind="quiet")
        return panel(node.id, facts(pairs), made, tools=[state(stands) if stands else None, close], wide=True, key="details")


def shown_template(template: Object) -> str:
    """A template as it is written."""
    from sliceworks.base import yamls

    return yamls.dump(template)


def _object(obj: Object, events: list[Object], now: datetime) -> Node:
    metadata = obj["metadata"]
    where = f" in {metadata['namespace']}" if metadata.get("namespace") else ""
    said = [_event(each, now) for each in events[:_MOST_EVENTS]]
    return el(
        "div",
        el("h3", f"{obj.get('kind', '')} {metadata['name']}{where}"),
        el("pre", shown(obj), cls="log", tabindex="0", aria_label="YAML"),
        el("h3", "Events"),
        el("ol", said, cls="line") if said else el("p", "None.", cls="note"),
        key=metadata.get("uid", metadata["name"]),
        cls="object",
    )


def _event(event: Object, now: datetime) -> Node:
    at = str(event.get("lastTimestamp") or event.get("eventTime") or "")
    said = el("div", str(event.get("message") or ""), cls="said")
    when = el("span", ago(at, now), " ago", cls="when")
    tone = "bad" if event.get("type") == "Warning" else ""
    return el("li", el("span", str(event.get("reason")), cls="what"), when, said, cls=tone, key=event["metadata"].get("uid", at))


def _legend(states: dict[str, str] | None) -> Node:
    if not states:
        return el("div")
    present = [each for each in pictures.STATES if each in states.values()]
    count = {each: sum(found == each for found in states.values()) for each in present}
    shown_states = [el("span", drawing(graphs.sign(each), cls="mark"), f"{count[each]} {each}") for each in present]
    return el("div", shown_states, cls="signs", role="status")
