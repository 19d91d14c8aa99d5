"""From evidence to a diagnosis: the first layer that finds causes explains the job. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.base.conditions import find_condition, is_condition_true
from sliceworks.training import status
from sliceworks.training.diagnosis import (
    cause_catalog,
    container_causes,
    jobset_causes,
    placement_causes,
    queue_causes,
    queue_order,
    slice_causes,
    workload_causes,
)
from sliceworks.training.diagnosis.model import Diagnosis, field_reference

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.training.diagnosis.model import Cause, Evidence

# A job with one of these causes has a position in the queue, and gets the quota that others release.
_QUEUED_CAUSES = (
    cause_catalog.QUOTA_IN_USE,
    cause_catalog.BORROWING_LIMIT,
    cause_catalog.LOWER_PRIORITY,
    cause_catalog.JOBS_AHEAD,
    cause_catalog.OTHERS_NOT_READY,
    cause_catalog.NOT_CONSIDERED,
    cause_catalog.PENDING,
)


def diagnose(evidence: Evidence) -> Diagnosis:
    """Explain the state of a job. There is always at least one cause, also for a job that is running."""
    causes = tuple(find_causes(evidence))
    is_queued = any(cause.kind in _QUEUED_CAUSES for cause in causes)
    return Diagnosis(
        evidence.namespace,
        evidence.name,
        status.job_state(evidence.jobset),
        f"{evidence.name} {causes[0].kind.title}.",
        causes,
        queue_order.find_position(evidence) if is_queued else None,
        queue_order.list_releases(evidence) if is_queued and evidence.cluster_queue is not None else (),
        tuple(_progress(evidence)),
        evidence.unreadable,
    )


def find_causes(evidence: Evidence) -> list[Cause]:
    """The causes, most important first, without the jobs ahead and the expected releases of quota."""
    for layer in (jobset_causes.ended, jobset_causes.stopped, _queued, _placed):
        if causes := list(layer(evidence)):
            return causes
    return [_healthy(evidence)]


def _queued(evidence: Evidence) -> Iterator[Cause]:
    """Kueue manages the job and has not admitted or not resumed it."""
    if not evidence.queue or not evidence.suspended:
        return
    if is_condition_true(evidence.workload, "Admitted") and not is_condition_true(evidence.workload, "Evicted"):
        yield workload_causes.not_resumed(evidence)
        return
    evictions = list(workload_causes.evicted(evidence))
    yield from evictions
    if any(cause.kind in (cause_catalog.DEACTIVATED, cause_catalog.CHECK_REJECTED, cause_catalog.DEADLINE) for cause in evictions):
        return
    if is_condition_true(evidence.workload, "QuotaReserved"):
        checks = list(workload_causes.admission_checks(evidence))
        yield from checks if checks or evictions else [workload_causes.stopping(evidence)]
        return
    yield from list(queue_causes.unusable_queue(evidence)) or queue_causes.insufficient_quota(evidence)


def _placed(evidence: Evidence) -> Iterator[Cause]:
    """The job is admitted: its slices, its pods and their containers, in the order of their creation."""
    if evidence.suspended:
        return
    causes = list(slice_causes.slices(evidence)) or list(placement_causes.unschedulable(evidence))
    causes += placement_causes.pending_followers(evidence)
    causes += placement_causes.rejected_pods(evidence)
    causes += container_causes.unready_hosts(evidence)
    causes += container_causes.undeleted(evidence)
    causes += container_causes.startup_failures(evidence)
    causes += container_causes.terminations(evidence)
    causes += jobset_causes.restarting(evidence)
    runs = _is_running(evidence)
    if not causes and not runs:
        causes = [
            *jobset_causes.missing_jobs(evidence),
            *placement_causes.missing_pods(evidence),
            *container_causes.not_started(evidence),
        ]
    causes = causes or list(container_causes.unready(evidence))
    yield from causes if runs else [*causes, *jobset_causes.blocked_replicated_jobs(evidence)]


def _is_running(evidence: Evidence) -> bool:
    """Whether JobSet counts all replicated jobs as ready, and no pod contradicts it: JobSet may count late."""
    return status.job_state(evidence.jobset) == "running" and not container_causes.pending(evidence)


def _healthy(evidence: Evidence) -> Cause:
    """The job is running or starting, and nothing blocks it."""
    where = field_reference(evidence.jobset, "status.replicatedJobsStatus")
    if not _is_running(evidence):
        message = "Nothing blocks it; not all of its replicated jobs are ready yet."
        return container_causes.starting(evidence) or cause_catalog.STARTING.cause(message, where)
    restarts = int((evidence.jobset.get("status") or {}).get("restarts") or 0)
    event = next((event for event in evidence.events_of("JobSet", evidence.name) if event["reason"].startswith("Restart")), {})
    before = f" It was restarted {'once' if restarts == 1 else f'{restarts} times'}." if restarts else ""
    return cause_catalog.RUNNING.cause(
        f"All of its replicated jobs are ready.{before}", where, reported=event.get("message", "") if restarts else ""
    )


def _progress(evidence: Evidence) -> Iterator[tuple[str, str]]:
    """Short facts about the job's progress: name and value."""
    obj = evidence.jobset
    if evidence.queue:
        yield "queue", evidence.queue
    if evidence.workload is not None:
        yield "priority", str(evidence.workload["spec"].get("priority") or 0)
        admitted = find_condition(evidence.workload, "Admitted")
        if admitted.get("status") == "True":
            yield "admitted", str(admitted.get("lastTransitionTime", ""))
    yield "submitted", str(obj["metadata"].get("creationTimestamp", ""))
    status = obj.get("status") or {}
    counts = {item["name"]: item for item in status.get("replicatedJobsStatus") or ()}
    for part in obj["spec"]["replicatedJobs"]:
        count = counts.get(part["name"], {})
        done = int(count.get("ready") or 0) + int(count.get("succeeded") or 0)
        yield part["name"], f"{done} of {part.get('replicas', 1)} ready"
    restarts, policy = int(status.get("restarts") or 0), obj["spec"].get("failurePolicy") or {}
    if restarts or policy.get("maxRestarts"):
        yield "restarts", f"{restarts} of {policy.get('maxRestarts', 0)}"
