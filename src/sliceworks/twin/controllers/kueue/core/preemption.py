"""Preemption: candidates in order, and the minimal set of workloads to preempt."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sliceworks.twin.controllers.kueue.core.flavor_assigner import NO_PREEMPTION_CANDIDATES, PREEMPT, RECLAIM, GranularMode
from sliceworks.twin.controllers.kueue.core.model import ANY, LOWER, LOWER_OR_NEWER, NEVER
from sliceworks.twin.controllers.kueue.core.quota_tree import lowest_fitting_height

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sliceworks.twin.controllers.kueue.core.model import ClusterQueue, WorkloadInfo
    from sliceworks.twin.controllers.kueue.core.quota_tree import Cohort, FlavorResource, FlavorResourceQuantities

IN_CLUSTER_QUEUE, IN_COHORT_RECLAMATION = "InClusterQueue", "InCohortReclamation"
IN_COHORT_RECLAIM_WHILE_BORROWING = "InCohortReclaimWhileBorrowing"
HUMAN_READABLE_REASONS = {
    IN_CLUSTER_QUEUE: "prioritization in the ClusterQueue",
    IN_COHORT_RECLAMATION: "reclamation within the cohort",
    IN_COHORT_RECLAIM_WHILE_BORROWING: "reclamation within the cohort while borrowing",
}


class Target(NamedTuple):
    """A workload to preempt, and the reason."""

    workload: WorkloadInfo
    reason: str


class Candidate(NamedTuple):
    """A workload that may be preempted.

    `common_cohort` is the lowest Cohort above both ClusterQueues. Some candidates count only while the preemptor does not borrow.
    """

    workload: WorkloadInfo
    common_cohort: Cohort | None
    reason: str
    only_without_borrowing: bool


class Preemptor:
    """Finds targets for one workload among the workloads of its ClusterQueue and its Cohort."""

    def __init__(self, queue_of: Callable[[str], ClusterQueue]) -> None:
        self._queue_of = queue_of

    def simulate_preemption(
        self, queue: ClusterQueue, workload: WorkloadInfo, flavor_resource: FlavorResource, amount: int
    ) -> GranularMode:
        """What preemption achieves for one flavor and resource, and from which height the workload would then borrow."""
        targets = self.get_targets(queue, workload, {flavor_resource}, {flavor_resource: amount})
        if not targets:
            return GranularMode(NO_PREEMPTION_CANDIDATES, lowest_fitting_height(queue, flavor_resource, amount)[0])
        for target in targets:
            self._queue_of(target.workload.cluster_queue).remove_usages(target.workload.usage)
        borrow = lowest_fitting_height(queue, flavor_resource, amount)[0]
        for target in targets:
            self._queue_of(target.workload.cluster_queue).add_usages(target.workload.usage)
        in_same_queue = any(target.workload.cluster_queue == queue.name for target in targets)
        return GranularMode(PREEMPT if in_same_queue else RECLAIM, borrow)

    def get_targets(
        self,
        queue: ClusterQueue,
        workload: WorkloadInfo,
        flavor_resources: set[FlavorResource],
        requests: FlavorResourceQuantities,
    ) -> list[Target]:
        """The workloads to preempt so that the requests fit; empty when preemption cannot help."""
        same_queue = self._same_queue_candidates(queue, workload, flavor_resources)
        hierarchical, by_priority = self._cohort_candidates(queue, workload, flavor_resources, requests)
        if not same_queue and not hierarchical and not by_priority:
            return []
        groups = [_sort_candidates(group) for group in (hierarchical, by_priority, same_queue)]
        candidates = [candidate for group in groups for candidate in group if candidate.workload.evicted]
        candidates += [candidate for group in groups for candidate in group if not candidate.workload.evicted]
        has_cohort_candidates = bool(hierarchical or by_priority)
        for borrowing in _borrowing_attempts(queue, flavor_resources, has_cohort_candidates, bool(hierarchical)):
            targets = self._try_candidates(queue, candidates, flavor_resources, requests, borrowing)
            if targets:
                return targets
        return []

    def _try_candidates(
        self,
        queue: ClusterQueue,
        candidates: list[Candidate],
        flavor_resources: set[FlavorResource],
        requests: FlavorResourceQuantities,
        borrowing: bool,
    ) -> list[Target]:
        """Remove candidates until the workload fits, then keep only those that are needed. Leaves the usage as it was."""
        removed: list[Target] = []
        targets: list[Target] = []
        for candidate in candidates:
            if not self._is_valid(queue, candidate, flavor_resources, borrowing):
                continue
            self._queue_of(candidate.workload.cluster_queue).remove_usages(candidate.workload.usage)
            removed.append(Target(candidate.workload, candidate.reason))
            if _fits(queue, requests, borrowing):
                targets = removed = self._fill_back(queue, removed, requests, borrowing)
                break
        for target in removed:
            self._queue_of(target.workload.cluster_queue).add_usages(target.workload.usage)
        return targets

    def _fill_back(
        self, queue: ClusterQueue, removed: list[Target], requests: FlavorResourceQuantities, borrowing: bool
    ) -> list[Target]:
        """Add back the workloads without whose removal the requests fit too."""
        for index in range(len(removed) - 2, -1, -1):
            workload = removed[index].workload
            target_queue = self._queue_of(workload.cluster_queue)
            target_queue.add_usages(workload.usage)
            if _fits(queue, requests, borrowing):
                removed[index] = removed[-1]
                removed.pop()
            else:
                target_queue.remove_usages(workload.usage)
        return removed

    def _is_valid(self, queue: ClusterQueue, candidate: Candidate, flavor_resources: set[FlavorResource], borrowing: bool) -> bool:
        """Whether a candidate still counts: preemption never takes a ClusterQueue or Cohort below its own quota."""
        if candidate.workload.cluster_queue == queue.name:
            return True
        if borrowing and candidate.only_without_borrowing:
            return False
        candidate_queue = self._queue_of(candidate.workload.cluster_queue)
        if candidate_queue.is_within_nominal(flavor_resources):
            return False
        for cohort in candidate_queue.ancestors():
            if cohort is candidate.common_cohort:
                break
            if cohort.is_within_nominal(flavor_resources):
                return False
        return True

    def _same_queue_candidates(
        self, queue: ClusterQueue, workload: WorkloadInfo, flavor_resources: set[FlavorResource]
    ) -> list[Candidate]:
        policy = queue.policy.within_cluster_queue
        if policy == NEVER:
            return []
        return [
            Candidate(other, None, IN_CLUSTER_QUEUE, False)
            for other in queue.workloads.values()
            if _satisfies_policy(policy, workload, other) and not flavor_resources.isdisjoint(other.usage)
        ]

    def _cohort_candidates(
        self,
        queue: ClusterQueue,
        workload: WorkloadInfo,
        flavor_resources: set[FlavorResource],
        requests: FlavorResourceQuantities,
    ) -> tuple[list[Candidate], list[Candidate]]:
        """Candidates over which the preemptor has a hierarchical advantage, and those that only policy and priority allow."""
        hierarchical: list[Candidate] = []
        by_priority: list[Candidate] = []
        if queue.policy.reclaim_within_cohort == NEVER:
            return hierarchical, by_priority
        has_advantage, remaining = queue.fits_in_quota(requests)
        previous: Cohort | None = None
        for cohort in queue.ancestors():
            candidates = hierarchical if has_advantage else by_priority
            for borrower in self._borrowers(cohort, previous, queue, flavor_resources):
                candidates += _candidates_in(
                    borrower, queue, workload, flavor_resources, common_cohort=cohort, has_advantage=has_advantage
                )
            fits, remaining = cohort.fits_in_quota(remaining)
            has_advantage = has_advantage or fits
            previous = cohort
        return hierarchical, by_priority

    def _borrowers(
        self, cohort: Cohort, skipped: Cohort | None, queue: ClusterQueue, flavor_resources: set[FlavorResource]
    ) -> Iterable[ClusterQueue]:
        for child in cohort.cohorts.values():
            if child is not skipped and not child.is_within_nominal(flavor_resources):
                yield from self._borrowers(child, skipped, queue, flavor_resources)
        for member in cohort.cluster_queues.values():
            if member is not queue and not member.is_within_nominal(flavor_resources):
                yield self._queue_of(member.name)


def _borrowing_attempts(
    queue: ClusterQueue, flavor_resources: set[FlavorResource], has_cohort_candidates: bool, has_hierarchical: bool
) -> tuple[bool, ...]:
    """Whether to let the preemptor borrow, in the order to try: more candidates count when it does not."""
    forbidden = queue.policy.borrow_within_cohort == NEVER
    if not has_cohort_candidates or (forbidden and not _is_under_nominal(queue, flavor_resources)):
        return (True,)
    return (False, True) if forbidden and not has_hierarchical else (True, False)


def _candidates_in(
    borrower: ClusterQueue,
    queue: ClusterQueue,
    workload: WorkloadInfo,
    flavor_resources: set[FlavorResource],
    *,
    common_cohort: Cohort,
    has_advantage: bool,
) -> Iterable[Candidate]:
    policy = queue.policy
    threshold = policy.max_priority_threshold
    for other in borrower.workloads.values():
        if not _satisfies_policy(policy.reclaim_within_cohort, workload, other) or flavor_resources.isdisjoint(other.usage):
            continue
        above_threshold = threshold is not None and other.priority > threshold
        if has_advantage:
            yield Candidate(other, common_cohort, IN_COHORT_RECLAMATION, False)
        elif policy.borrow_within_cohort == NEVER or other.priority >= workload.priority or above_threshold:
            yield Candidate(other, common_cohort, IN_COHORT_RECLAMATION, True)
        else:
            yield Candidate(other, common_cohort, IN_COHORT_RECLAIM_WHILE_BORROWING, False)


def _sort_candidates(candidates: list[Candidate]) -> list[Candidate]:
    """The lowest priority first, then the one that was admitted last."""
    candidates.sort(key=lambda candidate: candidate.workload.uid)
    candidates.sort(key=lambda candidate: candidate.workload.reserved_at, reverse=True)
    candidates.sort(key=lambda candidate: candidate.workload.priority)
    return candidates


def _satisfies_policy(policy: str, workload: WorkloadInfo, other: WorkloadInfo) -> bool:
    if policy == LOWER:
        return workload.priority > other.priority
    if policy == LOWER_OR_NEWER:
        is_newer = workload.priority == other.priority and bool(workload.time < other.time)
        return workload.priority > other.priority or is_newer
    return policy == ANY


def _fits(queue: ClusterQueue, requests: FlavorResourceQuantities, borrowing: bool) -> bool:
    for flavor_resource, amount in requests.items():
        if not borrowing and queue.is_borrowing_with(flavor_resource, amount):
            return False
        if amount > max(0, queue.available(flavor_resource)):
            return False
    return True


def _is_under_nominal(queue: ClusterQueue, flavor_resources: set[FlavorResource]) -> bool:
    return all(queue.usage.get(key, 0) < queue.subtree_quota.get(key, 0) for key in flavor_resources)
