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
    age,
    age_since,
    condition_status,
    container_cells,
    duration_between,
    format_labels,
    format_selector,
    name_of,
    printer,
    spec_of,
    status_of,
)

if TYPE_CHECKING:
    from datetime import datetime

_FINISHED_CONDITIONS = ("Complete", "Failed")
_RUNNING_CONDITIONS = ("Suspended", "FailureTarget", "SuccessCriteriaMet")


def deployment_row(obj: Obj, now: datetime) -> list[Any]:
    spec, status = spec_of(obj), status_of(obj)
    return [
        name_of(obj),
        f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}",
        status.get("updatedReplicas", 0),
        status.get("availableReplicas", 0),
        age(obj, now),
        *container_cells(spec.get("template")),
        str(from_label_selector(spec.get("selector"))),
    ]


def replica_set_row(obj: Obj, now: datetime) -> list[Any]:
    return [*_replicas(obj, now), format_selector(spec_of(obj).get("selector"))]


def replication_controller_row(obj: Obj, now: datetime) -> list[Any]:
    return [*_replicas(obj, now), format_labels(spec_of(obj).get("selector"))]


def _replicas(obj: Obj, now: datetime) -> list[Any]:
    spec, status = spec_of(obj), status_of(obj)
    counts = [spec.get("replicas", 0), status.get("replicas", 0), status.get("readyReplicas", 0)]
    return [name_of(obj), *counts, age(obj, now), *container_cells(spec.get("template"))]


def scale_row(obj: Obj, now: datetime) -> list[Any]:
    return [name_of(obj), spec_of(obj).get("replicas", 0), status_of(obj).get("replicas", 0), age(obj, now)]


def stateful_set_row(obj: Obj, now: datetime) -> list[Any]:
    spec = spec_of(obj)
    ready = f"{status_of(obj).get('readyReplicas', 0)}/{spec.get('replicas', 0)}"
    return [name_of(obj), ready, age(obj, now), *container_cells(spec.get("template"))]


def daemon_set_row(obj: Obj, now: datetime) -> list[Any]:
    spec, status = spec_of(obj), status_of(obj)
    template = spec.get("template") or {}
    numbers = ("desiredNumberScheduled", "currentNumberScheduled", "numberReady", "updatedNumberScheduled", "numberAvailable")
    return [
        name_of(obj),
        *(status.get(number, 0) for number in numbers),
        format_labels((template.get("spec") or {}).get("nodeSelector")),
        age(obj, now),
        *container_cells(template),
        format_selector(spec.get("selector")),
    ]


def controller_revision_row(obj: Obj, now: datetime) -> list[Any]:
    owner = controller_of(obj)
    controller = NONE
    if owner is not None:
        group = owner.get("apiVersion", "").rpartition("/")[0]
        controller = f"{owner.get('kind', '')}{'.' + group if group else ''}".lower() + f"/{owner.get('name', '')}"
    return [name_of(obj), controller, obj.get("revision", 0), age(obj, now)]


def job_row(obj: Obj, now: datetime) -> list[Any]:
    spec = spec_of(obj)
    return [
        name_of(obj),
        _job_status(obj),
        _completions(spec, status_of(obj)),
        _job_duration(status_of(obj), now),
        age(obj, now),
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


def cron_job_row(obj: Obj, now: datetime) -> list[Any]:
    spec, status = spec_of(obj), status_of(obj)
    job = (spec.get("jobTemplate") or {}).get("spec") or {}
    suspended = spec.get("suspend")
    return [
        name_of(obj),
        spec.get("schedule", ""),
        spec.get("timeZone") or NONE,
        UNSET if suspended is None else str(bool(suspended)),
        len(status.get("active") or ()),
        age_since(status["lastScheduleTime"], now) if status.get("lastScheduleTime") else NONE,
        age(obj, now),
        *container_cells(job.get("template")),
        format_selector(job.get("selector")),
    ]


def disruption_budget_row(obj: Obj, now: datetime) -> list[Any]:
    spec = spec_of(obj)
    limits = [str(spec[limit]) if spec.get(limit) is not None else "N/A" for limit in ("minAvailable", "maxUnavailable")]
    return [name_of(obj), *limits, status_of(obj).get("disruptionsAllowed", 0), age(obj, now)]


def autoscaler_row(obj: Obj, now: datetime) -> list[Any]:
    spec, status = spec_of(obj), status_of(obj)
    target = spec.get("scaleTargetRef") or {}
    min_replicas = spec.get("minReplicas")
    return [
        name_of(obj),
        f"{target.get('kind', '')}/{target.get('name', '')}",
        _metrics(spec, status),
        UNSET if min_replicas is None else str(min_replicas),
        spec.get("maxReplicas", 0),
        status.get("currentReplicas", 0),
        age(obj, now),
    ]


def _metrics(spec: Obj, status: Obj) -> str:
    """The metrics of autoscaling/v2, or the CPU target of autoscaling/v1."""
    metrics, current = spec.get("metrics") or [], status.get("currentMetrics") or []
    if "targetCPUUtilizationPercentage" in spec and not metrics:
        used = status.get("currentCPUUtilizationPercentage")
        return f"cpu: {UNKNOWN if used is None else f'{used}%'}/{spec['targetCPUUtilizationPercentage']}%"
    if not metrics:
        return NONE
    cells = [_metric(metric, current[index] if index < len(current) else {}) for index, metric in enumerate(metrics)]
    joined = ", ".join(cells[:2])
    return f"{joined} + {len(cells) - 2} more..." if len(cells) > 2 else joined


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
_COUNTS = "Name:name | Desired:integer | Current:integer | Ready:integer"
DEPLOYMENT = printer(f"Name:name | Ready | Up-to-date | Available | Age | {_WIDE}", deployment_row)
REPLICA_SET = printer(f"{_COUNTS} | Age | {_WIDE}", replica_set_row)
REPLICATION_CONTROLLER = printer(f"{_COUNTS} | Age | {_WIDE}", replication_controller_row)
STATEFUL_SET = printer("Name:name | Ready | Age | Containers:wide | Images:wide", stateful_set_row)
DAEMON_SET = printer(f"{_COUNTS} | Up-to-date:integer | Available:integer | Node Selector | Age | {_WIDE}", daemon_set_row)
CONTROLLER_REVISION = printer("Name:name | Controller | Revision | Age", controller_revision_row)
JOB = printer(f"Name:name | Status | Completions | Duration | Age | {_WIDE}", job_row)
CRON_JOB = printer(
    f"Name:name | Schedule | Timezone | Suspend:boolean | Active:integer | Last Schedule | Age | {_WIDE}", cron_job_row
)
POD_DISRUPTION_BUDGET = printer(
    "Name:name | Min Available | Max Unavailable | Allowed Disruptions:integer | Age", disruption_budget_row
)
SCALE = printer("Name | Desired:integer | Available:integer | Age", scale_row)
HORIZONTAL_POD_AUTOSCALER = printer("Name:name | Reference | Targets | MinPods | MaxPods | Replicas | Age", autoscaler_row)
