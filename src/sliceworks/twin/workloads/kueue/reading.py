"""From Kueue's objects to what the core works with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base import quantity
from sliceworks.twin.scheduler.requests import amounts, pod_requests
from sliceworks.twin.workloads.kueue import conditions
from sliceworks.twin.workloads.kueue.core.brain import QueueSpec
from sliceworks.twin.workloads.kueue.core.model import BEST_EFFORT, NEVER, NEXT, Flavor, Group, Item, PodSet, Policy, usage_of
from sliceworks.twin.workloads.kueue.core.quotas import Quota
from sliceworks.twin.workloads.kueue.keys import EVICTED, REQUEUED, RESERVED, Obj

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.twin.workloads.kueue.core.quotas import Cell

_BY_EVICTION = ("PodsReadyTimeout", "AdmissionCheck")


def flavor(obj: Mapping[str, Any]) -> Flavor:
    spec = obj.get("spec") or {}
    taints = tuple((one.get("key", ""), one.get("value") or "", one.get("effect", "")) for one in spec.get("nodeTaints") or ())
    return Flavor(obj["metadata"]["name"], spec.get("nodeLabels") or {}, taints, tuple(spec.get("tolerations") or ()))


def quotas(spec: Mapping[str, Any]) -> dict[Cell, Quota]:
    """The quotas of a ClusterQueue or a Cohort."""
    return {
        (flavor["name"], one["name"]): Quota(
            _amount(one["name"], one["nominalQuota"]),
            _limit(one["name"], one.get("borrowingLimit")),
            _limit(one["name"], one.get("lendingLimit")),
        )
        for group in spec.get("resourceGroups") or ()
        for flavor in group["flavors"]
        for one in flavor["resources"]
    }


def _amount(resource: str, text: Any) -> int:
    return quantity.milli(text) if resource == "cpu" else quantity.whole(text)


def _limit(resource: str, text: Any) -> int | None:
    return None if text is None else _amount(resource, text)


def cluster_queue(obj: Mapping[str, Any]) -> QueueSpec:
    spec = obj.get("spec") or {}
    groups = tuple(
        Group(frozenset(group["coveredResources"]), tuple(one["name"] for one in group["flavors"]))
        for group in spec.get("resourceGroups") or ()
    )
    strategy = spec.get("queueingStrategy") or BEST_EFFORT
    return QueueSpec(spec.get("cohortName") or "", quotas(spec), groups, _policy(spec), strategy)


def _policy(spec: Mapping[str, Any]) -> Policy:
    preemption, fungibility = spec.get("preemption") or {}, spec.get("flavorFungibility") or {}
    borrow = preemption.get("borrowWithinCohort") or {}
    return Policy(
        preemption.get("withinClusterQueue") or NEVER,
        preemption.get("reclaimWithinCohort") or NEVER,
        borrow.get("policy") or NEVER,
        borrow.get("maxPriorityThreshold"),
        fungibility.get("whenCanBorrow") or "MayStopSearch",
        fungibility.get("whenCanPreempt") or NEXT,
        fungibility.get("preference") or "",
    )


def item(obj: Mapping[str, Any], now: str, *, by_eviction: bool = True) -> Item:
    """A Workload; one with a reservation has the usage of its admission. `by_eviction` is for those that did not get ready."""
    metadata, spec, status = obj["metadata"], obj["spec"], obj.get("status") or {}
    admission = status.get("admission")
    pod_sets = _admitted(obj, admission) if admission else _wanted(obj)
    found = Item(
        (metadata["namespace"], metadata["name"]),
        (metadata["namespace"], spec.get("queueName") or ""),
        spec.get("priority") or 0,
        queue_time(obj, by_eviction=by_eviction),
        pod_sets,
        uid=metadata["uid"],
        evicted=conditions.true(obj, EVICTED),
        waits=_waits(obj, now),
        facts=_facts(obj),
    )
    if admission:
        found.cluster_queue = admission["clusterQueue"]
        found.usage = usage_of(pod_sets)
        found.reserved_at = (conditions.find(obj, RESERVED) or {}).get("lastTransitionTime", "")
    else:
        found.shape = repr([(pods.name, pods.count, pods.least, pods.requests, _placing(pods.spec)) for pods in pod_sets])
    return found


def _facts(obj: Mapping[str, Any]) -> tuple[Any, ...]:
    """What decides whether a waiting Workload has changed in a way that matters."""
    status = obj.get("status") or {}
    seen = [conditions.find(obj, kind) for kind in (EVICTED, REQUEUED)]
    return (obj["spec"], status.get("reclaimablePods"), status.get("requeueState"), seen)


def _placing(spec: Mapping[str, Any]) -> tuple[Any, ...]:
    return spec.get("nodeSelector"), spec.get("affinity"), spec.get("tolerations")


def queue_time(obj: Mapping[str, Any], *, by_eviction: bool) -> str:
    """When a Workload came, or came again after it did not get ready or was sent back."""
    evicted = conditions.find(obj, EVICTED)
    if evicted and evicted["status"] == "True" and evicted["reason"] in _BY_EVICTION[0 if by_eviction else 1 :]:
        return str(evicted["lastTransitionTime"])
    return str(obj["metadata"]["creationTimestamp"])


def _waits(obj: Mapping[str, Any], now: str) -> bool:
    requeued = conditions.find(obj, REQUEUED)
    if requeued and requeued["status"] == "False":
        return True
    at = ((obj.get("status") or {}).get("requeueState") or {}).get("requeueAt")
    return bool(at and at > now)


def _reclaimed(obj: Mapping[str, Any]) -> dict[str, int]:
    return {one["name"]: one["count"] for one in (obj.get("status") or {}).get("reclaimablePods") or ()}


def _wanted(obj: Mapping[str, Any]) -> list[PodSet]:
    reclaimed, found = _reclaimed(obj), []
    for pods in conditions.pod_sets_of(obj):
        spec = _with_limits(pods["template"].get("spec") or {})
        count = pods["count"] - reclaimed.get(pods["name"], 0)
        requests = {name: amount * count for name, amount in pod_requests(spec).items()}
        least = pods.get("minCount")
        found.append(PodSet(pods["name"], count, requests, -1 if least is None else least, spec))
    return found


def _with_limits(spec: Obj) -> Obj:
    """A pod's spec where limits stand for requests that are not given."""
    kinds = [kind for kind in ("containers", "initContainers") if any(_limited(one) for one in spec.get(kind) or ())]
    return {**spec, **{kind: [_requesting(one) for one in spec[kind]] for kind in kinds}} if kinds else spec


def _limited(container: Mapping[str, Any]) -> bool:
    return bool((container.get("resources") or {}).get("limits"))


def _requesting(container: Obj) -> Obj:
    resources = container.get("resources") or {}
    requests = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return {**container, "resources": {**resources, "requests": requests}}


def _admitted(obj: Mapping[str, Any], admission: Mapping[str, Any]) -> list[PodSet]:
    reclaimed, counts = _reclaimed(obj), {pods["name"]: pods["count"] for pods in conditions.pod_sets_of(obj)}
    found = []
    for one in admission["podSetAssignments"]:
        name = one["name"]
        pods = PodSet(name, one.get("count", counts.get(name, 0)), amounts(one.get("resourceUsage")))
        left = counts.get(name, 0) - reclaimed.get(name, 0)
        if left < pods.count:
            pods = pods.scaled(left)
        pods.flavors = dict(one.get("flavors") or {})
        found.append(pods)
    return found
