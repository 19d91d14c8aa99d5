"""Rows of Deployments, sets, Jobs, autoscalers and disruption budgets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base import quantity
from sliceworks.kube.resources import controller_of
from sliceworks.kube.selectors import from_label_selector
from sliceworks.twin.apiserver.printers.cells import (
    NONE,
    UNKNOWN,
    UNSET,
    Obj,
    age_since,
    condition_status,
    container_cells,
    duration_between,
    first_few,
    format_labels,
    format_selector,
    printer,
    spec_of,
    status_of,
)

if TYPE_CHECKING:
    from datetime import datetime

_FINISHED_CONDITIONS = ("Complete", "Failed")
_RUNNING_CONDITIONS = ("Suspended", "FailureTarget", "SuccessCriteriaMet")


def deployment_cells(obj: Obj, now: datetime) -> list[Any]:
    spec, status = spec_of(obj), status_of(obj)
    return [
        f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}",
        *container_cells(spec.get("template")),
        str(from_label_selector(spec.get("selector"))),
    ]


def replica_set_cells(obj: Obj, now: datetime) -> list[Any]:
    return [*container_cells(spec_of(obj).get("template")), format_selector(spec_of(obj).get("selector"))]


def replication_controller_cells(obj: Obj, now: datetime) -> list[Any]:
    return [*container_cells(spec_of(obj).get("template")), format_labels(spec_of(obj).get("selector"))]


def stateful_set_cells(obj: Obj, now: datetime) -> list[Any]:
    spec = spec_of(obj)
    ready = f"{status_of(obj).get('readyReplicas', 0)}/{spec.get('replicas', 0)}"
    return [ready, *container_cells(spec.get("template"))]


def daemon_set_cells(obj: Obj, now: datetime) -> list[Any]:
    spec = spec_of(obj)
    template = spec.get("template") or {}
    return [
        format_labels((template.get("spec") or {}).get("nodeSelector")),
        *container_cells(template),
        format_selector(spec.get("selector")),
    ]


def controller_revision_cells(obj: Obj, now: datetime) -> list[Any]:
    owner = controller_of(obj)
    controller = NONE
    if owner is not None:
        group = owner.get("apiVersion", "").rpartition("/")[0]
        controller = f"{owner.get('kind', '')}{'.' + group if group else ''}".lower() + f"/{owner.get('name', '')}"
    return [controller]


def job_cells(obj: Obj, now: datetime) -> list[Any]:
    spec = spec_of(obj)
    return [
        _job_status(obj),
        _completions(spec, status_of(obj)),
        _job_duration(status_of(obj), now),
        *container_cells(spec.get("template")),
        format_selector(spec.get("selector")),
    ]


def _job_status(obj: Obj) -> str:
    for condition in _FINISHED_CONDITIONS:
        if condition_status(obj, condition) == "True":
            return condition
    if obj["metadata"].get("deletionTimestamp"):
        return "Terminating"
    return next((condition for condition in _RUNNING_CONDITIONS if condition_status(obj, condition) == "True"), "Running")


def _completions(spec: Obj, status: Obj) -> str:
    done, parallel = status.get("succeeded", 0), spec.get("parallelism") or 0
    if spec.get("completions") is not None:
        return f"{done}/{spec['completions']}"
    return f"{done}/1 of {parallel}" if parallel > 1 else f"{done}/1"


def _job_duration(status: Obj, now: datetime) -> str:
    start, end = status.get("startTime"), status.get("completionTime")
    if not start:
        return ""
    return duration_between(start, end) if end else age_since(start, now)


def cron_job_cells(obj: Obj, now: datetime) -> list[Any]:
    spec, status = spec_of(obj), status_of(obj)
    job = (spec.get("jobTemplate") or {}).get("spec") or {}
    suspended = spec.get("suspend")
    return [
        spec.get("timeZone") or NONE,
        UNSET if suspended is None else str(bool(suspended)),
        age_since(status["lastScheduleTime"], now) if status.get("lastScheduleTime") else NONE,
        *container_cells(job.get("template")),
        format_selector(job.get("selector")),
    ]


def disruption_budget_cells(obj: Obj, now: datetime) -> list[Any]:
    spec = spec_of(obj)
    return [str(spec[limit]) if spec.get(limit) is not None else "N/A" for limit in ("minAvailable", "maxUnavailable")]


def autoscaler_cells(obj: Obj, now: datetime) -> list[Any]:
    spec, status = spec_of(obj), status_of(obj)
    target = spec.get("scaleTargetRef") or {}
    min_replicas = spec.get("minReplicas")
    return [
        f"{target.get('kind', '')}/{target.get('name', '')}",
        _metrics(spec, status),
        UNSET if min_replicas is None else str(min_replicas),
    ]


def _metrics(spec: Obj, status: Obj) -> str:
    """The metrics of autoscaling/v2, or the CPU target of autoscaling/v1."""
    metrics, current = spec.get("metrics") or [], status.get("currentMetrics") or []
    if "targetCPUUtilizationPercentage" in spec and not metrics:
        used = status.get("currentCPUUtilizationPercentage")
        return f"cpu: {UNKNOWN if used is None else f'{used}%'}/{spec['targetCPUUtilizationPercentage']}%"
    cells = [_metric(metric, current[index] if index < len(current) else {}) for index, metric in enumerate(metrics)]
    return first_few(cells, 2, empty=NONE, separator=", ")


def _metric(metric: Obj, current: Obj) -> str:
    source = metric.get("type", "")
    field = source[:1].lower() + source[1:]
    if field not in ("external", "pods", "object", "resource", "containerResource"):
        return "<unknown type>"
    target = (metric.get(field) or {}).get("target") or {}
    value = (current.get(field) or {}).get("current") or {}
    average = "averageValue" in target
    if field in ("resource", "containerResource"):
        label = (metric.get(field) or {}).get("name", "")
        return (
            f"{label}: {_amount(value, 'averageValue')}/{_amount(target, 'averageValue')}"
            if average
            else f"{label}: {_utilization(value, target)}"
        )
    if field == "pods" or not average:
        key = "averageValue" if field == "pods" else "value"
        return f"{_amount(value, key)}/{_amount(target, key)}"
    return f"{_amount(value, 'averageValue')}/{_amount(target, 'averageValue')} (avg)"


def _amount(values: Obj, field: str) -> str:
    return quantity.canonical(values[field]) if values.get(field) is not None else UNKNOWN


def _utilization(value: Obj, target: Obj) -> str:
    current, desired = value.get("averageUtilization"), target.get("averageUtilization")
    return f"{UNKNOWN if current is None else f'{current}%'}/{'<auto>' if desired is None else f'{desired}%'}"


_WIDE = "Containers:wide | Images:wide | Selector:wide"
_REPLICAS = (
    "Name:name | Desired:integer=spec.replicas | Current:integer=status.replicas | Ready:integer=status.readyReplicas"
    f" | Age | {_WIDE}"
)
DEPLOYMENT = printer(
    f"Name:name | Ready | Up-to-date=status.updatedReplicas or 0 | Available=status.availableReplicas or 0 | Age | {_WIDE}",
    deployment_cells,
)
REPLICA_SET = printer(_REPLICAS, replica_set_cells)
REPLICATION_CONTROLLER = printer(_REPLICAS, replication_controller_cells)
STATEFUL_SET = printer("Name:name | Ready | Age | Containers:wide | Images:wide", stateful_set_cells)
DAEMON_SET = printer(
    "Name:name | Desired:integer=status.desiredNumberScheduled | Current:integer=status.currentNumberScheduled"
    " | Ready:integer=status.numberReady | Up-to-date:integer=status.updatedNumberScheduled"
    f" | Available:integer=status.numberAvailable | Node Selector | Age | {_WIDE}",
    daemon_set_cells,
)
CONTROLLER_REVISION = printer("Name:name | Controller | Revision=revision or 0 | Age", controller_revision_cells)
JOB = printer(f"Name:name | Status | Completions | Duration | Age | {_WIDE}", job_cells)
CRON_JOB = printer(
    "Name:name | Schedule=spec.schedule | Timezone | Suspend:boolean | Active:integer=len(status.active)"
    f" | Last Schedule | Age | {_WIDE}",
    cron_job_cells,
)
POD_DISRUPTION_BUDGET = printer(
    "Name:name | Min Available | Max Unavailable | Allowed Disruptions:integer=status.disruptionsAllowed | Age",
    disruption_budget_cells,
)
SCALE = printer("Name | Desired:integer=spec.replicas | Available:integer=status.replicas | Age")
HORIZONTAL_POD_AUTOSCALER = printer(
    "Name:name | Reference | Targets | MinPods | MaxPods=spec.maxReplicas or 0 | Replicas=status.currentReplicas or 0 | Age",
    autoscaler_cells,
)
