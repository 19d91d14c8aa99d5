"""The graph pages: definitions and instances, and one graph with the live state of each resource."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nicegui import ui

from sliceworks.base.errors import NotFound, SliceworksError
from sliceworks.base.names import pluralize
from sliceworks.console import cluster_cache
from sliceworks.console.components import button, drawing, el, empty, facts, heading, link, panel, state, table, time_ago, warning
from sliceworks.console.graph_loader import DEFINITIONS, GraphLoader, instance_resource, redacted_yaml
from sliceworks.console.page import Tree, register_page
from sliceworks.console.views import graph_view
from sliceworks.graph import diagram

if TYPE_CHECKING:
    from datetime import datetime

    from sliceworks.console.cluster_cache import ClusterCache
    from sliceworks.console.components import Child, Node
    from sliceworks.console.graph_loader import LiveInstance
    from sliceworks.console.page import PageContext
    from sliceworks.console.views.graph_view import Definition, Instance
    from sliceworks.graph.model import Graph

_MAX_INSTANCES = 50


@register_page("graphs", title="Graphs", icon="account_tree", key="r")
def graphs_page(context: PageContext) -> None:
    """Definitions with their instances."""
    cache = context.cache

    def draw() -> list[Node]:
        known = cache.table(DEFINITIONS)
        if known.state == "missing":
            hint = [el("code", "sliceworks controller run graphs"), " runs it; ", "the Helm chart installs it."]
            return [heading("Graphs"), empty(known.problem, hint, icon_name="account_tree")]
        if not cache.knows(DEFINITIONS):
            return [heading("Graphs"), empty(known.problem, icon_name="account_tree")]
        definitions = graph_view.definitions(known.all())
        if not definitions:
            hint = ["Create one: ", el("code", "kubectl apply -f definition.yaml")]
            return [heading("Graphs"), empty("No ResourceGraphDefinitions found.", hint, icon_name="account_tree")]
        shown = el("div", [_definition(cache, item) for item in definitions], cls="stack", key="graphs")
        return [heading("Graphs"), *map(warning, cache.problems(DEFINITIONS)), shown]

    context.show(draw, DEFINITIONS, ages=1.0)


def _definition(cache: ClusterCache, definition: Definition) -> Node:
    obj = cache.table(DEFINITIONS).get(definition.name)
    kind = instance_resource(obj) if obj else None
    table_ = cache.table(kind) if kind else None
    instances = graph_view.instances(table_.all()) if table_ else []
    unknown = el("p", table_.problem, cls="note") if table_ and kind and not cache.knows(kind) else None
    count = pluralize(definition.resources, "resource")
    return panel(
        definition.kind or definition.name,
        el("p", definition.problem, cls="answer bad") if definition.problem and definition.tone != "good" else None,
        unknown or instance_table(instances, definition.name, cache.now()),
        tools=[state(definition.state, definition.tone), link("Show graph", f"/graphs/{definition.name}")],
        note=f"{definition.name} · {definition.api_version} · {count}",
        key=definition.name,
    )


def instance_table(instances: list[Instance], definition: str, now: datetime) -> Node:
    """The instances of a definition, with what each is waiting for."""
    if not instances:
        return el("p", "No instances yet.", cls="note")
    rows = [
        (
            f"{item.namespace}/{item.name}",
            (
                link(item.name, f"/graphs/{definition}/{item.namespace or '-'}/{item.name}"),
                item.namespace or "–",
                state(item.word, item.tone),
                el("span", item.why if item.tone != "good" else "–", cls="breaks"),
                time_ago(item.created, now),
            ),
        )
        for item in instances[:_MAX_INSTANCES]
    ]
    more = el("p", f"and {len(instances) - _MAX_INSTANCES:,} more", cls="note") if len(instances) > _MAX_INSTANCES else None
    return el("div", table(("Name", "Namespace", "State", "Waiting for", "Age"), rows, numbers=(4,), caption="Instances"), more)


Object = dict[str, Any]
_POLL_INTERVAL = 2.0  # seconds: each kind of a graph costs one request
_MAX_EVENTS = 12


@register_page("graph", title="Graph", path="/graphs/{name}", parent="graphs")
def graph_page(context: PageContext) -> None:
    """The resources of a definition and their dependencies."""
    _GraphPage(context, context.arguments["name"]).draw()


@register_page("instance", title="Instance", path="/graphs/{name}/{namespace}/{instance}", parent="graphs")
def instance_page(context: PageContext) -> None:
    """The state of each resource of an instance."""
    namespace = context.arguments["namespace"]
    _GraphPage(context, context.arguments["name"], context.arguments["instance"], "" if namespace == "-" else namespace).draw()


class _GraphPage:
    """A graph page in one browser."""

    def __init__(self, context: PageContext, name: str, instance: str = "", namespace: str = "") -> None:
        self._context, self._name, self._instance, self._namespace = context, name, instance, namespace
        self._graphs = GraphLoader(context.cache.client)
        self._graph: Graph | None = None
        self._problem = ""
        self._live: LiveInstance | None = None
        self._picked = ""
        self._events: dict[str, list[Object]] = {}

    def draw(self) -> None:
        """Draw the page, and redraw it periodically."""
        self._tree = Tree(on_act=self._act)
        self._context.cache.table(DEFINITIONS)
        self._tree.show(*self._nodes())
        ui.timer(_POLL_INTERVAL, self._poll)

    async def _poll(self) -> None:
        known = self._context.cache.table(DEFINITIONS)
        definition = known.get(self._name)
        try:
            missing = known.problem or f"ResourceGraphDefinition {self._name} not found."
            compiled = await self._graphs.compile(definition) if definition else missing
            self._graph, self._problem = (None, compiled) if isinstance(compiled, str) else (compiled, "")
            if self._graph and self._instance:
                self._live = await self._graphs.load_instance(self._graph, self._instance, self._namespace)
            await self._load_events()
        except NotFound:
            self._live, self._problem = None, f"Instance {self._instance} not found."
        except SliceworksError as error:
            self._problem = cluster_cache.format_error(error)
        self._tree.show(*self._nodes())

    async def _load_events(self) -> None:
        """Load the events of the selected resource."""
        objects = self._live.objects.get(self._picked, []) if self._live else []
        self._events = {item["metadata"].get("uid", ""): await self._graphs.events(item) for item in objects[:_MAX_EVENTS]}

    async def _act(self, pressed: str) -> None:
        what, _, name = pressed.partition(":")
        self._picked = name if what == "node" and name != self._picked else ""
        self._tree.show(*self._nodes())
        await self._poll()

    def _nodes(self) -> list[Node]:
        crumb: list[Node] = [link("Graphs", "/graphs")]
        if self._instance:
            crumb += [" / ", link(self._name, f"/graphs/{self._name}")]
        instance = graph_view.instance(self._live.instance) if self._live else None
        beside = state(instance.word, instance.tone) if instance else None
        head = heading(self._instance or self._name, beside, crumb=el("span", crumb))
        if self._graph is None:
            message = self._problem or "Loading …"
            return [head, panel("Graph", empty(message, icon_name="account_tree"))]
        is_waiting = instance and instance.why and instance.tone != "good"
        why = panel("Not ready", el("p", instance.why, cls="answer"), key="why") if instance and is_waiting else None
        return [head, el("div", why, self._parts(self._graph, self._context.cache.now()), cls="stack", key="parts")]

    def _parts(self, graph: Graph, now: datetime) -> list[Node]:
        states = self._live.states if self._live else None
        block = graph.definition.schema
        boxes = diagram.boxes(graph, states)
        picture = drawing(graph_view.graph_svg(boxes, self._instance or block.kind), cls="dag")
        problem = el("p", self._problem, cls="note") if self._problem else None
        parts = [
            panel(
                "Resources",
                problem,
                picture,
                _legend(states),
                note=f"{len(boxes)} · select one for details",
                wide=True,
                key="dag",
            )
        ]
        if self._picked:
            parts.append(self._details(graph, now))
        elif not self._instance:
            parts.append(self._instances(now))
        return parts

    def _instances(self, now: datetime) -> Node:
        definition = self._context.cache.table(DEFINITIONS).get(self._name)
        kind = instance_resource(definition) if definition else None
        instances = graph_view.instances(self._context.cache.table(kind).all()) if kind else []
        return panel("Instances", instance_table(instances, self._name, now), key="instances")

    def _details(self, graph: Graph, now: datetime) -> Node:
        node = next((node for node in graph.nodes if node.id == self._picked), None)
        objects = self._live.objects.get(self._picked, []) if self._live else []
        if node is None:
            return el("div", key="details")
        current = (self._live.states if self._live else {}).get(node.id, "")
        pairs: tuple[tuple[str, Child], ...] = (
            ("Kind", f"{node.kind.kind} ({node.kind.api_version})"),
            ("Depends on", ", ".join(node.dependencies) or "none"),
            ("Ready when", ", ".join(expression.source for expression in node.ready_when)),
            ("Included when", ", ".join(expression.source for expression in node.include_when)),
        )
        objects_ = [_object(item, self._events.get(item["metadata"].get("uid", ""), []), now) for item in objects[:_MAX_EVENTS]]
        if not objects_ and self._instance:
            objects_ = [el("p", "Not created yet.", cls="note")]
        if not self._instance:
            objects_ = [el("pre", template_yaml(node.template), cls="log", tabindex="0")]
        close = button("Close", "node:", kind="quiet")
        return panel(node.id, facts(pairs), objects_, tools=[state(current) if current else None, close], wide=True, key="details")


def template_yaml(template: Object) -> str:
    """The template of a resource as YAML."""
    from sliceworks.base import yaml_documents

    return yaml_documents.dump(template)


def _object(obj: Object, events: list[Object], now: datetime) -> Node:
    metadata = obj["metadata"]
    where = f" in {metadata['namespace']}" if metadata.get("namespace") else ""
    items = [_event(event, now) for event in events[:_MAX_EVENTS]]
    return el(
        "div",
        el("h3", f"{obj.get('kind', '')} {metadata['name']}{where}"),
        el("pre", redacted_yaml(obj), cls="log", tabindex="0", aria_label="YAML"),
        el("h3", "Events"),
        el("ol", items, cls="line") if items else el("p", "None.", cls="note"),
        key=metadata.get("uid", metadata["name"]),
        cls="object",
    )


def _event(event: Object, now: datetime) -> Node:
    at = str(event.get("lastTimestamp") or event.get("eventTime") or "")
    message = el("div", str(event.get("message") or ""), cls="message")
    when = el("span", time_ago(at, now), " ago", cls="when")
    tone = "bad" if event.get("type") == "Warning" else ""
    return el("li", el("span", str(event.get("reason")), cls="what"), when, message, cls=tone, key=event["metadata"].get("uid", at))


def _legend(states: dict[str, str] | None) -> Node:
    if not states:
        return el("div")
    present = [item for item in diagram.STATES if item in states.values()]
    count = {name: sum(value == name for value in states.values()) for name in present}
    shown_states = [el("span", drawing(graph_view.state_icon(name), cls="mark"), f"{count[name]} {name}") for name in present]
    return el("div", shown_states, cls="signs", role="status")
