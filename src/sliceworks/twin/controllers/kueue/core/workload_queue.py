"""The pending workloads of a ClusterQueue: a heap of those to try, and the inadmissible ones.

Workloads with the same equivalence hash and priority form a class once they are many: when the first of a class is inadmissible,
the others are not tried before something changes.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any

from sliceworks.twin.controllers.kueue.core.model import BEST_EFFORT_FIFO, STRICT_FIFO

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.twin.controllers.kueue.core.model import WorkloadInfo, WorkloadKey

# Requeue reasons.
GENERIC, FAILED_AFTER_NOMINATION, NAMESPACE_MISMATCH, PENDING_PREEMPTION = (
    "",
    "FailedAfterNomination",
    "NamespaceMismatch",
    "PendingPreemption",
)
MAX_TRIED_EQUIVALENT = 16
"""Up to this many equivalent workloads are tried one by one."""


class WorkloadHeap:
    """Workloads by priority and time; pushing a workload again replaces it."""

    __slots__ = ("_heap", "_serial", "_serials", "inadmissible")

    def __init__(self) -> None:
        self._heap: list[tuple[int, Any, int, WorkloadInfo]] = []
        self._serials: dict[WorkloadKey, int] = {}
        self._serial = 0
        self.inadmissible = False

    def __len__(self) -> int:
        return len(self._serials)

    def __contains__(self, key: WorkloadKey) -> bool:
        return key in self._serials

    def push(self, workload: WorkloadInfo) -> None:
        self._serial += 1
        self._serials[workload.key] = self._serial
        heapq.heappush(self._heap, (-workload.priority, workload.time, self._serial, workload))

    def discard(self, key: WorkloadKey) -> None:
        self._serials.pop(key, None)

    def peek(self) -> WorkloadInfo | None:
        heap, serials = self._heap, self._serials
        while heap:
            if serials.get(heap[0][3].key) == heap[0][2]:
                return heap[0][3]
            heapq.heappop(heap)
        return None


class WorkloadQueue:
    """The queue of one ClusterQueue. In a best-effort queue a workload that waits for preemption is sticky: it stays first."""

    def __init__(self, strategy: str = BEST_EFFORT_FIFO) -> None:
        self.strategy = strategy
        self._heap = WorkloadHeap()
        self._classes: dict[Any, WorkloadHeap] = {}
        self._inadmissible: dict[WorkloadKey, WorkloadInfo] = {}
        self._equivalent_counts: dict[Any, int] = {}
        self._workloads: dict[WorkloadKey, WorkloadInfo] = {}
        self._sticky: WorkloadKey | None = None
        self._pop_cycle = 0
        self._requeue_cycle = -1

    def __len__(self) -> int:
        return len(self._workloads)

    def __bool__(self) -> bool:
        """Whether a workload is ready to be tried."""
        return bool(self._heap) or any(heap and not heap.inadmissible for heap in self._classes.values())

    def push(self, workload: WorkloadInfo) -> None:
        """Add a workload, or update it."""
        inadmissible = workload.in_backoff and workload.key not in self._heap
        self._remove(workload.key)
        self._add(workload)
        if inadmissible:
            self._inadmissible[workload.key] = workload
        else:
            self._heap.push(workload)

    def delete(self, key: WorkloadKey) -> None:
        self._remove(key)
        if self._sticky == key:
            self._sticky = None

    def pop(self) -> WorkloadInfo | None:
        """Remove and return the head."""
        self._pop_cycle += 1
        workload = self._workloads.get(self._sticky) if self._sticky is not None else None
        if workload is None or workload.key not in self._heap:
            workload = self._peek()
        if workload is not None:
            self._remove(workload.key)
        return workload

    def _peek(self) -> WorkloadInfo | None:
        heads = [self._heap.peek(), *(heap.peek() for heap in self._classes.values() if not heap.inadmissible)]
        return min(
            (head for head in heads if head is not None), key=lambda workload: (-workload.priority, workload.time), default=None
        )

    def requeue(self, workload: WorkloadInfo, reason: str) -> bool:
        """Put a popped workload back that was not admitted; returns whether it is tried again without a change."""
        if reason == PENDING_PREEMPTION and self.strategy == BEST_EFFORT_FIFO:
            self._sticky = workload.key
        if self.strategy == STRICT_FIFO:
            immediate = reason != NAMESPACE_MISMATCH
        else:
            immediate = reason in (FAILED_AFTER_NOMINATION, PENDING_PREEMPTION)
        has_untried_flavors = workload.last_assignment is not None and workload.last_assignment.has_untried_flavors
        changed = self._requeue_cycle >= self._pop_cycle
        if not workload.in_backoff and (immediate or has_untried_flavors or changed):
            self.push(workload)
            return True
        self._add(workload)
        if self._is_in_class(workload):
            self._push_to_class(workload)
        else:
            self._inadmissible[workload.key] = workload
        return False

    def requeue_inadmissible(self) -> None:
        """Try all workloads again; call it when quota, flavors or admitted workloads change."""
        self._requeue_cycle = self._pop_cycle
        for heap in self._classes.values():
            heap.inadmissible = False
        for key, workload in list(self._inadmissible.items()):
            if not workload.in_backoff:
                del self._inadmissible[key]
                self._heap.push(workload)

    def park_hopeless(self, is_hopeless: Callable[[WorkloadInfo], bool]) -> None:
        """Do not try those workloads of classes that the caller knows to be inadmissible until something changes."""
        while (
            (head := self._heap.peek()) is not None and self._is_in_class(head) and head.key != self._sticky and is_hopeless(head)
        ):
            self._heap.discard(head.key)
            self._push_to_class(head)
        for heap in self._classes.values():
            if not heap.inadmissible and (head := heap.peek()) is not None:
                heap.inadmissible = is_hopeless(head)

    def ordered(self) -> list[WorkloadInfo]:
        """All pending workloads, the head first."""
        return sorted(
            self._workloads.values(), key=lambda workload: (workload.key != self._sticky, -workload.priority, workload.time)
        )

    def _is_in_class(self, workload: WorkloadInfo) -> bool:
        if workload.equivalence_hash is None or workload.in_backoff:
            return False
        return self._equivalent_counts[workload.equivalence_hash] > MAX_TRIED_EQUIVALENT

    def _push_to_class(self, workload: WorkloadInfo) -> None:
        heap = self._classes.setdefault((workload.equivalence_hash, workload.priority), WorkloadHeap())
        heap.push(workload)
        heap.inadmissible = True

    def _add(self, workload: WorkloadInfo) -> None:
        self._workloads[workload.key] = workload
        counts = self._equivalent_counts
        counts[workload.equivalence_hash] = counts.get(workload.equivalence_hash, 0) + 1

    def _remove(self, key: WorkloadKey) -> None:
        workload = self._workloads.pop(key, None)
        if workload is None:
            return
        self._inadmissible.pop(key, None)
        self._heap.discard(key)
        self._equivalent_counts[workload.equivalence_hash] -= 1
        if not self._equivalent_counts[workload.equivalence_hash]:
            del self._equivalent_counts[workload.equivalence_hash]
        class_key = (workload.equivalence_hash, workload.priority)
        heap = self._classes.get(class_key)
        if heap is not None:
            heap.discard(key)
            if not heap:
                del self._classes[class_key]
