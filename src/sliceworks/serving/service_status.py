"""Status of a model service: its workloads and its autoscalers. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sliceworks.base.conditions import find_condition, is_condition_true
from sliceworks.kube.pod_diagnosis import Cause
from sliceworks.serving import objects
from sliceworks.serving.objects import GATEWAY_LABEL
from sliceworks.serving.record import reference

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from sliceworks.serving.record import Record

Object = dict[str, Any]
WORKLOAD_KINDS = ("Deployment", "StatefulSet", "Job")


@dataclass(frozen=True, slots=True)
class WorkloadStatus:
    """Ready and desired pods of one workload; a Job has one of one when it is complete.

    `is_current`: enough ready pods have the current template. During an update, pods of the previous one are ready, too.
    """

    kind: str
    name: str
    component: str
    ready: int
    desired: int
    failed: bool = False
    is_current: bool = True

    @property
    def is_done(self) -> bool:
        return self.is_current and not self.failed and self.ready >= self.desired

    @property
    def state(self) -> str:
        """failed, done, running, ready, updating or starting."""
        if self.failed:
            return "failed"
        if self.kind == "Job":
            return "done" if self.is_done else "running"
        if self.is_done:
            return "ready"
        return "updating" if self.ready >= self.desired else "starting"

    def __str__(self) -> str:
        return f"{self.kind.lower()}/{self.name}"


@dataclass(frozen=True, slots=True)
class ServiceStatus:
    """The workloads of a service and of its gateway."""

    workloads: tuple[WorkloadStatus, ...]
    missing: tuple[str, ...] = ()
    has_pending_steps: bool = False
    """Whether the last deployment did not complete all its steps."""

    @property
    def servers(self) -> list[WorkloadStatus]:
        return [workload for workload in self.workloads if workload.component == objects.SERVER_COMPONENT]

    @property
    def is_settled(self) -> bool:
        """Whether all workloads are as desired, so that no wait is needed."""
        return self.state in ("ready", "stopped", "unfinished")

    @property
    def state(self) -> str:
        """The state of the service.

        ready       all workloads are as desired
        stopped     the same, with no servers desired
        unfinished  the same, but the last deployment has pending steps
        updating    enough pods are ready, some with the previous template
        degraded    some servers are ready
        starting    no server is ready
        failed      a Job failed
        """
        if any(workload.failed for workload in self.workloads):
            return "failed"
        if not self.missing and all(workload.is_done for workload in self.workloads):
            if self.has_pending_steps:
                return "unfinished"
            return "ready" if any(server.desired for server in self.servers) else "stopped"
        if not self.missing and all(workload.ready >= workload.desired for workload in self.workloads):
            return "updating"
        return "degraded" if any(server.ready for server in self.servers) else "starting"


def compute_status(record: Record, objects: Iterable[Object]) -> ServiceStatus:
    """The status of a service, from the workloads of its namespace."""
    expected = {ref for ref in record.objects if ref.kind in WORKLOAD_KINDS}
    live = {reference(obj): obj for obj in objects if reference(obj) in expected}
    workloads = tuple(_workload_status(live[ref]) for ref in sorted(expected) if ref in live)
    missing = tuple(str(ref) for ref in sorted(expected - set(live)))
    return ServiceStatus(workloads, missing, bool(record.pending_steps))


def belongs_to_service(record: Record, obj: Object) -> bool:
    """Whether an object belongs to the service or to its gateway."""
    labels = obj["metadata"].get("labels") or {}
    gateway = record.service.spec.gateway
    is_own = labels.get(objects.SERVICE_LABEL) == record.service.metadata.name
    return is_own or (gateway is not None and labels.get(GATEWAY_LABEL) == gateway.name)


def _workload_status(obj: Object) -> WorkloadStatus:
    kind, spec, status = obj["kind"], obj.get("spec") or {}, obj.get("status") or {}
    name, labels = obj["metadata"]["name"], obj["metadata"].get("labels") or {}
    component = labels.get(objects.COMPONENT_LABEL, "")
    if kind == "Job":
        is_complete, failed = is_condition_true(obj, "Complete"), is_condition_true(obj, "Failed")
        return WorkloadStatus(kind, name, component, int(is_complete), 1, failed=failed)
    desired, ready = spec.get("replicas", 1), status.get("readyReplicas") or 0
    # Right after a change the status describes the previous generation; then old pods, perhaps all ready, run beside new ones.
    is_observed = status.get("observedGeneration", 0) >= obj["metadata"].get("generation", 1)
    outdated = (status.get("replicas") or 0) - (status.get("updatedReplicas") or 0)
    is_current = is_observed and ready - outdated >= desired
    return WorkloadStatus(kind, name, component, min(ready, desired), desired, is_current=is_current)


_HINTS = {
    "FailedGetPodsMetric": "check that a custom metrics adapter is installed and that the servers' metrics are scraped",
    "FailedGetResourceMetric": "check with `kubectl top pods` that the metrics server works",
}


@dataclass(frozen=True, slots=True)
class AutoscalerStatus:
    """Status of one autoscaler."""

    name: str
    replicas: str
    state: str
    cause: Cause | None = None


METRIC_APIS = {"FailedGetPodsMetric": "custom.metrics.k8s.io", "FailedGetResourceMetric": "metrics.k8s.io"}
"""The API from which an autoscaler could not read a metric, by the reason of its condition."""
UNMEASURED = "keeps its limits: a twin measures no pod usage"


def autoscaler_status(autoscaler: Object, unmeasured: Collection[str] = ()) -> AutoscalerStatus:
    """The status of an autoscaler. Until the controller's first sync, within 15 seconds, it has no conditions.

    `unmeasured`: reasons in METRIC_APIS that do not mean a failure, because the cluster is a twin without these APIs.
    """
    spec, name = autoscaler["spec"], autoscaler["metadata"]["name"]
    current = (autoscaler.get("status") or {}).get("currentReplicas") or 0
    active = find_condition(autoscaler, "ScalingActive") or find_condition(autoscaler, "AbleToScale")
    limits = f"{spec.get('minReplicas', 1)}–{spec['maxReplicas']}"
    if not active:
        return AutoscalerStatus(name, limits, "not reconciled yet")
    replicas = f"{current} of {limits}"
    if active.get("reason") == "ScalingDisabled":
        return AutoscalerStatus(name, replicas, "disabled: replicas is 0")
    if active.get("status") != "True":
        reason = active.get("reason", "")
        if reason in unmeasured:
            return AutoscalerStatus(name, replicas, UNMEASURED)
        cause = Cause(f"horizontalpodautoscaler/{name}", active.get("message") or reason, _HINTS.get(reason, ""))
        return AutoscalerStatus(name, replicas, "failing", cause)
    return AutoscalerStatus(name, replicas, _metric_status(autoscaler))


def _metric_status(autoscaler: Object) -> str:
    """The current and the target value of the first metric."""
    metric, status = autoscaler["spec"]["metrics"][0], (autoscaler["status"].get("currentMetrics") or [{}])[0]
    kind = "pods" if metric["type"] == "Pods" else "resource"
    target, current = metric[kind]["target"], (status.get(kind) or {}).get("current") or {}
    if kind == "resource":
        return f"{current.get('averageUtilization', '?')}% of {target['averageUtilization']}% {metric[kind]['name']}"
    name = metric[kind]["metric"]["name"].removeprefix("prometheus.googleapis.com|").partition("|")[0]
    return f"{current.get('averageValue', '?')} of {target['averageValue']} {name}"
