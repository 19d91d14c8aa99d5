"""The page of one slice: topology, hosts, job and events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicegui import ui

from sliceworks.console.components import drawing, el, empty, facts, format_usd, grid, heading, link, panel, state, table, time_ago
from sliceworks.console.kinds import EVENTS, NODES
from sliceworks.console.page import register_page
from sliceworks.console.pages.slices import job_link
from sliceworks.console.slice_cache import KINDS, POLL_INTERVAL, get_slice_cache
from sliceworks.console.views import slice_svg
from sliceworks.console.views.hosts import STATE_LABELS, HostState

if TYPE_CHECKING:
    from datetime import datetime

    from sliceworks.console.cluster_cache import ClusterCache
    from sliceworks.console.components import Child, Node
    from sliceworks.console.page import PageContext
    from sliceworks.console.views.hosts import Host
    from sliceworks.console.views.slice_view import SliceView

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
_MAX_EVENTS = 30


@register_page("slice", title="Slice", path="/slices/{name}", parent="slices")
def slice_page(context: PageContext) -> None:
    """The page of one slice."""
    name, cache = context.arguments["name"], context.cache
    slices = get_slice_cache(cache)
    picked: list[int] = []

    def draw() -> list[Node]:
        view = slices.named(name)
        crumb = link("Slices", "/slices")
        if view is None:
            words = cache.table(NODES).problem or f"Slice {name} not found."
            return [heading(name, crumb=crumb), empty(words, link("All slices", "/slices"), icon_name="view_in_ar")]
        return [
            heading(name, state(view.status, TONES[view.state]), crumb=crumb),
            drawing(slice_svg.pattern_defs(), key="patterns"),
            *slice_panels(view, picked[-1] if picked else None, _events(cache, view), cache.now()),
        ]

    def act(pressed: str) -> None:
        what, _, number = pressed.partition(":")
        if what == "host":
            picked[:] = [] if picked == [int(number)] else [int(number)]
            tree.show(draw())

    tree = context.show(draw, *KINDS, EVENTS, on_act=act, ages=1.0)
    ui.timer(POLL_INTERVAL, lambda: slices.poll(context.console.container))


def slice_panels(view: SliceView, picked: int | None, events: list[Node], now: datetime) -> list[Node]:
    """The page below its heading."""
    host = next((item for item in view.hosts if item.number == picked), None)
    problems = [*(_problem(item) for item in view.hosts if TONES[item.state] == "bad"), *events]
    return [
        el(
            "div",
            panel("Topology", drawing(slice_svg.detail_svg(view), cls="large"), _legend(view), note=_shape(view)),
            el("div", _about(view), _host(host, now), cls="stack"),
            cls="beside",
            key="top",
        ),
        grid(
            panel("Hosts", _hosts(view, now), note=f"{view.up} of {len(view.hosts)} ready", wide=True),
            panel("Events", el("ol", problems, cls="line") if problems else _no_events(), note="warnings", wide=True),
        ),
    ]


def _shape(view: SliceView) -> str:
    if not view.topology:
        return f"{view.chips} GPUs"
    kind = "grid" if view.topology.count("x") == 1 else "box"
    torus = getattr(view.shape, "torus", False)
    return f"{view.topology} {kind}{', torus (dashed links wrap around)' if torus else ''}"


def _legend(view: SliceView) -> Node:
    shown = [
        el("span", drawing(slice_svg.state_icon(legend_state), cls="mark"), str(legend_state))
        for legend_state in slice_svg.legend_states([view])
    ]
    return el("div", shown, cls="signs", aria_hidden="true")


def _about(view: SliceView) -> Node:
    usd = view.usd
    price = f"{format_usd(usd)} per hour" if usd is not None else "unknown"
    return panel(
        "Slice",
        facts(
            (
                ("Type", view.type_name),
                ("Job", job_link(view.owner) or "none"),
                ("Team", view.team),
                ("Chips", f"{view.chips:,} on {len(view.hosts):,} × {view.machine or 'unknown machine type'}"),
                ("Node pool", view.pool or "none"),
                ("Zone", view.zone),
                ("Capacity", view.capacity),
                ("On-demand price", price),
            )
        ),
    )


def _host(host: Host | None, now: datetime) -> Node:
    if host is None:
        hint = "Hover over or select a host in the topology for details."
        return panel("Host", el("p", hint, cls="note"), key="host")
    pairs: tuple[tuple[str, Child], ...] = (
        ("Node", host.name or "none"),
        ("State", state(str(host.state), TONES[host.state])),
        ("Meaning", f"it {STATE_LABELS[host.state]}" if host.state not in (HostState.RUNNING, HostState.READY) else None),
        ("Job", job_link(str(host.work)) if host.work else None),
        ("Pod", host.work.pod if host.work else None),
        ("Message", host.message),
        ("Age", time_ago(host.created, now) if host.created else None),
    )
    return panel(f"Host {host.number}", facts(pairs), key="host")


def _hosts(view: SliceView, now: datetime) -> Node:
    rows = [
        (
            str(host.number),
            (
                str(host.number),
                host.name or el("span", "no node", cls="quiet"),
                el("span", drawing(slice_svg.state_icon(host.state), cls="mark"), str(host.state), cls="how"),
                [job_link(str(host.work)), el("span", f" {host.work.pod}", cls="quiet")] if host.work else "–",
                host.message or "–",
                time_ago(host.created, now),
            ),
        )
        for host in view.hosts
    ]
    return table(("", "Node", "State", "Job", "Message", "Age"), rows, numbers=(0, 5), caption=f"Hosts of {view.name}")


def _events(cache: ClusterCache, view: SliceView) -> list[Node]:
    """Warnings about the nodes; kubelets use the name of a node as its uid."""
    table_, nodes_, now = cache.table(EVENTS).store, cache.table(NODES), cache.now()
    names = [host.name for host in view.hosts if host.name]
    subjects = dict.fromkeys([*names, *(node["metadata"].get("uid", "") for name in names if (node := nodes_.get(name)))])
    events = [event for subject in subjects for event in table_.by_index("subject", subject)]
    events.sort(key=lambda event: str(event.get("lastTimestamp") or event.get("eventTime") or ""), reverse=True)
    return [_event(event, now) for event in events[:_MAX_EVENTS]]


def _event(event: dict[str, object], now: datetime) -> Node:
    at = str(event.get("lastTimestamp") or event.get("eventTime") or "")
    about = event.get("involvedObject")
    name = str(about.get("name")) if isinstance(about, dict) else ""
    words = el("span", f"{event.get('reason')} · {name}", cls="what")
    message = el("div", str(event.get("message") or ""), cls="message")
    return el(
        "li", words, el("span", time_ago(at, now), " ago", cls="when"), message, cls="bad", key=f"{name}{at}{event.get('reason')}"
    )


def _problem(host: Host) -> Node:
    """A host that has failed or is being preempted, also if its events have expired."""
    words = el("span", f"{host.name or f'host {host.number}'} {STATE_LABELS[host.state]}", cls="what")
    message = el("div", host.message, cls="message") if host.message else None
    return el("li", words, el("span", "now", cls="when"), message, cls="bad", key=f"host {host.number}")


def _no_events() -> Node:
    return empty("No warnings.", "Warnings about the hosts of the slice appear here.", icon_name="task_alt")
