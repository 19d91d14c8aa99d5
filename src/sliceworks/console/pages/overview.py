"""The first page, drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlencode

from sliceworks.base.words import counted
from sliceworks.console.kinds import CLUSTER_QUEUES, EVENTS, JOBSETS, NODES
from sliceworks.console.nodes import (
    amount_of,
    columns,
    el,
    empty,
    heading,
    legend,
    link,
    meter,
    panel,
    stat,
    state,
    stats,
    table,
    warning,
)
from sliceworks.console.registry import page_of
from sliceworks.console.views.overview import KINDS, overview
from sliceworks.console.views.times import ago, dollars

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from sliceworks.console.here import Here
    from sliceworks.console.nodes import Child, Node
    from sliceworks.console.views.overview import Overview, Use
    from sliceworks.kube.resources import Resource


@page_of("overview", title="Overview", icon="dashboard", key="o")
def overview_page(here: Here) -> None:
    """Chips, queues, cost and trouble."""
    world = here.world

    def draw() -> list[Node]:
        found = world.once(overview, *KINDS)
        return [heading("Overview"), *map(warning, world.troubles(*KINDS)), *nodes(found, world.now(), world.knows)]

    here.show(draw, *KINDS)


def nodes(found: Overview, now: datetime, knows: Callable[..., bool]) -> list[Node]:
    """The page without its heading. `knows` tells which kinds could be read: nothing of what could not be is not none."""
    colours = legend(("", "own"), ("borrowed", "borrowed"), ("free", "free"))
    return [
        _numbers(found, knows),
        columns(
            [
                panel("Chips by team", _uses(found.teams, "team", knows(JOBSETS)), colours if found.teams else None),
                panel("Queues", _queues(found, now, knows(CLUSTER_QUEUES)), note=link("All queues", "/queues")),
            ],
            [
                panel("Chips by type", _uses(found.types, "type", knows(JOBSETS))),
                panel("What went wrong lately", _troubles(found, now, knows(JOBSETS, NODES, EVENTS)), note="the last two hours"),
            ],
        ),
    ]


def _numbers(found: Overview, knows: Callable[..., bool]) -> Node:
    share = f"{100 * found.used // found.quota:.0f} % of {amount_of(found.quota)}" if found.quota else "no quota"
    priced = found.running - found.unpriced
    cost = "list prices" if not found.unpriced else f"without {counted(found.unpriced, 'job')} of unknown price"
    hosts = ["of ", amount_of(found.hosts), " · ", link("Slices", "/slices")]
    each: list[tuple[Resource, str, str, Child]] = [
        (JOBSETS, "Chips in use", amount_of(found.used), share if knows(CLUSTER_QUEUES) else None),
        (JOBSETS, "Jobs that run", amount_of(found.running), link("Show them", "/jobs")),
        (JOBSETS, "Jobs that wait", amount_of(found.waiting), link("Show them", "/jobs?state=queued")),
        (JOBSETS, "Cost of an hour", dollars(found.usd) if priced or not found.running else "–", cost),
        (NODES, "Hosts ready", amount_of(found.hosts_ready), hosts),
    ]
    return stats(stat(name, value, note) if knows(kind) else stat(name, "–", "not known") for kind, name, value, note in each)


def _uses(uses: tuple[Use, ...], what: str, known: bool) -> Node | list[Node]:
    if not known:
        return _unknown()
    if not uses:
        return empty(f"No {what} has chips or waits for some.", icon_name="memory")
    return [
        meter(_named(each.name, what), each.used, each.quota, borrowed=each.borrowed, key=each.name, note=_note(each))
        for each in uses
    ]


def _named(name: str, what: str) -> Node:
    """A team leads to its jobs, a type to its slices."""
    page = "jobs" if what == "team" else "slices"
    return link(name, f"/{page}?{urlencode({what: name})}")


def _note(each: Use) -> str:
    parts = []
    if each.waiting:
        parts.append(f"{amount_of(each.waiting)} waiting")
    if each.usd:
        parts.append(f"{dollars(each.usd)}/h")
    return f"· {' · '.join(parts)}" if parts else ""


def _unknown() -> Node:
    return empty("Not known.", icon_name="visibility_off")


def _queues(found: Overview, now: datetime, known: bool) -> Node:
    if not known:
        return _unknown()
    if not found.queues:
        return empty("This cluster has no queues.", el("code", "sliceworks queues apply"), icon_name="reorder")
    rows = [
        (
            each.name,
            (
                [
                    link(each.name, f"/queues#{each.name}"),
                    *([" ", state(f"stopped: {each.stopped}", "wait")] if each.stopped else []),
                ],
                amount_of(each.admitted),
                amount_of(each.waiting),
                ago(each.since, now),
            ),
        )
        for each in found.queues
    ]
    return table(("Queue", "Admitted", "Waiting", "First waits for"), rows, numbers=(1, 2, 3), caption="Queues")


def _troubles(found: Overview, now: datetime, known: bool) -> Node:
    if not found.troubles and not known:
        return _unknown()
    if not found.troubles:
        return empty("Nothing.", "No job failed, no host was lost, nothing was preempted.", icon_name="task_alt")
    steps = []
    for each in found.troubles:
        what = link(each.what, each.to) if each.to else each.what
        said = el("div", each.said, cls="said") if each.said else None
        when = el("span", ago(each.at, now), " ago", cls="when")
        steps.append(el("li", el("span", what, cls="what"), when, said, cls=each.tone, key=f"{each.what}{each.at}"))
    return el("ol", steps, cls="line")
