"""The queues page: quota and pending workloads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.console.components import (
    el,
    empty,
    format_amount,
    heading,
    legend,
    link,
    meter,
    panel,
    prose,
    state,
    table,
    time_ago,
    warning,
)
from sliceworks.console.kinds import CLUSTER_QUEUES
from sliceworks.console.page import register_page
from sliceworks.console.views import queue_reason
from sliceworks.console.views.queue_view import KINDS, current_queues
from sliceworks.console.views.start_forecast import StartForecasts

if TYPE_CHECKING:
    from datetime import datetime

    from sliceworks.console.components import Node
    from sliceworks.console.page import PageContext
    from sliceworks.console.views.queue_view import Queue, Quota
    from sliceworks.console.views.start_forecast import Starts

_GIBI = 2**30
_LEGEND = (("", "used from own quota"), ("borrowed", "borrowed from the cohort"), ("lent", "lent to others"), ("free", "free"))


@register_page("queues", title="Queues", icon="reorder", key="q")
def queues_page(context: PageContext) -> None:
    """The queues page."""
    cache = context.cache

    def draw() -> list[Node]:
        known = cache.table(CLUSTER_QUEUES)
        if not cache.knows(CLUSTER_QUEUES):
            hint = "Queues need Kueue: install it, or connect to a twin." if known.state == "missing" else None
            return [heading("Queues"), empty(known.problem, hint, icon_name="reorder")]
        starts = cache.shared(StartForecasts).starts()
        return [heading("Queues"), *map(warning, cache.problems(*KINDS)), *queue_panels(current_queues(cache), cache.now(), starts)]

    context.show(draw, *KINDS, *queue_reason.KINDS)


def queue_panels(queues: tuple[Queue, ...], now: datetime, starts: Starts) -> list[Node]:
    """The page below its heading; `starts` are the predicted starts of pending jobs."""
    if not queues:
        return [empty("No queues yet.", el("code", "sliceworks queues apply -f environment.yaml"), icon_name="reorder")]
    return [el("div", legend(*_LEGEND), [_queue(item, now, starts) for item in queues], cls="stack", key="queues")]


def _queue(queue: Queue, now: datetime, starts: Starts) -> Node:
    note = [f"cohort {queue.cohort} · " if queue.cohort else "", f"{format_amount(queue.admitted)} admitted"]
    stopped = state(f"stopped: {queue.stopped}", "wait") if queue.stopped else None
    teams = el("span", f"for {', '.join(queue.teams)}", cls="teams") if queue.teams not in ((), (queue.name,)) else None
    shown = [chip for chip in queue.chips if chip.nominal or chip.used or chip.lent]
    others = [item.flavor for item in queue.chips if item not in shown]
    node = panel(
        queue.name,
        [_quota(quota) for quota in shown] or (None if others else empty("This queue has no chip quota.", icon_name="memory")),
        el("p", f"no quota of {', '.join(others)}", cls="note") if others else None,
        el("p", "also ", ", ".join(map(_other, queue.others)), cls="note") if queue.others else None,
        _pending(queue, now, starts),
        note="".join(note),
        tools=[stopped, teams],
        key=queue.name,
    )
    node[1]["id"] = queue.name  # type: ignore[index]
    return node


def _quota(quota: Quota) -> Node:
    return meter(quota.flavor, quota.used, quota.nominal, borrowed=quota.borrowed, lent=quota.lent, unit="chips", key=quota.flavor)


def _other(quota: Quota) -> str:
    """Usage of a resource other than chips."""
    if quota.resource == "memory":
        return f"memory {quota.used / _GIBI:,.0f} of {quota.nominal / _GIBI:,.0f} GiB"
    return f"{quota.resource} {format_amount(quota.used)} of {format_amount(quota.nominal)}"


def _pending(queue: Queue, now: datetime, starts: Starts) -> Node:
    if not queue.waiting:
        return el("p", "No pending workloads.", cls="note", key="none")
    rows = [
        (
            f"{item.namespace}/{item.name}",
            (
                str(item.place),
                link(item.name, f"/jobs/{item.namespace}/{item.name}"),
                item.team,
                item.priority,
                time_ago(item.since, now),
                starts.get((item.namespace, item.name), "–"),
                el("span", prose(item.why), cls="breaks"),
            ),
        )
        for item in queue.first
    ]
    rest = queue.waiting - len(queue.first)
    more = el("p", link(f"and {format_amount(rest)} more", "/jobs?state=queued"), cls="note") if rest else None
    shown = table(
        ("#", "Job", "Team", "Priority", "Waiting", "Starts", "Reason"), rows, caption=f"Pending workloads of {queue.name}"
    )
    return el("div", el("h3", f"{format_amount(queue.waiting)} pending"), shown, more, cls="waiting", key="waiting")
