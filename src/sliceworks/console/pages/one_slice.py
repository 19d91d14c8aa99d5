"""One slice, drawn large: its topology, its hosts, whose work it does, and what was said about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicegui import ui

from sliceworks.console.fleet import KINDS, LOOK_EVERY, fleet_of
from sliceworks.console.kinds import EVENTS, NODES
from sliceworks.console.nodes import drawing, el, empty, facts, grid, heading, link, panel, state, table
from sliceworks.console.pages.slices import to_job
from sliceworks.console.registry import page_of
from sliceworks.console.views import drawings
from sliceworks.console.views.hosts import WORDS, HostState
from sliceworks.console.views.times import ago, dollars

if TYPE_CHECKING:
    from datetime import datetime

    from sliceworks.console.here import Here
    from sliceworks.console.nodes import Child, Node
    from sliceworks.console.views.hosts import Host
    from sliceworks.console.views.slices import SliceView
    from sliceworks.console.world import World

TONES = {
    HostState.FAILED: "bad",
    HostState.PREEMPTED: "bad",
    HostState.MAINTENANCE: "lent",
    HostState.MISSING: "idle",
    HostState.DRAINING: "wait",
    HostState.BOOTING: "busy",
    HostState.RUNNING: "busy",
    HostState.READY: "good",
}
_MOST_EVENTS = 30


@page_of("slice", title="Slice", path="/slices/{name}", parent="slices")
def slice_page(here: Here) -> None:
    """One slice."""
    name, world = here.arguments["name"], here.world
    fleet = fleet_of(world)
    picked: list[int] = []

    def draw() -> list[Node]:
        view = fleet.named(name)
        crumb = link("Slices", "/slices")
        if view is None:
            words = world.table(NODES).trouble or "There is no such slice, or not any more."
            return [heading(name, crumb=crumb), empty(words, link("All slices", "/slices"), icon_name="view_in_ar")]
        return [
            heading(name, state(view.standing, TONES[view.state]), crumb=crumb),
            drawing(drawings.patterns(), key="patterns"),
            *nodes(view, picked[-1] if picked else None, _events(world, view), world.now()),
        ]

    def act(pressed: str) -> None:
        what, _, number = pressed.partition(":")
        if what == "host":
            picked[:] = [] if picked == [int(number)] else [int(number)]
            tree.show(draw())

    tree = here.show(draw, *KINDS, EVENTS, on_act=act, ages=1.0)
    ui.timer(LOOK_EVERY, lambda: fleet.ask(here.console.container))


def nodes(view: SliceView, picked: int | None, events: list[Node], now: datetime) -> list[Node]:
    """The page below its heading."""
    host = next((each for each in view.hosts if each.number == picked), None)
    return [
        el(
            "div",
            panel("Topology", drawing(drawings.large(view), cls="large"), _legend(view), note=_shape(view)),
            el("div", _about(view), _host(host, now), cls="stack"),
            cls="beside",
            key="top",
        ),
        grid(
            panel("Hosts", _hosts(view, now), note=f"{view.up} of {len(view.hosts)} can work", wide=True),
            panel("What was said about it", el("ol", events, cls="line") if events else _quiet(), note="warnings", wide=True),
        ),
    ]


def _shape(view: SliceView) -> str:
    if not view.topology:
        return f"{view.chips} GPUs"
    kind = "grid" if view.topology.count("x") == 1 else "box"
    torus = getattr(view.shape, "torus", False)
    return f"{view.topology} {kind}{', a torus: dashed links wrap around' if torus else ''}"


def _legend(view: SliceView) -> Node:
    shown = [el("span", drawing(drawings.sign(each), cls="mark"), str(each)) for each in drawings.states_shown([view])]
    return el("div", shown, cls="signs", aria_hidden="true")


def _about(view: SliceView) -> Node:
    usd = view.usd
    price = f"{dollars(usd)} an hour" if usd is not None else "unknown"
    return panel(
        "Slice",
        facts(
            (
                ("Type", view.type_name),
                ("Works for", to_job(view.owner) or "nobody"),
                ("Team", view.team),
                ("Chips", f"{view.chips:,} on {len(view.hosts):,} × {view.machine or 'unknown machines'}"),
                ("Node pool", view.pool or "none: the machine stands alone"),
                ("Zone", view.zone),
                ("Capacity", view.capacity),
                ("List price", price),
            )
        ),
    )


def _host(host: Host | None, now: datetime) -> Node:
    if host is None:
        hint = "Point at a host of the drawing, or press it, to see what it does."
        return panel("Host", el("p", hint, cls="note"), key="host")
    pairs: tuple[tuple[str, Child], ...] = (
        ("Node", host.name or "none"),
        ("State", state(str(host.state), TONES[host.state])),
        ("Means", f"it {WORDS[host.state]}" if host.state not in (HostState.RUNNING, HostState.READY) else None),
        ("Job", to_job(str(host.work)) if host.work else None),
        ("Pod", host.work.pod if host.work else None),
        ("Says", host.message),
        ("Age", ago(host.created, now) if host.created else None),
    )
    return panel(f"Host {host.number}", facts(pairs), key="host")


def _hosts(view: SliceView, now: datetime) -> Node:
    rows = [
        (
            str(host.number),
            (
                str(host.number),
                host.name or el("span", "no machine", cls="quiet"),
                el("span", drawing(drawings.sign(host.state), cls="mark"), str(host.state), cls="how"),
                [to_job(str(host.work)), el("span", f" {host.work.pod}", cls="quiet")] if host.work else "–",
                host.message or "–",
                ago(host.created, now),
            ),
        )
        for host in view.hosts
    ]
    return table(("", "Node", "State", "Works for", "Says", "Age"), rows, numbers=(0, 5), caption=f"Hosts of {view.name}")


def _events(world: World, view: SliceView) -> list[Node]:
    """Warnings about its nodes and the pods on them; kubelets write the name of a node where its uid should be."""
    table_, nodes_, now = world.table(EVENTS).store, world.table(NODES), world.now()
    names = [host.name for host in view.hosts if host.name]
    subjects = dict.fromkeys([*names, *(node["metadata"].get("uid", "") for name in names if (node := nodes_.get(name)))])
    found = [event for subject in subjects for event in table_.by_index("subject", subject)]
    found.sort(key=lambda event: str(event.get("lastTimestamp") or event.get("eventTime") or ""), reverse=True)
    return [_event(event, now) for event in found[:_MOST_EVENTS]]


def _event(event: dict[str, object], now: datetime) -> Node:
    at = str(event.get("lastTimestamp") or event.get("eventTime") or "")
    about = event.get("involvedObject")
    name = str(about.get("name")) if isinstance(about, dict) else ""
    words = el("span", f"{event.get('reason')} · {name}", cls="what")
    said = el("div", str(event.get("message") or ""), cls="said")
    return el("li", words, el("span", ago(at, now), " ago", cls="when"), said, cls="bad", key=f"{name}{at}{event.get('reason')}")


def _quiet() -> Node:
    return empty("Nothing bad.", "Warnings about its hosts appear here.", icon_name="task_alt")
