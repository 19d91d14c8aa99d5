"""Builds snapshots of Kueue queues: flavors, queues, and pending, running and finished workloads."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from sliceworks.base import clock
from sliceworks.rehearsal.forecast.snapshot import Snapshot

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)
CHIPS = "google.com/tpu"
Object = dict[str, Any]


class State:
    """The queues of a cluster at noon; times are seconds relative to it."""

    def __init__(self, quota: int = 16, **spec: Any) -> None:
        self.objects: dict[str, list[Object]] = {}
        self.put("Namespace", "team", labels={"kubernetes.io/metadata.name": "team"})
        self.put("ResourceFlavor", "v4", spec={})
        self.queue("all", {"v4": quota}, **spec)
        self.put("LocalQueue", "queue", namespace="team", spec={"clusterQueue": "all"})
        for name, value in (("low", 10), ("high", 100)):
            self.put("WorkloadPriorityClass", name, value=value)

    def put(self, kind: str, name: str, *, namespace: str = "", labels: dict[str, str] | None = None, **rest: Any) -> Object:
        place = {"namespace": namespace} if namespace else {}
        created: Object = {"metadata": {"name": name, **place, **({"labels": labels} if labels else {})}, **rest}
        listed = self.objects.setdefault(kind, [])
        listed[:] = [
            item for item in listed if (item["metadata"]["name"], item["metadata"].get("namespace", "")) != (name, namespace)
        ]
        listed.append(created)
        return created

    def queue(self, name: str, quotas: dict[str, int], **spec: Any) -> None:
        flavors = [{"name": flavor, "resources": [{"name": CHIPS, "nominalQuota": str(chips)}]} for flavor, chips in quotas.items()]
        groups = [{"coveredResources": [CHIPS], "flavors": flavors}]
        self.put("ClusterQueue", name, spec={"resourceGroups": groups, "namespaceSelector": {}, **spec})

    def job(
        self,
        name: str,
        chips: int = 16,
        *,
        came: float = -600,
        started: float | None = None,
        ended: float | None = None,
        estimate: float | None = None,
        priority: int = 0,
        queue: str = "queue",
        namespace: str = "team",
        image: str = "train:1",
        keeps: bool = False,
        flavor: str = "v4",
        cluster_queue: str = "all",
    ) -> Object:
        """Add a workload that is pending, runs since `started`, or has `ended`."""
        container: Object = {"name": "trainer", "image": image, "resources": {"requests": {CHIPS: str(chips)}}}
        if keeps:
            container["env"] = [{"name": "CHECKPOINT_DIR", "value": "gs://secret"}]
        template: Object = {"spec": {"containers": [container]}}
        if estimate is not None:
            template["metadata"] = {"annotations": {"sliceworks.dev/run-seconds": f"{estimate:g}"}}
        conditions = []
        status: Object = {}
        if started is not None:
            conditions += [condition("QuotaReserved", started), condition("Admitted", started)]
            assigned = {"name": "slice", "count": 1, "flavors": {CHIPS: flavor}, "resourceUsage": {CHIPS: str(chips)}}
            status["admission"] = {"clusterQueue": cluster_queue, "podSetAssignments": [assigned]}
        if ended is not None:
            conditions.append(condition("Finished", ended, "Succeeded"))
        created = self.put(
            "Workload",
            f"jobset-{name}-abcde",
            namespace=namespace,
            spec={"queueName": queue, "priority": priority, "podSets": [{"name": "slice", "count": 1, "template": template}]},
            status={**status, "conditions": conditions},
        )
        created["metadata"] |= {
            "uid": f"uid-{namespace}-{name}",
            "creationTimestamp": at(came),
            "ownerReferences": [
                {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": name, "controller": True, "uid": "u"}
            ],
        }
        return created

    def past(self, name: str, *seconds: float, estimate: float | None = None, **more: Any) -> None:
        """Add finished runs with these durations."""
        for number, length in enumerate(seconds):
            started = -100_000.0 + number
            self.job(f"{name}-{number}", came=started - 60, started=started, ended=started + length, estimate=estimate, **more)

    def snapshot(self) -> Snapshot:
        return Snapshot(NOON, self.objects)


def condition(kind: str, moment: float, reason: str = "Because") -> Object:
    return {"type": kind, "status": "True", "reason": reason, "message": "", "lastTransitionTime": at(moment)}


def at(seconds: float) -> str:
    return clock.rfc3339(NOON + timedelta(seconds=seconds))
