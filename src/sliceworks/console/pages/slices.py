"""Slices, drawn: all of them as tiles, and one of them large."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from nicegui import ui

from sliceworks.base.words import counted
from sliceworks.console.fleet import KINDS, LOOK_EVERY, fleet_of
from sliceworks.console.kinds import NAMESPACES, NODES
from sliceworks.console.nodes import button, choice, drawing, el, empty, heading, link, search, warning
from sliceworks.console.registry import page_of
from sliceworks.console.views import drawings
from sliceworks.console.views.hosts import HostState
from sliceworks.console.views.slices import Wanted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sliceworks.console.here import Here
    from sliceworks.console.nodes import Node
    from sliceworks.console.views.slices import SliceView

PAGE = 48
"""Tiles at a time: each is sent only when it has changed."""


@dataclass(slots=True)
class _Shown:
    """What one browser looks at."""

    wanted: Wanted
    page: int = 0


@page_of("slices", title="Slices", icon="view_in_ar", key="s")
def slices_page(here: Here) -> None:
    """All slices as tiles."""
    fleet = fleet_of(here.world)
    shown = _Shown(Wanted.read(here.query))

    def draw() -> list[Node]:
        found = fleet.all()
        picked = [each for each in found if shown.wanted(each)]
        shown.page = min(shown.page, max(len(picked) - 1, 0) // PAGE)
        return [
            heading("Slices", el("span", counted(len(found), "slice"), cls="lead") if here.world.knows(NODES) else None),
            *map(warning, here.world.troubles(*KINDS)),
            *(nodes(found, picked, shown.wanted, shown.page) if found else [_nothing()] if here.world.knows(NODES) else []),
        ]

    def act(pressed: str) -> None:
        what, _, rest = pressed.partition(":")
        if what == "state":
            shown.wanted = replace(shown.wanted, state="" if shown.wanted.state == rest else rest)
            shown.page = 0
        elif what == "page":
            shown.page = max(int(rest), 0)
        elif what == "all":
            shown.wanted, shown.page = Wanted(), 0
        again()

    def chosen(field: str, value: str) -> None:
        if field in ("type_name", "team", "text"):
            shown.wanted, shown.page = replace(shown.wanted, **{field: value}), 0
            again()

    def again() -> None:
        tree.show(draw())
        here.remember("/slices", shown.wanted.written())

    tree = here.show(draw, *KINDS, NAMESPACES, on_act=act, on_field=chosen, ages=1.0)
    ui.timer(LOOK_EVERY, lambda: fleet.ask(here.console.container))


def nodes(found: list[SliceView], picked: list[SliceView], wanted: Wanted, page: int) -> list[Node]:
    """The page below its heading."""
    part = picked[page * PAGE : (page + 1) * PAGE]
    return [
        drawing(drawings.patterns(), key="patterns"),
        _states(found, wanted),
        el(
            "div",
            choice("Type", "type_name", _options("all types", (each.type_name for each in found)), wanted.type_name),
            choice("Team", "team", _options("all teams", (each.team for each in found if each.team)), wanted.team),
            search("Search slices and jobs", "text", wanted.text),
            el("span", f"{len(picked):,} of {len(found):,}", cls="count", role="status"),
            cls="tools",
            key="tools",
        ),
        el("div", [_tile(each) for each in part], cls="tiles", key="tiles", role="list") if part else _none_such(),
        _pager(len(picked), page),
    ]


def _states(found: list[SliceView], wanted: Wanted) -> Node:
    """How many slices stand how: each is a button that shows those alone, and explains what their pattern means."""
    count = Counter(each.state for each in found)
    buttons = [
        el(
            "button",
            drawing(drawings.sign(state), cls="mark"),
            el("b", f"{count[state]:,}"),
            el("span", str(state)),
            cls="standing",
            type="button",
            key=state,
            data_act=f"state:{state}",
            aria_pressed=str(wanted.state == state).lower(),
        )
        for state in HostState
        if count[state] or wanted.state == state
    ]
    return el("div", buttons, cls="standings", key="states", role="group", aria_label="Slices by state")


def _options(everything: str, names: Iterable[str]) -> list[tuple[str, str]]:
    return [("", everything), *((name, name) for name in sorted(set(names)))]


def _tile(view: SliceView) -> Node:
    tile = el(
        "a",
        drawing(drawings.tile(view), cls="picture"),
        el("b", view.name),
        el("span", f"{view.type_name}{f' · {view.topology}' if view.topology else ''}", cls="quiet"),
        el("span", drawing(drawings.sign(view.state), cls="mark"), el("span", view.standing), cls="how"),
        el("span", view.owner or "no job", cls="quiet whose"),
        href=f"/slices/{view.name}",
        cls=f"tile is-{view.state}",
        aria_label=f"{view.summary}{f', {view.owner}' if view.owner else ''}",
    )
    return el("div", tile, role="listitem", key=view.name)


def _pager(count: int, page: int) -> Node:
    last = max(count - 1, 0) // PAGE
    if not last:
        return el("div", key="pager")
    return el(
        "nav",
        el("span", f"{page * PAGE + 1:,}–{min((page + 1) * PAGE, count):,} of {count:,}"),
        _turn("Previous", page - 1, last),
        _turn("Next", page + 1, last),
        cls="pager",
        key="pager",
        aria_label="Pages of slices",
    )


def _turn(words: str, to: int, last: int) -> Node:
    return el("button", words, cls="plain-button", type="button", data_act=f"page:{to}", disabled=not 0 <= to <= last)


def _nothing() -> Node:
    return empty(
        "There are no slices.",
        [
            "Nodes with TPU chips or GPUs appear here as soon as there are some. A job asks for its own: ",
            el("code", "sliceworks train submit -f job.yaml"),
        ],
        icon_name="view_in_ar",
    )


def _none_such() -> Node:
    return el("div", empty("No slice is like that.", button("Show all", "all"), icon_name="filter_alt_off"), key="none")


def to_job(owner: str) -> Node | None:
    """The job that a slice works for."""
    return link(owner, f"/jobs/{owner}") if owner else None
