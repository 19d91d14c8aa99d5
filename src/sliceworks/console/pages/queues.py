"""The queues, drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.console.kinds import CLUSTER_QUEUES
from sliceworks.console.nodes import amount_of, el, empty, heading, legend, link, meter, panel, prose, state, table, warning
from sliceworks.console.registry import page_of
from sliceworks.console.views import whys
from sliceworks.console.views.queues import KINDS, current
from sliceworks.console.views.times import ago

if TYPE_CHECKING:
    from datetime import datetime

    from sliceworks.console.here import Here
    from sliceworks.console.nodes import Node
    from sliceworks.console.views.queues import Queue, Quota

_GIBI = 2**30
_LEGEND = (("", "used, of its own"), ("borrowed", "borrowed from the cohort"), ("lent", "lent to others"), ("free", "free"))


@page_of("queues", title="Queues", icon="reorder", key="q")
def queues_page(here: Here) -> None:
    """Quota and waiting, a panel for each queue."""
    world = here.world

    def draw() -> list[Node]:
        known = world.table(CLUSTER_QUEUES)
        if not world.knows(CLUSTER_QUEUES):
            hint = "Queues are Kueue's: install it, or look at a twin." if known.state == "missing" else None
            return [heading("Queues"), empty(known.trouble, hint, icon_name="reorder")]
        return [heading("Queues"), *map(warning, world.troubles(*KINDS)), *nodes(current(world), world.now())]

    here.show(draw, *KINDS, *whys.KINDS)


def nodes(found: tuple[Queue, ...], now: datetime) -> list[Node]:
    """The page without its heading."""
    if not found:
        return [empty("There are no queues yet.", el("code", "sliceworks queues apply -f environment.yaml"), icon_name="reorder")]
    return [el("div", legend(*_LEGEND), [_queue(each, now) for each in found], cls="stack", key="queues")]


def _queue(queue: Queue, now: datetime) -> Node:
    note = [f"cohort {queue.cohort} · " if queue.cohort else "", f"{amount_of(queue.admitted)} admitted"]
    stopped = state(f"stopped: {queue.stopped}", "wait") if queue.stopped else None
    teams = el("span", f"for {', '.join(queue.teams)}", cls="beside") if queue.teams not in ((), (queue.name,)) else None
    shown = [each for each in queue.chips if each.nominal or each.used or each.lent]
    others = [each.flavor for each in queue.chips if each not in shown]
    made = panel(
        queue.name,
        [_quota(each) for each in shown] or (None if others else empty("It counts no chips.", icon_name="memory")),
        el("p", f"none of its own of {', '.join(others)}", cls="note") if others else None,
        el("p", "also ", ", ".join(map(_other, queue.others)), cls="note") if queue.others else None,
        _waiting(queue, now),
        note="".join(note),
        tools=[stopped, teams],
        key=queue.name,
    )
    made[1]["id"] = queue.name  # type: ignore[index]
    return made


def _quota(each: Quota) -> Node:
    return meter(each.flavor, each.used, each.nominal, borrowed=each.borrowed, lent=each.lent, unit="chips", key=each.flavor)


def _other(each: Quota) -> str:
    """CPU and memory in a few words."""
    if each.resource == "memory":
        return f"memory {each.used / _GIBI:,.0f} of {each.nominal / _GIBI:,.0f} GiB"
    return f"{each.resource} {amount_of(each.used)} of {amount_of(each.nominal)}"


def _waiting(queue: Queue, now: datetime) -> Node:
    if not queue.waiting:
        return el("p", "Nobody waits.", cls="note", key="nobody")
    rows = [
        (
            f"{each.namespace}/{each.name}",
            (
                str(each.place),
                link(each.name, f"/jobs/{each.namespace}/{each.name}"),
                each.team,
                str(each.priority),
                ago(each.since, now),
                el("span", prose(each.why), cls="breaks"),
            ),
        )
        for each in queue.first
    ]
    rest = queue.waiting - len(queue.first)
    more = el("p", link(f"and {amount_of(rest)} more", "/jobs?state=queued"), cls="note") if rest else None
    shown = table(("#", "Job", "Team", "Priority", "Waits for", "Why"), rows, numbers=(3,), caption=f"Who waits in {queue.name}")
    return el("div", el("h3", f"{amount_of(queue.waiting)} waiting"), shown, more, cls="waiting", key="waiting")
