"""Queues: how much of each quota is used, borrowed and lent, and who waits, in order, since when and why. Pure."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sliceworks.console.kinds import CLUSTER_QUEUES, JOBSETS, LOCAL_QUEUES, NAMESPACES, WORKLOADS
from sliceworks.console.views import whys
from sliceworks.console.views.teams import team_of
from sliceworks.console.views.work import work_row
from sliceworks.training.standing import standings

if TYPE_CHECKING:
    from sliceworks.console.world import World
    from sliceworks.kube.resources import Key
    from sliceworks.training.standing import Standing

KINDS = (CLUSTER_QUEUES, LOCAL_QUEUES, WORKLOADS)
SHOWN = 6  # of those who wait in a queue, so many are named
_CHIPS = "/"  # chips are the resources that have a vendor in their name


@dataclass(frozen=True, slots=True)
class Quota:
    """One flavor of one resource."""

    flavor: str
    resource: str
    nominal: float
    used: float
    borrowed: float
    lent: float


@dataclass(frozen=True, slots=True)
class Waiter:
    """Who waits: the place counts from 1."""

    place: int
    namespace: str
    name: str
    team: str
    priority: int
    since: str
    why: str


@dataclass(frozen=True, slots=True)
class Queue:
    """One ClusterQueue. `chips` are its accelerators, `others` what else it counts."""

    name: str
    cohort: str
    stopped: str
    teams: tuple[str, ...]
    admitted: int
    chips: tuple[Quota, ...]
    others: tuple[Quota, ...]
    waiting: int
    first: tuple[Waiter, ...]


def current(world: World) -> tuple[Queue, ...]:
    """The queues as they are kept for everybody. They are made again soon while an answer is owed."""
    found = world.once(queues, *KINDS, *whys.KINDS, JOBSETS, NAMESPACES)
    if world.kept(whys.Whys).owes:
        world.again(queues)
    return found


def queues(world: World) -> tuple[Queue, ...]:
    """All queues, those in which most wait first."""
    found = standings(world.table(CLUSTER_QUEUES).all(), world.table(LOCAL_QUEUES).all(), ())
    lines = _lines(world, found)
    world.kept(whys.Whys).begin()
    every = [_queue(world, each, lines[each.name]) for each in found]
    return tuple(sorted(every, key=lambda each: (each.cohort, -each.waiting, each.name)))


def _lines(world: World, found: list[Standing]) -> dict[str, list[Key]]:
    """Who waits in each queue: the more urgent first, then the earlier."""
    leads = {place: each.name for each in found for place in each.queues}
    rows = world.ledger(WORKLOADS, work_row).rows()
    lines: dict[str, list[Key]] = defaultdict(list)
    for key, row in rows.items():
        queue = leads.get(f"{row.namespace}/{row.queue}") if row.waits else None
        if queue:
            lines[queue].append(key)
    for line in lines.values():
        line.sort(key=lambda key: (-rows[key].priority, rows[key].since, key))
    return lines


def _queue(world: World, found: Standing, line: list[Key]) -> Queue:
    teams = team_of(world)
    quotas = [
        Quota(each.flavor, each.resource, float(each.quota), float(each.used), float(each.borrowed), float(round(each.lent)))
        for each in found.holdings
    ]
    return Queue(
        name=found.name,
        cohort=found.cohort,
        stopped=found.stopped,
        teams=tuple(sorted({teams.get(place.partition("/")[0], place.partition("/")[0]) for place in found.queues})),
        admitted=found.admitted,
        chips=tuple(each for each in quotas if _CHIPS in each.resource),
        others=tuple(each for each in quotas if _CHIPS not in each.resource and each.nominal),
        waiting=len(line),
        first=_first(world, line),
    )


def _first(world: World, line: list[Key]) -> tuple[Waiter, ...]:
    table, rows, teams = world.table(WORKLOADS), world.ledger(WORKLOADS, work_row).rows(), team_of(world)
    head = [obj for key in line[:SHOWN] if (obj := table.get(key.name, key.namespace))]
    found = []
    for place, (key, workload) in enumerate(zip(line, head, strict=False)):
        row = rows[key]
        words = world.kept(whys.Whys).words(workload, place, head)
        team = teams.get(row.namespace, row.namespace)
        found.append(Waiter(place + 1, row.namespace, row.job, team, row.priority, row.since, words))
    return tuple(found)
