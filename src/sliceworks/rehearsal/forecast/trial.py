"""One trial: Kueue's scheduler decides, jobs end after their run time, the clock jumps from event to event."""

from __future__ import annotations

import heapq
import itertools
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from sliceworks.rehearsal.forecast.jobs import RUNNING, Job
from sliceworks.rehearsal.forecast.snapshot import RESOURCES
from sliceworks.twin.controllers.kueue.cache import Cache
from sliceworks.twin.controllers.kueue.core.model import BEST_EFFORT_FIFO, LOWER, NEVER, PodSet, WorkloadInfo, WorkloadKey
from sliceworks.twin.controllers.kueue.kueue_api import CLUSTER_QUEUES
from sliceworks.twin.store.entry import Entry
from sliceworks.twin.store.watch_cache import ADDED, MODIFIED, Change

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sliceworks.rehearsal.forecast.snapshot import Snapshot
    from sliceworks.twin.controllers.kueue.core.model import ClusterQueue
    from sliceworks.twin.controllers.kueue.core.queue_manager import QueueManager
    from sliceworks.twin.controllers.kueue.core.quota_tree import FlavorResource


def skip_hopeless(manager: QueueManager) -> None:
    """Keep workloads parked that cannot fit now."""
    for name, pending in manager.pending.items():
        queue = manager.tree.cluster_queues[name]
        if queue.parent is None and queue.strategy == BEST_EFFORT_FIFO and queue.policy.within_cluster_queue in (NEVER, LOWER):
            pending.park_hopeless(_Headroom(queue).without)


class _Headroom:
    """Quota that each priority could get in a queue now."""

    def __init__(self, queue: ClusterQueue) -> None:
        self._queue = queue
        self._used: dict[FlavorResource, list[tuple[int, int]]] = {}
        if queue.policy.within_cluster_queue == LOWER:
            for item in queue.workloads.values():
                for cell, amount in item.usage.items():
                    self._used.setdefault(cell, []).append((item.priority, amount))

    def without(self, item: WorkloadInfo) -> bool:
        """Whether a requested resource does not fit in any flavor."""
        for pods in item.pod_sets:
            for resource, amount in pods.requests.items():
                group = self._queue.resource_group_for(resource)
                if group and not any(self._had((flavor, resource), item.priority) >= amount for flavor in group.flavors):
                    return True
        return False

    def _had(self, flavor_resource: FlavorResource, priority: int) -> int:
        preemptible = sum(amount for rank, amount in self._used.get(flavor_resource, ()) if rank < priority)
        return self._queue.available(flavor_resource) + preemptible


Object = dict[str, Any]
HORIZON = 400 * 86_400.0
"""Maximum simulated seconds of a trial."""

_RESOURCE_NAMES = {resource.kind: f"{resource.group}/{resource.plural}" for resource in RESOURCES}
_CHANGE_TYPES = ("Namespace", "ResourceFlavor", "AdmissionCheck", "Cohort", "ClusterQueue", "LocalQueue")


@dataclass(slots=True)
class JobProgress:
    """A job in a trial. `run_time` is the total; None if unknown."""

    job: Job
    run_time: float | None
    item: WorkloadInfo
    started: float | None = None
    ended: float | None = None
    since: float = 0.0
    done: float = 0.0
    serial: int = 0
    preempted: int = 0


@dataclass(slots=True)
class Trial:
    """One simulated run: add jobs and events, then call `run`."""

    boot: float = 0.0
    now: float = 0.0
    progress: dict[WorkloadKey, JobProgress] = field(default_factory=dict)
    cache: Cache = field(default_factory=Cache)
    messages: dict[Any, str] = field(default_factory=dict)
    _undecided: set[WorkloadKey] = field(default_factory=set)
    _events: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    _count: itertools.count[int] = field(default_factory=itertools.count)

    def load(self, snapshot: Snapshot) -> None:
        """Load all objects of a snapshot except Workloads."""
        for kind in _CHANGE_TYPES:
            for obj in snapshot.list(kind):
                self._observe(ADDED, _RESOURCE_NAMES[kind], obj)

    def _observe(self, change_type: str, resource: str, obj: Object) -> None:
        metadata = obj["metadata"]
        entry = Entry(resource, metadata.get("namespace") or "", metadata["name"], 0, b"")
        self.cache.observe(Change(change_type, entry, None, obj))

    def update_queue(self, obj: Object) -> None:
        """Update a ClusterQueue."""
        self._observe(MODIFIED, CLUSTER_QUEUES, obj)

    def at(self, time: float, action: Callable[[], None]) -> None:
        """Schedule an action; actions at the same time run in order."""
        heapq.heappush(self._events, (max(time, self.now), next(self._count), action))

    def add(self, job: Job, run_time: float | None) -> None:
        """Add a job in its current state; `run_time` is its total."""
        track = self.progress[job.key] = JobProgress(
            job, run_time, copy_item(job.admitted_item or job.item), done=job.previous_run_time
        )
        if job.state == RUNNING:
            track.started, track.since = job.started, job.started
            self.cache.queue_manager.reserve(track.item)
            self._plan_end(track)
            if track.item.evicted:
                self.at(0.0, lambda: self._stop(track))
        elif not job.problem:
            self.at(max(job.requeue_at, job.arrived), lambda: self._enqueue(track))

    def delete_job(self, key: WorkloadKey) -> None:
        """Delete a job."""
        if self.progress.pop(key, None) is not None:
            self._undecided.discard(key)
            self.cache.queue_manager.delete_workload(key)

    def set_priority(self, key: WorkloadKey, priority: int) -> None:
        """Change the priority of a job."""
        track = self.progress.get(key)
        if track is None or track.ended is not None:
            return
        track.job = replace(track.job, item=_with_priority(track.job.item, priority))
        if track.item.key in self.cache.queue_manager.workloads:
            track.item.priority = priority
            if self.cache.queue_manager.has_quota(track.item):
                self.cache.queue_manager.requeue_cluster_queue(track.item.cluster_queue)
            else:
                self._enqueue(track)

    def evict(self, matches: Callable[[WorkloadInfo], bool]) -> None:
        """Evict and requeue the matching workloads."""
        for track in [
            item for item in self.progress.values() if self.cache.queue_manager.has_quota(item.item) and matches(item.item)
        ]:
            self._stop(track)

    def run(self, until: Iterable[WorkloadKey] = ()) -> None:
        """Run until the given workloads have ended, or until no event is left."""
        self._undecided = {key for key in until if key in self.progress and self._is_undecided(self.progress[key])}
        manager, until_done = self.cache.queue_manager, bool(self._undecided)
        while self._events and self._events[0][0] <= HORIZON:
            self.now = self._events[0][0]
            while self._events and self._events[0][0] <= self.now:
                heapq.heappop(self._events)[2]()
            changed = True
            while manager.has_heads():
                if changed:
                    skip_hopeless(manager)
                changed = self._cycle()
            if until_done and not self._undecided:
                return

    def _is_undecided(self, track: JobProgress) -> bool:
        """Whether the job has not ended and can still start or end."""
        return track.ended is None and (track.started is None or track.run_time is not None)

    def _enqueue(self, track: JobProgress) -> None:
        track.item = copy_item(track.job.item)
        self.cache.queue_manager.add_or_update_workload(track.item)

    def _cycle(self) -> bool:
        """Run one scheduling cycle; returns whether any job started or stopped."""
        result = self.cache.queue_manager.schedule()
        for entry in result.entries:
            if entry.admitted:
                self._start(entry.workload)
                continue
            self.messages[entry.workload.queue, entry.workload.equivalence_hash] = entry.message
            for target in entry.preempted:
                self._stop(self.progress[target.workload.key])
        for inadmissible in result.inadmissible:
            self.messages[inadmissible.workload.queue, inadmissible.workload.equivalence_hash] = inadmissible.message
        return any(entry.admitted or entry.preempted for entry in result.entries)

    def _start(self, item: WorkloadInfo) -> None:
        track = self.progress[item.key]
        item.reserved_at = track.since = self.now
        if track.started is None:
            track.started = self.now + self.boot
        self._plan_end(track)
        if track.run_time is None:
            self._undecided.discard(item.key)

    def _plan_end(self, track: JobProgress) -> None:
        track.serial += 1
        if track.run_time is not None:
            serial, remaining = track.serial, max(track.run_time - track.done, 0.0)
            self.at(track.since + remaining, lambda: self._end(track, serial))

    def _end(self, track: JobProgress, serial: int) -> None:
        if track.serial == serial and track.job.key in self.progress:
            track.ended = self.now
            self._undecided.discard(track.job.key)
            self.cache.queue_manager.delete_workload(track.job.key)

    def _stop(self, track: JobProgress) -> None:
        """Release the job's quota and requeue it; without checkpoints its progress is lost."""
        track.serial += 1
        track.preempted += 1
        if track.job.resumes:
            track.done += self.now - track.since
        self.cache.queue_manager.delete_workload(track.job.key)
        self._enqueue(track)


def copy_item(item: WorkloadInfo) -> WorkloadInfo:
    """A copy that a run may change."""
    pods = [
        PodSet(pod_set.name, pod_set.count, pod_set.requests, pod_set.min_count, pod_set.spec, dict(pod_set.flavors))
        for pod_set in item.pod_sets
    ]
    return WorkloadInfo(
        item.key,
        item.queue,
        item.priority,
        item.time,
        pods,
        item.uid,
        item.cluster_queue,
        None,
        dict(item.usage),
        item.evicted,
        item.reserved_at,
        item.in_backoff,
        item.equivalence_hash,
        item.user_data,
    )


def _with_priority(item: WorkloadInfo, priority: int) -> WorkloadInfo:
    result = copy_item(item)
    result.priority = priority
    return result
