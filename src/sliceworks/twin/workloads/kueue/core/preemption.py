"""Who has to go so that a workload fits: candidates in their order, and the smallest set of them that is found by giving back."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sliceworks.twin.workloads.kueue.core.flavors import NO_CANDIDATES, PREEMPT, RECLAIM
from sliceworks.twin.workloads.kueue.core.model import ANY, LOWER, LOWER_OR_NEWER, NEVER
from sliceworks.twin.workloads.kueue.core.quotas import lowest_fit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sliceworks.twin.workloads.kueue.core.model import Item, Queue
    from sliceworks.twin.workloads.kueue.core.quotas import Amounts, Cell, Cohort

IN_QUEUE, IN_COHORT, WHILE_BORROWING = "InClusterQueue", "InCohortReclamation", "InCohortReclaimWhileBorrowing"
WORDS = {
    IN_QUEUE: "prioritization in the ClusterQueue",
    IN_COHORT: "reclamation within the cohort",
    WHILE_BORROWING: "reclamation within the cohort while borrowing",
}


class Target(NamedTuple):
    """A workload that has to go, and why."""

    item: Item
    reason: str


class Candidate(NamedTuple):
    """One that may go; `meeting` is the lowest Cohort above both, and not all may go when the preemptor would borrow."""

    item: Item
    meeting: Cohort | None
    reason: str
    without_borrowing: bool


class Preemptor:
    """Finds targets for one workload among the items of its ClusterQueue and its Cohort."""

    def __init__(self, queue_of: Callable[[str], Queue]) -> None:
        self._queue_of = queue_of

    def possibility(self, queue: Queue, item: Item, cell: Cell, amount: int) -> tuple[int, int]:
        """What preemption could do for one cell, and from how far above would then be borrowed."""
        targets = self.targets(queue, item, {cell}, {cell: amount})
        if not targets:
            return NO_CANDIDATES, lowest_fit(queue, cell, amount)[0]
        for target in targets:
            self._queue_of(target.item.cluster_queue).remove_all(target.item.usage)
        borrow = lowest_fit(queue, cell, amount)[0]
        for target in targets:
            self._queue_of(target.item.cluster_queue).add_all(target.item.usage)
        same = any(target.item.cluster_queue == queue.name for target in targets)
        return PREEMPT if same else RECLAIM, borrow

    def targets(self, queue: Queue, item: Item, cells: set[Cell], requests: Amounts) -> list[Target]:
        """The workloads to preempt so that the requests fit; none when that cannot be."""
        same = self._in_queue(queue, item, cells)
        above, by_priority = self._in_cohort(queue, item, cells, requests)
        if not same and not above and not by_priority:
            return []
        ordered = [_ordered(group) for group in (above, by_priority, same)]
        candidates = [one for group in ordered for one in group if one.item.evicted]
        candidates += [one for group in ordered for one in group if not one.item.evicted]
        for borrowing in self._attempts(queue, cells, others=bool(above or by_priority), above=bool(above)):
            found = self._attempt(queue, candidates, cells, requests, borrowing)
            if found:
                return found
        return []

    def _attempts(self, queue: Queue, cells: set[Cell], *, others: bool, above: bool) -> tuple[bool, ...]:
        """Whether to let the preemptor borrow: more may be preempted when it does not."""
        forbidden = queue.policy.borrow == NEVER
        if not others or (forbidden and not _under_nominal(queue, cells)):
            return (True,)
        return (False, True) if forbidden and not above else (True, False)

    def _attempt(
        self, queue: Queue, candidates: list[Candidate], cells: set[Cell], requests: Amounts, borrowing: bool
    ) -> list[Target]:
        """Remove candidates until it fits, then give back those without whom it fits too."""
        removed: list[Target] = []
        found: list[Target] = []
        for candidate in candidates:
            if not self._valid(queue, candidate, cells, borrowing):
                continue
            self._queue_of(candidate.item.cluster_queue).remove_all(candidate.item.usage)
            removed.append(Target(candidate.item, candidate.reason))
            if _fits(queue, requests, borrowing):
                found = removed = self._fill_back(queue, removed, requests, borrowing)
                break
        for target in removed:
            self._queue_of(target.item.cluster_queue).add_all(target.item.usage)
        return found

    def _fill_back(self, queue: Queue, removed: list[Target], requests: Amounts, borrowing: bool) -> list[Target]:
        for index in range(len(removed) - 2, -1, -1):
            item = removed[index].item
            home = self._queue_of(item.cluster_queue)
            home.add_all(item.usage)
            if _fits(queue, requests, borrowing):
                removed[index] = removed[-1]
                removed.pop()
            else:
                home.remove_all(item.usage)
        return removed

    def _valid(self, queue: Queue, candidate: Candidate, cells: set[Cell], borrowing: bool) -> bool:
        """Whether a candidate still counts: nobody is taken below the own quota of a queue or cohort."""
        if candidate.item.cluster_queue == queue.name:
            return True
        if borrowing and candidate.without_borrowing:
            return False
        home = self._queue_of(candidate.item.cluster_queue)
        if home.within_nominal(cells):
            return False
        for node in home.ancestors():
            if node is candidate.meeting:
                break
            if node.within_nominal(cells):
                return False
        return True

    def _in_queue(self, queue: Queue, item: Item, cells: set[Cell]) -> list[Candidate]:
        policy = queue.policy.within
        if policy == NEVER:
            return []
        return [
            Candidate(other, None, IN_QUEUE, False)
            for other in queue.items.values()
            if _allows(policy, item, other) and not cells.isdisjoint(other.usage)
        ]

    def _in_cohort(self, queue: Queue, item: Item, cells: set[Cell], requests: Amounts) -> tuple[list[Candidate], list[Candidate]]:
        """Those over whom the preemptor has the advantage of place, and those whom only policy and priority let it take."""
        above: list[Candidate] = []
        by_priority: list[Candidate] = []
        if queue.policy.reclaim == NEVER:
            return above, by_priority
        advantage, left = queue.fits_in_quota(requests)
        previous: Cohort | None = None
        for cohort in queue.ancestors():
            found = above if advantage else by_priority
            for home in self._borrowers(cohort, previous, queue, cells):
                found += self._candidates(queue, item, cells, home, meeting=cohort, advantage=advantage)
            fits, left = cohort.fits_in_quota(left)
            advantage = advantage or fits
            previous = cohort
        return above, by_priority

    def _borrowers(self, cohort: Cohort, skipped: Cohort | None, queue: Queue, cells: set[Cell]) -> Iterable[Queue]:
        for child in cohort.cohorts.values():
            if child is not skipped and not child.within_nominal(cells):
                yield from self._borrowers(child, skipped, queue, cells)
        for leaf in cohort.leaves.values():
            if leaf is not queue and not leaf.within_nominal(cells):
                yield self._queue_of(leaf.name)

    def _candidates(
        self, queue: Queue, item: Item, cells: set[Cell], home: Queue, *, meeting: Cohort, advantage: bool
    ) -> Iterable[Candidate]:
        policy = queue.policy
        for other in home.items.values():
            if not _allows(policy.reclaim, item, other) or cells.isdisjoint(other.usage):
                continue
            if advantage:
                yield Candidate(other, meeting, IN_COHORT, False)
            elif policy.borrow == NEVER or other.priority >= item.priority or _above(policy.threshold, other):
                yield Candidate(other, meeting, IN_COHORT, True)
            else:
                yield Candidate(other, meeting, WHILE_BORROWING, False)


def _ordered(candidates: list[Candidate]) -> list[Candidate]:
    """The least important first, then the one that was admitted last."""
    candidates.sort(key=lambda one: one.item.uid)
    candidates.sort(key=lambda one: one.item.reserved_at, reverse=True)
    candidates.sort(key=lambda one: one.item.priority)
    return candidates


def _above(threshold: int | None, other: Item) -> bool:
    return threshold is not None and other.priority > threshold


def _allows(policy: str, item: Item, other: Item) -> bool:
    if policy == LOWER:
        return item.priority > other.priority
    if policy == LOWER_OR_NEWER:
        return item.priority > other.priority or (item.priority == other.priority and bool(item.time < other.time))
    return policy == ANY


def _fits(queue: Queue, requests: Amounts, borrowing: bool) -> bool:
    for cell, amount in requests.items():
        if not borrowing and queue.exceeds(cell, amount):
            return False
        if amount > max(0, queue.available(cell)):
            return False
    return True


def _under_nominal(queue: Queue, cells: set[Cell]) -> bool:
    return all(queue.usage.get(cell, 0) < queue.subtree.get(cell, 0) for cell in cells)
