"""The overview: chips by team and type, queue lengths, cost per hour and incidents."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sliceworks.console.kinds import CLUSTER_QUEUES, EVENTS, JOBSETS, LOCAL_QUEUES, NAMESPACES, NODES, PODS, WORKLOADS
from sliceworks.console.slice_cache import get_slice_cache
from sliceworks.console.views.chip_usage import current_uses
from sliceworks.console.views.incidents import event_row, is_unmeasured, node_row, recent_incidents
from sliceworks.console.views.job_view import job_row
from sliceworks.console.views.queue_reason import KINDS as REASON_KINDS
from sliceworks.console.views.queue_view import current_queues, teams_by_namespace, workload_row
from sliceworks.training.queue_status import list_queue_statuses

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sliceworks.console.cluster_cache import ClusterCache
    from sliceworks.console.views.chip_usage import ChipUse
    from sliceworks.console.views.incidents import Incident
    from sliceworks.console.views.job_view import JobRow
    from sliceworks.console.views.queue_view import WorkloadRow
    from sliceworks.training.queue_status import QueueStatus

KINDS = (JOBSETS, WORKLOADS, CLUSTER_QUEUES, LOCAL_QUEUES, NODES, PODS, EVENTS, NAMESPACES, *REASON_KINDS)


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
    """Everything on the overview page. `used` chips are occupied by pods, of `existing` ones; `admitted` chips are those of jobs
    that hold quota. `unpriced` counts workloads whose price is unknown."""

    used: int
    existing: int
    admitted: int
    quota: int | None
    running: int
    starting: int
    waiting: int
    suspended: int
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
    events = cache.row_cache(EVENTS, event_row).rows().values()
    warnings = [event for event in events if not (cache.is_twin and is_unmeasured(event))]
    queue_statuses = list_queue_statuses(cache.table(CLUSTER_QUEUES).all(), cache.table(LOCAL_QUEUES).all(), ())
    teams, holding = teams_by_namespace(cache), [row for row in jobs if row.holds]
    quotas = [int(item.quota) for queue in queue_statuses for item in queue.flavor_usage if "/" in item.resource]
    uses, states = current_uses(cache), Counter(row.state for row in jobs)
    others = _outside_queues(uses, jobs)
    return Overview(
        used=sum(use.chips for use in uses),
        existing=sum(view.chips for view in get_slice_cache(cache).all() if any(host.name for host in view.hosts)),
        admitted=sum(row.chips for row in holding),
        quota=sum(quotas) if quotas else None,
        running=states["running"],
        starting=len(holding) - states["running"],
        waiting=states["queued"],
        suspended=states["suspended"],
        failed=states["failed"],
        usd=sum(use.usd or 0.0 for use in uses),
        unpriced=len({use.owner for use in uses if use.usd is None}),
        hosts=len(hosts),
        hosts_ready=sum(host.ready for host in hosts),
        teams=_teams(jobs, uses, others, queue_statuses, teams),
        types=_types(holding, others, queue_statuses),
        queues=_lengths(queue_statuses, work),
        incidents=recent_incidents(cache.now(), jobs, _with_causes(cache, work), warnings, hosts),
    )


def _with_causes(cache: ClusterCache, work: Iterable[WorkloadRow]) -> list[WorkloadRow]:
    """The workloads, with the cause that the queues page shows in place of Kueue's message of an eviction."""
    rows = list(work)
    if not any(row.evicted_at for row in rows):
        return rows
    causes = {(item.namespace, item.name): item.why for queue in current_queues(cache) for item in queue.first}
    return [replace(row, message=causes.get((row.namespace, row.job)) or row.message) if row.evicted_at else row for row in rows]


def _outside_queues(uses: list[ChipUse], jobs: Iterable[JobRow]) -> list[ChipUse]:
    """The chips of workloads that are not jobs, such as servers of models: no queue counts them."""
    names = {f"{row.namespace}/{row.name}" for row in jobs}
    return [use for use in uses if use.owner not in names]


def _teams(
    jobs: Iterable[JobRow], uses: list[ChipUse], others: list[ChipUse], queues: list[QueueStatus], team_of: Mapping[str, str]
) -> tuple[ChipUsage, ...]:
    used: Counter[str] = Counter()
    running: Counter[str] = Counter()
    waiting: Counter[str] = Counter()
    usd: dict[str, float] = defaultdict(float)
    for row in jobs:
        team = team_of.get(row.namespace, row.namespace)
        used[team] += row.chips if row.holds else 0
        running[team] += row.holds
        waiting[team] += row.state == "queued"
    for use in others:
        used[use.team] += use.chips
    for use in uses:
        usd[use.team] += use.usd or 0.0
    quota, borrowed = _dedicated_queues(queues, team_of)
    names = sorted({*+used, *+waiting, *quota}, key=lambda name: (-used[name], name))
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


def _types(holding: list[JobRow], others: list[ChipUse], queues: list[QueueStatus]) -> tuple[ChipUsage, ...]:
    """Usage by ResourceFlavor, and by the type of workloads outside of queues."""
    used: Counter[str] = Counter()
    quota: Counter[str] = Counter()
    for item in (usage for queue in queues for usage in queue.flavor_usage if "/" in usage.resource):
        used[item.flavor] += int(item.used)
        quota[item.flavor] += int(item.quota)
    if not quota:
        for row in holding:
            used[row.type or "other"] += row.chips
    for use in others:
        flavors = (use.type_name, use.type_name.rpartition("-")[0])  # a flavor of GPUs has no count: l4 for l4-1
        used[next((name for name in flavors if name in quota), use.type_name)] += use.chips
    names = sorted({*used, *quota}, key=lambda name: (-used[name], name))
    return tuple(ChipUsage(name, used[name], quota.get(name)) for name in names)


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
