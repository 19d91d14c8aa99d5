"""How training jobs stand, from their JobSets. Pure."""

from __future__ import annotations

from typing import Any

from sliceworks.base.conditions import condition, is_true
from sliceworks.specs.parts import SLICE
from sliceworks.training.words import QUEUE

Object = dict[str, Any]


def state(jobset: Object) -> str:
    """One word: completed, failed, queued, suspended, restarting, running or starting. Helpers do not count."""
    status = jobset.get("status") or {}
    for kind, word in (("Completed", "completed"), ("Failed", "failed")):
        if is_true(jobset, kind):
            return word
    if (jobset.get("spec") or {}).get("suspend"):
        return "queued" if QUEUE in (jobset["metadata"].get("labels") or {}) else "suspended"
    if is_true(jobset, "RestartingJobSet"):
        return "restarting"
    ready = {each["name"]: each.get("ready", 0) + each.get("succeeded", 0) for each in status.get("replicatedJobsStatus") or ()}
    return "running" if all(ready.get(name, 0) >= count for name, count in _wanted(jobset).items()) else "starting"


def _wanted(jobset: Object) -> dict[str, int]:
    """The slices; of a JobSet that has none of our making, all that it has."""
    wanted = {each["name"]: each.get("replicas", 1) for each in jobset["spec"]["replicatedJobs"]}
    return {SLICE: wanted[SLICE]} if SLICE in wanted else wanted


def workers(jobset: Object) -> Object:
    """The replicated job of the slices, in a JobSet of ours; the first one, in another's."""
    jobs: list[Object] = jobset["spec"]["replicatedJobs"]
    return next((each for each in jobs if each["name"] == SLICE), jobs[0])


def pod_spec(jobset: Object) -> Object:
    """What each of its workers is."""
    found: Object = workers(jobset)["template"]["spec"]["template"]["spec"]
    return found


def ending(jobset: Object) -> Object:
    """The condition that says how it ended; empty while it has not."""
    for kind in ("Completed", "Failed"):
        found = condition(jobset, kind)
        if found.get("status") == "True":
            return found
    return {}
