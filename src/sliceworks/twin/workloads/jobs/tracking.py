"""How a Job counts its pods, each once: it writes down whom it is about to count, lets go of them, and counts then. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sliceworks.twin.workloads.jobs import indexes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sliceworks.twin.workloads.jobs.decide import Outcome
    from sliceworks.twin.workloads.jobs.state import State
    from sliceworks.twin.workloads.pods import Pod

Obj = dict[str, Any]
_MOST_UNCOUNTED = 500
_COUNTERS = ("succeeded", "failed")


@dataclass(slots=True)
class Ledger:
    """The status to write first, and the pods to let go of then. `full` says that more pods wait for another round."""

    status: Obj
    release: list[Pod] = field(default_factory=list)
    full: bool = False


def ledger(state: State, outcome: Outcome | None, status: Obj) -> Ledger:
    """Write down the pods that have ended. `status` is a copy that is changed."""
    uncounted = status["uncountedTerminatedPods"] = dict(status.get("uncountedTerminatedPods") or {})
    known = {kind: set(uncounted.get(kind) or ()) for kind in _COUNTERS}
    count(status, {pod.uid for pod in state.pods if pod.tracked})
    found, fresh = Ledger(status), set[int]()
    for pod in sorted(state.pods, key=lambda pod: pod.index) if state.indexed else state.pods:
        if not pod.tracked or not _may_go(state, outcome, pod):
            continue
        found.release.append(pod)
        if pod.phase == "Succeeded" and pod.uid not in known["failed"]:
            _note_success(state, pod, uncounted, known["succeeded"], fresh)
        elif _is_failure(state, outcome, pod) and pod.uid not in known["failed"] and state.verdict(pod).counts:
            uncounted["failed"] = [*(uncounted.get("failed") or ()), pod.uid]
        if len(fresh) + sum(len(uncounted.get(kind) or ()) for kind in _COUNTERS) >= _MOST_UNCOUNTED:
            found.full = True
            break
    if state.indexed:
        _note_indexes(state, fresh, status)
    return found


def _may_go(state: State, outcome: Outcome | None, pod: Pod) -> bool:
    if state.job["metadata"].get("deletionTimestamp") or outcome is not None or pod.phase == "Succeeded":
        return True
    kept = state.delayed.get(pod.index)
    return state.has_failed(pod) and not (kept is not None and kept.uid == pod.uid)


def _is_failure(state: State, outcome: Outcome | None, pod: Pod) -> bool:
    """Whether a pod that did not succeed counts as failed: when a Job fails, all that are left do."""
    return state.has_index(pod) and (state.has_failed(pod) or (outcome is not None and not outcome.good))


def _note_success(state: State, pod: Pod, uncounted: Obj, known: set[str], fresh: set[int]) -> None:
    if not state.indexed:
        if pod.uid not in known:
            uncounted["succeeded"] = [*(uncounted.get("succeeded") or ()), pod.uid]
    elif state.has_index(pod) and not indexes.has(state.known_indexes, pod.index):
        fresh.add(pod.index)


def _note_indexes(state: State, fresh: Iterable[int], status: Obj) -> None:
    done = indexes.union(state.succeeded_indexes, indexes.of(fresh))
    put(status, "succeeded", indexes.total(done))
    put(status, "completedIndexes", indexes.show(done))
    if state.failed_indexes is not None:
        status["failedIndexes"] = indexes.show(state.failed_indexes)


def count(status: Obj, tracked: set[str]) -> None:
    """Count those that were written down and have been let go of since."""
    uncounted = status["uncountedTerminatedPods"]
    for kind in _COUNTERS:
        before = uncounted.get(kind) or []
        left = [uid for uid in before if uid in tracked]
        if len(left) != len(before):
            put(status, kind, status.get(kind, 0) + len(before) - len(left))
            put(uncounted, kind, left)


def put(place: Obj, name: str, value: Any) -> None:
    """Set a field; an empty value is left out, as Kubernetes writes it."""
    if value:
        place[name] = value
    else:
        place.pop(name, None)
