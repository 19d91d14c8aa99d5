"""Kueue's job integrations behind one interface: Jobs and JobSets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base.conditions import find_condition, find_true_condition, is_condition_true
from sliceworks.twin.apiserver.codec import deep_copy
from sliceworks.twin.controllers.kueue import workload_status
from sliceworks.twin.controllers.kueue.kueue_api import (
    ADMITTED,
    COMPLETIONS_EQUAL_PARALLELISM_ANNOTATION,
    MAX_EXEC_TIME_SECONDS_LABEL,
    MIN_PARALLELISM_ANNOTATION,
    PODS_READY,
    STOPPING_ANNOTATION,
    Obj,
    label_value,
    queue_name,
)
from sliceworks.twin.controllers.runtime.resource_keys import JOBS, JOBSETS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sliceworks.twin.controllers.runtime.controller_context import ControllerContext


def is_equivalent(job: Obj, job_pod_sets: list[Obj], workload: Mapping[str, Any]) -> bool:
    """Whether a Workload matches the job. Admission adds tolerations, so those of an admitted Workload are not compared."""
    workload_pod_sets = workload_status.pod_sets_of(workload)
    if len(job_pod_sets) != len(workload_pod_sets):
        return False
    fields = ["containers", "initContainers"]
    if not is_condition_true(workload, ADMITTED):
        fields.append("tolerations")
    counts = {
        assignment["name"]: assignment.get("count")
        for assignment in ((workload.get("status") or {}).get("admission") or {}).get("podSetAssignments", ())
    }
    for expected, actual in zip(job_pod_sets, workload_pod_sets, strict=True):
        allowed = {actual["count"]} | ({counts.get(actual["name"])} if "minCount" in actual else set())
        if expected["count"] not in allowed or expected.get("minCount") != actual.get("minCount"):
            return False
        expected_spec, actual_spec = (pod_set["template"].get("spec") or {} for pod_set in (expected, actual))
        if any((expected_spec.get(field) or []) != (actual_spec.get(field) or []) for field in fields):
            return False
    return has_same_maximum_time(job, workload)


def has_same_maximum_time(job: Obj, workload: Mapping[str, Any]) -> bool:
    return str(workload["spec"].get("maximumExecutionTimeSeconds", "")) == label_value(job, MAX_EXEC_TIME_SECONDS_LABEL)


def is_suspended(job: Mapping[str, Any]) -> bool:
    """Whether a job is suspended; a Job that Kueue is stopping is not suspended yet."""
    stopping = (job["metadata"].get("annotations") or {}).get(STOPPING_ANNOTATION) == "true"
    return bool(job["spec"].get("suspend")) and not stopping


def pods_ready_condition(workload: Mapping[str, Any], ready: bool) -> tuple[bool, str, str]:
    """The status, reason and message of the PodsReady condition."""
    old = find_condition(workload, PODS_READY)
    waiting = (False, "WaitForStart", "Not all pods are ready or succeeded")
    if not is_condition_true(workload, ADMITTED):
        return waiting
    if ready:
        was_lost = old.get("reason") in ("WaitForRecovery", "Recovered")
        return True, "Recovered" if was_lost else "Started", "All pods reached readiness and the workload is running"
    if old.get("status") == "True" or old.get("reason") == "WaitForRecovery":
        return False, "WaitForRecovery", "At least one pod has failed, waiting for recovery"
    return waiting


_JOB_LABELS = ("job-name", "controller-uid", "batch.kubernetes.io/job-name", "batch.kubernetes.io/controller-uid")


class Integration:
    """One kind of job. `name` is its kind, `component` the source of its events."""

    resource = name = component = ""

    def load(self, context: ControllerContext, namespace: str, name: str) -> Obj | None:
        """The current state of a job."""
        return context.get(self.resource, namespace, name)

    def is_deleting(self, job: Mapping[str, Any]) -> bool:
        return "deletionTimestamp" in job["metadata"]

    def is_queued(self, job: Mapping[str, Any]) -> bool:
        """Whether Kueue manages the job."""
        return bool(queue_name(job))

    def templates(self, job: Obj) -> list[Obj]:
        """The pod templates of a job, one for each pod set; the caller may modify them."""
        raise NotImplementedError

    def matches(self, job: Obj, pod_sets: list[Obj], workload: Mapping[str, Any]) -> bool:
        """Whether a Workload matches a job with these pod sets."""
        return is_equivalent(job, pod_sets, workload)

    def pod_sets(self, job: Obj) -> list[Obj]:
        raise NotImplementedError

    def is_suspended(self, job: Mapping[str, Any]) -> bool:
        return is_suspended(job)

    def is_active(self, job: Mapping[str, Any]) -> bool:
        raise NotImplementedError

    def finished(self, job: Mapping[str, Any]) -> tuple[bool, str] | None:
        """Whether the job succeeded, and its final message; None while it is not finished."""
        raise NotImplementedError

    def are_pods_ready(self, job: Mapping[str, Any]) -> bool:
        raise NotImplementedError

    def reclaimable_pods(self, job: Mapping[str, Any]) -> list[Obj]:
        raise NotImplementedError

    def resize(self, job: Obj, counts: list[int]) -> None:
        """Set the number of pods of each pod set, for jobs with partial admission."""

    def kept_labels(self, template: Mapping[str, Any]) -> Obj:
        """The labels that a pod template keeps when it is restored."""
        return {}


class JobIntegration(Integration):
    """Jobs of batch/v1."""

    resource, name, component = JOBS, "Job", "batch/job-kueue-controller"

    def templates(self, job: Obj) -> list[Obj]:
        return [job["spec"]["template"]]

    def pod_sets(self, job: Obj) -> list[Obj]:
        template = deep_copy(job["spec"]["template"])
        labels = (template.get("metadata") or {}).get("labels") or {}
        for label in _JOB_LABELS:
            if label != "batch.kubernetes.io/job-name":
                labels.pop(label, None)
        pod_set: Obj = {"name": "main", "template": template, "count": _pod_count(job["spec"])}
        min_count = (job["metadata"].get("annotations") or {}).get(MIN_PARALLELISM_ANNOTATION, "")
        if min_count.lstrip("-").isdigit():
            pod_set["minCount"] = int(min_count)
        return [pod_set]

    def is_active(self, job: Mapping[str, Any]) -> bool:
        return bool((job.get("status") or {}).get("active"))

    def finished(self, job: Mapping[str, Any]) -> tuple[bool, str] | None:
        return _finished(job, "Complete")

    def are_pods_ready(self, job: Mapping[str, Any]) -> bool:
        status = job.get("status") or {}
        uncounted = (status.get("uncountedTerminatedPods") or {}).get("succeeded") or ()
        return bool(status.get("succeeded", 0) + status.get("ready", 0) + len(uncounted) >= _pod_count(job["spec"]))

    def reclaimable_pods(self, job: Mapping[str, Any]) -> list[Obj]:
        spec, succeeded = job["spec"], (job.get("status") or {}).get("succeeded", 0)
        parallelism = spec.get("parallelism", 1)
        remaining = spec.get("completions", parallelism) - succeeded
        if parallelism == 1 or not succeeded or remaining >= parallelism:
            return []
        return [{"name": "main", "count": parallelism - remaining}]

    def resize(self, job: Obj, counts: list[int]) -> None:
        annotations = job["metadata"].get("annotations") or {}
        if MIN_PARALLELISM_ANNOTATION not in annotations:
            return
        job["spec"]["parallelism"] = counts[0]
        if annotations.get(COMPLETIONS_EQUAL_PARALLELISM_ANNOTATION) == "true":
            job["spec"]["completions"] = counts[0]

    def kept_labels(self, template: Mapping[str, Any]) -> Obj:
        labels = (template.get("metadata") or {}).get("labels") or {}
        return {label: labels[label] for label in _JOB_LABELS if label in labels}


class JobSetIntegration(Integration):
    """JobSets."""

    resource, name, component = JOBSETS, "JobSet", "jobset.x-k8s.io/jobset-kueue-controller"

    def templates(self, job: Obj) -> list[Obj]:
        return [replicated["template"]["spec"]["template"] for replicated in _replicated_jobs(job)]

    def pod_sets(self, job: Obj) -> list[Obj]:
        return [
            {
                "name": replicated["name"].lower(),
                "template": deep_copy(replicated["template"]["spec"]["template"]),
                "count": int(replicated.get("replicas", 1)) * _pod_count(replicated["template"]["spec"]),
            }
            for replicated in _replicated_jobs(job)
        ]

    def is_active(self, job: Mapping[str, Any]) -> bool:
        return any(status.get("active") for status in _replicated_job_statuses(job))

    def finished(self, job: Mapping[str, Any]) -> tuple[bool, str] | None:
        return _finished(job, "Completed")

    def are_pods_ready(self, job: Mapping[str, Any]) -> bool:
        replicas = sum(replicated.get("replicas", 1) for replicated in _replicated_jobs(job))
        ready = sum(status.get("ready", 0) + status.get("succeeded", 0) for status in _replicated_job_statuses(job))
        return bool(replicas == ready)

    def reclaimable_pods(self, job: Mapping[str, Any]) -> list[Obj]:
        succeeded = {status["name"]: status.get("succeeded", 0) for status in _replicated_job_statuses(job)}
        return [
            {
                "name": replicated["name"].lower(),
                "count": succeeded[replicated["name"]] * _pod_count(replicated["template"]["spec"]),
            }
            for replicated in _replicated_jobs(job)
            if 0 < succeeded.get(replicated["name"], 0) <= replicated.get("replicas", 1)
        ]


def _pod_count(spec: Mapping[str, Any]) -> int:
    parallelism = spec.get("parallelism", 1)
    return int(min(parallelism, spec.get("completions", parallelism)))


def _replicated_jobs(job: Mapping[str, Any]) -> Iterable[Obj]:
    return job["spec"].get("replicatedJobs") or ()


def _replicated_job_statuses(job: Mapping[str, Any]) -> Iterable[Obj]:
    return (job.get("status") or {}).get("replicatedJobsStatus") or ()


def _finished(job: Mapping[str, Any], success_type: str) -> tuple[bool, str] | None:
    condition = find_true_condition(job, success_type, "Failed")
    return (condition["type"] == success_type, condition.get("message", "")) if condition else None
