"""Which work need not be tried: what it asks for is not free, and would not be if all that is less important went.

A queue that borrows from nobody decides alone, so that leaving out a try that must fail changes nothing but the time it takes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.twin.workloads.kueue.core.model import BEST_EFFORT, LOWER, NEVER

if TYPE_CHECKING:
    from sliceworks.twin.workloads.kueue.core.brain import Brain
    from sliceworks.twin.workloads.kueue.core.model import Item, Queue
    from sliceworks.twin.workloads.kueue.core.quotas import Cell


def spare(brain: Brain) -> None:
    """Let crowds without hope sleep on."""
    for name, pending in brain.pending.items():
        queue = brain.tree.leaves[name]
        if queue.parent is None and queue.strategy == BEST_EFFORT and queue.policy.within in (NEVER, LOWER):
            pending.rest(_Hopes(queue).without)


class _Hopes:
    """What each priority could have in one queue at one moment."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._used: dict[Cell, list[tuple[int, int]]] = {}
        if queue.policy.within == LOWER:
            for item in queue.items.values():
                for cell, amount in item.usage.items():
                    self._used.setdefault(cell, []).append((item.priority, amount))

    def without(self, item: Item) -> bool:
        """Whether some resource that a pod set asks for is not to be had in any flavor."""
        for pods in item.pod_sets:
            for resource, amount in pods.requests.items():
                group = self._queue.group_of(resource)
                if group and not any(self._had((flavor, resource), item.priority) >= amount for flavor in group.flavors):
                    return True
        return False

    def _had(self, cell: Cell, priority: int) -> int:
        less = sum(amount for rank, amount in self._used.get(cell, ()) if rank < priority)
        return self._queue.available(cell) + less
