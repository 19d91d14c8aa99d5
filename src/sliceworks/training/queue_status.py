"""Status of queues: quota, usage, borrowing, pending workloads; chips in use by team, queue and type. Pure."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sliceworks.base import quantity
from sliceworks.base.conditions import find_condition, is_condition_true
from sliceworks.training.queues import TEAM_LABEL
from sliceworks.training.quota import cohort_of
from sliceworks.training.status import is_pending_workload, owner_name

if TYPE_CHECKING:
    from collections.abc import Iterable

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class FlavorUsage:
    """One resource of one flavor: nominal quota, usage, how much of it is borrowed, and how much is lent."""

    flavor: str
    resource: str
    quota: Fraction
    used: Fraction
    borrowed: Fraction
    lent: Fraction = Fraction(0)
    lendable: Fraction = Fraction(0)


@dataclass(frozen=True, slots=True)
class PendingWorkload:
    """A pending workload with its priority, creation time and Kueue's reason."""

    namespace: str
    name: str
    priority: int
    since: str
    reason: str


@dataclass(frozen=True, slots=True)
class QueueStatus:
    """One ClusterQueue."""

    name: str
    cohort: str
    flavor_usage: tuple[FlavorUsage, ...]
    admitted: int
    waiting: tuple[PendingWorkload, ...]
    queues: tuple[str, ...] = field(default=())
    stopped: str = ""


def list_queue_statuses(
    cluster_queues: Iterable[Object], local_queues: Iterable[Object], workloads: Iterable[Object]
) -> list[QueueStatus]:
    """The status of all ClusterQueues, sorted by name."""
    cluster_queue_of: dict[tuple[str, str], str] = {}
    local_queues_of: dict[str, list[str]] = defaultdict(list)
    for queue in local_queues:
        metadata, target = queue["metadata"], queue["spec"]["clusterQueue"]
        cluster_queue_of[metadata["namespace"], metadata["name"]] = target
        local_queues_of[target].append(f"{metadata['namespace']}/{metadata['name']}")
    waiting: dict[str, list[PendingWorkload]] = defaultdict(list)
    for workload in workloads:
        target = cluster_queue_of.get((workload["metadata"]["namespace"], (workload.get("spec") or {}).get("queueName", "")))
        if target and is_pending_workload(workload):
            waiting[target].append(_pending_workload(workload))
    return _add_lending(
        _queue_status(cluster_queue, local_queues_of[cluster_queue["metadata"]["name"]], waiting[cluster_queue["metadata"]["name"]])
        for cluster_queue in sorted(cluster_queues, key=lambda queue: str(queue["metadata"]["name"]))
    )


def _add_lending(statuses: Iterable[QueueStatus]) -> list[QueueStatus]:
    """Add lent quota. Kueue reports only borrowing, so it is attributed in proportion to the idle, lendable quota of each queue."""
    queues = list(statuses)
    borrowed: dict[tuple[str, str, str], Fraction] = defaultdict(Fraction)
    idle: dict[tuple[str, str, str], Fraction] = defaultdict(Fraction)
    for queue in queues:
        for item in queue.flavor_usage:
            borrowed[queue.cohort, item.flavor, item.resource] += item.borrowed
            idle[queue.cohort, item.flavor, item.resource] += item.lendable
    return [
        replace(queue, flavor_usage=tuple(_lent(queue.cohort, usage, borrowed, idle) for usage in queue.flavor_usage))
        for queue in queues
    ]


def _lent(
    cohort: str, usage: FlavorUsage, borrowed: dict[tuple[str, str, str], Fraction], idle: dict[tuple[str, str, str], Fraction]
) -> FlavorUsage:
    key = (cohort, usage.flavor, usage.resource)
    if not cohort or not idle[key]:
        return usage
    return replace(usage, lent=min(usage.lendable, borrowed[key] * usage.lendable / idle[key]))


def _queue_status(queue: Object, queues: list[str], waiting: list[PendingWorkload]) -> QueueStatus:
    spec, status = queue.get("spec") or {}, queue.get("status") or {}
    used = {
        (flavor["name"], resource["name"]): resource
        for flavor in status.get("flavorsReservation") or ()
        for resource in flavor.get("resources") or ()
    }
    flavor_usage = []
    for group in spec.get("resourceGroups") or ():
        for flavor in group["flavors"]:
            for resource in flavor["resources"]:
                usage = used.get((flavor["name"], resource["name"]), {})
                flavor_usage.append(_flavor_usage(flavor["name"], resource, usage))
    stopped = spec.get("stopPolicy") or ""
    return QueueStatus(
        queue["metadata"]["name"],
        cohort_of(queue),
        tuple(flavor_usage),
        int(status.get("admittedWorkloads") or 0),
        tuple(sorted(waiting, key=lambda workload: (-workload.priority, workload.since))),
        tuple(sorted(queues)),
        "" if stopped == "None" else stopped,
    )


def _flavor_usage(flavor: str, resource: Object, usage: Object) -> FlavorUsage:
    quota, used = quantity.parse(resource["nominalQuota"]), quantity.parse(usage.get("total") or "0")
    idle = max(quota - used, Fraction(0))
    limit = resource.get("lendingLimit")
    lendable = idle if limit is None else min(idle, quantity.parse(limit))
    return FlavorUsage(flavor, resource["name"], quota, used, quantity.parse(usage.get("borrowed") or "0"), lendable=lendable)


def _pending_workload(workload: Object) -> PendingWorkload:
    metadata, reserved = workload["metadata"], find_condition(workload, "QuotaReserved")
    priority, since = int((workload.get("spec") or {}).get("priority") or 0), metadata["creationTimestamp"]
    return PendingWorkload(metadata["namespace"], owner_name(workload), priority, since, reserved.get("message", ""))


@dataclass(frozen=True, slots=True)
class ChipUsage:
    """Chips in use. `quota` is None if unknown; `jobs` counts running jobs, `waiting` pending ones."""

    name: str
    used: int
    quota: int | None
    jobs: int = 0
    waiting: int = 0


@dataclass(frozen=True, slots=True)
class Usage:
    """Chips in use by team, by queue and by type."""

    teams: tuple[ChipUsage, ...]
    queues: tuple[ChipUsage, ...]
    types: tuple[ChipUsage, ...]


def compute_usage(
    cluster_queues: Iterable[Object], local_queues: Iterable[Object], workloads: Iterable[Object], namespaces: Iterable[Object]
) -> Usage:
    """Compute the chips in use now."""
    all_workloads = list(workloads)
    queue_statuses = list_queue_statuses(cluster_queues, local_queues, all_workloads)
    return Usage(_teams(all_workloads, queue_statuses, namespaces), tuple(map(_queue, queue_statuses)), _types(queue_statuses))


def _teams(workloads: list[Object], statuses: list[QueueStatus], namespaces: Iterable[Object]) -> tuple[ChipUsage, ...]:
    team_of = {
        namespace["metadata"]["name"]: (namespace["metadata"].get("labels") or {}).get(TEAM_LABEL) for namespace in namespaces
    }
    used: dict[str, int] = defaultdict(int)
    jobs: dict[str, int] = defaultdict(int)
    waiting: dict[str, int] = defaultdict(int)
    for team in filter(None, team_of.values()):
        used[team] += 0
    for workload in workloads:
        chips = _chips(workload)
        if chips:
            name = _team(team_of, workload["metadata"]["namespace"])
            used[name] += chips
            jobs[name] += 1
    for pending in (item for queue in statuses for item in queue.waiting):
        name = _team(team_of, pending.namespace)
        waiting[name] += 1
        used[name] += 0
    return tuple(
        ChipUsage(name, used[name], None, jobs[name], waiting[name])
        for name in sorted(used, key=lambda pending: (-used[pending], pending))
    )


def _team(team_of: dict[str, str | None], namespace: str) -> str:
    return team_of.get(namespace) or namespace


def _queue(status: QueueStatus) -> ChipUsage:
    chips = [item for item in status.flavor_usage if "/" in item.resource]
    used, quota = (int(sum(getattr(chip, key) for chip in chips)) for key in ("used", "quota"))
    return ChipUsage(status.name, used, quota, status.admitted, len(status.waiting))


def _types(statuses: list[QueueStatus]) -> tuple[ChipUsage, ...]:
    """Each flavor summed over all queues, because lent quota is used by another queue."""
    used: dict[str, int] = defaultdict(int)
    quota: dict[str, int] = defaultdict(int)
    for item in (usage for queue in statuses for usage in queue.flavor_usage if "/" in usage.resource):
        used[item.flavor] += int(item.used)
        quota[item.flavor] += int(item.quota)
    return tuple(ChipUsage(name, used[name], quota[name]) for name in sorted(quota))


def _chips(workload: Object) -> int:
    """The chips assigned to a Workload; 0 if it is pending or finished."""
    if is_condition_true(workload, "Finished"):
        return 0
    total = 0
    for pods in ((workload.get("status") or {}).get("admission") or {}).get("podSetAssignments") or ():
        total += sum(int(quantity.parse(amount)) for name, amount in (pods.get("resourceUsage") or {}).items() if "/" in name)
    return total
