"""The queue manager: quotas, flavors, queues and pending workloads of a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sliceworks.twin.controllers.kueue.core import admission_cycle
from sliceworks.twin.controllers.kueue.core.model import ClusterQueue, Policy, WorkloadInfo, WorkloadKey
from sliceworks.twin.controllers.kueue.core.quota_tree import QuotaTree
from sliceworks.twin.controllers.kueue.core.workload_queue import GENERIC, WorkloadQueue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from sliceworks.twin.controllers.kueue.core.admission_cycle import Entry
    from sliceworks.twin.controllers.kueue.core.model import Flavor, ResourceGroup
    from sliceworks.twin.controllers.kueue.core.quota_tree import Cohort, FlavorResource, Quota


class ClusterQueueSpec(NamedTuple):
    """The spec of a ClusterQueue."""

    cohort: str
    quotas: Mapping[FlavorResource, Quota]
    resource_groups: tuple[ResourceGroup, ...]
    policy: Policy
    strategy: str


class Inadmissible(NamedTuple):
    """A workload that the scheduler rejected before assigning flavors."""

    workload: WorkloadInfo
    message: str
    requeue_reason: str = GENERIC


class CycleResult(NamedTuple):
    """The decisions of one cycle."""

    entries: list[Entry]
    inadmissible: list[Inadmissible]


class QueueManager:
    """Holds quotas, flavors and pending workloads; call `schedule()` while `has_heads()` is true.

    `check_head` may reject a head before flavors are assigned to it.
    """

    def __init__(self, check_head: Callable[[WorkloadInfo], Inadmissible | None] = lambda _: None) -> None:
        self.tree: QuotaTree[ClusterQueue] = QuotaTree()
        self.flavors: dict[str, Flavor] = {}
        self.pending: dict[str, WorkloadQueue] = {}
        self.local_queues: dict[WorkloadKey, str] = {}
        self.workloads: dict[WorkloadKey, WorkloadInfo] = {}
        self._pending_by_local_queue: dict[WorkloadKey, dict[WorkloadKey, WorkloadInfo]] = {}
        self._check_head = check_head
        self._failed_heads: set[Any] = set()
        self._idle = False

    def requeue_inadmissible(self) -> None:
        """Retry workloads that did not fit; call it when quota, flavors, admitted workloads or the heads of queues change."""
        self._failed_heads.clear()
        self._idle = False

    # Flavors, queues and cohorts.

    def put_flavor(self, flavor: Flavor) -> None:
        self.flavors[flavor.name] = flavor
        self.requeue_inadmissible()

    def drop_flavor(self, name: str) -> None:
        self.flavors.pop(name, None)
        self.requeue_inadmissible()

    def put_cluster_queue(self, name: str, spec: ClusterQueueSpec) -> ClusterQueue:
        """Add or update a ClusterQueue; retries the workloads of its whole cohort tree."""
        queue = self.tree.cluster_queues.get(name)
        is_new = queue is None
        queue = queue or ClusterQueue(name)
        queue.resource_groups, queue.policy, queue.strategy = spec.resource_groups, spec.policy, spec.strategy
        self.tree.put_cluster_queue(queue, spec.cohort, spec.quotas)
        self.pending.setdefault(name, WorkloadQueue()).strategy = spec.strategy
        if is_new:
            self._count_reserved(queue)
            for local_queue, cluster_queue in self.local_queues.items():
                if cluster_queue == name:
                    self._queue_workloads(local_queue)
        self.requeue_cluster_queue(name)
        return queue

    def _count_reserved(self, queue: ClusterQueue) -> None:
        """Count the workloads whose reservation in a ClusterQueue was known before the ClusterQueue itself."""
        for workload in self.workloads.values():
            if workload.cluster_queue == queue.name and workload.reserved_at is not None:
                queue.add_workload(workload)

    def set_active(self, name: str, active: bool) -> None:
        queue = self.tree.cluster_queues[name]
        if queue.active != active:
            queue.active = active
            self.requeue_inadmissible()

    def drop_cluster_queue(self, name: str) -> None:
        self.tree.drop_cluster_queue(name)
        self.pending.pop(name, None)
        self.requeue_inadmissible()

    def put_cohort(self, name: str, parent: str, quotas: Mapping[FlavorResource, Quota]) -> None:
        self.tree.put_cohort(name, parent, quotas)
        cohort = self.tree.cohorts[name]
        if not cohort.has_cycle:
            self._requeue_cohort(cohort.root)
        self.requeue_inadmissible()

    def drop_cohort(self, name: str) -> None:
        self.tree.drop_cohort(name)
        self.requeue_inadmissible()

    def put_local_queue(self, key: WorkloadKey, cluster_queue: str) -> None:
        """Point a LocalQueue to a ClusterQueue."""
        old = self.local_queues.get(key)
        if old != cluster_queue:
            self.local_queues[key] = cluster_queue
            self._dequeue_workloads(key, old)
            self._queue_workloads(key)

    def drop_local_queue(self, key: WorkloadKey) -> None:
        self._dequeue_workloads(key, self.local_queues.pop(key, None))

    def _dequeue_workloads(self, local_queue: WorkloadKey, cluster_queue: str | None) -> None:
        if cluster_queue is not None and cluster_queue in self.pending:
            for key in self._pending_by_local_queue.get(local_queue, {}):
                self.pending[cluster_queue].delete(key)
            self.requeue_inadmissible()

    def _queue_workloads(self, local_queue: WorkloadKey) -> None:
        pending = self.pending.get(self.local_queues[local_queue])
        if pending is not None:
            for workload in self._pending_by_local_queue.get(local_queue, {}).values():
                pending.push(workload)
        self.requeue_inadmissible()

    # Workloads.

    def add_or_update_workload(self, workload: WorkloadInfo) -> None:
        """Queue a workload that has no quota."""
        self.delete_workload(workload.key)
        self.workloads[workload.key] = workload
        self._pending_by_local_queue.setdefault(workload.queue, {})[workload.key] = workload
        pending = self._pending_of(workload)
        if pending is not None:
            pending.push(workload)
            self.requeue_inadmissible()

    def delete_workload(self, key: WorkloadKey) -> WorkloadInfo | None:
        """Remove a workload that was deleted, has finished or is inactive; releases its quota."""
        workload = self.workloads.pop(key, None)
        if workload is None:
            return None
        self._pending_by_local_queue.get(workload.queue, {}).pop(key, None)
        pending = self._pending_of(workload)
        if pending is not None:
            pending.delete(key)
            self.requeue_inadmissible()
        if self.has_quota(workload):
            self.tree.cluster_queues[workload.cluster_queue].remove_workload(workload)
            self.requeue_cluster_queue(workload.cluster_queue)
        return workload

    def has_quota(self, workload: WorkloadInfo) -> bool:
        """Whether quota is reserved for a workload."""
        queue = self.tree.cluster_queues.get(workload.cluster_queue)
        return queue is not None and queue.workloads.get(workload.key) is workload

    def reserve(self, workload: WorkloadInfo) -> None:
        """Count a workload whose status already has a quota reservation."""
        self.delete_workload(workload.key)
        self.workloads[workload.key] = workload
        queue = self.tree.cluster_queues.get(workload.cluster_queue)
        if queue is not None:
            queue.add_workload(workload)
            self.requeue_inadmissible()

    def _pending_of(self, workload: WorkloadInfo) -> WorkloadQueue | None:
        return self.pending.get(self.local_queues.get(workload.queue, ""))

    # Scheduling.

    def requeue_cluster_queue(self, name: str) -> None:
        """Retry all pending workloads of a ClusterQueue and of its cohort tree."""
        queue = self.tree.cluster_queues.get(name)
        if queue is None:
            return
        self.requeue_inadmissible()
        if queue.parent is None:
            self.pending[name].requeue_inadmissible()
        elif not queue.parent.has_cycle:
            self._requeue_cohort(queue.parent.root)

    def _requeue_cohort(self, root: Cohort) -> None:
        for queue in root.subtree_cluster_queues():
            if queue.name in self.pending:
                self.pending[queue.name].requeue_inadmissible()

    def has_heads(self) -> bool:
        """Whether a cycle may admit or preempt a workload."""
        return not self._idle and any(map(self._has_head, self.pending))

    def _has_head(self, name: str) -> bool:
        return bool(self.pending[name]) and self.tree.cluster_queues[name].active

    def schedule(self) -> CycleResult:
        """Run one admission cycle on the heads of all queues. Heads that were not admitted are requeued."""
        heads = list(self._pop_heads())
        checks = (self._check_cohort(workload) or self._check_head(workload) for workload in heads)
        inadmissible = [result for result in checks if result is not None]
        rejected = {result.workload.key for result in inadmissible}
        signature = frozenset((workload.key, repr(workload.last_assignment)) for workload in heads)
        nominated = [workload for workload in heads if workload.key not in rejected]
        entries = admission_cycle.schedule(self.tree, self.flavors, nominated)
        progress = False
        for entry in entries:
            progress = progress or entry.admitted or bool(entry.preempted)
            if entry.admitted:
                self._pending_by_local_queue.get(entry.workload.queue, {}).pop(entry.workload.key, None)
            else:
                entry.workload.last_assignment = entry.last_assignment
                self.pending[entry.queue.name].requeue(entry.workload, entry.requeue_reason)
        for result in inadmissible:
            self.pending[result.workload.cluster_queue].requeue(result.workload, result.requeue_reason)
        self._update_idle(signature, progress)
        return CycleResult(entries, inadmissible)

    def _check_cohort(self, workload: WorkloadInfo) -> Inadmissible | None:
        """A ClusterQueue whose cohorts form a cycle has no computable quota."""
        parent = self.tree.cluster_queues[workload.cluster_queue].parent
        if parent is None or not parent.has_cycle:
            return None
        return Inadmissible(workload, f"ClusterQueue {workload.cluster_queue} is inactive")

    def _pop_heads(self) -> Iterable[WorkloadInfo]:
        for name, pending in self.pending.items():
            if self._has_head(name):
                workload = pending.pop()
                if workload is not None:
                    workload.cluster_queue = name
                    yield workload

    def _update_idle(self, signature: Any, progress: bool) -> None:
        """Stop when the same heads failed twice: those that are requeued at once would be retried forever."""
        if progress:
            self._failed_heads.clear()
        elif signature in self._failed_heads:
            self._idle = True
        else:
            self._failed_heads.add(signature)
