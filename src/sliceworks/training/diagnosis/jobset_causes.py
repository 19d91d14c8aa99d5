"""Causes in the JobSet itself: finished, suspended, restarting, or one replicated job waits for another. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base import clock, duration
from sliceworks.base.conditions import find_condition, is_condition_true
from sliceworks.catalog import labels
from sliceworks.training.diagnosis import cause_catalog, container_causes
from sliceworks.training.diagnosis.model import field_reference

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.training.diagnosis.model import Cause, Evidence

Object = dict[str, Any]
_MAX_RESTARTS = "ReachedMaxRestarts"


def ended(evidence: Evidence) -> Iterator[Cause]:
    """The job has completed, has failed, or is being deleted."""
    jobset = evidence.jobset
    if is_condition_true(jobset, "Completed"):
        completed = find_condition(jobset, "Completed")
        yield cause_catalog.COMPLETED.cause(
            f"It completed at {completed.get('lastTransitionTime', '')}.",
            field_reference(jobset, "status.conditions[Completed]"),
            reported=completed.get("message", ""),
        )
    elif is_condition_true(jobset, "Failed"):
        yield from _failed(evidence)
    elif deleted := jobset["metadata"].get("deletionTimestamp"):
        blockers = ", ".join(jobset["metadata"].get("finalizers") or ()) or "its pods"
        yield cause_catalog.DELETING.cause(
            f"It is being deleted since {deleted}; its deletion waits for {blockers}.",
            field_reference(jobset, "metadata.deletionTimestamp"),
        )


def _failed(evidence: Evidence) -> Iterator[Cause]:
    """The failure itself comes first, then the restart limit."""
    jobset = evidence.jobset
    failed = find_condition(jobset, "Failed")
    causes = [*_deadlines(evidence), *container_causes.terminations(evidence)]
    yield from causes
    if failed.get("reason") == _MAX_RESTARTS:
        limit = _max_restarts(jobset)
        used = (
            "No restarts are allowed" if not limit else f"It used all {limit} restarts" if limit > 1 else "It used its one restart"
        )
        yield cause_catalog.RESTARTS_SPENT.cause(
            f"{used}.",
            field_reference(jobset, "status.conditions[Failed]"),
            field_reference(jobset, "spec.failurePolicy.maxRestarts"),
            reported=failed.get("message", ""),
        )
    elif not causes:
        yield cause_catalog.FAILED.cause(
            f"It failed at {failed.get('lastTransitionTime', '')}.",
            field_reference(jobset, "status.conditions[Failed]"),
            reported=failed.get("message", ""),
        )


def _deadlines(evidence: Evidence) -> Iterator[Cause]:
    for job in evidence.jobs:
        failed = find_condition(job, "Failed")
        if failed.get("status") == "True" and failed.get("reason") == "DeadlineExceeded":
            limit = duration.human(float(job["spec"].get("activeDeadlineSeconds") or 0))
            yield cause_catalog.DEADLINE.cause(
                f"{job['metadata']['name']} ran longer than {limit}, the deadline of one attempt.",
                field_reference(job, "status.conditions[Failed]", "Job"),
                field_reference(job, "spec.activeDeadlineSeconds", "Job"),
                reported=failed.get("message", ""),
            )
            return


def stopped(evidence: Evidence) -> Iterator[Cause]:
    """The job is suspended by a user, or by the slices controller for a time; Kueue's suspension belongs to the queue layer."""
    jobset = evidence.jobset
    if not evidence.suspended:
        return
    until = clock.parse((jobset["metadata"].get("annotations") or {}).get(labels.HELD_UNTIL))
    if until is not None:
        yield _held(evidence, until.isoformat().replace("+00:00", "Z"))
    elif not evidence.queue:
        since = find_condition(jobset, "Suspended").get("lastTransitionTime") or jobset["metadata"].get("creationTimestamp", "")
        yield cause_catalog.SUSPENDED.cause(
            f"A user suspended it; it is suspended since {since}.", field_reference(jobset, "spec.suspend")
        )


def _held(evidence: Evidence, until: str) -> Cause:
    released = next(
        (event for event in evidence.events_of("JobSet", evidence.name) if event["reason"] == labels.SLICES_RELEASED), {}
    )
    return cause_catalog.HELD.cause(
        f"Not all of its slices could be created in time, so the others were released. They are retried at {until}.",
        field_reference(evidence.jobset, f"metadata.annotations[{labels.HELD_UNTIL}]"),
        reported=released.get("message", ""),
    )


def restarting(evidence: Evidence) -> Iterator[Cause]:
    """The JobSet failed and its Jobs are being recreated."""
    condition = find_condition(evidence.jobset, "RestartingJobSet")
    if condition.get("status") == "True":
        count, limit = (evidence.jobset.get("status") or {}).get("restarts", 0), _max_restarts(evidence.jobset)
        where = field_reference(evidence.jobset, "status.conditions[RestartingJobSet]")
        yield cause_catalog.RESTARTING.cause(
            f"It is restarting: {count} of {limit} restarts used.", where, reported=condition.get("message", "")
        )


def _max_restarts(jobset: Object) -> int:
    return int((jobset["spec"].get("failurePolicy") or {}).get("maxRestarts") or 0)


def blocked_replicated_jobs(evidence: Evidence) -> Iterator[Cause]:
    """Replicated jobs that are not created yet because they depend on others."""
    created = set(map(_replicated_job, evidence.jobs))
    working = {_replicated_job(job) for job in evidence.jobs if (job.get("status") or {}).get("ready")}
    for job in evidence.jobset["spec"]["replicatedJobs"]:
        for dependency in _unmet_dependencies(evidence, job):
            if job["name"] not in created:
                condition = "is complete" if dependency.get("status") == "Complete" else "is ready"
                kind = cause_catalog.EARLIER_STEP if dependency["name"] in working else cause_catalog.BLOCKED
                yield kind.cause(
                    f"The replicated job {job['name']} starts when {dependency['name']} {condition}.",
                    field_reference(evidence.jobset, f"spec.replicatedJobs[{job['name']}].dependsOn"),
                )
    if is_condition_true(evidence.jobset, "StartupPolicyInProgress"):
        yield cause_catalog.BLOCKED.cause(
            "Its replicated jobs start in order, and not all have started.",
            field_reference(evidence.jobset, "status.conditions[StartupPolicyInProgress]"),
            field_reference(evidence.jobset, "spec.startupPolicy"),
        )


def _unmet_dependencies(evidence: Evidence, job: Object) -> list[Object]:
    """The replicated jobs that another one waits for, by their Jobs: JobSet's counts are old while it cannot create others."""
    replicas = {part["name"]: int(part.get("replicas", 1)) for part in evidence.jobset["spec"]["replicatedJobs"]}

    def is_met(dependency: Object) -> bool:
        jobs = [item for item in evidence.jobs if _replicated_job(item) == dependency["name"]]
        done = sum(is_condition_true(item, "Complete") or _is_ready(item, dependency) for item in jobs)
        return done >= replicas.get(dependency["name"], 1)

    return [dependency for dependency in job.get("dependsOn") or () if not is_met(dependency)]


def _is_ready(job: Object, dependency: Object) -> bool:
    """Whether a dependency asks only for readiness, and all pods of the Job are ready or have succeeded."""
    status = job.get("status") or {}
    ready = int(status.get("ready") or 0) + int(status.get("succeeded") or 0)
    return dependency.get("status") != "Complete" and ready >= int(job["spec"].get("parallelism") or 1)


def missing_jobs(evidence: Evidence) -> Iterator[Cause]:
    """Replicated jobs that wait for no other and whose Jobs do not exist, or are suspended although the JobSet is not."""
    if "Job" in evidence.hidden:
        return
    jobs: dict[str, list[Object]] = {}
    for job in evidence.jobs:
        jobs.setdefault(_replicated_job(job), []).append(job)
    with_pods = set(map(_replicated_job, evidence.pods))
    failed = next((item for item in evidence.events_of("JobSet", evidence.name) if item["reason"] == "JobCreationFailed"), {})
    manager = str(evidence.jobset["spec"].get("managedBy") or labels.JOBSET_CONTROLLER)
    creator = "JobSet" if manager == labels.JOBSET_CONTROLLER else f"{manager}, which manages it,"
    for part in evidence.jobset["spec"]["replicatedJobs"]:
        created, replicas = jobs.get(part["name"], []), int(part.get("replicas", 1))
        where = field_reference(evidence.jobset, f"spec.replicatedJobs[{part['name']}]")
        if len(created) < replicas and not _unmet_dependencies(evidence, part) and part["name"] not in with_pods:
            message = f"{creator} has created {len(created)} of {replicas} Jobs of {part['name']}."
            yield cause_catalog.NO_JOBS.cause(message, where, reported=failed.get("message", ""))
        elif suspended := [job for job in created if job["spec"].get("suspend")]:
            message = f"{creator} has not resumed {len(suspended)} of {replicas} Jobs of {part['name']}."
            yield cause_catalog.NO_JOBS.cause(message, field_reference(suspended[0], "spec.suspend", "Job"))


def _replicated_job(obj: Object) -> str:
    return str((obj["metadata"].get("labels") or {}).get(labels.REPLICATED_JOB, ""))
