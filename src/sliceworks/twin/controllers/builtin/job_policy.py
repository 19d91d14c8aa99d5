"""The pod failure policy, the success policy and the pod back-off of a Job. Pure."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from sliceworks.kube.pod_requests import sidecars
from sliceworks.twin.controllers.builtin import indexed_job
from sliceworks.twin.controllers.builtin.pod_control import parse_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

INITIAL_BACKOFF, MAX_BACKOFF = 10.0, 600.0


class PodFailureMatch(NamedTuple):
    """The result of a pod failure policy; `action` is empty if no rule matches."""

    action: str = ""
    counts: bool = True
    message: str = ""


_COUNTED = PodFailureMatch()


def match_pod_failure_policy(policy: Mapping[str, Any] | None, pod: Mapping[str, Any]) -> PodFailureMatch:
    """The first rule of a podFailurePolicy that matches a failed pod."""
    for number, rule in enumerate((policy or {}).get("rules") or ()):
        cause = _match_exit_code(rule, pod) if rule.get("onExitCodes") else _match_condition(rule, pod)
        if cause:
            action = rule.get("action", "")
            message = f"{cause} matching {action} rule at index {number}" if action == "FailJob" else ""
            return PodFailureMatch(action, action != "Ignore", message)
    return _COUNTED


def _qualified_name(pod: Mapping[str, Any]) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def _match_exit_code(rule: Mapping[str, Any], pod: Mapping[str, Any]) -> str:
    requirement, status = rule["onExitCodes"], pod.get("status") or {}
    for container in (*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())):
        terminated = (container.get("state") or {}).get("terminated")
        if terminated is None or requirement.get("containerName") not in (None, container["name"]):
            continue
        code = terminated.get("exitCode", 0)
        if code and (code in (requirement.get("values") or ())) == (requirement.get("operator") == "In"):
            return f"Container {container['name']} for pod {_qualified_name(pod)} failed with exit code {code}"
    return ""


def _match_condition(rule: Mapping[str, Any], pod: Mapping[str, Any]) -> str:
    patterns = {(pattern.get("type"), pattern.get("status", "True")) for pattern in rule.get("onPodConditions") or ()}
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if (condition.get("type"), condition.get("status")) in patterns:
            return f"Pod {_qualified_name(pod)} has condition {condition['type']}"
    return ""


def match_success_policy(policy: Mapping[str, Any] | None, completions: int, succeeded: indexed_job.Intervals) -> str:
    """The message of the first rule of a successPolicy that is met; empty if none is."""
    for number, rule in enumerate((policy or {}).get("rules") or () if succeeded else ()):
        if _is_met(rule, completions, succeeded):
            return f"Matched rules at index {number}"
    return ""


def _is_met(rule: Mapping[str, Any], completions: int, succeeded: indexed_job.Intervals) -> bool:
    count = rule.get("succeededCount")
    if rule.get("succeededIndexes") is None:
        return count is not None and indexed_job.count_indexes(succeeded) >= count
    needed = indexed_job.parse_indexes(rule["succeededIndexes"], completions)
    succeeded_count = indexed_job.count_common_indexes(needed, succeeded)
    return bool(needed) and (
        succeeded_count == indexed_job.count_indexes(needed) or (count is not None and succeeded_count >= count)
    )


def count_restarts(pods: Iterable[Mapping[str, Any]]) -> int:
    """The container restarts of these pods."""
    restarts = 0
    for pod in pods:
        status = pod.get("status") or {}
        for container in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
            restarts += container.get("restartCount", 0)
    return restarts


class BackoffRecord(NamedTuple):
    """The failures of a Job since its last success, and the time of the last one."""

    failures: int = 0
    last: datetime | None = None


def next_backoff_record(record: BackoffRecord, succeeded: Iterable[datetime], failed: Iterable[datetime]) -> BackoffRecord:
    """The record after more pods have finished."""
    successes, failures = sorted(succeeded), sorted(failed)
    if not successes:
        return BackoffRecord(record.failures + len(failures), failures[-1]) if failures else record
    after = [time for time in failures if time > successes[-1]]
    return BackoffRecord(len(after), after[-1]) if after else BackoffRecord()


def remaining_backoff(failures: int, last: datetime | None, now: datetime) -> float:
    """Seconds until another pod may be created after consecutive failures."""
    if not failures or last is None:
        return 0.0
    wait = min(MAX_BACKOFF, INITIAL_BACKOFF * 2.0 ** min(failures - 1, 16))
    return max(0.0, wait - (now - last).total_seconds())


def finished_at(pod: Mapping[str, Any]) -> datetime:
    """When a pod finished: by its containers, else its Ready condition, else its deletion, else its creation."""
    status, metadata = pod.get("status") or {}, pod["metadata"]
    finished = _containers_finished_at(pod, status)
    if finished is not None:
        return finished
    for condition in status.get("conditions") or ():
        if condition.get("type") == "Ready" and condition.get("status") == "False" and condition.get("lastTransitionTime"):
            return parse_time(condition["lastTransitionTime"])
    if metadata.get("deletionTimestamp"):
        return parse_time(metadata["deletionTimestamp"]) - timedelta(seconds=metadata.get("deletionGracePeriodSeconds") or 0)
    return parse_time(metadata["creationTimestamp"])


def _containers_finished_at(pod: Mapping[str, Any], status: Mapping[str, Any]) -> datetime | None:
    names = {container["name"] for container in sidecars(pod.get("spec") or {})}
    containers = list(status.get("containerStatuses") or ())
    containers += [container for container in status.get("initContainerStatuses") or () if container.get("name") in names]
    times = [((container.get("state") or {}).get("terminated") or {}).get("finishedAt") for container in containers]
    return max(parse_time(str(time)) for time in times) if times and all(times) else None
