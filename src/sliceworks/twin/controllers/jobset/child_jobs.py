"""The child Jobs of a JobSet: how one is constructed, and what the controller caches of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sliceworks.base.conditions import find_true_condition
from sliceworks.kube.resources import owner_reference
from sliceworks.twin.controllers.jobset import jobset_api
from sliceworks.twin.controllers.jobset.jobset_api import Obj, replicas, replicated_jobs

COMPLETE, FAILED = "Complete", "Failed"


@dataclass(frozen=True, slots=True)
class ChildJob:
    """The fields of a child Job that the controller needs. Index and attempts are None where the label is not a number."""

    name: str
    replicated_job: str
    index: int | None
    restart_attempt: int | None
    job_restart_attempt: int | None
    has_job_restart_attempt: bool
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


def parse_child_job(job: Obj) -> ChildJob:
    """The projection of a stored Job."""
    metadata, spec, status = job["metadata"], job["spec"], job.get("status") or {}
    labels = metadata.get("labels") or {}
    terminal = find_true_condition(job, COMPLETE, FAILED)
    parallelism = spec.get("parallelism", 1)
    return ChildJob(
        name=metadata["name"],
        replicated_job=labels.get(jobset_api.REPLICATED_JOB, ""),
        index=_parse_int(labels.get(jobset_api.JOB_INDEX)),
        restart_attempt=_parse_int(labels.get(jobset_api.RESTART_ATTEMPT)),
        job_restart_attempt=_parse_int(labels.get(jobset_api.JOB_RESTART_ATTEMPT)),
        has_job_restart_attempt=jobset_api.JOB_RESTART_ATTEMPT in labels,
        pods=min(parallelism, spec["completions"]) if spec.get("completions") is not None else parallelism,
        ready=status.get("ready") or 0,
        active=status.get("active") or 0,
        succeeded=status.get("succeeded") or 0,
        suspended=bool(spec.get("suspend")),
        deleting="deletionTimestamp" in metadata,
        finished=terminal.get("type", ""),
        failed_at=terminal.get("lastTransitionTime", ""),
        reason=terminal.get("reason", ""),
        message=terminal.get("message", ""),
    )


def _parse_int(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() else None


@dataclass(slots=True)
class ChildJobs:
    """The Jobs of the current restart attempt by state, and those of previous attempts, which are to be deleted."""

    active: list[ChildJob] = field(default_factory=list)
    successful: list[ChildJob] = field(default_factory=list)
    failed: list[ChildJob] = field(default_factory=list)
    previous: list[ChildJob] = field(default_factory=list)

    def names(self) -> set[str]:
        return {job.name for jobs in (self.active, self.successful, self.failed, self.previous) for job in jobs}


def construct_job(jobset: Obj, replicated_job: Obj, index: int, *, job_restart_attempt: int | None) -> Obj:
    """The Job at an index. `job_restart_attempt` counts its individual restarts; None when RestartJob is disabled."""
    metadata, template = jobset["metadata"], replicated_job["template"]
    labels = _job_labels(jobset, replicated_job, index, job_restart_attempt)
    placement = _placement_annotations(jobset, template)
    spec: dict[str, Any] = {**template["spec"], "suspend": bool(jobset["spec"].get("suspend"))}
    pod_template = template["spec"]["template"]
    pod_spec: dict[str, Any] = dict(pod_template["spec"])
    if (jobset["spec"].get("network") or {}).get("enableDNSHostnames"):
        pod_spec["subdomain"] = jobset_api.subdomain(jobset)
    name = jobset_api.job_name(metadata["name"], replicated_job["name"], index)
    job_metadata = _with_labels(template.get("metadata") or {}, labels, placement)
    if (
        jobset_api.EXCLUSIVE_TOPOLOGY in job_metadata["annotations"]
        and jobset_api.NODE_SELECTOR_STRATEGY in job_metadata["annotations"]
    ):
        selector = {jobset_api.NAMESPACED_JOB: f"{metadata['namespace']}_{name}"}
        pod_spec["nodeSelector"] = {**(pod_spec.get("nodeSelector") or {}), **selector}
        toleration = {"key": jobset_api.NO_SCHEDULE_TAINT, "operator": "Exists", "effect": "NoSchedule"}
        pod_spec["tolerations"] = [*(pod_spec.get("tolerations") or ()), toleration]
    spec["template"] = {
        "metadata": {**(pod_template.get("metadata") or {}), **_with_labels(pod_template.get("metadata") or {}, labels, placement)},
        "spec": pod_spec,
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": metadata["namespace"],
            **job_metadata,
            "ownerReferences": [jobset_owner_reference(jobset)],
        },
        "spec": spec,
    }


def jobset_owner_reference(jobset: Obj) -> Obj:
    """The owner reference that makes a JobSet the controller of an object."""
    return owner_reference({**jobset, "apiVersion": jobset_api.API_VERSION, "kind": jobset_api.KIND})


def _with_labels(metadata: Obj, labels: dict[str, str], placement: dict[str, str]) -> Obj:
    return {
        "labels": {**(metadata.get("labels") or {}), **labels},
        "annotations": {**(metadata.get("annotations") or {}), **labels, **placement},
    }


def _job_labels(jobset: Obj, replicated_job: Obj, index: int, job_restart_attempt: int | None) -> dict[str, str]:
    """The labels of a Job and its pods; all of them are annotations too."""
    metadata, jobs, name = jobset["metadata"], replicated_jobs(jobset), replicated_job["name"]
    group = replicated_job.get("groupName", "")
    group_jobs = [job for job in jobs if job.get("groupName", "") == group]
    labels = {
        jobset_api.NAME_LABEL: metadata["name"],
        jobset_api.UID_LABEL: metadata["uid"],
        jobset_api.REPLICATED_JOB: name,
        jobset_api.RESTART_ATTEMPT: str((jobset.get("status") or {}).get("restarts", 0)),
        jobset_api.REPLICAS: str(replicas(replicated_job)),
        jobset_api.GLOBAL_REPLICAS: str(sum(map(replicas, jobs))),
        jobset_api.JOB_INDEX: str(index),
        jobset_api.JOB_KEY: jobset_api.job_key(metadata["namespace"], jobset_api.job_name(metadata["name"], name, index)),
        jobset_api.JOB_GLOBAL_INDEX: str(_first_index(jobs, name) + index),
        jobset_api.GROUP_NAME: group,
        jobset_api.GROUP_REPLICAS: str(sum(map(replicas, group_jobs))),
        jobset_api.JOB_GROUP_INDEX: str(_first_index(group_jobs, name) + index),
    }
    if job_restart_attempt is not None:
        labels[jobset_api.JOB_RESTART_ATTEMPT] = str(job_restart_attempt)
    if jobset["spec"].get("coordinator") is not None:
        labels[jobset_api.COORDINATOR] = jobset_api.coordinator_endpoint(jobset)
    return labels


def _first_index(jobs: list[Obj], name: str) -> int:
    """The index of the first Job of a replicated Job among all Jobs."""
    total = 0
    for job in jobs:
        if job["name"] == name:
            break
        total += replicas(job)
    return total


def _placement_annotations(jobset: Obj, template: Obj) -> dict[str, str]:
    """The annotations of exclusive placement, of the JobSet or of the replicated Job's template."""
    placement: dict[str, str] = {}
    for metadata in (jobset["metadata"], template.get("metadata") or {}):
        annotations = metadata.get("annotations") or {}
        if jobset_api.EXCLUSIVE_TOPOLOGY in annotations:
            placement |= {
                key: annotations[key]
                for key in (jobset_api.EXCLUSIVE_TOPOLOGY, jobset_api.NODE_SELECTOR_STRATEGY)
                if key in annotations
            }
    return placement


def merge_pod_template(job_template: Obj, template: Obj) -> None:
    """Merge the fields that are mutable while a JobSet is suspended into a Job's pod template; keeps what others added there."""
    metadata, new_metadata = job_template.setdefault("metadata", {}), template.get("metadata") or {}
    spec, new_spec = job_template["spec"], template["spec"]
    for target, source, fields in ((metadata, new_metadata, ("labels", "annotations")), (spec, new_spec, ("nodeSelector",))):
        for name in fields:
            if merged := {**(target.get(name) or {}), **(source.get(name) or {})}:
                target[name] = merged
    for name in ("tolerations", "schedulingGates"):
        present = spec.get(name) or []
        if added := [item for item in new_spec.get(name) or () if item not in present]:
            spec[name] = [*present, *added]


class ChildJobCache:
    """The Jobs of one JobSet.

    A change that finishes a Job stays hidden while an earlier change of it was not reconciled yet: JobSet writes a status for
    both.
    """

    __slots__ = ("_finished", "_unreconciled", "jobs")

    def __init__(self) -> None:
        self.jobs: dict[str, ChildJob] = {}
        self._unreconciled: set[str] = set()
        self._finished: dict[str, ChildJob] = {}

    def put(self, job: ChildJob) -> None:
        """Add or update a Job."""
        name = job.name
        if job.finished and name in self._unreconciled and not self.jobs[name].finished and not job.deleting:
            self._finished[name] = job
            return
        self._finished.pop(name, None)
        self.jobs[name] = job
        self._unreconciled.add(name)

    def delete(self, name: str) -> None:
        self.jobs.pop(name, None)
        self._finished.pop(name, None)
        self._unreconciled.discard(name)

    def snapshot(self) -> list[ChildJob]:
        """The visible state of all Jobs, for one reconcile."""
        self._unreconciled.clear()
        return list(self.jobs.values())

    def release_finished(self) -> bool:
        """Make hidden changes visible after a reconcile; returns whether there were any."""
        if not self._finished:
            return False
        self.jobs |= self._finished
        self._unreconciled |= self._finished.keys()
        self._finished.clear()
        return True
