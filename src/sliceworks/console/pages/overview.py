"""The overview page: chips, queues, cost and recent incidents."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlencode

from sliceworks.base.names import pluralize
from sliceworks.console.components import (
    columns,
    drawing,
    el,
    empty,
    format_amount,
    format_usd,
    heading,
    legend,
    link,
    meter,
    panel,
    stat,
    state,
    stats,
    table,
    time_ago,
    warning,
)
from sliceworks.console.kinds import CLUSTER_QUEUES, EVENTS, JOBSETS, NODES
from sliceworks.console.page import register_page
from sliceworks.console.views.cluster_summary import KINDS, build_overview
from sliceworks.console.views.queue_reason import PendingReasons
from sliceworks.console.views.team_usage import SHOWN_TEAMS, current_usage, usage_svg

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from sliceworks.console.components import Child, Node
    from sliceworks.console.page import PageContext
    from sliceworks.console.views.cluster_summary import ChipUsage, Overview
    from sliceworks.console.views.team_usage import UsageView
    from sliceworks.kube.resources import Resource


@register_page("overview", title="Overview", icon="dashboard", key="o")
def overview_page(context: PageContext) -> None:
    """The overview page."""
    cache = context.cache

    def draw() -> list[Child]:
        overview = cache.compute(build_overview, *KINDS)
        if cache.shared(PendingReasons).incomplete:
            cache.invalidate(build_overview)
        usage = usage_panel(current_usage(cache)) if cache.knows(JOBSETS) else None
        panels = overview_panels(overview, cache.now(), cache.knows)
        return [heading("Overview"), *map(warning, cache.problems(*KINDS)), *panels, usage]

    context.show(draw, *KINDS)


def overview_panels(overview: Overview, now: datetime, knows: Callable[..., bool]) -> list[Node]:
    """The page below its heading. Kinds that `knows` denies are shown as unknown, not as zero."""
    colors = legend(("", "own"), ("borrowed", "borrowed"), ("free", "free"))
    return [
        _stats(overview, knows),
        columns(
            [
                panel("Chips by team", _usage(overview.teams, "team", knows(JOBSETS)), colors if overview.teams else None),
                panel("Queues", _queues(overview, now, knows(CLUSTER_QUEUES)), note=link("All queues", "/queues")),
            ],
            [
                panel("Chips by type", _usage(overview.types, "type", knows(JOBSETS))),
                panel("Recent incidents", _incidents(overview, now, knows(JOBSETS, NODES, EVENTS)), note="last two hours"),
            ],
        ),
    ]


def usage_panel(view: UsageView) -> Node | None:
    """Chips and cost of each team over time; None if no job has run."""
    if not view.totals:
        return None
    rows = [
        (
            total.team,
            (
                [el("i", cls=f"swatch team-{min(number, SHOWN_TEAMS)}", aria_hidden="true"), " ", total.team],
                format_amount(round(total.chip_hours, 1)),
                format_usd(total.usd),
                format_usd(total.usd_per_hour),
            ),
        )
        for number, total in enumerate(view.totals)
    ]
    shown = table(("Team", "Chip hours", "Cost so far", "Cost per hour"), rows, numbers=(1, 2, 3), caption="Usage by team")
    chart = drawing(usage_svg(view), cls="strip")
    return panel("Usage by team over time", chart, shown, note=f"since {view.start:%d %b %H:%M}", key="usage")


def _stats(overview: Overview, knows: Callable[..., bool]) -> Node:
    quota = f"{format_amount(overview.admitted)} of {format_amount(overview.quota)} admitted" if overview.quota else "no quota"
    cost = "on-demand price" if not overview.unpriced else f"excludes {pluralize(overview.unpriced, 'workload')} of unknown price"
    hosts = ["of ", format_amount(overview.hosts), " · ", link("Slices", "/slices")]
    starting = f"{format_amount(overview.starting)} starting · " if overview.starting else None
    suspended = f"{format_amount(overview.suspended)} suspended · " if overview.suspended else None
    existing = f"of {format_amount(overview.existing)} · " if overview.existing else ""
    entries: list[tuple[Resource, str, str, Child]] = [
        (JOBSETS, "Chips in use", format_amount(overview.used), f"{existing}{quota}" if knows(CLUSTER_QUEUES) else None),
        (JOBSETS, "Running jobs", format_amount(overview.running), [starting, link("Show", "/jobs?state=running")]),
        (JOBSETS, "Pending jobs", format_amount(overview.waiting), [suspended, link("Show", "/jobs?state=queued")]),
        (JOBSETS, "Cost per hour", format_usd(overview.usd) if overview.usd or not overview.used else "–", cost),
        (NODES, "Ready hosts", format_amount(overview.hosts_ready), hosts),
    ]
    return stats(stat(name, value, note) if knows(kind) else stat(name, "–", "unknown") for kind, name, value, note in entries)


def _usage(uses: tuple[ChipUsage, ...], what: str, known: bool) -> Node | list[Node]:
    if not known:
        return _unknown()
    if not uses:
        return empty(f"No {what} uses chips or has pending jobs.", icon_name="memory")
    return [
        meter(_usage_link(use.name, what), use.used, use.quota, borrowed=use.borrowed, key=use.name, note=_note(use))
        for use in uses
    ]


def _usage_link(name: str, what: str) -> Node:
    """A team links to its jobs, a type to its slices."""
    page = "jobs" if what == "team" else "slices"
    return link(name, f"/{page}?{urlencode({what: name})}")


def _note(use: ChipUsage) -> str:
    parts = []
    if use.waiting:
        parts.append(f"{format_amount(use.waiting)} pending")
    if use.usd:
        parts.append(f"{format_usd(use.usd)}/h")
    return f"· {' · '.join(parts)}" if parts else ""


def _unknown() -> Node:
    return empty("Unknown.", icon_name="visibility_off")


def _queues(overview: Overview, now: datetime, known: bool) -> Node:
    if not known:
        return _unknown()
    if not overview.queues:
        return empty("This cluster has no queues.", el("code", "sliceworks queues apply"), icon_name="reorder")
    rows = [
        (
            queue.name,
            (
                [
                    link(queue.name, f"/queues#{queue.name}"),
                    *([" ", state(f"stopped: {queue.stopped}", "wait")] if queue.stopped else []),
                ],
                format_amount(queue.admitted),
                format_amount(queue.waiting),
                time_ago(queue.since, now),
            ),
        )
        for queue in overview.queues
    ]
    return table(("Queue", "Admitted", "Pending", "Longest wait"), rows, numbers=(1, 2, 3), caption="Queues")


def _incidents(overview: Overview, now: datetime, known: bool) -> Node:
    if not overview.incidents and not known:
        return _unknown()
    if not overview.incidents:
        return empty("No incidents.", "No failed jobs, lost hosts or preemptions.", icon_name="task_alt")
    items = []
    for incident in overview.incidents:
        what = link(incident.what, incident.to) if incident.to else incident.what
        message = el("div", incident.message, cls="message") if incident.message else None
        when = el("span", time_ago(incident.at, now), " ago", cls="when")
        items.append(el("li", el("span", what, cls="what"), when, message, cls=incident.tone, key=f"{incident.what}{incident.at}"))
    return el("ol", items, cls="line")
