"""The timeline of a training job, from the conditions of its JobSet, Workload and pods. Pure.

A condition records only its last transition, so repeated events appear once, at their last time.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from sliceworks.base.conditions import is_condition_true

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Object = dict[str, Any]
Outcome = Literal["good", "bad", "wait", ""]
# Entries for conditions that are true; conditions that are not listed add nothing.
_WORKLOAD_EVENTS = {
    "QuotaReserved": "quota reserved",
    "Admitted": "admitted",
    "PodsReady": "all pods ready",
    "Evicted": "evicted",
    "Preempted": "preempted",
    "Requeued": "requeued",
    "DeactivationTarget": "to be deactivated",
}
_JOBSET_EVENTS = {
    "RestartingJobSet": "restarting",
    "StartupPolicyCompleted": "all started in order",
    "Completed": "completed",
    "Failed": "failed",
}
_OUTCOMES: dict[str, Outcome] = {
    "PodsReady": "good",
    "Completed": "good",
    "Evicted": "bad",
    "Preempted": "bad",
    "DeactivationTarget": "bad",
    "Failed": "bad",
}
# Timestamps have whole seconds: this is the order of events within one second.
_RANKS = {"submitted": 0, "Workload": 1, "started": 2, "Pod": 3, "JobSet": 4}


@dataclass(frozen=True, slots=True)
class TimelineEntry:
    """An event: time, name, seconds after the previous entry, and the message of its source."""

    at: str
    event: str
    after: float
    reported: str
    source: str
    outcome: Outcome = ""


def build_timeline(jobset: Object, workload: Object | None, pods: Iterable[Object]) -> list[TimelineEntry]:
    """All entries in order of time."""
    events = [*_jobset_events(jobset), *_workload_events(workload), *_pod_events(pods, _expected_pods(jobset))]
    events.sort(key=lambda event: (event.at, _RANKS.get(event.event, _RANKS[event.source])))
    entries: list[TimelineEntry] = []
    for at, name, message, source, outcome in events:
        after = (datetime.fromisoformat(at) - datetime.fromisoformat(entries[-1].at)).total_seconds() if entries else 0.0
        entries.append(TimelineEntry(at, name, after, message, source, outcome))
    return entries


class _Event(NamedTuple):
    at: str
    event: str
    reported: str
    source: str
    outcome: Outcome = ""


def _condition_event(condition: Object, event: str, source: str, outcome: Outcome = "") -> _Event:
    if condition["status"] == "True":
        outcome = _OUTCOMES.get(condition["type"], "")
    return _Event(condition["lastTransitionTime"], event, condition.get("message", ""), source, outcome)


def _jobset_events(jobset: Object) -> Iterator[_Event]:
    yield _Event(jobset["metadata"]["creationTimestamp"], "submitted", "", "JobSet")
    for condition in _conditions(jobset):
        if condition["type"] == "Suspended" and condition["status"] == "False":
            yield _condition_event(condition, "started", "JobSet")
        elif condition["status"] == "True" and _JOBSET_EVENTS.get(condition["type"]):
            yield _condition_event(condition, _JOBSET_EVENTS[condition["type"]], "JobSet")


def _workload_events(workload: Object | None) -> Iterator[_Event]:
    is_finished = is_condition_true(workload, "Finished")
    for condition in _conditions(workload or {}):
        if condition["type"] == "QuotaReserved" and condition["status"] == "False":
            if is_finished:
                continue  # a finished workload releases its quota
            yield _condition_event(condition, "pending: no quota", "Workload", "wait")
        elif condition["status"] == "True" and _WORKLOAD_EVENTS.get(condition["type"]):
            yield _condition_event(condition, _WORKLOAD_EVENTS[condition["type"]], "Workload")


def _expected_pods(jobset: Object) -> int:
    """The total number of pods."""
    jobs = jobset["spec"]["replicatedJobs"]
    return sum(job.get("replicas", 1) * job["template"]["spec"].get("parallelism", 1) for job in jobs)


def _pod_events(pods: Iterable[Object], expected: int) -> Iterator[_Event]:
    """When the first pod was scheduled and the last became ready: in between, nodes and images were prepared."""
    times: dict[str, list[str]] = {"PodScheduled": [], "Ready": []}
    succeeded = 0
    for pod in pods:
        succeeded += (pod.get("status") or {}).get("phase") == "Succeeded" and not is_condition_true(pod, "Ready")
        for condition in _conditions(pod):
            if condition["status"] == "True" and condition.get("lastTransitionTime"):
                times.get(condition["type"], []).append(condition["lastTransitionTime"])
    if times["PodScheduled"]:
        yield _Event(min(times["PodScheduled"]), "first pod scheduled", "", "Pod")
    if times["Ready"]:
        ready = len(times["Ready"]) + succeeded
        all_ready = ready >= expected
        event = "last pod ready" if all_ready else f"{ready} of {expected} pods ready"
        yield _Event(max(times["Ready"]), event, "", "Pod", "good" if all_ready else "")


def _conditions(obj: Object) -> list[Object]:
    conditions: list[Object] = (obj.get("status") or {}).get("conditions") or []
    return conditions
