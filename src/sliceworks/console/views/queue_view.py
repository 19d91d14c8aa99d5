"""Queues with quota and pending workloads; Workload rows; the team of each namespace."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sliceworks.base import quantity
from sliceworks.base.conditions import find_condition, is_condition_true
from sliceworks.console.kinds import CLUSTER_QUEUES, JOBSETS, LOCAL_QUEUES, NAMESPACES, WORKLOADS
from sliceworks.console.views import queue_reason
from sliceworks.training.queue_status import list_queue_statuses
from sliceworks.training.queues import TEAM_LABEL

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.console.cluster_cache import ClusterCache
    from sliceworks.kube.resources import Key
    from sliceworks.training.queue_status import QueueStatus


def teams_by_namespace(cache: ClusterCache) -> Mapping[str, str]:
    """The team of each namespace; by default, the name of the namespace."""
    return cache.compute(_teams, NAMESPACES)


def _teams(cache: ClusterCache) -> Mapping[str, str]:
    result = {}
    for item in cache.table(NAMESPACES).all():
        metadata = item["metadata"]
        result[metadata["name"]] = (metadata.get("labels") or {}).get(TEAM_LABEL) or metadata["name"]
    return result


Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class WorkloadRow:
    """A Workload. `job` is the name of its owner; `evicted_at` and `message` come from its Evicted condition."""

    namespace: str
    job: str
    queue: str
    waits: bool
    chips: int
    priority: int
    priority_class: str
    since: str
    reason: str
    evicted_at: str = ""
    message: str = ""


def workload_row(workload: Object) -> WorkloadRow:
    """The row of a Workload."""
    metadata, spec, status = workload["metadata"], workload.get("spec") or {}, workload.get("status") or {}
    finished = is_condition_true(workload, "Finished")
    admission = status.get("admission") or {}
    evicted = find_condition(workload, "Evicted")
    eviction = evicted if evicted.get("status") == "True" and not finished else {}
    return WorkloadRow(
        namespace=metadata["namespace"],
        job=next((reference["name"] for reference in metadata.get("ownerReferences") or ()), metadata["name"]),
        queue=spec.get("queueName", ""),
        waits=not finished and not admission,
        chips=0 if finished else _chips(admission),
        priority=int(spec.get("priority") or 0),
        priority_class=(spec.get("priorityClassRef") or {}).get("name", ""),
        since=metadata["creationTimestamp"],
        reason=find_condition(workload, "QuotaReserved").get("message", ""),
        evicted_at=eviction.get("lastTransitionTime", ""),
        message=eviction.get("message", ""),
    )


def _chips(admission: Object) -> int:
    usage = (
        item for assignment in admission.get("podSetAssignments") or () for item in (assignment.get("resourceUsage") or {}).items()
    )
    return sum(int(quantity.parse(amount)) for name, amount in usage if "/" in name)


KINDS = (CLUSTER_QUEUES, LOCAL_QUEUES, WORKLOADS)
SHOWN = 6  # pending workloads listed per queue
_CHIPS = "/"  # extended resources, such as google.com/tpu, are chips


@dataclass(frozen=True, slots=True)
class Quota:
    """The quota of a resource in a flavor."""

    flavor: str
    resource: str
    nominal: float
    used: float
    borrowed: float
    lent: float


@dataclass(frozen=True, slots=True)
class PendingWorkload:
    """A pending workload; `place` counts from 1."""

    place: int
    namespace: str
    name: str
    team: str
    priority: str
    since: str
    why: str


@dataclass(frozen=True, slots=True)
class Queue:
    """A ClusterQueue. `chips` are quotas of accelerators, `others` of other resources."""

    name: str
    cohort: str
    stopped: str
    teams: tuple[str, ...]
    admitted: int
    chips: tuple[Quota, ...]
    others: tuple[Quota, ...]
    waiting: int
    first: tuple[PendingWorkload, ...]


def current_queues(cache: ClusterCache) -> tuple[Queue, ...]:
    """The shared view of all queues; recomputed soon while reasons are missing."""
    result = cache.compute(build_queues, *KINDS, *queue_reason.KINDS, JOBSETS, NAMESPACES)
    if cache.shared(queue_reason.PendingReasons).incomplete:
        cache.invalidate(build_queues)
    return result


def build_queues(cache: ClusterCache) -> tuple[Queue, ...]:
    """All queues by cohort, those with the most pending workloads first."""
    queue_statuses = list_queue_statuses(cache.table(CLUSTER_QUEUES).all(), cache.table(LOCAL_QUEUES).all(), ())
    pending = _pending(cache, queue_statuses)
    heads = {name: _head(cache, keys) for name, keys in pending.items()}
    reasons = cache.shared(queue_reason.PendingReasons)
    reasons.start_budget()
    # The first workload of every queue, then the second of each, until the budget is spent.
    for place in range(SHOWN):
        for head in heads.values():
            if place < len(head):
                reasons.reason(head[place], place, head)
    queues = [_queue(cache, item, pending[item.name], heads.get(item.name, [])) for item in queue_statuses]
    return tuple(sorted(queues, key=lambda queue: (queue.cohort, -queue.waiting, queue.name)))


def _pending(cache: ClusterCache, queues: list[QueueStatus]) -> dict[str, list[Key]]:
    """Pending workloads by queue: by priority, then by age."""
    cluster_queues = {local_queue: item.name for item in queues for local_queue in item.queues}
    rows = cache.row_cache(WORKLOADS, workload_row).rows()
    pending: dict[str, list[Key]] = defaultdict(list)
    for key, row in rows.items():
        queue = cluster_queues.get(f"{row.namespace}/{row.queue}") if row.waits else None
        if queue:
            pending[queue].append(key)
    for keys in pending.values():
        keys.sort(key=lambda key: (-rows[key].priority, rows[key].since, key))
    return pending


def _head(cache: ClusterCache, pending: list[Key]) -> list[Object]:
    """The first pending workloads of a queue."""
    table = cache.table(WORKLOADS)
    return [obj for key in pending[:SHOWN] if (obj := table.get(key.name, key.namespace))]


def _queue(cache: ClusterCache, status: QueueStatus, pending: list[Key], head: list[Object]) -> Queue:
    teams = teams_by_namespace(cache)
    quotas = [
        Quota(item.flavor, item.resource, float(item.quota), float(item.used), float(item.borrowed), float(round(item.lent)))
        for item in status.flavor_usage
    ]
    return Queue(
        name=status.name,
        cohort=status.cohort,
        stopped=status.stopped,
        teams=tuple(sorted({teams.get(place.partition("/")[0], place.partition("/")[0]) for place in status.queues})),
        admitted=status.admitted,
        chips=tuple(quota for quota in quotas if _CHIPS in quota.resource),
        others=tuple(quota for quota in quotas if _CHIPS not in quota.resource and quota.nominal),
        waiting=len(pending),
        first=_first(cache, pending, head),
    )


def _first(cache: ClusterCache, pending: list[Key], head: list[Object]) -> tuple[PendingWorkload, ...]:
    rows, teams = cache.row_cache(WORKLOADS, workload_row).rows(), teams_by_namespace(cache)
    result = []
    for place, (key, workload) in enumerate(zip(pending, head, strict=False)):
        row = rows[key]
        reason = cache.shared(queue_reason.PendingReasons).reason(workload, place, head)
        team = teams.get(row.namespace, row.namespace)
        priority = f"{row.priority_class} ({row.priority})" if row.priority_class else str(row.priority)
        result.append(PendingWorkload(place + 1, row.namespace, row.job, team, priority, row.since, reason))
    return tuple(result)
