"""A Job and its pods at one moment, with everything that decisions are made from. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sliceworks.twin.workloads.jobs import indexes, policies
from sliceworks.twin.workloads.jobs.backoff import Record, finished_at, next_record
from sliceworks.twin.workloads.jobs.templates import failure_counts

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from sliceworks.twin.workloads.pods import Pod

Obj = dict[str, Any]


@dataclass(slots=True)
class State:
    """What is known; `look` gets the whole of a pod, for the few that need it."""

    job: Obj
    pods: list[Pod]
    look: Callable[[Pod], Obj]
    now: datetime
    record: Record
    active: list[Pod] = field(default_factory=list)
    ready: int = 0
    terminating: int = 0
    succeeded: int = 0
    failed: int = 0
    known_indexes: indexes.Spans = ()
    """The indexes that the status says have succeeded."""
    succeeded_indexes: indexes.Spans = ()
    failed_indexes: indexes.Spans | None = None
    delayed: dict[int, Pod] = field(default_factory=dict)
    """By index, the failed pod that is kept until another takes its place, because it knows how often the index failed."""

    @property
    def spec(self) -> Obj:
        found: Obj = self.job["spec"]
        return found

    @property
    def status(self) -> Obj:
        return self.job.get("status") or {}

    @property
    def indexed(self) -> bool:
        return bool(self.spec.get("completionMode") == "Indexed")

    @property
    def suspended(self) -> bool:
        return bool(self.spec.get("suspend"))

    @property
    def completions(self) -> int | None:
        found: int | None = self.spec.get("completions")
        return found

    @property
    def per_index(self) -> bool:
        """Whether each index has a number of failures of its own."""
        return self.spec.get("backoffLimitPerIndex") is not None

    @property
    def replaces_failed_only(self) -> bool:
        """Whether a pod that is being deleted is only replaced once it has ended."""
        return self.spec.get("podReplacementPolicy") == "Failed" or self.spec.get("podFailurePolicy") is not None

    def has_failed(self, pod: Pod) -> bool:
        """Whether a pod counts as failed: one that is being deleted does, unless it is given time to end."""
        if pod.phase == "Failed":
            return True
        return bool(pod.deleting) and pod.phase != "Succeeded" and not self.replaces_failed_only

    def has_index(self, pod: Pod) -> bool:
        """Whether a pod stands for something in this Job."""
        return not self.indexed or 0 <= pod.index < (self.completions or 0)

    def verdict(self, pod: Pod) -> policies.Verdict:
        """What the Job's policy says of a failed pod."""
        policy = self.spec.get("podFailurePolicy")
        return policies.failure(policy, self.look(pod)) if policy else policies.Verdict()


def assess(job: Obj, pods: list[Pod], look: Callable[[Pod], Obj], now: datetime, record: Record) -> State:
    """Everything that follows from a Job and its pods."""
    state = State(job, pods, look, now, record)
    state.active = [pod for pod in pods if pod.active]
    state.ready = sum(1 for pod in state.active if pod.ready)
    state.terminating = sum(1 for pod in pods if pod.terminating)
    uncounted = state.status.get("uncountedTerminatedPods") or {}
    _count(state, set(uncounted.get("succeeded") or ()), set(uncounted.get("failed") or ()))
    if state.indexed:
        _count_indexes(state)
    return state


def _count(state: State, succeeded: set[str], failed: set[str]) -> None:
    fresh = [pod for pod in state.pods if pod.tracked and state.has_index(pod)]
    good = [pod for pod in fresh if pod.phase == "Succeeded" and pod.uid not in succeeded]
    bad = [pod for pod in fresh if pod.uid not in failed and state.has_failed(pod)]
    counting = [pod for pod in bad if state.verdict(pod).counts] if state.spec.get("podFailurePolicy") else bad
    state.succeeded = state.status.get("succeeded", 0) + len(good) + len(succeeded)
    state.failed = state.status.get("failed", 0) + len(counting) + len(failed)
    if bad:
        times = [finished_at(state.look(pod)) for pod in good], [finished_at(state.look(pod)) for pod in bad]
        state.record = next_record(state.record, *times)
    elif good:
        state.record = Record()


def _count_indexes(state: State) -> None:
    completions = state.completions or 0
    state.known_indexes = indexes.parse(state.status.get("completedIndexes", ""), completions)
    done = {pod.index for pod in state.pods if pod.tracked and pod.phase == "Succeeded" and state.has_index(pod)}
    state.succeeded_indexes = indexes.union(state.known_indexes, indexes.of(done))
    state.succeeded = indexes.total(state.succeeded_indexes)
    if state.per_index:
        known = indexes.parse(state.status.get("failedIndexes", ""), completions)
        lost = {pod.index for pod in state.pods if pod.tracked and state.has_index(pod) and _index_failed(state, pod)}
        state.failed_indexes = indexes.union(known, indexes.of(lost))
        state.delayed = _delayed(state)


def _index_failed(state: State, pod: Pod) -> bool:
    """Whether the failure of a pod is the last that its index could afford."""
    if not state.has_failed(pod):
        return False
    verdict = state.verdict(pod)
    if verdict.action == "FailIndex":
        return True
    return verdict.counts and failure_counts(state.look(pod))[0] >= int(state.spec["backoffLimitPerIndex"])


def _delayed(state: State) -> dict[int, Pod]:
    settled = indexes.union(
        state.succeeded_indexes, state.failed_indexes or (), indexes.of(pod.index for pod in state.active if pod.index >= 0)
    )
    found: dict[int, Pod] = {}
    for pod in state.pods:
        if not (pod.tracked and state.has_index(pod) and state.has_failed(pod)) or indexes.has(settled, pod.index):
            continue
        other = found.get(pod.index)
        if other is None or _is_later(state.look(pod), state.look(other)):
            found[pod.index] = pod
    return found


def _is_later(pod: Obj, other: Obj) -> bool:
    return sum(failure_counts(other)) <= sum(failure_counts(pod)) and finished_at(pod) >= finished_at(other)
