"""The state of queues, written down in a few words: flavors, queues, and work that waits, runs or has ended."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from sliceworks.base import clock
from sliceworks.rehearsal.forecast.snapshot import Snapshot

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)
CHIPS = "google.com/tpu"
Object = dict[str, Any]


class State:
    """A cluster's queues at noon. Times are seconds before or after it."""

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
        made: Object = {"metadata": {"name": name, **place, **({"labels": labels} if labels else {})}, **rest}
        listed = self.objects.setdefault(kind, [])
        listed[:] = [
            each for each in listed if (each["metadata"]["name"], each["metadata"].get("namespace", "")) != (name, namespace)
        ]
        listed.append(made)
        return made

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
        began: float | None = None,
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
        """Work that waits, or runs since `began`, or has `ended`."""
        container: Object = {"name": "trainer", "image": image, "resources": {"requests": {CHIPS: str(chips)}}}
        if keeps:
            container["env"] = [{"name": "CHECKPOINT_DIR", "value": "gs://secret"}]
        template: Object = {"spec": {"containers": [container]}}
        if estimate is not None:
            template["metadata"] = {"annotations": {"sliceworks.dev/run-seconds": f"{estimate:g}"}}
        conditions = []
        status: Object = {}
        if began is not None:
            conditions += [condition("QuotaReserved", began), condition("Admitted", began)]
            assigned = {"name": "slice", "count": 1, "flavors": {CHIPS: flavor}, "resourceUsage": {CHIPS: str(chips)}}
            status["admission"] = {"clusterQueue": cluster_queue, "podSetAssignments": [assigned]}
        if ended is not None:
            conditions.append(condition("Finished", ended, "Succeeded"))
        made = self.put(
            "Workload",
            f"jobset-{name}-abcde",
            namespace=namespace,
            spec={"queueName": queue, "priority": priority, "podSets": [{"name": "slice", "count": 1, "template": template}]},
            status={**status, "conditions": conditions},
        )
        made["metadata"] |= {
            "uid": f"uid-{namespace}-{name}",
            "creationTimestamp": at(came),
            "ownerReferences": [
                {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": name, "controller": True, "uid": "u"}
            ],
        }
        return made

    def past(self, name: str, *seconds: float, estimate: float | None = None, **more: Any) -> None:
        """Runs that have ended, each as long as that."""
        for number, length in enumerate(seconds):
            began = -100_000.0 + number
            self.job(f"{name}-{number}", came=began - 60, began=began, ended=began + length, estimate=estimate, **more)

    def snapshot(self) -> Snapshot:
        return Snapshot(NOON, self.objects)


def condition(kind: str, moment: float, reason: str = "Because") -> Object:
    return {"type": kind, "status": "True", "reason": reason, "message": "", "lastTransitionTime": at(moment)}


def at(seconds: float) -> str:
    return clock.rfc3339(NOON + timedelta(seconds=seconds))
