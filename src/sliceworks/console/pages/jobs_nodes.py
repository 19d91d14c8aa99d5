"""What the table of all jobs is made of. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base.words import counted
from sliceworks.console.nodes import amount_of, button, choice, el, empty, link, search, state
from sliceworks.console.views.times import ago, between, dollars

if TYPE_CHECKING:
    from datetime import datetime

    from sliceworks.console.nodes import Node
    from sliceworks.console.views.jobs import JobRow, JobsPage, Query

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


def tools(page: JobsPage) -> Node:
    """Words, state and team to look for, and how many there are."""
    query = page.query
    states = [("", "all states"), *((word, f"{word} ({amount_of(count)})") for word, count in page.states)]
    teams = [("", "all teams"), *((team, team) for team in page.teams)]
    told = (
        f"{amount_of(page.found)} of {amount_of(page.total)} jobs" if page.found != page.total else f"{amount_of(page.total)} jobs"
    )
    return el(
        "div",
        search("Search jobs", "text", query.text),
        choice("State", "state", _with(states, query.state), query.state),
        choice("Team", "team", _with(teams, query.team), query.team),
        el("span", told, cls="count", role="status", key="count"),
        cls="tools",
        role="search",
    )


def _with(choices: list[tuple[str, str]], chosen: str) -> list[tuple[str, str]]:
    """What is chosen stays to be seen when nothing is like that any more."""
    return choices if chosen in dict(choices) else [*choices, (chosen, f"{chosen} (0)")]


def nodes(page: JobsPage, now: datetime, trouble: str = "") -> list[Node]:
    """The table and what turns its pages."""
    if not page.total:
        hint = el("code", "sliceworks train submit -f job.yaml")
        return [empty(trouble or "There are no training jobs yet.", None if trouble else hint, icon_name="model_training")]
    if not page.found:
        return [empty("No job is like that.", "Try fewer words, or another state or team.", icon_name="search_off")]
    head = el("tr", [_column(page.query, *column) for column in _COLUMNS])
    body = [_row(team, row, now) for team, row in page.rows]
    caption = el("caption", "Training jobs", cls="hidden-words")
    made = el("table", caption, el("thead", head), el("tbody", body), cls="rows jobs")
    return [el("div", el("div", made, cls="scroll"), cls="panel flush", key="table"), _pager(page)]


def _column(query: Query, name: str, label: str, cls: str) -> Node:
    if not name:
        return el("th", label, scope="col", cls=cls)
    sorted_by = query.sort == name
    way = ("descending" if query.descending else "ascending") if sorted_by else None
    arrow = el("span", "↓" if query.descending else "↑", aria_hidden="true") if sorted_by else None
    press = el("button", label, arrow, type="button", cls="sort", data_act=f"sort:{name}")
    return el("th", press, scope="col", cls=cls, aria_sort=way)


def _row(team: str, row: JobRow, now: datetime) -> Node:
    where = f"/jobs/{row.namespace}/{row.name}"
    ready = f" · {row.ready} ready" if row.holds and row.ready < row.slices else ""
    cells: tuple[tuple[Any, str], ...] = (
        (link(row.name, where), "breaks"),
        (team, ""),
        (state(row.state), ""),
        ([_slices(row), el("span", ready, cls="quiet") if ready else None], "nowrap"),
        (amount_of(row.chips), "number"),
        (str(row.restarts), "number"),
        (ago(row.created, now), "number"),
        (between(row.began, row.ended, now), "number"),
        (dollars(row.usd) if row.holds and row.usd is not None else "–", "number"),
    )
    return el("tr", [el("td", cell, cls=cls) for cell, cls in cells], key=where)


def _slices(row: JobRow) -> str:
    """How many of which type; of a job that does not say on what it runs, its hosts."""
    return f"{row.slices} × {row.type}" if row.type else counted(row.hosts, "host")


def _pager(page: JobsPage) -> Node:
    query = page.query
    last = page.first + len(page.rows)
    told = f"{amount_of(page.first + 1)}–{amount_of(last)} of {amount_of(page.found)}"
    return el(
        "nav",
        el("span", told),
        button("Previous", f"page:{query.page - 1}", **_off(query.page == 0)),
        button("Next", f"page:{query.page + 1}", **_off(query.page >= page.pages - 1)),
        cls="pager",
        key="pager",
        aria_label="Pages of the table",
    )


def _off(is_off: bool) -> dict[str, str]:
    return {"disabled": ""} if is_off else {}
