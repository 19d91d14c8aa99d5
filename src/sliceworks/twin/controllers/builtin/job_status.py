"""The status of a Job: its conditions, and pods counted exactly once through uncountedTerminatedPods. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sliceworks.base.conditions import find_condition, find_true_condition
from sliceworks.twin.controllers.builtin import indexed_job

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sliceworks.kube.resources import Object
    from sliceworks.twin.controllers.builtin.job_state import JobOutcome, JobState
    from sliceworks.twin.controllers.runtime.pod_index import Pod

_MAX_UNCOUNTED = 500
_COUNTERS = ("succeeded", "failed")


def is_job_finished(job: Object) -> bool:
    """Whether a Job is complete or failed."""
    return bool(find_true_condition(job, "Complete", "Failed"))


def new_condition(kind: str, status: str, reason: str, message: str, now: str) -> Object:
    """A condition with the times of a new one."""
    times = {"lastProbeTime": now, "lastTransitionTime": now}
    return {"type": kind, "status": status, **times, "reason": reason, "message": message}


def ensure_condition(conditions: list[Object], condition: Object) -> bool:
    """Add or replace a condition; False if nothing changed. A False condition is not added."""
    current = find_condition({"status": {"conditions": conditions}}, condition["type"])
    if not current:
        if condition["status"] == "False":
            return False
        conditions.append(condition)
        return True
    if all(current.get(name) == condition[name] for name in ("status", "reason", "message")):
        return False
    current.clear()
    current.update(condition)
    return True


@dataclass(slots=True)
class TrackingUpdate:
    """The status to write, then the pods to remove the finalizer from. `full`: more pods are left for the next reconcile."""

    status: Object
    release: list[Pod] = field(default_factory=list)
    full: bool = False


def record_finished_pods(state: JobState, outcome: JobOutcome | None, status: Object) -> TrackingUpdate:
    """Add the finished pods to uncountedTerminatedPods of `status`, which is modified."""
    uncounted = status["uncountedTerminatedPods"] = dict(status.get("uncountedTerminatedPods") or {})
    known = {kind: set(uncounted.get(kind) or ()) for kind in _COUNTERS}
    count_released_pods(status, {pod.uid for pod in state.pods if pod.tracked})
    tracking, new_indexes = TrackingUpdate(status), set[int]()
    for pod in sorted(state.pods, key=lambda pod: pod.index) if state.indexed else state.pods:
        if not pod.tracked or not _is_releasable(state, outcome, pod):
            continue
        tracking.release.append(pod)
        if pod.phase == "Succeeded" and pod.uid not in known["failed"]:
            _record_success(state, pod, uncounted, known["succeeded"], new_indexes)
        elif _is_failure(state, outcome, pod) and pod.uid not in known["failed"] and state.failure_match(pod).counts:
            uncounted["failed"] = [*(uncounted.get("failed") or ()), pod.uid]
        if len(new_indexes) + sum(len(uncounted.get(kind) or ()) for kind in _COUNTERS) >= _MAX_UNCOUNTED:
            tracking.full = True
            break
    if state.indexed:
        _record_indexes(state, new_indexes, status)
    return tracking


def _is_releasable(state: JobState, outcome: JobOutcome | None, pod: Pod) -> bool:
    if state.job["metadata"].get("deletionTimestamp") or outcome is not None or pod.phase == "Succeeded":
        return True
    delayed = state.delayed.get(pod.index)
    return state.has_failed(pod) and not (delayed is not None and delayed.uid == pod.uid)


def _is_failure(state: JobState, outcome: JobOutcome | None, pod: Pod) -> bool:
    """Whether a pod that did not succeed counts as failed; all remaining pods of a failed Job do."""
    return state.has_index(pod) and (state.has_failed(pod) or (outcome is not None and not outcome.successful))


def _record_success(state: JobState, pod: Pod, uncounted: Object, known: set[str], new_indexes: set[int]) -> None:
    if not state.indexed:
        if pod.uid not in known:
            uncounted["succeeded"] = [*(uncounted.get("succeeded") or ()), pod.uid]
    elif state.has_index(pod) and not indexed_job.contains_index(state.known_indexes, pod.index):
        new_indexes.add(pod.index)


def _record_indexes(state: JobState, new_indexes: Iterable[int], status: Object) -> None:
    completed = indexed_job.merge_intervals(state.succeeded_indexes, indexed_job.intervals_of(new_indexes))
    set_field(status, "succeeded", indexed_job.count_indexes(completed))
    set_field(status, "completedIndexes", indexed_job.format_indexes(completed))
    if state.failed_indexes is not None:
        status["failedIndexes"] = indexed_job.format_indexes(state.failed_indexes)


def count_released_pods(status: Object, tracked: set[str]) -> None:
    """Move pods that have lost their finalizer from uncountedTerminatedPods to the counters."""
    uncounted = status["uncountedTerminatedPods"]
    for kind in _COUNTERS:
        before = uncounted.get(kind) or []
        remaining = [uid for uid in before if uid in tracked]
        if len(remaining) != len(before):
            set_field(status, kind, status.get(kind, 0) + len(before) - len(remaining))
            set_field(uncounted, kind, remaining)


def set_field(target: Object, name: str, value: Any) -> None:
    """Set a field; omit an empty value, as Kubernetes does."""
    if value:
        target[name] = value
    else:
        target.pop(name, None)
