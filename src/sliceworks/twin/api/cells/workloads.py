"""Rows of what makes pods: deployments, sets, jobs, and their scaling and disruption."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base import quantity
from sliceworks.kube.resources import controller_of
from sliceworks.kube.selectors import from_label_selector
from sliceworks.twin.api.cells.shared import (
    NONE,
    UNKNOWN,
    UNSET,
    Obj,
    age,
    between,
    condition,
    containers,
    kind,
    labels,
    name,
    selector,
    since,
    spec,
    status,
)

if TYPE_CHECKING:
    from datetime import datetime

_OVER = (("Complete", "Complete"), ("Failed", "Failed"))
_ON_THE_WAY = ("Suspended", "FailureTarget", "SuccessCriteriaMet")


def deployment_row(obj: Obj, now: datetime) -> list[Any]:
    wanted, state = spec(obj), status(obj)
    return [
        name(obj),
        f"{state.get('readyReplicas', 0)}/{wanted.get('replicas', 0)}",
        state.get("updatedReplicas", 0),
        state.get("availableReplicas", 0),
        age(obj, now),
        *containers(wanted.get("template")),
        str(from_label_selector(wanted.get("selector"))),
    ]


def replica_set_row(obj: Obj, now: datetime) -> list[Any]:
    return [*_replicas(obj, now), selector(spec(obj).get("selector"))]


def replication_controller_row(obj: Obj, now: datetime) -> list[Any]:
    return [*_replicas(obj, now), labels(spec(obj).get("selector"))]


def _replicas(obj: Obj, now: datetime) -> list[Any]:
    wanted, state = spec(obj), status(obj)
    counts = [wanted.get("replicas", 0), state.get("replicas", 0), state.get("readyReplicas", 0)]
    return [name(obj), *counts, age(obj, now), *containers(wanted.get("template"))]


def scale_row(obj: Obj, now: datetime) -> list[Any]:
    return [name(obj), spec(obj).get("replicas", 0), status(obj).get("replicas", 0), age(obj, now)]


def stateful_set_row(obj: Obj, now: datetime) -> list[Any]:
    wanted = spec(obj)
    ready = f"{status(obj).get('readyReplicas', 0)}/{wanted.get('replicas', 0)}"
    return [name(obj), ready, age(obj, now), *containers(wanted.get("template"))]


def daemon_set_row(obj: Obj, now: datetime) -> list[Any]:
    wanted, state = spec(obj), status(obj)
    template = wanted.get("template") or {}
    numbers = ("desiredNumberScheduled", "currentNumberScheduled", "numberReady", "updatedNumberScheduled", "numberAvailable")
    return [
        name(obj),
        *(state.get(number, 0) for number in numbers),
        labels((template.get("spec") or {}).get("nodeSelector")),
        age(obj, now),
        *containers(template),
        selector(wanted.get("selector")),
    ]


def controller_revision_row(obj: Obj, now: datetime) -> list[Any]:
    owner = controller_of(obj)
    shown = NONE
    if owner is not None:
        group = owner.get("apiVersion", "").rpartition("/")[0]
        shown = f"{owner.get('kind', '')}{'.' + group if group else ''}".lower() + f"/{owner.get('name', '')}"
    return [name(obj), shown, obj.get("revision", 0), age(obj, now)]


def job_row(obj: Obj, now: datetime) -> list[Any]:
    wanted = spec(obj)
    return [
        name(obj),
        _job_status(obj),
        _completions(wanted, status(obj)),
        _job_duration(status(obj), now),
        age(obj, now),
        *containers(wanted.get("template")),
        selector(wanted.get("selector")),
    ]


def _job_status(obj: Obj) -> str:
    for kind_of, shown in _OVER:
        if condition(obj, kind_of) == "True":
            return shown
    if obj["metadata"].get("deletionTimestamp"):
        return "Terminating"
    return next((kind_of for kind_of in _ON_THE_WAY if condition(obj, kind_of) == "True"), "Running")


def _completions(wanted: Obj, state: Obj) -> str:
    done, parallel = state.get("succeeded", 0), wanted.get("parallelism") or 0
    if wanted.get("completions") is not None:
        return f"{done}/{wanted['completions']}"
    return f"{done}/1 of {parallel}" if parallel > 1 else f"{done}/1"


def _job_duration(state: Obj, now: datetime) -> str:
    start, end = state.get("startTime"), state.get("completionTime")
    if not start:
        return ""
    return between(start, end) if end else since(start, now)


def cron_job_row(obj: Obj, now: datetime) -> list[Any]:
    wanted, state = spec(obj), status(obj)
    job = (wanted.get("jobTemplate") or {}).get("spec") or {}
    suspended = wanted.get("suspend")
    return [
        name(obj),
        wanted.get("schedule", ""),
        wanted.get("timeZone") or NONE,
        UNSET if suspended is None else str(bool(suspended)),
        len(state.get("active") or ()),
        since(state["lastScheduleTime"], now) if state.get("lastScheduleTime") else NONE,
        age(obj, now),
        *containers(job.get("template")),
        selector(job.get("selector")),
    ]


def disruption_budget_row(obj: Obj, now: datetime) -> list[Any]:
    wanted = spec(obj)
    limits = [str(wanted[limit]) if wanted.get(limit) is not None else "N/A" for limit in ("minAvailable", "maxUnavailable")]
    return [name(obj), *limits, status(obj).get("disruptionsAllowed", 0), age(obj, now)]


def autoscaler_row(obj: Obj, now: datetime) -> list[Any]:
    wanted, state = spec(obj), status(obj)
    target = wanted.get("scaleTargetRef") or {}
    least = wanted.get("minReplicas")
    return [
        name(obj),
        f"{target.get('kind', '')}/{target.get('name', '')}",
        _metrics(wanted, state),
        UNSET if least is None else str(least),
        wanted.get("maxReplicas", 0),
        state.get("currentReplicas", 0),
        age(obj, now),
    ]


def _metrics(wanted: Obj, state: Obj) -> str:
    """The metrics of a current autoscaler, or the one that the first version of the kind knows."""
    metrics, current = wanted.get("metrics") or [], state.get("currentMetrics") or []
    if "targetCPUUtilizationPercentage" in wanted and not metrics:
        used = state.get("currentCPUUtilizationPercentage")
        return f"cpu: {UNKNOWN if used is None else f'{used}%'}/{wanted['targetCPUUtilizationPercentage']}%"
    if not metrics:
        return NONE
    shown = [_metric(metric, current[index] if index < len(current) else {}) for index, metric in enumerate(metrics)]
    text = ", ".join(shown[:2])
    return f"{text} + {len(shown) - 2} more..." if len(shown) > 2 else text


def _metric(metric: Obj, current: Obj) -> str:
    source = metric.get("type", "")
    field = source[:1].lower() + source[1:]
    if field not in ("external", "pods", "object", "resource", "containerResource"):
        return "<unknown type>"
    target = (metric.get(field) or {}).get("target") or {}
    seen = (current.get(field) or {}).get("current") or {}
    average = "averageValue" in target
    if field in ("resource", "containerResource"):
        label = (metric.get(field) or {}).get("name", "")
        return (
            f"{label}: {_amount(seen, 'averageValue')}/{_amount(target, 'averageValue')}"
            if average
            else f"{label}: {_used(seen, target)}"
        )
    if field == "pods" or not average:
        value = "averageValue" if field == "pods" else "value"
        return f"{_amount(seen, value)}/{_amount(target, value)}"
    return f"{_amount(seen, 'averageValue')}/{_amount(target, 'averageValue')} (avg)"


def _amount(values: Obj, field: str) -> str:
    return quantity.canonical(values[field]) if values.get(field) is not None else UNKNOWN


def _used(seen: Obj, target: Obj) -> str:
    now, wanted = seen.get("averageUtilization"), target.get("averageUtilization")
    return f"{UNKNOWN if now is None else f'{now}%'}/{'<auto>' if wanted is None else f'{wanted}%'}"


_WIDE = "Containers:wide | Images:wide | Selector:wide"
_COUNTS = "Name:name | Desired:integer | Current:integer | Ready:integer"
KINDS = {
    "apps/deployments": kind(f"Name:name | Ready | Up-to-date | Available | Age | {_WIDE}", deployment_row),
    "apps/replicasets": kind(f"{_COUNTS} | Age | {_WIDE}", replica_set_row),
    "/replicationcontrollers": kind(f"{_COUNTS} | Age | {_WIDE}", replication_controller_row),
    "apps/statefulsets": kind("Name:name | Ready | Age | Containers:wide | Images:wide", stateful_set_row),
    "apps/daemonsets": kind(f"{_COUNTS} | Up-to-date:integer | Available:integer | Node Selector | Age | {_WIDE}", daemon_set_row),
    "apps/controllerrevisions": kind("Name:name | Controller | Revision | Age", controller_revision_row),
    "batch/jobs": kind(f"Name:name | Status | Completions | Duration | Age | {_WIDE}", job_row),
    "batch/cronjobs": kind(
        f"Name:name | Schedule | Timezone | Suspend:boolean | Active:integer | Last Schedule | Age | {_WIDE}", cron_job_row
    ),
    "policy/poddisruptionbudgets": kind(
        "Name:name | Min Available | Max Unavailable | Allowed Disruptions:integer | Age", disruption_budget_row
    ),
    "autoscaling/scales": kind("Name | Desired:integer | Available:integer | Age", scale_row),
    "autoscaling/horizontalpodautoscalers": kind(
        "Name:name | Reference | Targets | MinPods | MaxPods | Replicas | Age", autoscaler_row
    ),
}
