"""Which flavors a workload gets: for each pod set and each group of resources, the first flavor that is good enough."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from sliceworks.twin.workloads.kueue.core.matching import mismatch
from sliceworks.twin.workloads.kueue.core.model import NEVER, NEXT, Tried, amount_text
from sliceworks.twin.workloads.kueue.core.quotas import lowest_fit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sliceworks.twin.workloads.kueue.core.model import Flavor, Group, Item, PodSet, Policy, Queue, Requests
    from sliceworks.twin.workloads.kueue.core.quotas import Amounts, Cell

    Oracle = Callable[[Queue, Item, Cell, int], tuple[int, int]]

# How a flavor can be had, from worst to best.
NO_FIT, NO_CANDIDATES, PREEMPT, RECLAIM, FIT = range(5)
_MODE_NAMES = ("NoFit", "Preempt", "Preempt", "Preempt", "Fit")
_WORST, _BEST = (NO_FIT, 1 << 30), (FIT, 0)
Mode = tuple[int, int]
"""How it can be had, and from how far above it is borrowed."""


@dataclass(slots=True)
class Chosen:
    """The flavor of one resource."""

    flavor: str
    mode: int
    borrow: int
    tried: int = 0


class Attempt(NamedTuple):
    """A flavor that was looked at."""

    mode: int
    borrow: int
    reasons: frozenset[str]


@dataclass(slots=True)
class Assigned:
    """What one pod set gets; with reasons, why not, or not yet."""

    pods: PodSet
    chosen: dict[str, Chosen] = field(default_factory=dict)
    reasons: list[str] = field(default_factory=list)
    attempts: dict[str, Attempt] = field(default_factory=dict)

    @property
    def mode(self) -> int:
        if not self.reasons:
            return FIT
        return min((one.mode for one in self.chosen.values()), default=NO_FIT)


@dataclass(slots=True)
class Assignment:
    """What a workload gets. `mode` is one of NO_FIT, PREEMPT and FIT."""

    pod_sets: list[Assigned]
    usage: Amounts
    borrowing: int
    tried: Tried
    mode: int = NO_FIT

    def message(self) -> str:
        """Why it cannot be admitted now, as Kueue says it."""
        parts = (
            f"couldn't assign flavors to pod set {one.pods.name}: {', '.join(sorted(one.reasons))}"
            for one in self.pod_sets
            if one.reasons
        )
        return "; ".join(parts)

    def cells_to_free(self) -> set[Cell]:
        """What has to be preempted for."""
        return {
            (one.flavor, resource)
            for assigned in self.pod_sets
            for resource, one in assigned.chosen.items()
            if NO_FIT < one.mode < FIT
        }

    def considered(self) -> str:
        """The flavors that were looked at and were not simply free, as the event of a reservation tells."""
        parts = []
        for one in self.pod_sets:
            texts = [_attempt_text(name, one.attempts[name]) for name in sorted(one.attempts)]
            shown = ", ".join(text for text in texts if text)
            if shown:
                parts.append(f"{one.pods.name}: {shown}")
        return " | ".join(parts)


def _attempt_text(name: str, attempt: Attempt) -> str:
    if attempt.mode == FIT and not attempt.borrow:
        return ""
    borrow = f";borrow={attempt.borrow}" if attempt.borrow else ""
    reasons = f";{';'.join(sorted(attempt.reasons))}" if attempt.reasons else ""
    return f"{name}({_MODE_NAMES[attempt.mode]}{borrow}{reasons})"


class Assigner:
    """Assigns flavors to one workload in one ClusterQueue; `oracle` says what preemption could do for a cell."""

    def __init__(self, queue: Queue, flavors: Mapping[str, Flavor], oracle: Oracle) -> None:
        self._queue, self._flavors, self._oracle = queue, flavors, oracle

    def assign(self, item: Item, pod_sets: Sequence[PodSet]) -> Assignment:
        """Flavors for all pod sets; stops at the first that can get none."""
        queue = self._queue
        if item.tried is not None and queue.generation > item.tried.generation:
            item.tried = None
        found = Assignment([], {}, 0, Tried([], queue.generation))
        counts_pods = queue.group_of("pods") is not None
        for index, pods in enumerate(pod_sets):
            requests = {**pods.requests, "pods": pods.count} if counts_pods else pods.requests
            assigned = self._one(item, index, pods, requests, found.usage)
            self._append(found, assigned, requests)
            if requests and not assigned.chosen:
                return found
        found.mode = min((_coarse(one.mode) for one in found.pod_sets), default=NO_FIT)
        return found

    def _append(self, found: Assignment, assigned: Assigned, requests: Requests) -> None:
        found.pod_sets.append(assigned)
        for resource, one in assigned.chosen.items():
            found.borrowing = max(found.borrowing, one.borrow)
            cell = (one.flavor, resource)
            found.usage[cell] = found.usage.get(cell, 0) + requests[resource]
        found.tried.indexes.append({resource: one.tried for resource, one in assigned.chosen.items()})

    def _one(self, item: Item, index: int, pods: PodSet, requests: Requests, used: Amounts) -> Assigned:
        assigned = Assigned(pods)
        for resource in sorted(requests):
            if resource in assigned.chosen:
                continue
            group = self._queue.group_of(resource)
            if group is None:
                return Assigned(pods, {}, [f"resource {resource} unavailable in ClusterQueue"], assigned.attempts)
            wanted = {name: amount for name, amount in requests.items() if name in group.resources}
            start = _next_flavor(item.tried, index, resource)
            chosen, reasons = self._search(item, group, pods, wanted, used=used, start=start, attempts=assigned.attempts)
            if not chosen:
                return Assigned(pods, {}, reasons, assigned.attempts)
            assigned.chosen.update(chosen)
            assigned.reasons += reasons
        return assigned

    def _search(
        self,
        item: Item,
        group: Group,
        pods: PodSet,
        wanted: Requests,
        *,
        used: Amounts,
        start: int,
        attempts: dict[str, Attempt],
    ) -> tuple[dict[str, Chosen], list[str]]:
        """The best flavor of a group from `start` on, and why it is not simply free."""
        policy, keys = self._queue.policy, self._label_keys(group)
        best: dict[str, Chosen] = {}
        best_mode, reasons, tried = _WORST, list[str](), -1
        for tried in range(start, len(group.flavors)):
            name = group.flavors[tried]
            wrong = mismatch(self._flavors.get(name), name, pods, keys)
            if wrong:
                reasons.append(wrong)
                _merge(attempts, name, Attempt(NO_FIT, 0, frozenset((wrong,))))
                continue
            chosen, mode, why = self._try(item, name, wanted, used)
            reasons += why
            _merge(attempts, name, Attempt(mode[0], max((one.borrow for one in chosen.values()), default=0), frozenset(why)))
            if not _tries_next(mode, policy):
                best, best_mode = chosen, mode
                break
            if _preferred(mode, best_mode, policy):
                best, best_mode = chosen, mode
        for one in best.values():
            one.tried = -1 if tried == len(group.flavors) - 1 else tried
        return best, [] if best_mode[0] == FIT else reasons

    def _try(self, item: Item, flavor: str, wanted: Requests, used: Amounts) -> tuple[dict[str, Chosen], Mode, list[str]]:
        chosen: dict[str, Chosen] = {}
        worst, reasons = _BEST, list[str]()
        for resource in sorted(wanted):
            cell = (flavor, resource)
            mode, borrow = self._fits(item, cell, used.get(cell, 0), wanted[resource], reasons)
            if _preferred(worst, (mode, borrow), self._queue.policy):
                worst = (mode, borrow)
            if worst[0] == NO_FIT:
                break
            chosen[resource] = Chosen(flavor, mode, borrow)
        return chosen, worst, reasons

    def _fits(self, item: Item, cell: Cell, used: int, wanted: int, reasons: list[str]) -> Mode:
        queue, (flavor, resource), amount = self._queue, cell, used + wanted
        most = queue.potential(cell)
        if amount > most:
            shown = [amount_text(resource, value) for value in (used, wanted, most)]
            reasons.append(
                f"insufficient quota for {resource} in flavor {flavor}, previously considered podsets requests ({shown[0]}) + "
                f"current podset request ({shown[1]}) > maximum capacity ({shown[2]})"
            )
            return NO_FIT, 0
        borrow, reclaimable = lowest_fit(queue, cell, amount)
        available = max(0, queue.available(cell))
        if amount <= available:
            return FIT, borrow
        missing = amount_text(resource, amount - available)
        reasons.append(f"insufficient unused quota for {resource} in flavor {flavor}, {missing} more needed")
        quota = queue.quotas.get(cell)
        if amount <= (quota.nominal if quota else 0) or reclaimable or queue.policy.borrow != NEVER:
            return self._oracle(queue, item, cell, amount)
        return NO_FIT, borrow

    def _label_keys(self, group: Group) -> frozenset[str]:
        known = (self._flavors.get(name) for name in group.flavors)
        return frozenset(key for flavor in known if flavor is not None for key in flavor.labels)


def _merge(attempts: dict[str, Attempt], name: str, new: Attempt) -> None:
    old = attempts.get(name)
    attempts[name] = (
        new if old is None else Attempt(min(old.mode, new.mode), max(old.borrow, new.borrow), old.reasons | new.reasons)
    )


def _next_flavor(tried: Tried | None, index: int, resource: str) -> int:
    if tried is None or index >= len(tried.indexes):
        return 0
    return tried.indexes[index].get(resource, -1) + 1


def _coarse(mode: int) -> int:
    return mode if mode in (NO_FIT, FIT) else PREEMPT


def _preferred(one: Mode, other: Mode, policy: Policy) -> bool:
    """Whether a queue prefers one way to the other."""
    if one[0] == NO_FIT:
        return False
    if other[0] == NO_FIT:
        return True
    if policy.preference == "BorrowingOverPreemption":
        return one[1] < other[1] if one[1] != other[1] else one[0] > other[0]
    return one[0] > other[0] if one[0] != other[0] else one[1] < other[1]


def _tries_next(mode: Mode, policy: Policy) -> bool:
    if mode[0] <= NO_CANDIDATES:
        return True
    if mode[0] != FIT and policy.when_can_preempt == NEXT:
        return True
    return mode[1] != 0 and policy.when_can_borrow == NEXT
