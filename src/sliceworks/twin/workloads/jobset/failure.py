"""What a JobSet does about Jobs that failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.base.errors import BadRequest
from sliceworks.schemas.patterns import PatternError, compiled
from sliceworks.twin.workloads.jobset.keys import replicas, replicated_jobs
from sliceworks.twin.workloads.jobset.report import RESTARTING, WARNING, Event

if TYPE_CHECKING:
    from sliceworks.twin.workloads.jobset.children import Child
    from sliceworks.twin.workloads.jobset.keys import Obj
    from sliceworks.twin.workloads.jobset.report import Report

_WHOLE = ("RestartJobSet", "RestartJobSetAndIgnoreMaxRestarts")
_COUNTED = ("RestartJobSet", "RestartJob")


def react(jobset: Obj, failed: list[Child], report: Report, *, restart_job: bool) -> None:
    """Carry out the first rule that fits, or restart everything; without a policy the JobSet fails."""
    policy = jobset["spec"].get("failurePolicy")
    if policy is None:
        report.fail("FailedJobs", _naming("jobset failed due to one or more job failures", earliest(failed)))
        return
    rule, job = _match(policy.get("rules") or [], failed)
    action = rule["action"] if rule else "RestartJobSet"
    if action not in {"FailJobSet", *_WHOLE} and not restart_job:
        raise BadRequest(f"{action} failure policy action cannot be used when the feature gate RestartJob is disabled")
    message = _naming(f"applying {action} failure policy action", job)
    if action == "FailJobSet":
        report.fail(f"{action}FailurePolicyAction", message)
    elif action in _COUNTED and _counted(report.status, restart_job=restart_job) >= policy.get("maxRestarts", 0):
        report.fail("ReachedMaxRestarts", _naming("jobset failed due to reaching max number of restarts", job))
    else:
        reason = f"FailurePolicy_{rule['name']}" if rule else "DefaultFailurePolicy"
        if action in _WHOLE:
            _restart(report, action, reason, message)
        else:
            _restart_job(jobset, report, job, action)
        report.events.append(Event(WARNING, f"{action}FailurePolicyAction", message))


def earliest(failed: list[Child]) -> Child:
    """The Job that failed first; times have seconds, so that of equals the first in the list counts."""
    return min(failed, key=lambda child: child.failed_at)


def _match(rules: list[Obj], failed: list[Child]) -> tuple[Obj | None, Child]:
    for rule in rules:
        matching = [child for child in failed if _fits(rule, child)]
        if matching:
            return rule, earliest(matching)
    return None, earliest(failed)


def _fits(rule: Obj, child: Child) -> bool:
    reasons, patterns = rule.get("onJobFailureReasons"), rule.get("onJobFailureMessagePatterns")
    targets = rule.get("targetReplicatedJobs")
    return (
        (not reasons or child.reason in reasons)
        and (not patterns or any(_occurs(pattern, child.message) for pattern in patterns))
        and bool(child.replicated_job)
        and (not targets or child.replicated_job in targets)
    )


def _occurs(pattern: str, text: str) -> bool:
    try:
        return compiled(pattern).search(text) is not None
    except PatternError:
        return False


def _restart(report: Report, action: str, reason: str, message: str) -> None:
    report.changed = True
    report.status["restarts"] += 1
    if action in _COUNTED:
        report.status["restartsCountTowardsMax"] = report.status.get("restartsCountTowardsMax", 0) + 1
    report.condition(RESTARTING, reason, message, event=WARNING)


def _restart_job(jobset: Obj, report: Report, job: Child, action: str) -> None:
    report.changed = True
    _count_up(jobset, report.status, job, "jobRestarts")
    if action in _COUNTED:
        _count_up(jobset, report.status, job, "jobRestartsCountTowardsMax")


def own_restarts(jobset: Obj, name: str, field: str = "jobRestarts") -> list[int]:
    """How often each Job of a replicated Job was restarted on its own."""
    for entry in (jobset.get("status") or {}).get("replicatedJobsStatus") or ():
        if entry["name"] == name and entry.get(field):
            return list(entry[field])
    return [0] * next((replicas(job) for job in replicated_jobs(jobset) if job["name"] == name), 0)


def _count_up(jobset: Obj, status: Obj, job: Child, field: str) -> None:
    numbers = own_restarts(jobset, job.replicated_job, field)
    if job.index is None or job.index >= len(numbers):
        raise BadRequest(f"failed job {job.name} has no place in replicated job {job.replicated_job}")
    numbers[job.index] += 1
    for entry in status.get("replicatedJobsStatus") or ():
        if entry["name"] == job.replicated_job:
            entry[field] = numbers


def _counted(status: Obj, *, restart_job: bool) -> int:
    """The restarts that count against the policy's maximum."""
    total: int = status.get("restartsCountTowardsMax", 0)
    if restart_job:
        total += sum(sum(entry.get("jobRestartsCountTowardsMax") or ()) for entry in status.get("replicatedJobsStatus") or ())
    return total


def _naming(message: str, job: Child) -> str:
    return f"{message} (first failed job: {job.name})"
