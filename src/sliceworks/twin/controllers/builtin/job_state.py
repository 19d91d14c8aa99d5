"""The state of a Job and its pods, and what follows from it: whether the Job finished, and which pods to create or delete. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sliceworks.base.conditions import find_condition
from sliceworks.twin.controllers.builtin import indexed_job, job_policy
from sliceworks.twin.controllers.builtin.indexed_job import index_failure_counts
from sliceworks.twin.controllers.builtin.job_policy import (
    BackoffRecord,
    finished_at,
    next_backoff_record,
    remaining_backoff,
)
from sliceworks.twin.controllers.builtin.pod_control import deletion_order, parse_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime

    from sliceworks.kube.resources import Object
    from sliceworks.twin.controllers.runtime.pod_index import Pod

MAX_PODS_PER_SYNC = 500


@dataclass(slots=True)
class JobState:
    """A Job and its pods; `get_pod` gets a whole pod, for the few decisions that need it."""

    job: Object
    pods: list[Pod]
    get_pod: Callable[[Pod], Object]
    now: datetime
    record: BackoffRecord
    active: list[Pod] = field(default_factory=list)
    ready: int = 0
    terminating: int = 0
    succeeded: int = 0
    failed: int = 0
    known_indexes: indexed_job.Intervals = ()
    """The indexes in status.completedIndexes."""
    succeeded_indexes: indexed_job.Intervals = ()
    failed_indexes: indexed_job.Intervals | None = None
    delayed: dict[int, Pod] = field(default_factory=dict)
    """By index, the failed pod that is kept until its replacement exists: its annotations count the failures of the index."""

    @property
    def spec(self) -> Object:
        spec: Object = self.job["spec"]
        return spec

    @property
    def status(self) -> Object:
        return self.job.get("status") or {}

    @property
    def indexed(self) -> bool:
        return bool(self.spec.get("completionMode") == "Indexed")

    @property
    def suspended(self) -> bool:
        return bool(self.spec.get("suspend"))

    @property
    def completions(self) -> int | None:
        completions: int | None = self.spec.get("completions")
        return completions

    @property
    def per_index(self) -> bool:
        """Whether failures are limited per index."""
        return self.spec.get("backoffLimitPerIndex") is not None

    @property
    def replaces_failed_only(self) -> bool:
        """Whether a terminating pod is replaced only after it has finished."""
        return self.spec.get("podReplacementPolicy") == "Failed" or self.spec.get("podFailurePolicy") is not None

    def has_failed(self, pod: Pod) -> bool:
        """Whether a pod counts as failed; a terminating pod does, unless pods are replaced only after they failed."""
        if pod.phase == "Failed":
            return True
        return bool(pod.deleting) and pod.phase != "Succeeded" and not self.replaces_failed_only

    def has_index(self, pod: Pod) -> bool:
        """Whether a pod's completion index is valid for this Job; pods of a NonIndexed Job always count."""
        return not self.indexed or 0 <= pod.index < (self.completions or 0)

    def failure_match(self, pod: Pod) -> job_policy.PodFailureMatch:
        """The result of the Job's pod failure policy for a failed pod."""
        policy = self.spec.get("podFailurePolicy")
        return job_policy.match_pod_failure_policy(policy, self.get_pod(pod)) if policy else job_policy.PodFailureMatch()


def compute_state(job: Object, pods: list[Pod], get_pod: Callable[[Pod], Object], now: datetime, record: BackoffRecord) -> JobState:
    """The state that follows from a Job and its pods."""
    state = JobState(job, pods, get_pod, now, record)
    state.active = [pod for pod in pods if pod.active]
    state.ready = sum(1 for pod in state.active if pod.ready)
    state.terminating = sum(1 for pod in pods if pod.terminating)
    uncounted = state.status.get("uncountedTerminatedPods") or {}
    _count(state, set(uncounted.get("succeeded") or ()), set(uncounted.get("failed") or ()))
    if state.indexed:
        _count_indexes(state)
    return state


def _count(state: JobState, succeeded: set[str], failed: set[str]) -> None:
    tracked = [pod for pod in state.pods if pod.tracked and state.has_index(pod)]
    successful = [pod for pod in tracked if pod.phase == "Succeeded" and pod.uid not in succeeded]
    failed_pods = [pod for pod in tracked if pod.uid not in failed and state.has_failed(pod)]
    counted = [pod for pod in failed_pods if state.failure_match(pod).counts] if state.spec.get("podFailurePolicy") else failed_pods
    state.succeeded = state.status.get("succeeded", 0) + len(successful) + len(succeeded)
    state.failed = state.status.get("failed", 0) + len(counted) + len(failed)
    if failed_pods:
        times = [finished_at(state.get_pod(pod)) for pod in successful], [finished_at(state.get_pod(pod)) for pod in failed_pods]
        state.record = next_backoff_record(state.record, *times)
    elif successful:
        state.record = BackoffRecord()


def _count_indexes(state: JobState) -> None:
    completions = state.completions or 0
    state.known_indexes = indexed_job.parse_indexes(state.status.get("completedIndexes", ""), completions)
    completed = {pod.index for pod in state.pods if pod.tracked and pod.phase == "Succeeded" and state.has_index(pod)}
    state.succeeded_indexes = indexed_job.merge_intervals(state.known_indexes, indexed_job.intervals_of(completed))
    state.succeeded = indexed_job.count_indexes(state.succeeded_indexes)
    if state.per_index:
        known = indexed_job.parse_indexes(state.status.get("failedIndexes", ""), completions)
        failed = {pod.index for pod in state.pods if pod.tracked and state.has_index(pod) and _index_failed(state, pod)}
        state.failed_indexes = indexed_job.merge_intervals(known, indexed_job.intervals_of(failed))
        state.delayed = _delayed(state)


def _index_failed(state: JobState, pod: Pod) -> bool:
    """Whether a pod's failure exceeds the backoff limit of its index."""
    if not state.has_failed(pod):
        return False
    match = state.failure_match(pod)
    if match.action == "FailIndex":
        return True
    return match.counts and index_failure_counts(state.get_pod(pod))[0] >= int(state.spec["backoffLimitPerIndex"])


def _delayed(state: JobState) -> dict[int, Pod]:
    no_replacement = indexed_job.merge_intervals(
        state.succeeded_indexes,
        state.failed_indexes or (),
        indexed_job.intervals_of(pod.index for pod in state.active if pod.index >= 0),
    )
    delayed: dict[int, Pod] = {}
    for pod in state.pods:
        if not (pod.tracked and state.has_index(pod) and state.has_failed(pod)):
            continue
        if indexed_job.contains_index(no_replacement, pod.index):
            continue
        other = delayed.get(pod.index)
        if other is None or _is_later(state.get_pod(pod), state.get_pod(other)):
            delayed[pod.index] = pod
    return delayed


def _is_later(pod: Object, other: Object) -> bool:
    return sum(index_failure_counts(other)) <= sum(index_failure_counts(pod)) and finished_at(pod) >= finished_at(other)


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """Why a Job finishes; `type` is the first condition that reports it."""

    type: str
    reason: str
    message: str

    @property
    def successful(self) -> bool:
        return self.type in ("SuccessCriteriaMet", "Complete")


COMPLETIONS_REACHED = JobOutcome("SuccessCriteriaMet", "CompletionsReached", "Reached expected number of succeeded pods")


@dataclass(slots=True)
class PodChanges:
    """Pods to delete, or the completion indexes of pods to create (-1 if NonIndexed), or the seconds to wait before."""

    delete: list[Pod] = field(default_factory=list)
    create: list[int] = field(default_factory=list)
    wait: float = 0.0


def decide_outcome(state: JobState) -> JobOutcome | None:
    """Why a Job has to finish before any of its pods are created or deleted; None if it does not."""
    for kind, outcome in (("SuccessCriteriaMet", "SuccessCriteriaMet"), ("FailureTarget", "Failed")):
        condition = find_condition(state.job, kind)
        if condition.get("status") == "True":
            return JobOutcome(outcome, condition.get("reason", ""), condition.get("message", ""))
    return _by_policy(state) or _by_limits(state) or _by_indexes(state)


def _by_policy(state: JobState) -> JobOutcome | None:
    if state.spec.get("podFailurePolicy"):
        for pod in state.pods:
            if state.has_failed(pod) and (message := state.failure_match(pod).message):
                return JobOutcome("FailureTarget", "PodFailurePolicy", message)
    return None


def _by_limits(state: JobState) -> JobOutcome | None:
    limit = state.spec.get("backoffLimit", 6)
    if state.failed > limit or _exceeds_restart_limit(state, limit):
        return JobOutcome("FailureTarget", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
    remaining = seconds_to_deadline(state)
    if remaining is not None and remaining <= 0:
        return JobOutcome("FailureTarget", "DeadlineExceeded", "Job was active longer than specified deadline")
    return None


def _exceeds_restart_limit(state: JobState, limit: int) -> bool:
    if (state.spec["template"].get("spec") or {}).get("restartPolicy") != "OnFailure":
        return False
    restarts = job_policy.count_restarts(state.get_pod(pod) for pod in state.pods if pod.phase in ("Running", "Pending"))
    return restarts > 0 if limit == 0 else restarts >= limit


def seconds_to_deadline(state: JobState) -> float | None:
    """Seconds until spec.activeDeadlineSeconds is exceeded; None if there is no deadline."""
    deadline, start = state.spec.get("activeDeadlineSeconds"), state.status.get("startTime")
    if deadline is None or start is None or state.suspended:
        return None
    return float(deadline) - (state.now - parse_time(start)).total_seconds()


def _by_indexes(state: JobState) -> JobOutcome | None:
    if not state.indexed:
        return None
    if state.failed_indexes is not None:
        failed, limit = indexed_job.count_indexes(state.failed_indexes), state.spec.get("maxFailedIndexes")
        if limit is not None and failed > limit:
            message = "Job has exceeded the specified maximal number of failed indexes"
            return JobOutcome("FailureTarget", "MaxFailedIndexesExceeded", message)
        if failed and failed + indexed_job.count_indexes(state.succeeded_indexes) >= (state.completions or 0):
            return JobOutcome("FailureTarget", "FailedIndexes", "Job has failed indexes")
    message = job_policy.match_success_policy(state.spec.get("successPolicy"), state.completions or 0, state.succeeded_indexes)
    return JobOutcome("SuccessCriteriaMet", "SuccessPolicy", message) if message else None


def is_complete(state: JobState, active: int) -> bool:
    """Whether enough pods succeeded and none is active."""
    if state.completions is None:
        return state.succeeded > 0 and active == 0
    return state.succeeded >= state.completions and active == 0


def plan_pods(state: JobState) -> PodChanges:
    """Which pods to delete or to create, never both."""
    if state.suspended:
        return PodChanges(delete=_surplus(state, len(state.active)))
    desired = _desired_active(state)
    surplus = _surplus(state, max(0, len(state.active) - desired))
    if surplus:
        return PodChanges(delete=surplus[:MAX_PODS_PER_SYNC])
    missing = desired - len(state.active) - (state.terminating if state.replaces_failed_only else 0)
    return _plan_creation(state, min(missing, MAX_PODS_PER_SYNC)) if missing > 0 else PodChanges()


def _desired_active(state: JobState) -> int:
    parallelism = int(state.spec.get("parallelism", 1))
    if state.completions is None:
        return len(state.active) if state.succeeded > 0 else parallelism
    return max(0, min(state.completions - state.succeeded, parallelism))


def _plan_creation(state: JobState, count: int) -> PodChanges:
    if not state.per_index and (wait := remaining_backoff(state.record.failures, state.record.last, state.now)) > 0:
        return PodChanges(wait=wait)
    if not state.indexed:
        return PodChanges(create=[-1] * count)
    pending = indexed_job.missing_indexes(_occupied_indexes(state), count, state.completions or 0)
    if not state.per_index:
        return PodChanges(create=pending)
    backoffs = {index: _index_backoff(state, index) for index in pending}
    due = [index for index in pending if backoffs[index] <= 0]
    return PodChanges(create=due, wait=0.0 if due else min(backoffs.values(), default=0.0))


def _occupied_indexes(state: JobState) -> indexed_job.Intervals:
    """The indexes that need no pod: they have one, succeeded or failed."""
    indexes = [pod.index for pod in state.active if pod.index >= 0]
    if state.replaces_failed_only:
        indexes += [pod.index for pod in state.pods if pod.terminating and pod.index >= 0]
    return indexed_job.merge_intervals(state.succeeded_indexes, state.failed_indexes or (), indexed_job.intervals_of(indexes))


def _index_backoff(state: JobState, index: int) -> float:
    last = state.delayed.get(index)
    if last is None:
        return 0.0
    pod = state.get_pod(last)
    return remaining_backoff(sum(index_failure_counts(pod)) + 1, finished_at(pod), state.now)


def index_failures(state: JobState, index: int) -> tuple[int, int] | None:
    """The counted and the ignored failures to write into the next pod of an index; None unless limited per index."""
    if not state.per_index:
        return None
    last = state.delayed.get(index)
    if last is None:
        return 0, 0
    counted, ignored = index_failure_counts(state.get_pod(last))
    return (counted + 1, ignored) if state.failure_match(last).counts else (counted, ignored + 1)


def _surplus(state: JobState, at_least: int) -> list[Pod]:
    """Active pods to delete: invalid and duplicate indexes, and more until there are `at_least`."""
    if not state.indexed:
        return deletion_order(state.active)[:at_least]
    surplus, kept = _split_duplicates(state.active, state.completions or 0)
    return surplus + deletion_order(kept)[: max(0, at_least - len(surplus))]


def _split_duplicates(active: Iterable[Pod], completions: int) -> tuple[list[Pod], list[Pod]]:
    by_index: dict[int, list[Pod]] = {}
    for pod in active:
        by_index.setdefault(pod.index, []).append(pod)
    duplicates: list[Pod] = []
    kept: list[Pod] = []
    for index, pods in sorted(by_index.items()):
        if not 0 <= index < completions:
            duplicates += pods
        else:
            ordered = deletion_order(pods) if len(pods) > 1 else pods
            duplicates += ordered[:-1]
            kept.append(ordered[-1])
    return duplicates, kept
