"""One cycle: the heads of all queues get flavors, are put in order, and are admitted, preempt others, or wait on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sliceworks.twin.workloads.kueue.core.flavors import FIT, NO_FIT, Assigner
from sliceworks.twin.workloads.kueue.core.model import ANY, Item, PodSet, Queue, Tried
from sliceworks.twin.workloads.kueue.core.pending import FAILED, GENERIC, PREEMPTING
from sliceworks.twin.workloads.kueue.core.preemption import Preemptor

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sliceworks.twin.workloads.kueue.core.flavors import Assignment
    from sliceworks.twin.workloads.kueue.core.model import Flavor, Key
    from sliceworks.twin.workloads.kueue.core.preemption import Target
    from sliceworks.twin.workloads.kueue.core.quotas import Amounts
    from sliceworks.twin.workloads.kueue.core.tree import Tree

    Look = Callable[[Sequence[PodSet]], tuple[Assignment, list[Target]]]

OVERLAPS = "Workload has overlapping preemption targets with another workload"
NO_LONGER = "Workload no longer fits after processing another workload"


@dataclass(slots=True, eq=False)
class Entry:
    """A head in a cycle and what became of it."""

    item: Item
    queue: Queue
    assignment: Assignment
    targets: list[Target]
    message: str
    tried: Tried | None
    admitted: bool = False
    reason: str = GENERIC
    evicting: list[Target] = field(default_factory=list)

    def skip(self, message: str) -> None:
        self.message, self.tried, self.reason = message, None, FAILED


def run(tree: Tree[Queue], flavors: Mapping[str, Flavor], heads: Sequence[Item]) -> list[Entry]:
    """Decide on these heads. What is admitted is counted at once; all else leaves the tree as it was."""
    preemptor = Preemptor(tree.leaves.__getitem__)
    entries = [_nominate(item, tree.leaves[item.cluster_queue], flavors, preemptor) for item in heads]
    entries.sort(key=lambda entry: (entry.assignment.borrowing, -entry.item.priority, entry.item.time))
    held: list[tuple[Queue, Amounts]] = []
    gone: dict[Key, Item] = {}
    for entry in entries:
        _process(entry, tree, held, gone)
    for queue, amounts in reversed(held):
        queue.remove_all(amounts)
    for entry in entries:
        if entry.admitted:
            # It was counted like the others until here; now it is counted as what it is.
            entry.queue.take(entry.item)
    return entries


def _nominate(item: Item, queue: Queue, flavors: Mapping[str, Flavor], preemptor: Preemptor) -> Entry:
    assigner = Assigner(queue, flavors, preemptor.possibility)

    def look(pod_sets: Sequence[PodSet]) -> tuple[Assignment, list[Target]]:
        assignment = assigner.assign(item, pod_sets)
        targets: list[Target] = []
        if NO_FIT < assignment.mode < FIT:
            targets = preemptor.targets(queue, item, assignment.cells_to_free(), assignment.usage)
        return assignment, targets

    assignment, targets = look(item.pod_sets)
    if assignment.mode != FIT and not targets:
        assignment, targets = _smaller(item, look) or (assignment, targets)
    return Entry(item, queue, assignment, targets, assignment.message(), assignment.tried)


def _smaller(item: Item, look: Look) -> tuple[Assignment, list[Target]] | None:
    """The largest number of pods with which it can be admitted, where it allows for fewer."""
    deltas = [pods.count - pods.least if pods.least >= 0 else 0 for pods in item.pod_sets]
    total = sum(deltas)
    if total <= 0:
        return None
    low, high, last, good = 0, total + 1, None, -1
    while low < high:
        middle = (low + high) // 2
        pod_sets = [pods.scaled(pods.count - delta * middle // total) for pods, delta in zip(item.pod_sets, deltas, strict=True)]
        found = look(pod_sets)
        if found[0].mode == FIT or found[1]:
            high, last, good = middle, found, middle
        else:
            low = middle + 1
    return last if low == good else None


def _process(entry: Entry, tree: Tree[Queue], held: list[tuple[Queue, Amounts]], gone: dict[Key, Item]) -> None:
    queue, assignment = entry.queue, entry.assignment
    if assignment.mode == NO_FIT:
        return
    if assignment.mode != FIT and not entry.targets:
        if queue.policy.reclaim != ANY:
            # Nobody else may take what it waits for, as it could not be sure to get it back.
            _hold(queue, _reserved(entry), held)
        return
    if any(target.item.key in gone for target in entry.targets):
        entry.skip(OVERLAPS)
        return
    if not _fits(entry, tree, gone):
        entry.skip(NO_LONGER)
        return
    gone.update((target.item.key, target.item) for target in entry.targets)
    _hold(queue, assignment.usage, held)
    if assignment.mode != FIT:
        _preempt(entry)
        return
    _admit(entry)


def _preempt(entry: Entry) -> None:
    entry.tried, entry.reason = None, PREEMPTING
    entry.message += f". Pending the preemption of {len(entry.targets)} workload(s)"
    entry.evicting = [target for target in entry.targets if not target.item.evicted]
    for target in entry.evicting:
        target.item.evicted = True


def _admit(entry: Entry) -> None:
    item = entry.item
    entry.admitted = True
    item.usage = dict(entry.assignment.usage)
    item.evicted = False
    item.tried = None
    for assigned in entry.assignment.pod_sets:
        assigned.pods.flavors = {resource: one.flavor for resource, one in assigned.chosen.items()}


def _hold(queue: Queue, amounts: Amounts, held: list[tuple[Queue, Amounts]]) -> None:
    queue.add_all(amounts)
    held.append((queue, amounts))


def _fits(entry: Entry, tree: Tree[Queue], gone: dict[Key, Item]) -> bool:
    removed = [*gone.values(), *(target.item for target in entry.targets)]
    for item in removed:
        tree.leaves[item.cluster_queue].remove_all(item.usage)
    fits = all(amount <= max(0, entry.queue.available(cell)) for cell, amount in entry.assignment.usage.items())
    for item in removed:
        tree.leaves[item.cluster_queue].add_all(item.usage)
    return fits


def _reserved(entry: Entry) -> Amounts:
    """What a workload that cannot preempt anyone keeps for itself in this cycle."""
    queue, found = entry.queue, dict[tuple[str, str], int]()
    for cell, amount in entry.assignment.usage.items():
        quota, used = queue.quotas.get(cell), queue.usage.get(cell, 0)
        nominal, limit = (quota.nominal, quota.borrowing) if quota else (0, None)
        if not entry.assignment.borrowing:
            found[cell] = max(0, min(amount, nominal - used))
        else:
            found[cell] = amount if limit is None else min(amount, nominal + limit - used)
    return found
