"""The first page: who has which chips, how long the queues are, what an hour costs, and what went wrong. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sliceworks.console.kinds import CLUSTER_QUEUES, EVENTS, JOBSETS, LOCAL_QUEUES, NAMESPACES, NODES, WORKLOADS
from sliceworks.console.views.jobs import job_row
from sliceworks.console.views.teams import team_of
from sliceworks.console.views.troubles import host, told, troubles
from sliceworks.console.views.work import work_row
from sliceworks.training.standing import standings
from sliceworks.training.words import WAITS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sliceworks.console.views.jobs import JobRow
    from sliceworks.console.views.troubles import Trouble
    from sliceworks.console.views.work import Work
    from sliceworks.console.world import World
    from sliceworks.training.standing import Standing

KINDS = (JOBSETS, WORKLOADS, CLUSTER_QUEUES, LOCAL_QUEUES, NODES, EVENTS, NAMESPACES)


@dataclass(frozen=True, slots=True)
class Use:
    """Chips that a team has, or of a type: `quota` is None where nothing says how many could be had."""

    name: str
    used: int
    quota: int | None = None
    borrowed: int = 0
    running: int = 0
    waiting: int = 0
    usd: float = 0.0


@dataclass(frozen=True, slots=True)
class Length:
    """One queue: how many it has let in, how many wait, and since when the first of them does."""

    name: str
    admitted: int
    waiting: int
    since: str
    stopped: str = ""


@dataclass(frozen=True, slots=True)
class Overview:
    """Everything on the first page. `unpriced` jobs run on types whose price nobody tells."""

    used: int
    quota: int | None
    running: int
    waiting: int
    failed: int
    usd: float
    unpriced: int
    hosts: int
    hosts_ready: int
    teams: tuple[Use, ...]
    types: tuple[Use, ...]
    queues: tuple[Length, ...]
    troubles: tuple[Trouble, ...]


def overview(world: World) -> Overview:
    """The first page of a world."""
    jobs = world.ledger(JOBSETS, job_row).rows().values()
    work = world.ledger(WORKLOADS, work_row).rows().values()
    hosts = world.ledger(NODES, host).rows().values()
    warnings = world.ledger(EVENTS, told).rows().values()
    found = standings(world.table(CLUSTER_QUEUES).all(), world.table(LOCAL_QUEUES).all(), ())
    teams, holding = team_of(world), [row for row in jobs if row.holds]
    quotas = [int(each.quota) for queue in found for each in queue.holdings if "/" in each.resource]
    return Overview(
        used=sum(row.chips for row in holding),
        quota=sum(quotas) if quotas else None,
        running=len(holding),
        waiting=sum(row.state in WAITS for row in jobs),
        failed=sum(row.state == "failed" for row in jobs),
        usd=sum(row.usd or 0.0 for row in holding),
        unpriced=sum(row.usd is None for row in holding),
        hosts=len(hosts),
        hosts_ready=sum(each.ready for each in hosts),
        teams=_teams(jobs, found, teams),
        types=_types(holding, found),
        queues=_lengths(found, work),
        troubles=troubles(world.now(), jobs, work, warnings, hosts),
    )


def _teams(jobs: Iterable[JobRow], found: list[Standing], team_of: Mapping[str, str]) -> tuple[Use, ...]:
    used: Counter[str] = Counter()
    running: Counter[str] = Counter()
    waiting: Counter[str] = Counter()
    usd: dict[str, float] = defaultdict(float)
    for row in jobs:
        team = team_of.get(row.namespace, row.namespace)
        if row.holds:
            used[team] += row.chips
            running[team] += 1
            usd[team] += row.usd or 0.0
        elif row.state in WAITS:
            waiting[team] += 1
    quota, borrowed = _own_queues(found, team_of)
    names = sorted({*used, *waiting, *quota}, key=lambda name: (-used[name], name))
    return tuple(Use(name, used[name], quota.get(name), borrowed[name], running[name], waiting[name], usd[name]) for name in names)


def _own_queues(found: list[Standing], team_of: Mapping[str, str]) -> tuple[dict[str, int], Counter[str]]:
    """Quota and loans of teams that have a queue to themselves; where all share one, nobody has a quota of their own."""
    quota: dict[str, int] = {}
    borrowed: Counter[str] = Counter()
    for queue in found:
        owners = {team_of.get(place.partition("/")[0], place.partition("/")[0]) for place in queue.queues}
        if len(owners) == 1:
            team = owners.pop()
            chips = [each for each in queue.holdings if "/" in each.resource]
            quota[team] = quota.get(team, 0) + int(sum(each.quota for each in chips))
            borrowed[team] += int(sum(each.borrowed for each in chips))
    return quota, borrowed


def _types(holding: list[JobRow], found: list[Standing]) -> tuple[Use, ...]:
    """By the flavors of the queues; in a cluster without queues, by what jobs run on."""
    used: Counter[str] = Counter()
    quota: Counter[str] = Counter()
    for each in (one for queue in found for one in queue.holdings if "/" in one.resource):
        used[each.flavor] += int(each.used)
        quota[each.flavor] += int(each.quota)
    if quota:
        return tuple(Use(name, used[name], quota[name]) for name in sorted(quota, key=lambda name: (-used[name], name)))
    for row in holding:
        used[row.type or "other"] += row.chips
    return tuple(Use(name, chips) for name, chips in sorted(used.items()))


def _lengths(found: list[Standing], work: Iterable[Work]) -> tuple[Length, ...]:
    waiting: Counter[str] = Counter()
    since: dict[str, str] = {}
    leads = {place: queue.name for queue in found for place in queue.queues}
    for row in work:
        queue = leads.get(f"{row.namespace}/{row.queue}") if row.waits else None
        if queue:
            waiting[queue] += 1
            since[queue] = min(since.get(queue, row.since), row.since)
    lengths = (Length(each.name, each.admitted, waiting[each.name], since.get(each.name, ""), each.stopped) for each in found)
    return tuple(sorted(lengths, key=lambda each: (-each.waiting, each.name)))
