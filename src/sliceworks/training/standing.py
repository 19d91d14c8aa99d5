"""How queues stand: quota, use, what is borrowed, and who waits in which order. Pure: from objects as they were read."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sliceworks.base import quantity
from sliceworks.base.conditions import condition, is_true

if TYPE_CHECKING:
    from collections.abc import Iterable

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Holding:
    """One resource of one flavor: how much a queue can count on, has in use, has borrowed of that, and has lent of its own."""

    flavor: str
    resource: str
    quota: Fraction
    used: Fraction
    borrowed: Fraction
    lent: Fraction = Fraction(0)
    lendable: Fraction = Fraction(0)


@dataclass(frozen=True, slots=True)
class Waiting:
    """Work that waits: whose it is, how urgent, since when, and the reason that Kueue gives."""

    namespace: str
    name: str
    priority: int
    since: str
    reason: str


@dataclass(frozen=True, slots=True)
class Standing:
    """One ClusterQueue."""

    name: str
    cohort: str
    holdings: tuple[Holding, ...]
    admitted: int
    waiting: tuple[Waiting, ...]
    queues: tuple[str, ...] = field(default=())
    stopped: str = ""


def standings(cluster_queues: Iterable[Object], local_queues: Iterable[Object], workloads: Iterable[Object]) -> list[Standing]:
    """All cluster queues, by name."""
    leads: dict[tuple[str, str], str] = {}
    behind: dict[str, list[str]] = defaultdict(list)
    for queue in local_queues:
        metadata, target = queue["metadata"], queue["spec"]["clusterQueue"]
        leads[metadata["namespace"], metadata["name"]] = target
        behind[target].append(f"{metadata['namespace']}/{metadata['name']}")
    waiting: dict[str, list[Waiting]] = defaultdict(list)
    for workload in workloads:
        target = leads.get((workload["metadata"]["namespace"], (workload.get("spec") or {}).get("queueName", "")))
        if target and _waits(workload):
            waiting[target].append(_waiting(workload))
    return _with_loans(
        _standing(each, behind[each["metadata"]["name"]], waiting[each["metadata"]["name"]])
        for each in sorted(cluster_queues, key=lambda queue: str(queue["metadata"]["name"]))
    )


def _with_loans(found: Iterable[Standing]) -> list[Standing]:
    """What queues have lent. Kueue knows only who borrows of a cohort: each queue's part is by what it leaves idle and may lend."""
    every = list(found)
    borrowed: dict[tuple[str, str, str], Fraction] = defaultdict(Fraction)
    idle: dict[tuple[str, str, str], Fraction] = defaultdict(Fraction)
    for queue in every:
        for each in queue.holdings:
            borrowed[queue.cohort, each.flavor, each.resource] += each.borrowed
            idle[queue.cohort, each.flavor, each.resource] += each.lendable
    return [replace(queue, holdings=tuple(_lent(queue.cohort, each, borrowed, idle) for each in queue.holdings)) for queue in every]


def _lent(
    cohort: str, holding: Holding, borrowed: dict[tuple[str, str, str], Fraction], idle: dict[tuple[str, str, str], Fraction]
) -> Holding:
    key = (cohort, holding.flavor, holding.resource)
    if not cohort or not idle[key]:
        return holding
    return replace(holding, lent=min(holding.lendable, borrowed[key] * holding.lendable / idle[key]))


def _standing(queue: Object, queues: list[str], waiting: list[Waiting]) -> Standing:
    spec, status = queue.get("spec") or {}, queue.get("status") or {}
    used = {
        (flavor["name"], resource["name"]): resource
        for flavor in status.get("flavorsReservation") or ()
        for resource in flavor.get("resources") or ()
    }
    holdings = []
    for group in spec.get("resourceGroups") or ():
        for flavor in group["flavors"]:
            for resource in flavor["resources"]:
                found = used.get((flavor["name"], resource["name"]), {})
                holdings.append(_holding(flavor["name"], resource, found))
    stopped = spec.get("stopPolicy") or ""
    return Standing(
        queue["metadata"]["name"],
        spec.get("cohortName") or spec.get("cohort") or "",
        tuple(holdings),
        int(status.get("admittedWorkloads") or 0),
        tuple(sorted(waiting, key=lambda each: (-each.priority, each.since))),
        tuple(sorted(queues)),
        "" if stopped == "None" else stopped,
    )


def _holding(flavor: str, resource: Object, found: Object) -> Holding:
    quota, used = quantity.parse(resource["nominalQuota"]), quantity.parse(found.get("total") or "0")
    idle = max(quota - used, Fraction(0))
    limit = resource.get("lendingLimit")
    lendable = idle if limit is None else min(idle, quantity.parse(limit))
    return Holding(flavor, resource["name"], quota, used, quantity.parse(found.get("borrowed") or "0"), lendable=lendable)


def _waits(workload: Object) -> bool:
    return not is_true(workload, "Finished") and not (workload.get("status") or {}).get("admission")


def _waiting(workload: Object) -> Waiting:
    metadata, reserved = workload["metadata"], condition(workload, "QuotaReserved")
    owner = next((each["name"] for each in metadata.get("ownerReferences") or ()), metadata["name"])
    priority = int((workload.get("spec") or {}).get("priority") or 0)
    return Waiting(metadata["namespace"], owner, priority, metadata["creationTimestamp"], reserved.get("message", ""))
