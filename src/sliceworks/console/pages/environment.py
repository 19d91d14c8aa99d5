"""The environment page: document, stages, resources and drift."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from nicegui import ui

from sliceworks.base.names import pluralize
from sliceworks.console.components import el, empty, facts, format_usd, heading, panel, state, table, warning
from sliceworks.console.environment_loader import get_environment_loader, planned_stages
from sliceworks.console.page import Tree, register_page
from sliceworks.infra.pools import HOURS_PER_MONTH, estimate_costs

if TYPE_CHECKING:
    from sliceworks.console.components import Child, Node
    from sliceworks.console.environment_loader import EnvironmentState
    from sliceworks.console.page import PageContext
    from sliceworks.console.views.environment_view import StageView

_POLL_INTERVAL = 2.0
_MAX_RESOURCES = 200


@register_page("environment", title="Environment", icon="layers", key="e")
def environment_page(context: PageContext) -> None:
    """The documents of the folder that the console was started in."""
    _Environment(context).draw()


class _Environment:
    """The environment page in one browser."""

    def __init__(self, context: PageContext) -> None:
        self._context = context
        self._loader = get_environment_loader(context.console)
        self._picked: dict[str, str] = {}

    def draw(self) -> None:
        """Draw the page, and redraw it periodically."""
        self._tree = Tree(on_act=self._act)
        self._tree.show(*self._nodes())
        ui.timer(_POLL_INTERVAL, self._poll)

    async def _poll(self) -> None:
        await self._loader.refresh()
        self._tree.show(*self._nodes())

    async def _act(self, pressed: str) -> None:
        what, name, rest = [*pressed.split(":", 2), "", ""][:3]
        if what == "stage":
            self._picked[name] = "" if self._picked.get(name) == rest else rest
        elif what in ("read", "drift"):
            load = asyncio.create_task(self._loader.read_state(name, drift=what == "drift"))
            await asyncio.sleep(0)
            self._tree.show(*self._nodes())
            await load
        self._tree.show(*self._nodes())

    def _nodes(self) -> list[Node]:
        head = heading("Environment")
        warnings = [warning(item) for item in self._loader.broken]
        if self._loader.known is None:
            return [head, el("p", "Reading documents …", cls="lead")]
        if not self._loader.known:
            hint = [
                "The console reads Environment documents from ",
                el("code", str(self._context.console.folder.absolute())),
                ". Start the console in the folder that holds yours, or create one: ",
                el("code", "sliceworks env init"),
            ]
            return [head, *warnings, empty("No Environment document found.", hint, icon_name="layers")]
        return [
            head,
            *warnings,
            el("div", [self._environment(known) for known in self._loader.known.values()], cls="stack", key="all"),
        ]

    def _environment(self, known: EnvironmentState) -> Node:
        picked = self._picked.get(known.name, "")
        shown = known.stages or planned_stages(known.environment)
        stage = next((item for item in shown if item.name == picked), None)
        return panel(
            known.name,
            _facts(known),
            el("div", [_stage(known, view, picked) for view in shown], cls="stages", role="list", aria_label="Stages"),
            self._summary(known),
            _details(stage) if stage and known.read_at else None,
            tools=self._tools(known),
            note=str(known.file.name),
            key=known.name,
        )

    def _tools(self, known: EnvironmentState) -> list[Node]:
        if not self._loader.can_read_state:
            return []

        def press(words: str, act: str) -> Node:
            return el("button", words, cls="plain-button", type="button", data_act=f"{act}:{known.name}", disabled=known.busy)

        return [press("Read state", "read"), press("Detect drift", "drift")]

    def _summary(self, known: EnvironmentState) -> Node:
        if known.message:
            return el("p", known.message, cls="note", role="status")
        if known.read_at is None:
            return el("p", "Stages of the document. Read the state to see what exists.", cls="note", role="status")
        drifted = sum(bool(resource.drift) for stage in known.stages for resource in stage.resources)
        drift = f"{pluralize(drifted, 'resource')} drifted." if drifted else "no drift found."
        summary = (
            f"Compared with the cloud and the cluster: {drift}"
            if known.drift
            else "Read from the Terraform state; drift detection was not run."
        )
        return el("p", f"{known.read_at:%H:%M:%S}: {summary}", cls="note", role="status")


def _facts(known: EnvironmentState) -> Node:
    spec = known.environment.spec
    costs = estimate_costs(spec)
    hourly = [item.hourly for item in costs if item.hourly is not None]
    without = ", ".join(pool.name for pool in costs if pool.hourly is None)
    price = f"{format_usd(sum(hourly))} per hour, {format_usd(sum(hourly) * HOURS_PER_MONTH)} per month, with pools at minimum size"
    price += f"; excludes {without} (unknown price)" if without else ""
    pools = [f"{pool.name} ({pool.count} × {pool.what})" for pool in costs]
    pairs: tuple[tuple[str, Child], ...] = (
        ("Project", spec.project),
        ("Region", f"{spec.region}{', ' + ', '.join(spec.zones) if spec.zones else ''}"),
        ("Cluster", f"{spec.cluster.name or known.name}, {spec.cluster.mode}"),
        ("Pools", ", ".join(pools)),
        ("Teams", ", ".join(spec.teams)),
        ("On-demand price", price if hourly else None),
    )
    return facts(pairs)


def _stage(known: EnvironmentState, stage: StageView, picked: str) -> Node:
    read = known.read_at is not None
    count = f"{len(stage.resources):,} resources" if read else "not read yet"
    words = (
        el("b", stage.name),
        el("span", stage.title, cls="quiet"),
        el("span", count, cls="quiet"),
        state(stage.state, stage.tone) if read else state("unknown", "idle"),
    )
    if not read:
        return el("div", el("div", words, cls="stage"), role="listitem", key=stage.name)
    pressed = str(picked == stage.name).lower()
    act = f"stage:{known.name}:{stage.name}"
    button = el("button", words, cls="stage", type="button", data_act=act, aria_pressed=pressed)
    return el("div", button, role="listitem", key=stage.name)


def _details(stage: StageView) -> Node:
    resources = sorted(stage.resources, key=lambda resource: (not resource.drift, resource.kind, resource.name))
    rows = [
        (
            item.address,
            (item.kind, item.name, state(item.drift, "bad") if item.drift else "–", el("code", item.address, cls="breaks")),
        )
        for item in resources[:_MAX_RESOURCES]
    ]
    more = el("p", f"and {len(resources) - _MAX_RESOURCES:,} more", cls="note") if len(resources) > _MAX_RESOURCES else None
    resource_table = table(("Kind", "Name", "Drift", "Address"), rows, caption=f"Resources of {stage.name}") if rows else None
    outputs = facts((name, el("code", value, cls="breaks")) for name, value in stage.outputs) if stage.outputs else None
    return el(
        "div",
        el("h3", f"Resources of {stage.name}"),
        resource_table or el("p", "None.", cls="note"),
        more,
        el("h3", "Outputs") if outputs else None,
        outputs,
        cls="object",
        key="details",
    )
