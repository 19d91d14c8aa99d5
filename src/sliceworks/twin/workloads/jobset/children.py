"""The Jobs of a JobSet: how one is made, and what is remembered of those that are there."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sliceworks.kube.resources import owner_reference
from sliceworks.twin.workloads.jobset import keys
from sliceworks.twin.workloads.jobset.keys import Obj, replicas, replicated_jobs

COMPLETE, FAILED = "Complete", "Failed"


@dataclass(frozen=True, slots=True)
class Child:
    """What matters of a child Job. Attempts are None where the label is missing or no number."""

    name: str
    replicated_job: str
    index: int | None
    attempt: int | None
    own_attempt: int | None
    has_own_attempt: bool
    pods: int
    ready: int
    active: int
    succeeded: int
    suspended: bool
    deleting: bool
    finished: str
    failed_at: str
    reason: str
    message: str


def read(job: Obj) -> Child:
    """The projection of a Job as it is stored."""
    metadata, spec, status = job["metadata"], job["spec"], job.get("status") or {}
    labels = metadata.get("labels") or {}
    ended: Obj = next((each for each in status.get("conditions") or () if _is_end(each)), {})
    parallelism = spec.get("parallelism", 1)
    return Child(
        name=metadata["name"],
        replicated_job=labels.get(keys.REPLICATED_JOB, ""),
        index=_number(labels.get(keys.JOB_INDEX)),
        attempt=_number(labels.get(keys.RESTART_ATTEMPT)),
        own_attempt=_number(labels.get(keys.JOB_RESTART_ATTEMPT)),
        has_own_attempt=keys.JOB_RESTART_ATTEMPT in labels,
        pods=min(parallelism, spec["completions"]) if spec.get("completions") is not None else parallelism,
        ready=status.get("ready") or 0,
        active=status.get("active") or 0,
        succeeded=status.get("succeeded") or 0,
        suspended=bool(spec.get("suspend")),
        deleting="deletionTimestamp" in metadata,
        finished=ended.get("type", ""),
        failed_at=ended.get("lastTransitionTime", ""),
        reason=ended.get("reason", ""),
        message=ended.get("message", ""),
    )


def _is_end(condition: Obj) -> bool:
    return condition["type"] in {COMPLETE, FAILED} and condition["status"] == "True"


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() else None


@dataclass(slots=True)
class Children:
    """The Jobs of the current run by how they stand, and those of earlier runs, which are on their way out."""

    active: list[Child] = field(default_factory=list)
    successful: list[Child] = field(default_factory=list)
    failed: list[Child] = field(default_factory=list)
    previous: list[Child] = field(default_factory=list)

    def names(self) -> set[str]:
        return {each.name for kind in (self.active, self.successful, self.failed, self.previous) for each in kind}


def job_for(jobset: Obj, replicated_job: Obj, index: int, *, own_attempt: int | None) -> Obj:
    """The Job that stands at an index. `own_attempt` counts its own restarts; None where single Jobs are never restarted."""
    metadata, template = jobset["metadata"], replicated_job["template"]
    marks = _marks(jobset, replicated_job, index, own_attempt)
    extra = _placement_annotations(jobset, template)
    spec: dict[str, Any] = {**template["spec"], "suspend": bool(jobset["spec"].get("suspend"))}
    pods = template["spec"]["template"]
    pod: dict[str, Any] = dict(pods["spec"])
    if (jobset["spec"].get("network") or {}).get("enableDNSHostnames"):
        pod["subdomain"] = keys.subdomain(jobset)
    name = keys.job_name(metadata["name"], replicated_job["name"], index)
    marked = _marked(template.get("metadata") or {}, marks, extra)
    if keys.EXCLUSIVE in marked["annotations"] and keys.NODE_SELECTOR in marked["annotations"]:
        pod["nodeSelector"] = {**(pod.get("nodeSelector") or {}), keys.NAMESPACED_JOB: f"{metadata['namespace']}_{name}"}
        tolerated = {"key": keys.NO_SCHEDULE, "operator": "Exists", "effect": "NoSchedule"}
        pod["tolerations"] = [*(pod.get("tolerations") or ()), tolerated]
    spec["template"] = {
        "metadata": {**(pods.get("metadata") or {}), **_marked(pods.get("metadata") or {}, marks, extra)},
        "spec": pod,
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": metadata["namespace"], **marked, "ownerReferences": [owner(jobset)]},
        "spec": spec,
    }


def owner(jobset: Obj) -> Obj:
    """The reference that makes a JobSet the manager of an object."""
    return owner_reference({**jobset, "apiVersion": keys.API_VERSION, "kind": keys.KIND})


def _marked(metadata: Obj, marks: dict[str, str], extra: dict[str, str]) -> Obj:
    return {
        "labels": {**(metadata.get("labels") or {}), **marks},
        "annotations": {**(metadata.get("annotations") or {}), **marks, **extra},
    }


def _marks(jobset: Obj, replicated_job: Obj, index: int, own_attempt: int | None) -> dict[str, str]:
    """What is said both in labels and in annotations, of Jobs and of their pods."""
    metadata, jobs, name = jobset["metadata"], replicated_jobs(jobset), replicated_job["name"]
    group = replicated_job.get("groupName", "")
    siblings = [job for job in jobs if job.get("groupName", "") == group]
    marks = {
        keys.NAME: metadata["name"],
        keys.UID: metadata["uid"],
        keys.REPLICATED_JOB: name,
        keys.RESTART_ATTEMPT: str((jobset.get("status") or {}).get("restarts", 0)),
        keys.REPLICAS: str(replicas(replicated_job)),
        keys.GLOBAL_REPLICAS: str(sum(map(replicas, jobs))),
        keys.JOB_INDEX: str(index),
        keys.JOB_KEY: keys.job_key(metadata["namespace"], keys.job_name(metadata["name"], name, index)),
        keys.JOB_GLOBAL_INDEX: str(_before(jobs, name) + index),
        keys.GROUP_NAME: group,
        keys.GROUP_REPLICAS: str(sum(map(replicas, siblings))),
        keys.JOB_GROUP_INDEX: str(_before(siblings, name) + index),
    }
    if own_attempt is not None:
        marks[keys.JOB_RESTART_ATTEMPT] = str(own_attempt)
    if jobset["spec"].get("coordinator") is not None:
        marks[keys.COORDINATOR] = keys.coordinator(jobset)
    return marks


def _before(jobs: list[Obj], name: str) -> int:
    """How many Jobs come before the first of a replicated Job."""
    total = 0
    for job in jobs:
        if job["name"] == name:
            break
        total += replicas(job)
    return total


def _placement_annotations(jobset: Obj, template: Obj) -> dict[str, str]:
    """Exclusive placement, asked for on the JobSet or on the replicated Job's template."""
    found: dict[str, str] = {}
    for metadata in (jobset["metadata"], template.get("metadata") or {}):
        annotations = metadata.get("annotations") or {}
        if keys.EXCLUSIVE in annotations:
            found |= {key: annotations[key] for key in (keys.EXCLUSIVE, keys.NODE_SELECTOR) if key in annotations}
    return found


def take_over(pods: Obj, template: Obj) -> None:
    """Merge what may change while a JobSet is suspended into the pod template of a Job: what others added there stays."""
    metadata, new = pods.setdefault("metadata", {}), template.get("metadata") or {}
    spec, wanted = pods["spec"], template["spec"]
    for target, source, fields in ((metadata, new, ("labels", "annotations")), (spec, wanted, ("nodeSelector",))):
        for each in fields:
            if merged := {**(target.get(each) or {}), **(source.get(each) or {})}:
                target[each] = merged
    for each in ("tolerations", "schedulingGates"):
        present = spec.get(each) or []
        if added := [item for item in wanted.get(each) or () if item not in present]:
            spec[each] = [*present, *added]
