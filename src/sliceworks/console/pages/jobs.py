"""The jobs page: search, filter, sort and page through training jobs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sliceworks.base.names import pluralize
from sliceworks.console.components import (
    button,
    choice,
    el,
    empty,
    format_amount,
    format_elapsed,
    format_usd,
    heading,
    link,
    search,
    state,
    time_ago,
)
from sliceworks.console.kinds import JOBSETS, NAMESPACES
from sliceworks.console.page import Tree, register_page
from sliceworks.console.views.job_view import SORTS, JobQuery, job_row, query_jobs
from sliceworks.console.views.queue_view import teams_by_namespace

if TYPE_CHECKING:
    from datetime import datetime

    from sliceworks.console.components import Node
    from sliceworks.console.page import PageContext
    from sliceworks.console.views.job_view import JobRow, JobsPage

_COLUMNS = (
    ("name", "Job", ""),
    ("team", "Team", ""),
    ("state", "State", ""),
    ("type", "Slices", ""),
    ("chips", "Chips", "number"),
    ("restarts", "Restarts", "number"),
    ("age", "Age", "number"),
    ("", "Ran", "number"),
    ("cost", "USD/h", "number"),
)


def filter_bar(page: JobsPage) -> Node:
    """Search, state and team filters, and the number of matches."""
    query = page.query
    states = [("", "all states"), *((word, f"{word} ({format_amount(count)})") for word, count in page.states)]
    teams = [("", "all teams"), *((team, team) for team in page.teams)]
    count = (
        f"{format_amount(page.matches)} of {format_amount(page.total)} jobs"
        if page.matches != page.total
        else f"{format_amount(page.total)} jobs"
    )
    return el(
        "div",
        search("Search jobs", "text", query.text),
        choice("State", "state", _with(states, query.state), query.state),
        choice("Team", "team", _with(teams, query.team), query.team),
        el("span", count, cls="count", role="status", key="count"),
        cls="tools",
        role="search",
    )


def _with(choices: list[tuple[str, str]], chosen: str) -> list[tuple[str, str]]:
    """Keep the selected option visible when no job matches it any more."""
    return choices if chosen in dict(choices) else [*choices, (chosen, f"{chosen} (0)")]


def jobs_table(page: JobsPage, now: datetime, problem: str = "") -> list[Node]:
    """The table and its pager."""
    if not page.total:
        hint = el("code", "sliceworks train submit -f job.yaml")
        return [empty(problem or "No training jobs yet.", None if problem else hint, icon_name="model_training")]
    if not page.matches:
        return [empty("No matching jobs.", "Try fewer words, or another state or team.", icon_name="search_off")]
    head = el("tr", [_column(page.query, *column) for column in _COLUMNS])
    body = [_row(team, row, now) for team, row in page.rows]
    caption = el("caption", "Training jobs", cls="hidden-words")
    rows = el("table", caption, el("thead", head), el("tbody", body), cls="rows jobs")
    return [el("div", el("div", rows, cls="scroll"), cls="panel flush", key="table"), _pager(page)]


def _column(query: JobQuery, name: str, label: str, cls: str) -> Node:
    if not name:
        return el("th", label, scope="col", cls=cls)
    sorted_by = query.sort == name
    order = ("descending" if query.descending else "ascending") if sorted_by else None
    arrow = el("span", "↓" if query.descending else "↑", aria_hidden="true") if sorted_by else None
    press = el("button", label, arrow, type="button", cls="sort", data_act=f"sort:{name}")
    return el("th", press, scope="col", cls=cls, aria_sort=order)


def _row(team: str, row: JobRow, now: datetime) -> Node:
    where = f"/jobs/{row.namespace}/{row.name}"
    ready = f" · {row.ready} ready" if row.holds and row.ready < row.slices else ""
    cells: tuple[tuple[Any, str], ...] = (
        (link(row.name, where), "breaks"),
        (team, ""),
        (state(row.state), ""),
        ([_slices(row), el("span", ready, cls="quiet") if ready else None], "nowrap"),
        (format_amount(row.chips), "number"),
        (str(row.restarts), "number"),
        (time_ago(row.created, now), "number"),
        (format_elapsed(row.started if row.runs or row.ended else "", row.ended, now), "number"),
        (format_usd(row.usd) if row.runs and row.usd is not None else "–", "number"),
    )
    labelled = zip(cells, (label for _name, label, _cls in _COLUMNS), strict=True)
    return el("tr", [el("td", cell, cls=cls, data_label=label) for (cell, cls), label in labelled], key=where)


def _slices(row: JobRow) -> str:
    """The number and type of slices; the number of hosts where the type is unknown."""
    return f"{row.slices} × {row.type}" if row.type else pluralize(row.hosts, "host")


def _pager(page: JobsPage) -> Node:
    query = page.query
    last = page.first + len(page.rows)
    count = f"{format_amount(page.first + 1)}–{format_amount(last)} of {format_amount(page.matches)}"
    return el(
        "nav",
        el("span", count),
        button("Previous", f"page:{query.page - 1}", **_disabled(query.page == 0)),
        button("Next", f"page:{query.page + 1}", **_disabled(query.page >= page.pages - 1)),
        cls="pager",
        key="pager",
        aria_label="Table pages",
    )


def _disabled(is_disabled: bool) -> dict[str, str]:
    return {"disabled": ""} if is_disabled else {}


@register_page("jobs", title="Jobs", icon="model_training", key="j")
def jobs(context: PageContext) -> None:
    """The jobs page."""
    _JobsPage(context).draw()


class _JobsPage:
    """The jobs page in one browser."""

    def __init__(self, context: PageContext) -> None:
        self._context = context
        self._query = JobQuery.read(context.query)

    def draw(self) -> None:
        """Draw the filters above the table."""
        Tree(heading("Jobs"))
        self._tools = Tree(on_field=self._field)
        self._table = Tree(on_act=self._act)
        self._context.live(lambda _changes: self._show(), JOBSETS, NAMESPACES)

    def _show(self) -> None:
        cache = self._context.cache
        rows = cache.row_cache(JOBSETS, job_row).rows().values()
        page = query_jobs(rows, teams_by_namespace(cache), self._query)
        self._query = page.query
        self._tools.show(filter_bar(page))
        self._table.show(*jobs_table(page, cache.now(), cache.table(JOBSETS).problem))

    def _field(self, name: str, value: str) -> None:
        if name in ("text", "team", "state"):
            change: dict[str, Any] = {name: value}
            self._update(replace(self._query, page=0, **change))

    def _act(self, act: str) -> None:
        what, _, value = act.partition(":")
        if what == "sort" and value in SORTS:
            self._update(self._query.by(value))
        elif what == "page" and value.isdecimal():
            self._update(replace(self._query, page=int(value)))

    def _update(self, query: JobQuery) -> None:
        self._query = query
        self._show()
        self._context.remember("/jobs", self._query.to_params())
