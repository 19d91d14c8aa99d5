"""Workloads as a forecast sees them: requests, state, kind of work, run time estimate; and the fields that a snapshot keeps."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock, quantity
from sliceworks.base.conditions import find_condition
from sliceworks.catalog.labels import RUN_SECONDS
from sliceworks.training.status import estimated_run_time
from sliceworks.twin.controllers.kueue import model_builder, workload_status
from sliceworks.twin.controllers.kueue.cache import owner_of
from sliceworks.twin.controllers.kueue.kueue_api import ADMITTED, FINISHED, PODS_READY, QUOTA_RESERVED

if TYPE_CHECKING:
    from sliceworks.twin.controllers.kueue.core.model import WorkloadInfo, WorkloadKey

Object = dict[str, Any]

CHECKPOINT_VARIABLE = "CHECKPOINT_DIR"
"""Environment variable of programs that resume from checkpoints."""

_SCHEDULING_FIELDS = ("nodeSelector", "affinity", "tolerations", "overhead", "resources", "priorityClassName")

_STATUS_FIELDS = (
    "conditions",
    "admission",
    "requeueState",
    "reclaimablePods",
    "admissionChecks",
    "accumulatedPastExecutionTimeSeconds",
)

_SPEC_FIELDS = ("queueName", "priority", "priorityClassRef", "active", "maximumExecutionTimeSeconds")
_CONDITION_FIELDS = ("type", "status", "reason", "message", "lastTransitionTime")


def trim(kind: str, obj: Object) -> Object:
    """The fields of an object that affect quota. Raises KeyError, TypeError or ValueError if a field is missing."""
    if kind == "Workload":
        return _workload(obj)
    metadata = _pick(obj["metadata"], ("name", "namespace", "labels", "deletionTimestamp"))
    return {"metadata": metadata, **_pick(obj, ("spec", "value", "status") if kind == "AdmissionCheck" else ("spec", "value"))}


def _workload(obj: Object) -> Object:
    metadata, spec, status = obj["metadata"], obj["spec"], obj.get("status") or {}
    datetime.fromisoformat(metadata["creationTimestamp"])
    owners = [_pick(reference, ("kind", "name", "controller")) for reference in metadata.get("ownerReferences") or ()]
    trimmed_metadata = {**_pick(metadata, ("name", "namespace", "uid", "creationTimestamp")), "ownerReferences": owners}
    trimmed_status = _pick(status, _STATUS_FIELDS)
    if "conditions" in trimmed_status:
        trimmed_status["conditions"] = [_pick(condition, _CONDITION_FIELDS) for condition in trimmed_status["conditions"]]
    return {
        "metadata": trimmed_metadata,
        "spec": {**_pick(spec, _SPEC_FIELDS), "podSets": [_pod_set(pod_set) for pod_set in spec["podSets"]]},
        "status": trimmed_status,
    }


def _pod_set(pods: Object) -> Object:
    template = pods["template"]
    metadata, spec = template.get("metadata") or {}, template.get("spec") or {}
    annotations = _pick(metadata.get("annotations") or {}, (RUN_SECONDS,))
    trimmed_spec = _pick(spec, _SCHEDULING_FIELDS)
    for kind in ("containers", "initContainers"):
        if spec.get(kind):
            trimmed_spec[kind] = [_container(item) for item in spec[kind]]
    return {
        **_pick(pods, ("name", "count", "minCount")),
        "template": {**({"metadata": {"annotations": annotations}} if annotations else {}), "spec": trimmed_spec},
    }


def _container(container: Object) -> Object:
    trimmed = _pick(container, ("name", "image", "resources", "restartPolicy"))
    for amounts in (container.get("resources") or {}).values():
        for amount in amounts.values() if isinstance(amounts, dict) else ():
            quantity.parse(amount)
    # The value is dropped; its presence means that the job resumes from a checkpoint.
    if any(item.get("name") == CHECKPOINT_VARIABLE for item in container.get("env") or ()):
        trimmed["env"] = [{"name": CHECKPOINT_VARIABLE}]
    return trimmed


def _pick(obj: Object, fields: tuple[str, ...]) -> Object:
    return {name: obj[name] for name in fields if name in obj}


QUEUED, RUNNING, HELD = "queued", "running", "held"
_PAST_EXECUTION_TIME = "accumulatedPastExecutionTimeSeconds"
_FINISH_REASONS = ("Succeeded", "Failed", "JobFinished")
_TRAILING_NUMBERS = re.compile(r"([-_.]?(\d+|[0-9a-f]*\d[0-9a-f]{4,}))+$")


@dataclass(frozen=True, slots=True)
class Kind:
    """Identifies similar jobs: namespace, name without numbers, images and size."""

    namespace: str
    stem: str
    images: tuple[str, ...]
    size: str


@dataclass(frozen=True, slots=True)
class Job:
    """A job. Times are seconds relative to the snapshot; the past is negative."""

    key: WorkloadKey
    name: str
    kind: Kind
    state: str
    item: WorkloadInfo
    """The workload as it is queued."""
    arrived: float
    estimate: float | None = None
    admitted_item: WorkloadInfo | None = None
    """The workload as it runs, with its flavors."""
    started: float = 0.0
    previous_run_time: float = 0.0
    """Run time before the last preemption, if the job resumes from a checkpoint."""
    requeue_at: float = 0.0
    resumes: bool = False
    time_limit: float | None = None
    problem: str = ""

    @property
    def elapsed(self) -> float:
        """Total run time so far."""
        return self.previous_run_time + (max(0.0, -self.started) if self.state == RUNNING else 0.0)


@dataclass(frozen=True, slots=True)
class FinishedJob:
    """A finished job: how long it held quota, and how long its pods took to become ready."""

    kind: Kind
    arrived: float
    seconds: float
    estimate: float | None
    startup_seconds: float | None
    job: Job


def job_of(workload: Object, taken: datetime) -> Job:
    """The job of an unfinished Workload; `taken` is the time of the snapshot."""
    owner, status = owner_of(workload), workload.get("status") or {}
    name = owner[2] if owner else workload["metadata"]["name"]
    item = _item({**workload, "status": {key: value for key, value in status.items() if key != "admission"}}, taken)
    state, started, admitted_item, problem = QUEUED, 0.0, None, ""
    if status.get("admission"):
        admitted = find_condition(workload, ADMITTED) or find_condition(workload, QUOTA_RESERVED)
        state, started, admitted_item = RUNNING, _seconds(admitted.get("lastTransitionTime", ""), taken), _item(workload, taken)
    elif not workload_status.is_active(workload):
        state, problem = HELD, "it is deactivated (spec.active of its Workload is false)"
    requeue_at = (status.get("requeueState") or {}).get("requeueAt") if item.in_backoff else ""
    item.in_backoff, resumes = False, _resumes_from_checkpoint(workload)
    return Job(
        item.key,
        name,
        kind_of(workload, name),
        state,
        item,
        item.time,
        estimated_run_time(workload),
        admitted_item,
        started,
        float(status.get(_PAST_EXECUTION_TIME) or 0) if resumes else 0.0,
        max(0.0, _seconds(requeue_at or "", taken)),
        resumes,
        workload["spec"].get("maximumExecutionTimeSeconds"),
        problem,
    )


def _item(workload: Object, taken: datetime) -> WorkloadInfo:
    """The workload for Kueue's core, with times as numbers."""
    result = model_builder.build_workload(workload, clock.rfc3339(taken))
    result.time = _seconds(result.time, taken)
    result.reserved_at = _seconds(result.reserved_at, taken) if result.cluster_queue else None
    return result


def finished_job_of(workload: Object, taken: datetime) -> FinishedJob | None:
    """A finished Workload; None if it never ran or was deleted."""
    ended, admitted = find_condition(workload, FINISHED), find_condition(workload, ADMITTED)
    if ended.get("status") != "True" or ended["reason"] not in _FINISH_REASONS or admitted.get("status") != "True":
        return None
    started = _seconds(admitted["lastTransitionTime"], taken)
    job = job_of({**workload, "status": {_PAST_EXECUTION_TIME: (workload.get("status") or {}).get(_PAST_EXECUTION_TIME)}}, taken)
    seconds = _seconds(ended["lastTransitionTime"], taken) - started + job.previous_run_time
    ready = find_condition(workload, PODS_READY)
    startup_seconds = _seconds(ready["lastTransitionTime"], taken) - started if ready.get("reason") == "PodsReady" else None
    return FinishedJob(job.kind, job.arrived, max(seconds, 0.0), job.estimate, startup_seconds, job)


def kind_of(workload: Object, name: str) -> Kind:
    """The kind of a Workload."""
    images: dict[str, None] = {}
    sizes = []
    for pods in workload["spec"]["podSets"]:
        spec = pods["template"].get("spec") or {}
        images.update(dict.fromkeys(str(item.get("image", "")) for item in spec.get("containers") or ()))
        limits = [(container.get("resources") or {}).get("requests") or {} for container in spec.get("containers") or ()]
        sizes.append((pods["count"], [sorted(limit.items()) for limit in limits], sorted((spec.get("nodeSelector") or {}).items())))
    return Kind(workload["metadata"]["namespace"], name_stem(name), tuple(images), repr(sizes))


def name_stem(name: str) -> str:
    """A name without trailing numbers and hashes; recurring jobs share it."""
    return _TRAILING_NUMBERS.sub("", name) or name


def _resumes_from_checkpoint(workload: Object) -> bool:
    """Whether the job resumes from a checkpoint after preemption."""
    return any(
        item.get("name") == CHECKPOINT_VARIABLE
        for pods in workload["spec"]["podSets"]
        for container in (pods["template"].get("spec") or {}).get("containers") or ()
        for item in container.get("env") or ()
    )


def _seconds(timestamp: str, taken: datetime) -> float:
    """A timestamp as seconds relative to the snapshot."""
    return (datetime.fromisoformat(timestamp) - taken).total_seconds() if timestamp else 0.0
