"""Self-service, drawn: the definitions that a platform team publishes, and what users have asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.base.words import counted
from sliceworks.console.graph_looks import DEFINITIONS, instances_of
from sliceworks.console.nodes import el, empty, heading, link, panel, state, table, warning
from sliceworks.console.registry import page_of
from sliceworks.console.views import graphs
from sliceworks.console.views.times import ago

if TYPE_CHECKING:
    from datetime import datetime

    from sliceworks.console.here import Here
    from sliceworks.console.nodes import Node
    from sliceworks.console.views.graphs import Definition, Instance
    from sliceworks.console.world import World

_MOST = 50


@page_of("graphs", title="Graphs", icon="account_tree", key="r")
def graphs_page(here: Here) -> None:
    """Definitions with their instances."""
    world = here.world

    def draw() -> list[Node]:
        known = world.table(DEFINITIONS)
        if known.state == "missing":
            hint = [el("code", "sliceworks controller run graphs"), " runs it; ", el("code", "deploy/graphs"), " installs it."]
            return [heading("Graphs"), empty(known.trouble, hint, icon_name="account_tree")]
        if not world.knows(DEFINITIONS):
            return [heading("Graphs"), empty(known.trouble, icon_name="account_tree")]
        found = graphs.definitions(known.all())
        if not found:
            hint = ["Publish one: ", el("code", "kubectl apply -f definition.yaml")]
            return [heading("Graphs"), empty("No self-service is published yet.", hint, icon_name="account_tree")]
        shown = el("div", [_definition(world, each) for each in found], cls="stack", key="graphs")
        return [heading("Graphs"), *map(warning, world.troubles(DEFINITIONS)), shown]

    here.show(draw, DEFINITIONS, ages=1.0)


def _definition(world: World, each: Definition) -> Node:
    obj = world.table(DEFINITIONS).get(each.name)
    kind = instances_of(obj) if obj else None
    table_ = world.table(kind) if kind else None
    asked = graphs.instances(table_.all()) if table_ else []
    unknown = el("p", table_.trouble, cls="note") if table_ and kind and not world.knows(kind) else None
    count = counted(each.resources, "resource")
    return panel(
        each.kind or each.name,
        el("p", each.problem, cls="answer bad") if each.problem and each.tone != "good" else None,
        unknown or instances(asked, each.name, world.now()),
        tools=[state(each.state, each.tone), link("Draw it", f"/graphs/{each.name}")],
        note=f"{each.name} · {each.api_version} · {count}",
        key=each.name,
    )


def instances(found: list[Instance], definition: str, now: datetime) -> Node:
    """A table of what users have asked for; those that wait come first, with what they wait for."""
    if not found:
        return el("p", "Nobody has asked for one yet.", cls="note")
    rows = [
        (
            f"{each.namespace}/{each.name}",
            (
                link(each.name, f"/graphs/{definition}/{each.namespace or '-'}/{each.name}"),
                each.namespace or "–",
                state(each.word, each.tone),
                el("span", each.why if each.tone != "good" else "–", cls="breaks"),
                ago(each.created, now),
            ),
        )
        for each in found[:_MOST]
    ]
    more = el("p", f"and {len(found) - _MOST:,} more", cls="note") if len(found) > _MOST else None
    return el("div", table(("Name", "Namespace", "State", "Waits for", "Age"), rows, numbers=(4,), caption="Instances"), more)
