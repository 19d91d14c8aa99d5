"""The slices page: all slices as tiles."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from nicegui import ui

from sliceworks.base.names import pluralize
from sliceworks.console.components import button, choice, drawing, el, empty, heading, link, search, warning
from sliceworks.console.kinds import NAMESPACES, NODES
from sliceworks.console.page import register_page
from sliceworks.console.slice_cache import KINDS, POLL_INTERVAL, get_slice_cache
from sliceworks.console.views import slice_svg
from sliceworks.console.views.hosts import HostState
from sliceworks.console.views.slice_view import SliceFilter

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sliceworks.console.components import Node
    from sliceworks.console.page import PageContext
    from sliceworks.console.views.slice_view import SliceView

PAGE_SIZE = 48
"""Tiles per page; only changed tiles are sent."""
_TAIL = 6  # characters at the end of a name that are never truncated: names of one pool differ only there


@dataclass(slots=True)
class _Selection:
    """The filter and page of one browser."""

    filter: SliceFilter
    page: int = 0


@register_page("slices", title="Slices", icon="view_in_ar", key="s")
def slices_page(context: PageContext) -> None:
    """All slices as tiles."""
    slice_cache = get_slice_cache(context.cache)
    shown = _Selection(SliceFilter.read(context.query))

    def draw() -> list[Node]:
        slices = slice_cache.all()
        picked = [item for item in slices if shown.filter(item)]
        shown.page = min(shown.page, max(len(picked) - 1, 0) // PAGE_SIZE)
        return [
            heading("Slices", el("span", pluralize(len(slices), "slice"), cls="lead") if context.cache.knows(NODES) else None),
            *map(warning, context.cache.problems(*KINDS)),
            *(
                slice_tiles(slices, picked, shown.filter, shown.page)
                if slices
                else [_no_slices()]
                if context.cache.knows(NODES)
                else []
            ),
        ]

    def act(pressed: str) -> None:
        what, _, rest = pressed.partition(":")
        if what == "state":
            shown.filter = replace(shown.filter, state="" if shown.filter.state == rest else rest)
            shown.page = 0
        elif what == "page":
            shown.page = max(int(rest), 0)
        elif what == "all":
            shown.filter, shown.page = SliceFilter(), 0
        redraw()

    def chosen(field: str, value: str) -> None:
        if field in ("type_name", "team", "text"):
            shown.filter, shown.page = replace(shown.filter, **{field: value}), 0
            redraw()

    def redraw() -> None:
        tree.show(draw())
        context.remember("/slices", shown.filter.to_params())

    tree = context.show(draw, *KINDS, NAMESPACES, on_act=act, on_field=chosen, ages=1.0)
    ui.timer(POLL_INTERVAL, lambda: slice_cache.poll(context.console.container))


def slice_tiles(slices: list[SliceView], picked: list[SliceView], selected: SliceFilter, page: int) -> list[Node]:
    """The page below its heading."""
    part = picked[page * PAGE_SIZE : (page + 1) * PAGE_SIZE]
    return [
        drawing(slice_svg.pattern_defs(), key="patterns"),
        _states(slices, selected),
        el(
            "div",
            choice("Type", "type_name", _options("all types", (view.type_name for view in slices)), selected.type_name),
            choice("Team", "team", _options("all teams", (view.team for view in slices if view.team)), selected.team),
            search("Search slices and jobs", "text", selected.text),
            el("span", f"{len(picked):,} of {len(slices):,}", cls="count", role="status"),
            cls="tools",
            key="tools",
        ),
        el("div", [_tile(item) for item in part], cls="tiles", key="tiles", role="list") if part else _no_matches(),
        _pager(len(picked), page),
    ]


def _states(slices: list[SliceView], selected: SliceFilter) -> Node:
    """The number of slices in each state, as filter buttons that double as the legend."""
    count = Counter(item.state for item in slices)
    buttons = [
        el(
            "button",
            drawing(slice_svg.state_icon(state), cls="mark"),
            el("b", f"{count[state]:,}"),
            el("span", str(state)),
            cls="standing",
            type="button",
            key=state,
            data_act=f"state:{state}",
            aria_pressed=str(selected.state == state).lower(),
        )
        for state in HostState
        if count[state] or selected.state == state
    ]
    return el("div", buttons, cls="standings", key="states", role="group", aria_label="Slices by state")


def _options(everything: str, names: Iterable[str]) -> list[tuple[str, str]]:
    return [("", everything), *((name, name) for name in sorted(set(names)))]


def _tile(view: SliceView) -> Node:
    tile = el(
        "a",
        drawing(slice_svg.tile_svg(view), cls="picture"),
        el("b", el("span", view.name[:-_TAIL]), el("span", view.name[-_TAIL:], cls="tail"), title=view.name),
        el("span", f"{view.type_name}{f' · {view.topology}' if view.topology else ''}", cls="quiet"),
        el("span", drawing(slice_svg.state_icon(view.state), cls="mark"), el("span", view.status), cls="how"),
        el("span", view.owner or "no job", cls="quiet whose"),
        href=f"/slices/{view.name}",
        cls=f"tile is-{view.state}",
        aria_label=f"{view.summary}{f', {view.owner}' if view.owner else ''}",
    )
    return el("div", tile, role="listitem", key=view.name)


def _pager(count: int, page: int) -> Node:
    last = max(count - 1, 0) // PAGE_SIZE
    if not last:
        return el("div", key="pager")
    return el(
        "nav",
        el("span", f"{page * PAGE_SIZE + 1:,}–{min((page + 1) * PAGE_SIZE, count):,} of {count:,}"),
        _turn("Previous", page - 1, last),
        _turn("Next", page + 1, last),
        cls="pager",
        key="pager",
        aria_label="Slice pages",
    )


def _turn(words: str, to: int, last: int) -> Node:
    return el("button", words, cls="plain-button", type="button", data_act=f"page:{to}", disabled=not 0 <= to <= last)


def _no_slices() -> Node:
    return empty(
        "No slices.",
        [
            "Nodes with TPU chips or GPUs appear here. Submit a job to create slices: ",
            el("code", "sliceworks train submit -f job.yaml"),
        ],
        icon_name="view_in_ar",
    )


def _no_matches() -> Node:
    return el("div", empty("No matching slices.", button("Show all", "all"), icon_name="filter_alt_off"), key="none")


def job_link(owner: str) -> Node | None:
    """A link to the job of a slice."""
    return link(owner, f"/jobs/{owner}") if owner else None
