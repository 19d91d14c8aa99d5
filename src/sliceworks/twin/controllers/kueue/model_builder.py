"""Builds the core's types from API objects: ResourceFlavor, ClusterQueue, Cohort and Workload."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base.conditions import find_condition, is_condition_true
from sliceworks.kube.node_affinity import parse_taints
from sliceworks.kube.pod_requests import parse_amount, parse_resources, pod_requests
from sliceworks.twin.controllers.kueue import workload_status
from sliceworks.twin.controllers.kueue.core.model import (
    BEST_EFFORT_FIFO,
    NEVER,
    TRY_NEXT_FLAVOR,
    Flavor,
    PodSet,
    Policy,
    ResourceGroup,
    WorkloadInfo,
    usage_of,
)
from sliceworks.twin.controllers.kueue.core.queue_manager import ClusterQueueSpec
from sliceworks.twin.controllers.kueue.core.quota_tree import Quota
from sliceworks.twin.controllers.kueue.kueue_api import EVICTED, QUOTA_RESERVED, REQUEUED, Obj

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.twin.controllers.kueue.core.quota_tree import FlavorResource


def build_flavor(obj: Mapping[str, Any]) -> Flavor:
    spec = obj.get("spec") or {}
    taints, tolerations = parse_taints(spec.get("nodeTaints") or ()), tuple(spec.get("tolerations") or ())
    return Flavor(obj["metadata"]["name"], spec.get("nodeLabels") or {}, taints, tolerations)


def build_quotas(spec: Mapping[str, Any]) -> dict[FlavorResource, Quota]:
    """The quotas of a ClusterQueue or a Cohort."""
    return {
        (flavor["name"], resource["name"]): Quota(
            parse_amount(resource["name"], resource["nominalQuota"]),
            _parse_limit(resource["name"], resource.get("borrowingLimit")),
            _parse_limit(resource["name"], resource.get("lendingLimit")),
        )
        for group in spec.get("resourceGroups") or ()
        for flavor in group["flavors"]
        for resource in flavor["resources"]
    }


def _parse_limit(resource: str, value: Any) -> int | None:
    return None if value is None else parse_amount(resource, value)


def build_cluster_queue(obj: Mapping[str, Any]) -> ClusterQueueSpec:
    spec = obj.get("spec") or {}
    groups = tuple(
        ResourceGroup(frozenset(group["coveredResources"]), tuple(flavor["name"] for flavor in group["flavors"]))
        for group in spec.get("resourceGroups") or ()
    )
    strategy = spec.get("queueingStrategy") or BEST_EFFORT_FIFO
    return ClusterQueueSpec(spec.get("cohortName") or "", build_quotas(spec), groups, _build_policy(spec), strategy)


def _build_policy(spec: Mapping[str, Any]) -> Policy:
    preemption, fungibility = spec.get("preemption") or {}, spec.get("flavorFungibility") or {}
    borrow = preemption.get("borrowWithinCohort") or {}
    return Policy(
        preemption.get("withinClusterQueue") or NEVER,
        preemption.get("reclaimWithinCohort") or NEVER,
        borrow.get("policy") or NEVER,
        borrow.get("maxPriorityThreshold"),
        fungibility.get("whenCanBorrow") or "MayStopSearch",
        fungibility.get("whenCanPreempt") or TRY_NEXT_FLAVOR,
        fungibility.get("preference") or "",
    )


def build_workload(obj: Mapping[str, Any], now: str, *, by_eviction: bool = True) -> WorkloadInfo:
    """A Workload; one with a quota reservation has the usage of its admission. See `queue_time` for `by_eviction`."""
    metadata, spec = obj["metadata"], obj["spec"]
    admission = (obj.get("status") or {}).get("admission")
    pod_sets = _assigned_pod_sets(obj, admission) if admission else _requested_pod_sets(obj)
    workload = WorkloadInfo(
        (metadata["namespace"], metadata["name"]),
        (metadata["namespace"], spec.get("queueName") or ""),
        spec.get("priority") or 0,
        queue_time(obj, by_eviction=by_eviction),
        pod_sets,
        uid=metadata["uid"],
        evicted=is_condition_true(obj, EVICTED),
        in_backoff=_is_in_backoff(obj, now),
        user_data=_scheduling_fields(obj),
    )
    if admission:
        workload.cluster_queue = admission["clusterQueue"]
        workload.usage = usage_of(pod_sets)
        workload.reserved_at = find_condition(obj, QUOTA_RESERVED).get("lastTransitionTime", "")
    else:
        workload.equivalence_hash = repr(
            [(pods.name, pods.count, pods.min_count, pods.requests, _placement(pods.spec)) for pods in pod_sets]
        )
    return workload


def _scheduling_fields(obj: Mapping[str, Any]) -> tuple[Any, ...]:
    """The fields whose change requeues a pending Workload."""
    status = obj.get("status") or {}
    conditions = [find_condition(obj, kind) for kind in (EVICTED, REQUEUED)]
    return (obj["spec"], status.get("reclaimablePods"), status.get("requeueState"), conditions)


def _placement(spec: Mapping[str, Any]) -> tuple[Any, ...]:
    return spec.get("nodeSelector"), spec.get("affinity"), spec.get("tolerations")


def queue_time(obj: Mapping[str, Any], *, by_eviction: bool) -> str:
    """The time that orders a Workload in its queue: its creation, or its eviction by an admission check.

    With `by_eviction`, an eviction by the PodsReady timeout counts too.
    """
    evicted = find_condition(obj, EVICTED)
    reasons = ("PodsReadyTimeout", "AdmissionCheck") if by_eviction else ("AdmissionCheck",)
    if evicted.get("status") == "True" and evicted["reason"] in reasons:
        return str(evicted["lastTransitionTime"])
    return str(obj["metadata"]["creationTimestamp"])


def _is_in_backoff(obj: Mapping[str, Any], now: str) -> bool:
    if find_condition(obj, REQUEUED).get("status") == "False":
        return True
    requeue_at = ((obj.get("status") or {}).get("requeueState") or {}).get("requeueAt")
    return bool(requeue_at and requeue_at > now)


def _reclaimable_counts(obj: Mapping[str, Any]) -> dict[str, int]:
    return {pods["name"]: pods["count"] for pods in (obj.get("status") or {}).get("reclaimablePods") or ()}


def _requested_pod_sets(obj: Mapping[str, Any]) -> list[PodSet]:
    reclaimable, pod_sets = _reclaimable_counts(obj), []
    for pod_set in workload_status.pod_sets_of(obj):
        spec = _with_limits_as_requests(pod_set["template"].get("spec") or {})
        count = pod_set["count"] - reclaimable.get(pod_set["name"], 0)
        requests = {name: amount * count for name, amount in pod_requests(spec).items()}
        min_count = pod_set.get("minCount")
        pod_sets.append(PodSet(pod_set["name"], count, requests, -1 if min_count is None else min_count, spec))
    return pod_sets


def _with_limits_as_requests(spec: Obj) -> Obj:
    """A pod spec in which limits replace missing requests."""
    fields = [
        field
        for field in ("containers", "initContainers")
        if any((container.get("resources") or {}).get("limits") for container in spec.get(field) or ())
    ]
    return {**spec, **{field: list(map(_with_requests, spec[field])) for field in fields}} if fields else spec


def _with_requests(container: Obj) -> Obj:
    resources = container.get("resources") or {}
    requests = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return {**container, "resources": {**resources, "requests": requests}}


def _assigned_pod_sets(obj: Mapping[str, Any], admission: Mapping[str, Any]) -> list[PodSet]:
    reclaimable = _reclaimable_counts(obj)
    counts = {pod_set["name"]: pod_set["count"] for pod_set in workload_status.pod_sets_of(obj)}
    pod_sets = []
    for assignment in admission["podSetAssignments"]:
        name = assignment["name"]
        pod_set = PodSet(name, assignment.get("count", counts.get(name, 0)), parse_resources(assignment.get("resourceUsage")))
        remaining = counts.get(name, 0) - reclaimable.get(name, 0)
        if remaining < pod_set.count:
            pod_set = pod_set.scaled_to(remaining)
        pod_set.flavors = dict(assignment.get("flavors") or {})
        pod_sets.append(pod_set)
    return pod_sets
