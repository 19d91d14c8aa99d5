"""Success, startup, dependsOn and failure policies of a JobSet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.base.errors import BadRequest
from sliceworks.schemas.patterns import PatternError, matches
from sliceworks.twin.controllers.jobset.jobset_api import Obj, replicas, replicated_jobs
from sliceworks.twin.controllers.jobset.jobset_status import RESTARTING, WARNING, EventParams

if TYPE_CHECKING:
    from sliceworks.twin.controllers.jobset.child_jobs import ChildJob, ChildJobs
    from sliceworks.twin.controllers.jobset.jobset_status import StatusUpdate


ReplicatedJobStatuses = dict[str, Obj]
_JOBSET_RESTARTS = ("RestartJobSet", "RestartJobSetAndIgnoreMaxRestarts")
_COUNTED_RESTARTS = ("RestartJobSet", "RestartJob")
_RESTART_COUNTERS = ("jobRestarts", "jobRestartsCountTowardsMax")


def calculate_statuses(jobset: Obj, children: ChildJobs, *, restart_job: bool) -> ReplicatedJobStatuses:
    """The entries of `replicatedJobsStatus` by name."""
    statuses: ReplicatedJobStatuses = {
        job["name"]: {"name": job["name"], "ready": 0, "succeeded": 0, "failed": 0, "active": 0, "suspended": 0}
        for job in replicated_jobs(jobset)
    }
    # A replicated Job without a name counts nothing: its Jobs look like Jobs without a label.
    named = {name: status for name, status in statuses.items() if name}
    for child in children.active:
        if (entry := named.get(child.replicated_job)) is not None:
            entry["ready"] += child.succeeded + child.ready >= child.pods
            entry["active"] += child.active > 0
            entry["suspended"] += child.suspended
    for field, finished in (("succeeded", children.successful), ("failed", children.failed)):
        for child in finished:
            if (entry := named.get(child.replicated_job)) is not None:
                entry[field] += 1
    if restart_job:
        for old in (jobset.get("status") or {}).get("replicatedJobsStatus") or ():
            if (entry := statuses.get(old["name"])) is not None:
                entry |= {key: list(old[key]) for key in _RESTART_COUNTERS if old.get(key)}
    return statuses


def sorted_statuses(statuses: ReplicatedJobStatuses) -> list[Obj]:
    """The entries in the order in which JobSet writes them."""
    return [statuses[name] for name in sorted(statuses, reverse=True)]


def are_all_ready(jobset: Obj, statuses: ReplicatedJobStatuses) -> bool:
    total = sum(map(replicas, replicated_jobs(jobset)))
    return total == sum(int(status["ready"] + status["succeeded"]) for status in statuses.values())


def are_all_started(replicated_job: Obj, statuses: ReplicatedJobStatuses) -> bool:
    """Whether all Jobs of a replicated Job are ready or finished."""
    status = statuses[replicated_job["name"]]
    return replicas(replicated_job) == int(status["failed"] + status["ready"] + status["succeeded"])


def are_dependencies_met(jobset: Obj, replicated_job: Obj, statuses: ReplicatedJobStatuses) -> bool:
    """Whether all dependencies of a replicated Job have the required status."""
    replicas_by_name = {job["name"]: replicas(job) for job in replicated_jobs(jobset)}
    for dependency in replicated_job.get("dependsOn") or ():
        status = statuses.get(dependency["name"])
        if status is None:
            return False
        count = status["succeeded"]
        if dependency["status"] == "Ready":
            count += status["failed"] + status["ready"]
        if replicas_by_name[dependency["name"]] != count:
            return False
    return True


def has_in_order_startup(jobset: Obj) -> bool:
    return bool((jobset["spec"].get("startupPolicy") or {}).get("startupPolicyOrder") == "InOrder")


def is_success_policy_met(jobset: Obj, successful: list[ChildJob]) -> bool:
    policy = jobset["spec"]["successPolicy"]
    targets = policy.get("targetReplicatedJobs") or ()
    count = sum(not targets or child.replicated_job in targets for child in successful)
    if policy["operator"] == "Any":
        return count >= 1
    return count >= sum(replicas(job) for job in replicated_jobs(jobset) if not targets or job["name"] in targets)


def execute_failure_policy(jobset: Obj, failed: list[ChildJob], update: StatusUpdate, *, restart_job: bool) -> None:
    """Apply the first matching rule, or else restart the JobSet; without a policy the JobSet fails."""
    policy = jobset["spec"].get("failurePolicy")
    if policy is None:
        update.fail(
            "FailedJobs", _with_first_failed_job("jobset failed due to one or more job failures", find_first_failed_job(failed))
        )
        return
    rule, job = _find_matching_rule(policy.get("rules") or [], failed)
    action = rule["action"] if rule else "RestartJobSet"
    if action not in {"FailJobSet", *_JOBSET_RESTARTS} and not restart_job:
        raise BadRequest(f"{action} failure policy action cannot be used when the feature gate RestartJob is disabled")
    message = _with_first_failed_job(f"applying {action} failure policy action", job)
    if action == "FailJobSet":
        update.fail(f"{action}FailurePolicyAction", message)
    elif action in _COUNTED_RESTARTS and _count_restarts(update.status, restart_job=restart_job) >= policy.get("maxRestarts", 0):
        update.fail("ReachedMaxRestarts", _with_first_failed_job("jobset failed due to reaching max number of restarts", job))
    else:
        reason = f"FailurePolicy_{rule['name']}" if rule else "DefaultFailurePolicy"
        if action in _JOBSET_RESTARTS:
            _restart_jobset(update, action, reason, message)
        else:
            _restart_job(jobset, update, job, action)
        update.events.append(EventParams(WARNING, f"{action}FailurePolicyAction", message))


def find_first_failed_job(failed: list[ChildJob]) -> ChildJob:
    """The Job that failed first; of Jobs that failed in the same second, the first in the list."""
    return min(failed, key=lambda child: child.failed_at)


def _find_matching_rule(rules: list[Obj], failed: list[ChildJob]) -> tuple[Obj | None, ChildJob]:
    for rule in rules:
        matching = [child for child in failed if _matches(rule, child)]
        if matching:
            return rule, find_first_failed_job(matching)
    return None, find_first_failed_job(failed)


def _matches(rule: Obj, child: ChildJob) -> bool:
    reasons, patterns = rule.get("onJobFailureReasons"), rule.get("onJobFailureMessagePatterns")
    targets = rule.get("targetReplicatedJobs")
    return (
        (not reasons or child.reason in reasons)
        and (not patterns or any(_pattern_matches(pattern, child.message) for pattern in patterns))
        and bool(child.replicated_job)
        and (not targets or child.replicated_job in targets)
    )


def _pattern_matches(pattern: str, message: str) -> bool:
    try:
        return bool(matches(pattern, message))
    except PatternError:
        return False


def _restart_jobset(update: StatusUpdate, action: str, reason: str, message: str) -> None:
    update.changed = True
    update.status["restarts"] += 1
    if action in _COUNTED_RESTARTS:
        update.status["restartsCountTowardsMax"] = update.status.get("restartsCountTowardsMax", 0) + 1
    update.set_condition(RESTARTING, reason, message, event=WARNING)


def _restart_job(jobset: Obj, update: StatusUpdate, job: ChildJob, action: str) -> None:
    update.changed = True
    _increment_restarts(jobset, update.status, job, "jobRestarts")
    if action in _COUNTED_RESTARTS:
        _increment_restarts(jobset, update.status, job, "jobRestartsCountTowardsMax")


def individual_restarts(jobset: Obj, name: str, field: str = "jobRestarts") -> list[int]:
    """The number of individual restarts of each Job of a replicated Job."""
    for entry in (jobset.get("status") or {}).get("replicatedJobsStatus") or ():
        if entry["name"] == name and entry.get(field):
            return list(entry[field])
    return [0] * next((replicas(job) for job in replicated_jobs(jobset) if job["name"] == name), 0)


def _increment_restarts(jobset: Obj, status: Obj, job: ChildJob, field: str) -> None:
    counts = individual_restarts(jobset, job.replicated_job, field)
    if job.index is None or job.index >= len(counts):
        raise BadRequest(f"job {job.name}: invalid job index for replicated job {job.replicated_job}")
    counts[job.index] += 1
    for entry in status.get("replicatedJobsStatus") or ():
        if entry["name"] == job.replicated_job:
            entry[field] = counts


def _count_restarts(status: Obj, *, restart_job: bool) -> int:
    """The number of restarts that count towards the policy's maxRestarts."""
    total: int = status.get("restartsCountTowardsMax", 0)
    if restart_job:
        total += sum(sum(entry.get("jobRestartsCountTowardsMax") or ()) for entry in status.get("replicatedJobsStatus") or ())
    return total


def _with_first_failed_job(message: str, job: ChildJob) -> str:
    return f"{message} (first failed job: {job.name})"
