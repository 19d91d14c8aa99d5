"""What has happened to a job, in order: from the conditions of its JobSet, its Workload and its pods. Pure.

A condition knows only its last change: of what happened twice the last time is told.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sliceworks.base.conditions import is_true

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Object = dict[str, Any]
# What a condition that holds means; those that are not named here tell nothing that others do not.
_OF_WORKLOAD = {
    "QuotaReserved": "has its quota",
    "Admitted": "admitted",
    "PodsReady": "all pods ready",
    "Evicted": "evicted",
    "Preempted": "preempted",
    "Requeued": "back in the queue",
    "Finished": "",
    "DeactivationTarget": "to be deactivated",
}
_OF_JOBSET = {
    "RestartingJobSet": "restarting",
    "StartupPolicyCompleted": "all started in order",
    "Completed": "completed",
    "Failed": "failed",
}
# Times have whole seconds: within one, this is the order in which things happen.
_RANKS = {"submitted": 0, "Workload": 1, "started": 2, "Pod": 3, "JobSet": 4}


@dataclass(frozen=True, slots=True)
class Step:
    """Something that happened: when, what, how long after the step before, and what was said about it."""

    at: str
    what: str
    after: float
    said: str
    source: str


def timeline(jobset: Object, workload: Object | None, pods: Iterable[Object]) -> list[Step]:
    """Every step, first to last."""
    found = [*_of_jobset(jobset), *_of_workload(workload), *_of_pods(pods, _wanted(jobset))]
    found.sort(key=lambda each: (each[0], _RANKS.get(each[1], _RANKS[each[3]])))
    steps: list[Step] = []
    for at, what, said, source in found:
        after = (datetime.fromisoformat(at) - datetime.fromisoformat(steps[-1].at)).total_seconds() if steps else 0.0
        steps.append(Step(at, what, after, said, source))
    return steps


Told = tuple[str, str, str, str]


def _of_jobset(jobset: Object) -> Iterator[Told]:
    yield jobset["metadata"]["creationTimestamp"], "submitted", "", "JobSet"
    for each in _conditions(jobset):
        if each["type"] == "Suspended" and each["status"] == "False":
            yield each["lastTransitionTime"], "started", each.get("message", ""), "JobSet"
        elif each["status"] == "True" and _OF_JOBSET.get(each["type"]):
            yield each["lastTransitionTime"], _OF_JOBSET[each["type"]], each.get("message", ""), "JobSet"


def _of_workload(workload: Object | None) -> Iterator[Told]:
    over = is_true(workload, "Finished")
    for each in _conditions(workload or {}):
        if each["type"] == "QuotaReserved" and each["status"] == "False":
            if over:
                continue  # what has finished gives its quota back
            yield each["lastTransitionTime"], "waits for quota", each.get("message", ""), "Workload"
        elif each["status"] == "True" and _OF_WORKLOAD.get(each["type"]):
            yield each["lastTransitionTime"], _OF_WORKLOAD[each["type"]], each.get("message", ""), "Workload"


def _wanted(jobset: Object) -> int:
    """How many pods it has when all are there."""
    jobs = jobset["spec"]["replicatedJobs"]
    return sum(each.get("replicas", 1) * each["template"]["spec"].get("parallelism", 1) for each in jobs)


def _of_pods(pods: Iterable[Object], wanted: int) -> Iterator[Told]:
    """The first host that had a node, and the last one that was ready: between them lies what machines and images took."""
    found: dict[str, list[str]] = {"PodScheduled": [], "Ready": []}
    done = 0
    for pod in pods:
        done += (pod.get("status") or {}).get("phase") == "Succeeded" and not is_true(pod, "Ready")
        for each in _conditions(pod):
            if each["status"] == "True" and each.get("lastTransitionTime"):
                found.get(each["type"], []).append(each["lastTransitionTime"])
    if found["PodScheduled"]:
        yield min(found["PodScheduled"]), "first pod has a node", "", "Pod"
    if found["Ready"]:
        up = len(found["Ready"]) + done
        yield max(found["Ready"]), "last pod ready" if up >= wanted else f"{up} of {wanted} pods ready", "", "Pod"


def _conditions(obj: Object) -> list[Object]:
    found: list[Object] = (obj.get("status") or {}).get("conditions") or []
    return found
