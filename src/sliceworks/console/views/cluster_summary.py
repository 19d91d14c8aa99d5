"""The overview: chips by team and type, queue lengths, cost per hour and incidents."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sliceworks.console.kinds import CLUSTER_QUEUES, EVENTS, JOBSETS, LOCAL_QUEUES, NAMESPACES, NODES, WORKLOADS
from sliceworks.console.views.incidents import event_row, node_row, recent_incidents
from sliceworks.console.views.job_view import job_row
from sliceworks.console.views.queue_view import teams_by_namespace, workload_row
from sliceworks.training.queue_status import list_queue_statuses
from sliceworks.training.status import PENDING_STATES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sliceworks.console.cluster_cache import ClusterCache
    from sliceworks.console.views.incidents import Incident
    from sliceworks.console.views.job_view import JobRow
    from sliceworks.console.views.queue_view import WorkloadRow
    from sliceworks.training.queue_status import QueueStatus

KINDS = (JOBSETS, WORKLOADS, CLUSTER_QUEUES, LOCAL_QUEUES, NODES, EVENTS, NAMESPACES)


@dataclass(frozen=True, slots=True)
class ChipUsage:
    """Chips used by a team or of a type; `quota` is None where no queue defines one."""

    name: str
    used: int
    quota: int | None = None
    borrowed: int = 0
    running: int = 0
    waiting: int = 0
    usd: float = 0.0


@dataclass(frozen=True, slots=True)
class QueueLength:
    """Admitted and pending workloads of a queue; `since` is when the oldest pending one was created."""

    name: str
    admitted: int
    waiting: int
    since: str
    stopped: str = ""


@dataclass(frozen=True, slots=True)
class Overview:
    """Everything on the overview page. `unpriced` counts running jobs whose price is unknown."""

    used: int
    quota: int | None
    running: int
    waiting: int
    failed: int
    usd: float
    unpriced: int
    hosts: int
    hosts_ready: int
    teams: tuple[ChipUsage, ...]
    types: tuple[ChipUsage, ...]
    queues: tuple[QueueLength, ...]
    incidents: tuple[Incident, ...]


def build_overview(cache: ClusterCache) -> Overview:
    """Compute the overview of a cluster."""
    jobs = cache.row_cache(JOBSETS, job_row).rows().values()
    work = cache.row_cache(WORKLOADS, workload_row).rows().values()
    hosts = cache.row_cache(NODES, node_row).rows().values()
    warnings = cache.row_cache(EVENTS, event_row).rows().values()
    queue_statuses = list_queue_statuses(cache.table(CLUSTER_QUEUES).all(), cache.table(LOCAL_QUEUES).all(), ())
    teams, holding = teams_by_namespace(cache), [row for row in jobs if row.holds]
    quotas = [int(item.quota) for queue in queue_statuses for item in queue.flavor_usage if "/" in item.resource]
    return Overview(
        used=sum(row.chips for row in holding),
        quota=sum(quotas) if quotas else None,
        running=len(holding),
        waiting=sum(row.state in PENDING_STATES for row in jobs),
        failed=sum(row.state == "failed" for row in jobs),
        usd=sum(row.usd or 0.0 for row in holding),
        unpriced=sum(row.usd is None for row in holding),
        hosts=len(hosts),
        hosts_ready=sum(host.ready for host in hosts),
        teams=_teams(jobs, queue_statuses, teams),
        types=_types(holding, queue_statuses),
        queues=_lengths(queue_statuses, work),
        incidents=recent_incidents(cache.now(), jobs, work, warnings, hosts),
    )


def _teams(jobs: Iterable[JobRow], queues: list[QueueStatus], team_of: Mapping[str, str]) -> tuple[ChipUsage, ...]:
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
        elif row.state in PENDING_STATES:
            waiting[team] += 1
    quota, borrowed = _dedicated_queues(queues, team_of)
    names = sorted({*used, *waiting, *quota}, key=lambda name: (-used[name], name))
    return tuple(
        ChipUsage(name, used[name], quota.get(name), borrowed[name], running[name], waiting[name], usd[name]) for name in names
    )


def _dedicated_queues(queues: list[QueueStatus], team_of: Mapping[str, str]) -> tuple[dict[str, int], Counter[str]]:
    """Quota and borrowing by team; a queue that several teams share counts for none of them."""
    quota: dict[str, int] = {}
    borrowed: Counter[str] = Counter()
    for queue in queues:
        owners = {team_of.get(local_queue.partition("/")[0], local_queue.partition("/")[0]) for local_queue in queue.queues}
        if len(owners) == 1:
            team = owners.pop()
            chips = [item for item in queue.flavor_usage if "/" in item.resource]
            quota[team] = quota.get(team, 0) + int(sum(chip.quota for chip in chips))
            borrowed[team] += int(sum(chip.borrowed for chip in chips))
    return quota, borrowed


def _types(holding: list[JobRow], queues: list[QueueStatus]) -> tuple[ChipUsage, ...]:
    """Usage by ResourceFlavor; without queues, by the type that jobs run on."""
    used: Counter[str] = Counter()
    quota: Counter[str] = Counter()
    for item in (usage for queue in queues for usage in queue.flavor_usage if "/" in usage.resource):
        used[item.flavor] += int(item.used)
        quota[item.flavor] += int(item.quota)
    if quota:
        return tuple(ChipUsage(name, used[name], quota[name]) for name in sorted(quota, key=lambda name: (-used[name], name)))
    for row in holding:
        used[row.type or "other"] += row.chips
    return tuple(ChipUsage(name, chips) for name, chips in sorted(used.items()))


def _lengths(queues: list[QueueStatus], work: Iterable[WorkloadRow]) -> tuple[QueueLength, ...]:
    waiting: Counter[str] = Counter()
    since: dict[str, str] = {}
    cluster_queues = {local_queue: queue.name for queue in queues for local_queue in queue.queues}
    for row in work:
        queue = cluster_queues.get(f"{row.namespace}/{row.queue}") if row.waits else None
        if queue:
            waiting[queue] += 1
            since[queue] = min(since.get(queue, row.since), row.since)
    lengths = (QueueLength(item.name, item.admitted, waiting[item.name], since.get(item.name, ""), item.stopped) for item in queues)
    return tuple(sorted(lengths, key=lambda length: (-length.waiting, length.name)))
