"""Minimal Kubernetes objects for tests of `train why` that need no cluster."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sliceworks.training.diagnosis.model import Evidence

Obj = dict[str, Any]
NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
EARLIER = "2026-01-01T11:00:00Z"
TPU = "google.com/tpu"


def conditions(**by_type: tuple[str, str, str]) -> list[Obj]:
    """Conditions by type: status, reason, message."""
    return [
        {
            "type": kind.replace("__", "/").replace("_", "."),
            "status": status,
            "reason": reason,
            "message": message,
            "lastTransitionTime": EARLIER,
        }
        for kind, (status, reason, message) in by_type.items()
    ]


def part(name: str = "slice", replicas: int = 1, pods: int = 1, **pod: Any) -> Obj:
    """A replicated Job."""
    template = {"metadata": pod.pop("metadata", {}), "spec": {"containers": [{"name": "trainer", "image": "x"}], **pod}}
    return {"name": name, "replicas": replicas, "template": {"spec": {"parallelism": pods, "template": template}}}


def jobset(*parts: Obj, queue: str = "q", suspend: bool = True, status_conditions: list[Obj] | None = None, **spec: Any) -> Obj:
    metadata: Obj = {"namespace": "team", "name": "job", "uid": "u", "creationTimestamp": EARLIER, **spec.pop("metadata", {})}
    if queue:
        metadata["labels"] = {"kueue.x-k8s.io/queue-name": queue}
    status: Obj = {"conditions": status_conditions or [], **spec.pop("status", {})}
    return {
        "kind": "JobSet",
        "metadata": metadata,
        "spec": {"suspend": suspend, "replicatedJobs": list(parts) or [part()], **spec},
        "status": status,
    }


def workload(
    name: str = "job",
    chips: int = 4,
    *,
    priority: int = 0,
    status_conditions: list[Obj] | None = None,
    created: str = EARLIER,
    **status: Any,
) -> Obj:
    pod = {"containers": [{"name": "trainer", "resources": {"requests": {TPU: str(chips)}}}]}
    metadata = {
        "namespace": "team",
        "name": f"w-{name}",
        "creationTimestamp": created,
        "ownerReferences": [{"kind": "JobSet", "name": name}],
    }
    spec: Obj = {"queueName": "q", "priority": priority, "podSets": [{"name": "slice", "count": 1, "template": {"spec": pod}}]}
    waits = conditions(QuotaReserved=("False", "Pending", "couldn't assign flavors"))
    return {
        "kind": "Workload",
        "metadata": metadata,
        "spec": spec,
        "status": {"conditions": waits if status_conditions is None else status_conditions, **status},
    }


def holder(name: str, chips: int, *, flavor: str = "v4", priority: int = 0, queue: str = "cq", **annotations: str) -> Obj:
    """A Workload with reserved quota."""
    given = {
        "clusterQueue": queue,
        "podSetAssignments": [{"name": "slice", "flavors": {TPU: flavor}, "resourceUsage": {TPU: str(chips)}}],
    }
    result = workload(
        name, chips, priority=priority, status_conditions=conditions(Admitted=("True", "Admitted", "")), admission=given
    )
    result["spec"]["podSets"][0]["template"]["metadata"] = {
        "annotations": {f"sliceworks.dev/{k.replace('_', '-')}": v for k, v in annotations.items()}
    }
    return result


def local(**spec: Any) -> Obj:
    return {"kind": "LocalQueue", "metadata": {"namespace": "team", "name": "q"}, "spec": {"clusterQueue": "cq", **spec}}


def cluster_queue(chips: int = 16, used: int = 0, name: str = "cq", flavor: str = "v4", **spec: Any) -> Obj:
    quota = {"name": TPU, "nominalQuota": str(chips), **spec.pop("limits", {})}
    group = {"coveredResources": [TPU], "flavors": [{"name": flavor, "resources": [quota]}]}
    status = {"flavorsReservation": [{"name": flavor, "resources": [{"name": TPU, "total": str(used)}]}], "reservingWorkloads": 1}
    return {
        "kind": "ClusterQueue",
        "metadata": {"name": name},
        "spec": {"namespaceSelector": {}, "resourceGroups": [group], **spec},
        "status": status,
    }


def queued(**fields: Any) -> Evidence:
    """The evidence for a job that is pending in an ordinary queue."""
    queue = fields.pop("cluster_queue", None) or cluster_queue()
    given: Obj = {"jobset": jobset(), "workload": workload(), "local_queue": local(), "cluster_queue": queue, "cohort": (queue,)}
    return Evidence(**{"now": NOW, "namespace_object": {"metadata": {"name": "team", "labels": {}}}, **given, **fields})


def started(*pods: Obj, jobs: tuple[Obj, ...] = (), **fields: Any) -> Evidence:
    """The evidence for a job that is not suspended, with these pods."""
    return Evidence(**{"now": NOW, "jobset": jobset(queue="", suspend=False), "pods": pods, "jobs": jobs, **fields})


def pod(
    name: str = "job-slice-0-0-x",
    phase: str = "Running",
    *,
    node: str = "n",
    status_conditions: list[Obj] | None = None,
    **status: Any,
) -> Obj:
    metadata = {
        "namespace": "team",
        "name": name,
        "labels": {"jobset.sigs.k8s.io/jobset-name": "job", "jobset.sigs.k8s.io/replicatedjob-name": "slice"},
    }
    spec: Obj = {
        "containers": [{"name": "trainer", "image": "x", "resources": {"requests": {TPU: "4"}}}],
        "nodeSelector": {"type": "v4"},
    }
    if node:
        spec["nodeName"] = node
    return {
        "kind": "Pod",
        "metadata": metadata,
        "spec": spec,
        "status": {"phase": phase, "conditions": status_conditions or [], **status},
    }


def unplaced(**more: Any) -> Obj:
    reported = conditions(PodScheduled=("False", "Unschedulable", "0/1 nodes are available"))
    return pod(phase="Pending", node="", status_conditions=reported, **more)


def node(name: str = "n", pool: str = "pool", *, chips: int = 4) -> Obj:
    labels = {"type": "v4", "cloud.google.com/gke-nodepool": pool}
    return {"kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": {}, "status": {"allocatable": {TPU: str(chips)}}}
