"""The environment, drawn: its document, its stages and what each has made, and what is no longer as it was made."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from nicegui import ui

from sliceworks.console.environment_looks import environments_of, planned
from sliceworks.console.nodes import el, empty, facts, heading, panel, state, table, warning
from sliceworks.console.registry import page_of
from sliceworks.console.tree import Tree
from sliceworks.console.views.times import dollars
from sliceworks.infra.costs import HOURS_OF_A_MONTH, costs

if TYPE_CHECKING:
    from sliceworks.console.environment_looks import Known
    from sliceworks.console.here import Here
    from sliceworks.console.nodes import Child, Node
    from sliceworks.console.views.environments import StageView

_LOOK_EVERY = 2.0
_MOST = 200


@page_of("environment", title="Environment", icon="layers", key="e")
def environment_page(here: Here) -> None:
    """The documents of the folder that the console was started in."""
    _Environment(here).draw()


class _Environment:
    """One browser's look."""

    def __init__(self, here: Here) -> None:
        self._here = here
        self._found = environments_of(here.console)
        self._picked: dict[str, str] = {}

    def draw(self) -> None:
        """Now, and again when documents or answers have come."""
        self._tree = Tree(on_act=self._act)
        self._tree.show(*self._nodes())
        ui.timer(_LOOK_EVERY, self._look)

    async def _look(self) -> None:
        await self._found.look()
        self._tree.show(*self._nodes())

    async def _act(self, pressed: str) -> None:
        what, name, rest = [*pressed.split(":", 2), "", ""][:3]
        if what == "stage":
            self._picked[name] = "" if self._picked.get(name) == rest else rest
        elif what in ("read", "drift"):
            asking = asyncio.create_task(self._found.ask(name, drift=what == "drift"))
            await asyncio.sleep(0)
            self._tree.show(*self._nodes())
            await asking
        self._tree.show(*self._nodes())

    def _nodes(self) -> list[Node]:
        head = heading("Environment")
        told = [warning(each) for each in self._found.broken]
        if self._found.known is None:
            return [head, el("p", "Reading documents …", cls="lead")]
        if not self._found.known:
            hint = [
                "Environment documents are looked for in ",
                el("code", str(self._here.console.folder.absolute())),
                ". Start the console where yours is, or write one: ",
                el("code", "sliceworks env init"),
            ]
            return [head, *told, empty("There is no Environment document here.", hint, icon_name="layers")]
        return [head, *told, el("div", [self._environment(each) for each in self._found.known.values()], cls="stack", key="all")]

    def _environment(self, known: Known) -> Node:
        picked = self._picked.get(known.name, "")
        shown = known.stages or planned(known.environment)
        stage = next((each for each in shown if each.name == picked), None)
        return panel(
            known.name,
            _facts(known),
            el("div", [_stage(known, each, picked) for each in shown], cls="stages", role="list", aria_label="Stages"),
            self._said(known),
            _details(stage) if stage and known.read_at else None,
            tools=self._tools(known),
            note=str(known.file.name),
            key=known.name,
        )

    def _tools(self, known: Known) -> list[Node]:
        if not self._found.can_look:
            return []

        def press(words: str, act: str) -> Node:
            return el("button", words, cls="plain-button", type="button", data_act=f"{act}:{known.name}", disabled=known.busy)

        return [press("Read what there is", "read"), press("Look for drift", "drift")]

    def _said(self, known: Known) -> Node:
        if known.said:
            return el("p", known.said, cls="note", role="status")
        if known.read_at is None:
            return el("p", "Stages by the document. Whether they are made is known once it is read.", cls="note", role="status")
        drifted = sum(bool(thing.drift) for stage in known.stages for thing in stage.things)
        found = f"{drifted} drifted." if drifted else "nothing has drifted."
        told = (
            f"The cloud and the cluster were asked: {found}"
            if known.drift
            else "Read from Terraform's state; drift was not looked for."
        )
        return el("p", f"{known.read_at:%H:%M:%S}: {told}", cls="note", role="status")


def _facts(known: Known) -> Node:
    spec = known.environment.spec
    found = costs(spec)
    hourly = [each.hourly for each in found if each.hourly is not None]
    without = ", ".join(each.name for each in found if each.hourly is None)
    price = f"{dollars(sum(hourly))} an hour, {dollars(sum(hourly) * HOURS_OF_A_MONTH)} a month, pools at their least"
    price += f"; without {without}, whose price is not known" if without else ""
    pools = [f"{each.name} ({each.count} × {each.what})" for each in found]
    pairs: tuple[tuple[str, Child], ...] = (
        ("Project", spec.project),
        ("Region", f"{spec.region}{', ' + ', '.join(spec.zones) if spec.zones else ''}"),
        ("Cluster", f"{spec.cluster.name or known.name}, {spec.cluster.mode}"),
        ("Pools", ", ".join(pools)),
        ("Teams", ", ".join(spec.teams)),
        ("List price", price if hourly else None),
    )
    return facts(pairs)


def _stage(known: Known, stage: StageView, picked: str) -> Node:
    read = known.read_at is not None
    count = f"{len(stage.things):,} resources" if read else "not read yet"
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
    things = sorted(stage.things, key=lambda each: (not each.drift, each.kind, each.name))
    rows = [
        (
            each.address,
            (each.kind, each.name, state(each.drift, "bad") if each.drift else "–", el("code", each.address, cls="breaks")),
        )
        for each in things[:_MOST]
    ]
    more = el("p", f"and {len(things) - _MOST:,} more", cls="note") if len(things) > _MOST else None
    made = table(("Kind", "Name", "Drift", "Address"), rows, caption=f"Resources of {stage.name}") if rows else None
    outputs = facts((name, el("code", value, cls="breaks")) for name, value in stage.outputs) if stage.outputs else None
    return el(
        "div",
        el("h3", f"What {stage.name} has made"),
        made or el("p", "Nothing.", cls="note"),
        more,
        el("h3", "What it gives to others") if outputs else None,
        outputs,
        cls="object",
        key="details",
    )
