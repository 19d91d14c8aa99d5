"""How queues stand: quota, use, what is borrowed, and who waits in which order. Pure: from objects as they were read."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sliceworks.base import quantity

if TYPE_CHECKING:
    from collections.abc import Iterable
    from fractions import Fraction

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Holding:
    """One resource of one flavor: how much a queue can count on, has in use, and has borrowed of that."""

    flavor: str
    resource: str
    quota: Fraction
    used: Fraction
    borrowed: Fraction


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
    return [
        _standing(each, behind[each["metadata"]["name"]], waiting[each["metadata"]["name"]])
        for each in sorted(cluster_queues, key=lambda queue: str(queue["metadata"]["name"]))
    ]


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
                holdings.append(
                    Holding(
                        flavor["name"],
                        resource["name"],
                        quantity.parse(resource["nominalQuota"]),
                        quantity.parse(found.get("total") or "0"),
                        quantity.parse(found.get("borrowed") or "0"),
                    )
                )
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


def _waits(workload: Object) -> bool:
    status = workload.get("status") or {}
    done = any(each["type"] == "Finished" and each["status"] == "True" for each in status.get("conditions") or ())
    return not done and not status.get("admission")


def _waiting(workload: Object) -> Waiting:
    metadata, status = workload["metadata"], workload.get("status") or {}
    reserved: Object = next((each for each in status.get("conditions") or () if each["type"] == "QuotaReserved"), {})
    owner = next((each["name"] for each in metadata.get("ownerReferences") or ()), metadata["name"])
    priority = int((workload.get("spec") or {}).get("priority") or 0)
    return Waiting(metadata["namespace"], owner, priority, metadata["creationTimestamp"], reserved.get("message", ""))
