"""Order of a queue: jobs ahead, jobs that hold quota, and when they release it. Pure."""

from __future__ import annotations

from datetime import timedelta
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock, quantity
from sliceworks.base.conditions import find_condition
from sliceworks.training.diagnosis import cause_catalog
from sliceworks.training.diagnosis.model import FieldReference, QueuedJob, QueuePosition, QuotaRelease, field_reference
from sliceworks.training.flavor_fit import QueueQuota, workload_requests
from sliceworks.training.pod_fit import format_amount
from sliceworks.training.status import estimated_run_time, job_state, owner_name

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from sliceworks.training.diagnosis.model import Cause, Evidence

Object = dict[str, Any]
_MAX_LISTED = 5  # jobs listed by name; the others are counted


def queue_quota(evidence: Evidence, queue: Object) -> QueueQuota:
    """The flavors and quota of the job's ClusterQueue."""
    return QueueQuota(queue, evidence.flavors, evidence.cohort or (queue,), evidence.cohorts)


def find_position(evidence: Evidence) -> QueuePosition | None:
    """The job's position in the ClusterQueue, or None if unknown."""
    if evidence.queue_index is None:
        return None
    position = evidence.queue_index + 1
    total = int(((evidence.cluster_queue or {}).get("status") or {}).get("pendingWorkloads") or 0)
    first = evidence.head[: min(evidence.queue_index, _MAX_LISTED)]
    return QueuePosition(position, max(total, position), tuple(_pending_job(row) for row in first))


def jobs_ahead(evidence: Evidence) -> Iterator[Cause]:
    """Other jobs are ahead, by priority or by creation time."""
    position = find_position(evidence)
    if position is None or position.position < 2 or evidence.workload is None:
        return
    own = int(evidence.workload["spec"].get("priority") or 0)
    higher = [job for job in position.first if job.priority > own]
    queue = evidence.cluster_queue
    pending = (
        FieldReference("ClusterQueue", queue["metadata"]["name"], "pendingworkloads")
        if queue
        else FieldReference("LocalQueue", evidence.queue, "pendingworkloads", evidence.namespace)
    )
    where = (pending, field_reference(evidence.workload, "spec.priority", "Workload"))
    count = position.position - 1
    jobs = "1 job is" if count == 1 else f"{count} jobs are"
    if higher:
        listed = ", ".join(f"{job} ({job.priority})" for job in higher)
        message = f"{jobs} ahead of it, and its priority {own} is lower than that of {listed}."
        yield cause_catalog.LOWER_PRIORITY.cause(
            message, *where, remedy=f"wait for them, or submit it with a priority above {higher[0].priority}"
        )
    else:
        listed = ", ".join(str(job) for job in position.first)
        rest = f" and {count - len(position.first)} more" if count > len(position.first) else ""
        yield cause_catalog.JOBS_AHEAD.cause(f"{jobs} ahead of it, with its priority {own} or higher: {listed}{rest}.", *where)


def describe_holders(evidence: Evidence, flavor: str, resource: str) -> str:
    """A sentence about the jobs that hold quota of a flavor."""
    uses = sorted(_uses(evidence, flavor, resource), key=lambda use: -use[1])
    if not uses:
        return ""
    listed = [f"{format_amount(amount, resource)} by {job} (priority {job.priority})" for job, amount in uses[:_MAX_LISTED]]
    if rest := uses[_MAX_LISTED:]:
        listed.append(f"{format_amount(sum((amount for _, amount in rest), Fraction(0)), resource)} by {len(rest)} more")
    some = "" if evidence.all_holders else " (incomplete list)"
    return f" In use{some}: {'; '.join(listed)}."


def describe_local_queue(evidence: Evidence) -> str:
    """A sentence about the LocalQueue, if the ClusterQueue may not be read: how many jobs are pending, and which hold quota."""
    local = evidence.local_queue
    if evidence.cluster_queue is not None or local is None or not local.get("status"):
        return ""
    pending, reserving = (int(local["status"].get(name) or 0) for name in ("pendingWorkloads", "reservingWorkloads"))
    listed = ", ".join(
        f"{_holder(holder).name} ({', '.join(_shares(holder)) or 'nothing'})" for holder in evidence.holders[:_MAX_LISTED]
    )
    return f" Its jobs: {pending} pending, {reserving} with quota{f': {listed}' if listed else ''}."


def local_queue_reference(evidence: Evidence) -> tuple[FieldReference, ...]:
    """The source of `describe_local_queue`."""
    return (
        (field_reference(evidence.local_queue, "status", "LocalQueue"),)
        if describe_local_queue(evidence) and evidence.local_queue
        else ()
    )


def _shares(holder: Object) -> list[str]:
    """The quota that a job holds: of chips, or of all resources if it has no chips."""
    amounts: dict[tuple[str, str], Fraction] = {}
    for pods in (holder["status"].get("admission") or {}).get("podSetAssignments") or ():
        for name, flavor in (pods.get("flavors") or {}).items():
            amount = quantity.parse((pods.get("resourceUsage") or {}).get(name) or "0")
            amounts[flavor, name] = amounts.get((flavor, name), Fraction(0)) + amount
    chips = {key: amount for key, amount in amounts.items() if "/" in key[1]} or amounts
    return [f"{format_amount(amount, name)} of {flavor}" for (flavor, name), amount in chips.items()]


def describe_preemption(evidence: Evidence, flavor: str) -> str:
    """The remedy of a higher priority, if the queue preempts by priority."""
    queue, workload = evidence.cluster_queue, evidence.workload
    policy = (((queue or {}).get("spec") or {}).get("preemption") or {}).get("withinClusterQueue") or "Never"
    if workload is None or queue is None or policy == "Never":
        return ""
    own, name = int(workload["spec"].get("priority") or 0), queue["metadata"]["name"]
    priorities = [
        int(holder["spec"].get("priority") or 0)
        for holder in evidence.holders
        if (holder["status"].get("admission") or {}).get("clusterQueue") == name and _amount(holder, flavor)
    ]
    above = [priority for priority in priorities if priority >= own]
    return f"submit it with a priority above {min(above)} to preempt" if above else ""


def list_releases(evidence: Evidence) -> tuple[QuotaRelease, ...]:
    """The quota that running jobs will release of the insufficient flavors, known end times first."""
    if evidence.workload is None or evidence.cluster_queue is None:
        return ()
    fits = queue_quota(evidence, evidence.cluster_queue).fits(workload_requests(evidence.workload))
    insufficient = [ranked[0].headroom for ranked in fits if ranked[0].fits_later]
    releases: dict[tuple[str, str], QuotaRelease] = {}
    for headroom in insufficient:
        if headroom is None:
            continue
        for holder in evidence.holders:
            amount = _amount(holder, headroom.flavor, headroom.resource)
            job = _holder(holder)
            if amount and (job.namespace, job.name) not in releases:
                expected_at, basis = _end(evidence, holder)
                releases[job.namespace, job.name] = QuotaRelease(
                    job, f"{format_amount(amount, headroom.resource)} of {headroom.flavor}", expected_at, basis
                )
    late = evidence.now + timedelta(days=36500)
    return tuple(sorted(releases.values(), key=lambda release: release.expected_at or late)[:_MAX_LISTED])


def _uses(evidence: Evidence, flavor: str, resource: str) -> Iterator[tuple[QueuedJob, Fraction]]:
    for holder in evidence.holders:
        if amount := _amount(holder, flavor, resource):
            yield _holder(holder), amount


def _amount(holder: Object, flavor: str, resource: str = "") -> Fraction:
    """The quota that a job holds of a flavor: of one resource, or of all together."""
    total = Fraction(0)
    for pods in (holder["status"].get("admission") or {}).get("podSetAssignments") or ():
        for name, assigned_flavor in (pods.get("flavors") or {}).items():
            if assigned_flavor == flavor and resource in ("", name):
                total += quantity.parse((pods.get("resourceUsage") or {}).get(name) or "0")
    return total


def _end(evidence: Evidence, holder: Object) -> tuple[datetime | None, str]:
    """When a running job is expected to end, by its estimate or else its deadline, and how that is known."""
    admitted_at = clock.parse(find_condition(holder, "Admitted").get("lastTransitionTime"))
    jobset = evidence.holder_jobsets.get((holder["metadata"]["namespace"], owner_name(holder))) or {}
    if jobset and job_state(jobset) in ("starting", "queued"):
        return None, "it has not started yet"
    if admitted_at is None:
        return None, ""
    if estimate := estimated_run_time(holder):
        return admitted_at + timedelta(seconds=estimate), "by its estimate"
    limits = [
        job["template"]["spec"].get("activeDeadlineSeconds") for job in (jobset.get("spec") or {}).get("replicatedJobs") or ()
    ]
    if deadlines := [float(limit) for limit in (*limits, holder["spec"].get("maximumExecutionTimeSeconds")) if limit]:
        return admitted_at + timedelta(seconds=max(deadlines)), "at the latest, by its deadline"
    return None, ""


def _pending_job(row: Object) -> QueuedJob:
    metadata = row["metadata"]
    priority = int(row.get("priority", (row.get("spec") or {}).get("priority")) or 0)
    return QueuedJob(metadata["namespace"], owner_name(row), priority, clock.parse(metadata.get("creationTimestamp")))


def _holder(workload: Object) -> QueuedJob:
    since = clock.parse(find_condition(workload, "Admitted").get("lastTransitionTime"))
    return QueuedJob(workload["metadata"]["namespace"], owner_name(workload), int(workload["spec"].get("priority") or 0), since)
