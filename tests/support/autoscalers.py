"""HorizontalPodAutoscalers of one namespace and their scale targets, with the history of their statuses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.support.polling import PATIENCE, eventually
from tests.support.workloads import WorkloadHarness, template

if TYPE_CHECKING:
    from tests.support.clusters import Cluster

Object = dict[str, Any]
KIND = "HorizontalPodAutoscaler"


def labels(name: str) -> Object:
    return {"app": name}


class AutoscalerHarness:
    """Scale targets and their autoscalers in one namespace; records every status that the autoscalers report."""

    def __init__(self, cluster: Cluster, ns: str) -> None:
        api = cluster.api
        api.post("/api/v1/namespaces", {"metadata": {"name": ns}}).ok(201)
        eventually(lambda: api.get(f"/api/v1/namespaces/{ns}/serviceaccounts/default").status == 200, what="an account")
        self.workloads = WorkloadHarness(cluster, ns)
        path = self.workloads.path(KIND)
        self._watch = api.watch(path, {"resourceVersion": api.get(path).ok().version}, seconds=PATIENCE)
        self._seen: dict[str, list[Object]] = {}

    def target(self, kind: str, name: str, replicas: int) -> None:
        selector = {"matchLabels": labels(name)}
        spec = {"replicas": replicas, "selector": selector, "template": template(labels=labels(name))}
        self.workloads.create(kind, name, {**spec, "serviceName": name} if kind == "StatefulSet" else spec)

    def autoscaler(self, name: str, least: int, most: int, kind: str = "Deployment", **more: Any) -> None:
        group = more.pop("group", "apps/v1")
        target = {"apiVersion": group, "kind": kind, "name": more.pop("target", name)}
        self.workloads.create(KIND, name, {"scaleTargetRef": target, "minReplicas": least, "maxReplicas": most, **more})

    def told(self, name: str, reason: str) -> list[Object]:
        """The statuses of an autoscaler up to the first one with a condition of this reason."""
        while not any(reason in _reasons(status) for status in self._seen.get(name, ())):
            result = self._watch.next()["object"]
            self._seen.setdefault(result["metadata"]["name"], []).append(result.get("status") or {})
        seen = self._seen[name]
        return seen[: next(place for place, status in enumerate(seen) if reason in _reasons(status)) + 1]

    def replicas(self, kind: str, name: str) -> int:
        return int(self.workloads.get(kind, name)["spec"]["replicas"])

    def events(self, name: str, last: str) -> list[Object]:
        """The events of an autoscaler without their counts."""
        result = self.workloads.events(KIND, name, last)
        return [{field: item[field] for field in ("type", "reason", "message", "by")} for item in result]

    def close(self) -> None:
        self._watch.close()


def _reasons(status: Object) -> set[str]:
    return {condition["reason"] for condition in status.get("conditions", ())}
