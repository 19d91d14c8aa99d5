"""The load test pages: runs, the report of one, and a comparison of two."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicegui import ui

from sliceworks.base.errors import SliceworksError
from sliceworks.console.components import choice, el, empty, heading, link, panel, state, table, warning
from sliceworks.console.page import Tree, register_page
from sliceworks.console.views.load_test_view import LoadRunLoader

if TYPE_CHECKING:
    from sliceworks.console.components import Node
    from sliceworks.console.page import PageContext
    from sliceworks.console.views.load_test_view import LoadRun, MetricChange

_POLL_INTERVAL = 2.0
_COLUMNS = ("Run", "Started", "Sent/s", "TTFT p99", "E2E p50", "E2E p99", "Errors", "Verdict", "Tags")


@register_page("loads", title="Load tests", icon="speed", key="l")
def loads_page(context: PageContext) -> None:
    """All runs, and a comparison of two."""
    _LoadTestsPage(context).draw()


@register_page("load", title="Load test", path="/loads/{run}", parent="loads")
async def load_page(context: PageContext) -> None:
    """The report of one run."""
    name, nonce = context.arguments["run"], ui.context.client.request.scope["nonce"]
    loader, crumb = LoadRunLoader(context.console.folder), link("Load tests", "/loads")
    tree = Tree(heading(name, crumb=crumb), el("p", "Rendering the report …", cls="lead"))
    try:
        await loader.refresh()
        page = await loader.report(name)
    except SliceworksError as error:
        tree.show(heading(name, crumb=crumb), empty(str(error), link("All load tests", "/loads"), icon_name="speed"))
        return
    # The report is self-contained: the sandbox lets its script draw, but not reach the console. The frame inherits the policy.
    before, script, after = page.rpartition("<script ")
    frame = el(
        "iframe",
        srcdoc=f'{before}{script}nonce="{nonce}" {after}',
        sandbox="allow-scripts",
        title=f"Report of {name}",
        cls="report",
    )
    tree.show(heading(name, crumb=crumb), el("div", frame, cls="panel flush"))


class _LoadTestsPage:
    """The load tests page in one browser."""

    def __init__(self, context: PageContext) -> None:
        self._context = context
        self._loader = LoadRunLoader(context.console.folder)
        self._pair = [context.query.get("before", ""), context.query.get("after", "")]
        self._changes: list[MetricChange] | str = ""

    def draw(self) -> None:
        """Draw the page, and redraw it periodically."""
        self._tree = Tree(on_field=self._field)
        self._tree.show(*self._nodes())
        ui.timer(_POLL_INTERVAL, self._poll)

    async def _poll(self) -> None:
        first = self._loader.runs is None
        await self._loader.refresh()
        if first and all(self._pair):
            await self._compare()
        self._tree.show(*self._nodes())

    async def _field(self, field: str, value: str) -> None:
        self._pair[field == "after"] = value
        self._changes = "Comparing …" if all(self._pair) else ""
        self._tree.show(*self._nodes())
        if all(self._pair):
            await self._compare()
            self._tree.show(*self._nodes())

    async def _compare(self) -> None:
        try:
            self._changes = await self._loader.compare(*self._pair)
        except SliceworksError as error:
            self._changes = error.message

    def _nodes(self) -> list[Node]:
        runs, head = self._loader.runs, heading("Load tests")
        warnings = [warning(item) for item in self._loader.broken]
        if runs is None:
            return [head, el("p", "Reading runs …", cls="lead")]
        if not runs:
            hint = ["The console reads runs from ", el("code", str(self._context.console.folder)), ". Start one: "]
            return [
                head,
                *warnings,
                empty("No load test runs found.", [*hint, el("code", "sliceworks load run -f load.yaml")], icon_name="speed"),
            ]
        parts = [
            panel("Runs", table(_COLUMNS, [(run.folder, _row(run)) for run in runs], numbers=(2, 3, 4, 5, 6), caption="Runs")),
            self._comparison(runs) if len(runs) > 1 else None,
        ]
        return [head, *warnings, el("div", parts, cls="stack", key="parts")]

    def _comparison(self, runs: list[LoadRun]) -> Node:
        options = [("", "select a run"), *((run.folder, f"{run.folder} ({run.started:%d %b %H:%M})") for run in runs)]
        tools = el(
            "div",
            choice("Before", "before", options, self._pair[0]),
            choice("After", "after", options, self._pair[1]),
            cls="tools",
            key="tools",
        )
        if isinstance(self._changes, str):
            shown: Node = el(
                "p", self._changes or "Select two runs to compare their metrics, with confidence intervals.", cls="note"
            )
        else:
            rows = [
                (
                    change.figure,
                    (
                        change.figure,
                        change.before,
                        change.after,
                        change.change,
                        change.interval,
                        state(change.verdict, change.tone),
                    ),
                )
                for change in self._changes
            ]
            shown = table(
                ("Metric", "Before", "After", "Change", "95 % interval", "Verdict"), rows, numbers=(1, 2, 3, 4), caption="Changes"
            )
        return panel("Compare runs", tools, shown, key="compare")


def _row(run: LoadRun) -> tuple[Node, ...]:
    return (
        link(run.folder, f"/loads/{run.folder}"),
        f"{run.started:%d %b %H:%M}",
        run.rate,
        run.ttft_p99,
        run.e2e_p50,
        run.e2e_p99,
        run.errors,
        state(run.verdict, run.tone),
        run.tags or "–",
    )
