"""One admission cycle: nominate the heads of all queues, order them, then admit, preempt or requeue each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sliceworks.twin.controllers.kueue.core.flavor_assigner import FIT, NO_FIT, FlavorAssigner
from sliceworks.twin.controllers.kueue.core.model import ANY, AssignmentState, ClusterQueue, PodSet, WorkloadInfo
from sliceworks.twin.controllers.kueue.core.preemption import Preemptor
from sliceworks.twin.controllers.kueue.core.workload_queue import FAILED_AFTER_NOMINATION, GENERIC, PENDING_PREEMPTION

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sliceworks.twin.controllers.kueue.core.flavor_assigner import Assignment
    from sliceworks.twin.controllers.kueue.core.model import Flavor, WorkloadKey
    from sliceworks.twin.controllers.kueue.core.preemption import Target
    from sliceworks.twin.controllers.kueue.core.quota_tree import FlavorResourceQuantities, QuotaTree, ResourceNode

    Nomination = tuple[Assignment, list[Target]]
    Reservations = list[list[tuple[ResourceNode, FlavorResourceQuantities]]]
    """For each reservation of a cycle, the usage of the ClusterQueue and of its Cohorts before it."""

OVERLAPPING_TARGETS = "Workload has overlapping preemption targets with another workload"
NO_LONGER_FITS = "Workload no longer fits after processing another workload"


@dataclass(slots=True, eq=False)
class Entry:
    """A head in a cycle, with its assignment and the decision."""

    workload: WorkloadInfo
    queue: ClusterQueue
    assignment: Assignment
    targets: list[Target]
    message: str
    last_assignment: AssignmentState | None
    admitted: bool = False
    requeue_reason: str = GENERIC
    preempted: list[Target] = field(default_factory=list)

    def skip(self, message: str) -> None:
        self.message, self.last_assignment, self.requeue_reason = message, None, FAILED_AFTER_NOMINATION


def schedule(tree: QuotaTree[ClusterQueue], flavors: Mapping[str, Flavor], heads: Sequence[WorkloadInfo]) -> list[Entry]:
    """Decide on these heads. The tree afterwards counts the usage of admitted workloads, and no other change."""
    preemptor = Preemptor(tree.cluster_queues.__getitem__)
    entries = [_nominate(workload, tree.cluster_queues[workload.cluster_queue], flavors, preemptor) for workload in heads]
    entries.sort(key=lambda entry: (entry.assignment.borrowing, -entry.workload.priority, entry.workload.time))
    reservations: Reservations = []
    preempted: dict[WorkloadKey, WorkloadInfo] = {}
    for entry in entries:
        _process(entry, tree, reservations, preempted)
    for saved in reversed(reservations):
        for node, usage in saved:
            node.usage = usage
    for entry in entries:
        if entry.admitted:
            entry.queue.add_workload(entry.workload)
    return entries


def _nominate(workload: WorkloadInfo, queue: ClusterQueue, flavors: Mapping[str, Flavor], preemptor: Preemptor) -> Entry:
    assigner = FlavorAssigner(queue, flavors, preemptor.simulate_preemption)

    def nominate(pod_sets: Sequence[PodSet]) -> Nomination:
        assignment = assigner.assign(workload, pod_sets)
        targets: list[Target] = []
        if NO_FIT < assignment.mode < FIT:
            flavor_resources = assignment.flavor_resources_needing_preemption()
            targets = preemptor.get_targets(queue, workload, flavor_resources, assignment.usage)
        return assignment, targets

    assignment, targets = nominate(workload.pod_sets)
    if assignment.mode != FIT and not targets:
        assignment, targets = _nominate_partially(workload, nominate) or (assignment, targets)
    return Entry(workload, queue, assignment, targets, assignment.message(), assignment.last_state)


def _nominate_partially(workload: WorkloadInfo, nominate: Callable[[Sequence[PodSet]], Nomination]) -> Nomination | None:
    """Partial admission: search for the largest number of pods that fits, where pod sets have a minimum count."""
    deltas = [pod_set.count - pod_set.min_count if pod_set.min_count >= 0 else 0 for pod_set in workload.pod_sets]
    total = sum(deltas)
    if total <= 0:
        return None
    low, high, fitting, fitting_at = 0, total + 1, None, -1
    while low < high:
        middle = (low + high) // 2
        nomination = nominate(
            [
                pod_set.scaled_to(pod_set.count - delta * middle // total)
                for pod_set, delta in zip(workload.pod_sets, deltas, strict=True)
            ]
        )
        assignment, targets = nomination
        if assignment.mode == FIT or targets:
            high, fitting, fitting_at = middle, nomination, middle
        else:
            low = middle + 1
    return fitting if low == fitting_at else None


def _process(
    entry: Entry, tree: QuotaTree[ClusterQueue], reservations: Reservations, preempted: dict[WorkloadKey, WorkloadInfo]
) -> None:
    queue, assignment = entry.queue, entry.assignment
    if assignment.mode == NO_FIT:
        return
    if assignment.mode != FIT and not entry.targets:
        if queue.policy.reclaim_within_cohort != ANY:
            # It could not reclaim this quota later, so no other workload may take it in this cycle.
            _reserve(queue, _quota_to_reserve(entry), reservations)
        return
    if any(target.workload.key in preempted for target in entry.targets):
        entry.skip(OVERLAPPING_TARGETS)
        return
    if not _fits(entry, tree, preempted):
        entry.skip(NO_LONGER_FITS)
        return
    preempted.update((target.workload.key, target.workload) for target in entry.targets)
    _reserve(queue, assignment.usage, reservations)
    if assignment.mode == FIT:
        _admit(entry)
    else:
        _preempt(entry)


def _preempt(entry: Entry) -> None:
    entry.last_assignment, entry.requeue_reason = None, PENDING_PREEMPTION
    entry.message += f". Pending the preemption of {len(entry.targets)} workload(s)"
    entry.preempted = [target for target in entry.targets if not target.workload.evicted]
    for target in entry.preempted:
        target.workload.evicted = True


def _admit(entry: Entry) -> None:
    workload = entry.workload
    entry.admitted = True
    workload.usage = dict(entry.assignment.usage)
    workload.evicted = False
    workload.last_assignment = None
    for assigned in entry.assignment.pod_sets:
        assigned.pod_set.flavors = {resource: assignment.flavor for resource, assignment in assigned.flavors.items()}


def _reserve(queue: ClusterQueue, usage: FlavorResourceQuantities, reservations: Reservations) -> None:
    """Count usage until the end of the cycle. It is negative where a queue uses more than its limit: removing it again would not
    restore the usage of the Cohorts."""
    reservations.append([(node, dict(node.usage)) for node in (queue, *queue.ancestors())])
    queue.add_usages(usage)


def _fits(entry: Entry, tree: QuotaTree[ClusterQueue], preempted: dict[WorkloadKey, WorkloadInfo]) -> bool:
    removed = [*preempted.values(), *(target.workload for target in entry.targets)]
    for workload in removed:
        tree.cluster_queues[workload.cluster_queue].remove_usages(workload.usage)
    fits = all(amount <= max(0, entry.queue.available(key)) for key, amount in entry.assignment.usage.items())
    for workload in removed:
        tree.cluster_queues[workload.cluster_queue].add_usages(workload.usage)
    return fits


def _quota_to_reserve(entry: Entry) -> FlavorResourceQuantities:
    """The quota that a workload without preemption candidates blocks for the rest of the cycle."""
    queue, reserved = entry.queue, dict[tuple[str, str], int]()
    for flavor_resource, amount in entry.assignment.usage.items():
        quota, used = queue.quotas.get(flavor_resource), queue.usage.get(flavor_resource, 0)
        nominal, limit = (quota.nominal, quota.borrowing_limit) if quota else (0, None)
        if not entry.assignment.borrowing:
            reserved[flavor_resource] = max(0, min(amount, nominal - used))
        else:
            reserved[flavor_resource] = amount if limit is None else min(amount, nominal + limit - used)
    return reserved
