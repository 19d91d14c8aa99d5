"""What is to become of a Job: whether it has ended, and which pods to make or delete. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sliceworks.twin.workloads.hands import removal_order
from sliceworks.twin.workloads.jobs import indexes, policies
from sliceworks.twin.workloads.jobs.backoff import finished_at, moment, remaining
from sliceworks.twin.workloads.jobs.templates import failure_counts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sliceworks.twin.workloads.jobs.state import State
    from sliceworks.twin.workloads.pods import Pod

MOST_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Outcome:
    """Why a Job ends: `type` is the condition that says so first."""

    type: str
    reason: str
    message: str

    @property
    def good(self) -> bool:
        return self.type in ("SuccessCriteriaMet", "Complete")


COMPLETIONS_REACHED = Outcome("SuccessCriteriaMet", "CompletionsReached", "Reached expected number of succeeded pods")


@dataclass(slots=True)
class Work:
    """Pods to delete, or pods to make: an index each, or -1; or how long to wait before any can be made."""

    delete: list[Pod] = field(default_factory=list)
    create: list[int] = field(default_factory=list)
    wait: float = 0.0


def outcome(state: State) -> Outcome | None:
    """Whether a Job has to end now, before any of its pods are made or deleted."""
    known = {each["type"]: each for each in state.status.get("conditions") or () if each.get("status") == "True"}
    if met := known.get("SuccessCriteriaMet"):
        return Outcome("SuccessCriteriaMet", met.get("reason", ""), met.get("message", ""))
    if target := known.get("FailureTarget"):
        return Outcome("Failed", target.get("reason", ""), target.get("message", ""))
    return _by_policy(state) or _by_limits(state) or _by_indexes(state)


def _by_policy(state: State) -> Outcome | None:
    if state.spec.get("podFailurePolicy"):
        for pod in state.pods:
            if state.has_failed(pod) and (message := state.verdict(pod).message):
                return Outcome("FailureTarget", "PodFailurePolicy", message)
    return None


def _by_limits(state: State) -> Outcome | None:
    limit = state.spec.get("backoffLimit", 6)
    if state.failed > limit or _restarted_too_often(state, limit):
        return Outcome("FailureTarget", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
    left = deadline(state)
    if left is not None and left <= 0:
        return Outcome("FailureTarget", "DeadlineExceeded", "Job was active longer than specified deadline")
    return None


def _restarted_too_often(state: State, limit: int) -> bool:
    if (state.spec["template"].get("spec") or {}).get("restartPolicy") != "OnFailure":
        return False
    restarts = policies.restarts(state.look(pod) for pod in state.pods if pod.phase in ("Running", "Pending"))
    return restarts > 0 if limit == 0 else restarts >= limit


def deadline(state: State) -> float | None:
    """Seconds until a Job has been active for too long; None when it never will be."""
    allowed, start = state.spec.get("activeDeadlineSeconds"), state.status.get("startTime")
    if allowed is None or start is None or state.suspended:
        return None
    return float(allowed) - (state.now - moment(start)).total_seconds()


def _by_indexes(state: State) -> Outcome | None:
    if not state.indexed:
        return None
    if state.failed_indexes is not None:
        lost, most = indexes.total(state.failed_indexes), state.spec.get("maxFailedIndexes")
        if most is not None and lost > most:
            message = "Job has exceeded the specified maximal number of failed indexes"
            return Outcome("FailureTarget", "MaxFailedIndexesExceeded", message)
        if lost and lost + indexes.total(state.succeeded_indexes) >= (state.completions or 0):
            return Outcome("FailureTarget", "FailedIndexes", "Job has failed indexes")
    message = policies.success(state.spec.get("successPolicy"), state.completions or 0, state.succeeded_indexes)
    return Outcome("SuccessCriteriaMet", "SuccessPolicy", message) if message else None


def is_complete(state: State, active: int) -> bool:
    """Whether all that had to succeed has, and nothing runs any more."""
    if state.completions is None:
        return state.succeeded > 0 and active == 0
    return state.succeeded >= state.completions and active == 0


def work(state: State) -> Work:
    """Which pods to delete or else to make: never both at once."""
    if state.suspended:
        return Work(delete=_surplus(state, len(state.active)))
    wanted = _wanted(state)
    surplus = _surplus(state, max(0, len(state.active) - wanted))
    if surplus:
        return Work(delete=surplus[:MOST_AT_ONCE])
    lacking = wanted - len(state.active) - (state.terminating if state.replaces_failed_only else 0)
    return _making(state, min(lacking, MOST_AT_ONCE)) if lacking > 0 else Work()


def _wanted(state: State) -> int:
    parallelism = int(state.spec.get("parallelism", 1))
    if state.completions is None:
        return len(state.active) if state.succeeded > 0 else parallelism
    return max(0, min(state.completions - state.succeeded, parallelism))


def _making(state: State, count: int) -> Work:
    if not state.per_index and (wait := remaining(state.record.failures, state.record.last, state.now)) > 0:
        return Work(wait=wait)
    if not state.indexed:
        return Work(create=[-1] * count)
    pending = indexes.missing(_taken(state), count, state.completions or 0)
    if not state.per_index:
        return Work(create=pending)
    waits = {index: _index_wait(state, index) for index in pending}
    now = [index for index in pending if waits[index] <= 0]
    return Work(create=now, wait=0.0 if now else min(waits.values(), default=0.0))


def _taken(state: State) -> indexes.Spans:
    """The indexes that need no pod: they have one, or have had their last."""
    there = [pod.index for pod in state.active if pod.index >= 0]
    if state.replaces_failed_only:
        there += [pod.index for pod in state.pods if pod.terminating and pod.index >= 0]
    return indexes.union(state.succeeded_indexes, state.failed_indexes or (), indexes.of(there))


def _index_wait(state: State, index: int) -> float:
    last = state.delayed.get(index)
    if last is None:
        return 0.0
    pod = state.look(last)
    return remaining(sum(failure_counts(pod)) + 1, finished_at(pod), state.now)


def index_failures(state: State, index: int) -> tuple[int, int] | None:
    """The failures that the next pod for an index starts with: those that counted, and those that did not."""
    if not state.per_index:
        return None
    last = state.delayed.get(index)
    if last is None:
        return 0, 0
    counted, ignored = failure_counts(state.look(last))
    return (counted + 1, ignored) if state.verdict(last).counts else (counted, ignored + 1)


def _surplus(state: State, at_least: int) -> list[Pod]:
    """Active pods to give up: those that stand for nothing, those that double another, and as many more as there are too many."""
    if not state.indexed:
        return removal_order(state.active)[:at_least]
    useless, kept = _doubles(state.active, state.completions or 0)
    return useless + removal_order(kept)[: max(0, at_least - len(useless))]


def _doubles(active: Iterable[Pod], completions: int) -> tuple[list[Pod], list[Pod]]:
    by_index: dict[int, list[Pod]] = {}
    for pod in active:
        by_index.setdefault(pod.index, []).append(pod)
    useless: list[Pod] = []
    kept: list[Pod] = []
    for index, pods in sorted(by_index.items()):
        if not 0 <= index < completions:
            useless += pods
        else:
            ordered = removal_order(pods) if len(pods) > 1 else pods
            useless += ordered[:-1]
            kept.append(ordered[-1])
    return useless, kept
