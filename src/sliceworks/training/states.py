"""How training jobs stand, from their JobSets. Pure."""

from __future__ import annotations

from typing import Any

from sliceworks.training.compile import QUEUE

Object = dict[str, Any]


def state(jobset: Object) -> str:
    """One word: completed, failed, queued, suspended, restarting, running or starting."""
    status = jobset.get("status") or {}
    true = {each["type"] for each in status.get("conditions") or () if each["status"] == "True"}
    for condition, word in (("Completed", "completed"), ("Failed", "failed")):
        if condition in true:
            return word
    if (jobset.get("spec") or {}).get("suspend"):
        return "queued" if QUEUE in (jobset["metadata"].get("labels") or {}) else "suspended"
    if "RestartingJobSet" in true:
        return "restarting"
    counts: list[Object] = status.get("replicatedJobsStatus") or []
    wanted = {each["name"]: each.get("replicas", 1) for each in jobset["spec"]["replicatedJobs"]}
    ready = {each["name"]: each.get("ready", 0) + each.get("succeeded", 0) for each in counts}
    return "running" if all(ready.get(name, 0) >= count for name, count in wanted.items()) else "starting"
