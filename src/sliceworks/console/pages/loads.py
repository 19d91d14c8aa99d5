"""Load tests, drawn: the runs that are kept, the report of one, and two side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicegui import ui

from sliceworks.base.errors import SliceworksError
from sliceworks.console.load_looks import Loads
from sliceworks.console.nodes import choice, el, empty, heading, link, panel, state, table, warning
from sliceworks.console.registry import page_of
from sliceworks.console.tree import Tree

if TYPE_CHECKING:
    from sliceworks.console.here import Here
    from sliceworks.console.nodes import Node
    from sliceworks.console.views.loads import Run, Shift

_LOOK_EVERY = 2.0
_COLUMNS = ("Run", "Began", "Sent/s", "First token p99", "Whole p50", "Whole p99", "Errors", "Verdict", "Tags")


@page_of("loads", title="Load tests", icon="speed", key="l")
def loads_page(here: Here) -> None:
    """All runs, and two of them compared."""
    _Loads(here).draw()


@page_of("load", title="Load test", path="/loads/{run}", parent="loads")
async def load_page(here: Here) -> None:
    """The report of one run."""
    name = here.arguments["run"]
    known, crumb = Loads(here.console.folder), link("Load tests", "/loads")
    tree = Tree(heading(name, crumb=crumb), el("p", "Drawing the report …", cls="lead"))
    try:
        await known.look()
        page = await known.report(name)
    except SliceworksError as error:
        tree.show(heading(name, crumb=crumb), empty(str(error), link("All load tests", "/loads"), icon_name="speed"))
        return
    # The report stands alone: it may draw, and reach nothing of ours.
    frame = el("iframe", srcdoc=page, sandbox="allow-scripts", title=f"Report of {name}", cls="report")
    tree.show(heading(name, crumb=crumb), el("div", frame, cls="panel flush"))


class _Loads:
    """One browser's list."""

    def __init__(self, here: Here) -> None:
        self._here = here
        self._known = Loads(here.console.folder)
        self._pair = [here.query.get("before", ""), here.query.get("after", "")]
        self._shifts: list[Shift] | str = ""

    def draw(self) -> None:
        """Now, and again when a run has come."""
        self._tree = Tree(on_field=self._field)
        self._tree.show(*self._nodes())
        ui.timer(_LOOK_EVERY, self._look)

    async def _look(self) -> None:
        first = self._known.runs is None
        await self._known.look()
        if first and all(self._pair):
            await self._compare()
        self._tree.show(*self._nodes())

    async def _field(self, field: str, value: str) -> None:
        self._pair[field == "after"] = value
        self._shifts = "Comparing …" if all(self._pair) else ""
        self._tree.show(*self._nodes())
        if all(self._pair):
            await self._compare()
            self._tree.show(*self._nodes())

    async def _compare(self) -> None:
        try:
            self._shifts = await self._known.compare(*self._pair)
        except SliceworksError as error:
            self._shifts = error.message

    def _nodes(self) -> list[Node]:
        runs, head = self._known.runs, heading("Load tests")
        told = [warning(each) for each in self._known.broken]
        if runs is None:
            return [head, el("p", "Reading runs …", cls="lead")]
        if not runs:
            hint = ["Runs are looked for in ", el("code", str(self._here.console.folder)), ". Make one: "]
            return [
                head,
                *told,
                empty("No load test was run here.", [*hint, el("code", "sliceworks load run -f load.yaml")], icon_name="speed"),
            ]
        parts = [
            panel("Runs", table(_COLUMNS, [(each.folder, _row(each)) for each in runs], numbers=(2, 3, 4, 5, 6), caption="Runs")),
            self._comparison(runs) if len(runs) > 1 else None,
        ]
        return [head, *told, el("div", parts, cls="stack", key="parts")]

    def _comparison(self, runs: list[Run]) -> Node:
        options = [("", "choose a run"), *((each.folder, f"{each.folder} ({each.began:%d %b %H:%M})") for each in runs)]
        tools = el(
            "div",
            choice("Before", "before", options, self._pair[0]),
            choice("After", "after", options, self._pair[1]),
            cls="tools",
            key="tools",
        )
        if isinstance(self._shifts, str):
            shown: Node = el(
                "p", self._shifts or "Choose two runs to see what changed between them, and whether by chance.", cls="note"
            )
        else:
            rows = [
                (each.figure, (each.figure, each.before, each.after, each.change, each.interval, state(each.verdict, each.tone)))
                for each in self._shifts
            ]
            shown = table(
                ("Figure", "Before", "After", "Change", "95 % interval", "Verdict"), rows, numbers=(1, 2, 3, 4), caption="Changes"
            )
        return panel("Compare two", tools, shown, key="compare")


def _row(run: Run) -> tuple[Node, ...]:
    return (
        link(run.folder, f"/loads/{run.folder}"),
        f"{run.began:%d %b %H:%M}",
        run.rate,
        run.first,
        run.half,
        run.slowest,
        run.errors,
        state(run.verdict, run.tone),
        run.tags or "–",
    )
