"""All training jobs, drawn: thousands, a page at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sliceworks.console.kinds import JOBSETS, NAMESPACES
from sliceworks.console.nodes import heading
from sliceworks.console.pages import jobs_nodes
from sliceworks.console.registry import page_of
from sliceworks.console.tree import Tree
from sliceworks.console.views.jobs import SORTS, Query, job_row, jobs_page
from sliceworks.console.views.teams import team_of

if TYPE_CHECKING:
    from sliceworks.console.here import Here


@page_of("jobs", title="Jobs", icon="model_training", key="j")
def jobs(here: Here) -> None:
    """Search, filter, sort, and one page of rows that is always current."""
    _Jobs(here).draw()


class _Jobs:
    """One browser's table."""

    def __init__(self, here: Here) -> None:
        self._here = here
        self._query = Query.read(here.query)

    def draw(self) -> None:
        """What one looks for above, what was found below."""
        Tree(heading("Jobs"))
        self._tools = Tree(on_field=self._field)
        self._table = Tree(on_act=self._act)
        self._here.live(lambda _changes: self._show(), JOBSETS, NAMESPACES)

    def _show(self) -> None:
        world = self._here.world
        rows = world.ledger(JOBSETS, job_row).rows().values()
        page = jobs_page(rows, team_of(world), self._query)
        self._query = page.query
        self._tools.show(jobs_nodes.tools(page))
        self._table.show(*jobs_nodes.nodes(page, world.now(), world.table(JOBSETS).trouble))

    def _field(self, name: str, value: str) -> None:
        if name in ("text", "team", "state"):
            change: dict[str, Any] = {name: value}
            self._ask(replace(self._query, page=0, **change))

    def _act(self, act: str) -> None:
        what, _, value = act.partition(":")
        if what == "sort" and value in SORTS:
            self._ask(self._query.by(value))
        elif what == "page" and value.isdecimal():
            self._ask(replace(self._query, page=int(value)))

    def _ask(self, query: Query) -> None:
        self._query = query
        self._show()
        self._here.remember("/jobs", self._query.written())
