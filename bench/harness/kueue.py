"""Kueue's published scheduler benchmark on the twin's Kueue core, in virtual time and without pods.

30 ClusterQueues in 5 cohorts get 15,000 workloads in three classes. Kueue's own run is limited by its client's 50 writes per
second, so this one has the same rate limit: admissions wait for their write, and the scheduler does not schedule while it writes
the status of pending workloads. As in Kueue's generator, the next interval begins when the previous workload was created. How long
a creation took is not published, and the wait of large workloads depends on it: `CREATION_SECONDS` is chosen so that the waits of
all three classes match. As published, averages are over five runs, and a preempted workload waits until its last admission.
"""

from __future__ import annotations

import heapq
import itertools
import random
import time
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sliceworks.twin.controllers.kueue.core.model import BEST_EFFORT_FIFO, Flavor, PodSet, Policy, ResourceGroup, WorkloadInfo
from sliceworks.twin.controllers.kueue.core.queue_manager import ClusterQueueSpec, QueueManager
from sliceworks.twin.controllers.kueue.core.quota_tree import Quota

COHORTS, QUEUES = 5, 6
WRITES_PER_SECOND, BURST = 50.0, 100
CREATION_SECONDS = 0.08
"""Mean time to create a workload."""


class WorkloadClass(NamedTuple):
    """Workloads of one size: their number in each queue, the interval between them and their run time."""

    name: str
    number: int
    interval: float
    run_seconds: float
    priority: int
    cpus: int


CLASSES = (
    WorkloadClass("small", 350, 0.1, 0.2, 50, 1),
    WorkloadClass("medium", 100, 0.5, 0.5, 100, 5),
    WorkloadClass("large", 50, 1.2, 1.0, 200, 20),
)
PUBLISHED = {"small": 215.5, "medium": 76.8, "large": 6.7}
"""Kueue's mean seconds until admission, over five runs of 351 s each."""


@dataclass(slots=True)
class Outcome:
    """Times of one run, and the waits of each class."""

    workloads: int
    wall_seconds: float = 0.0
    virtual_seconds: float = 0.0
    cycles: int = 0
    waits: dict[str, dict[Any, float]] = field(default_factory=dict)

    def mean_waits(self) -> dict[str, float]:
        """Mean seconds until admission by class."""
        return {name: sum(waits.values()) / len(waits) for name, waits in self.waits.items()}


class RateLimiter:
    """A token bucket, like the rate limiter of Kueue's client."""

    def __init__(self, rate: float, burst: int) -> None:
        self._interval, self._burst, self._next = 1 / rate, burst / rate, 0.0

    def reserve(self, now: float) -> float:
        """The time at which a write that is requested now is allowed."""
        self._next = max(self._next, now - self._burst) + self._interval
        return max(now, self._next)


class Run:
    """One run; `scale` multiplies the numbers of workloads."""

    def __init__(self, scale: float = 1.0, *, paced: bool = True, seed: int = 0) -> None:
        self._manager, self._random = QueueManager(), random.Random(seed)
        self._limiter = RateLimiter(WRITES_PER_SECOND if paced else 1e9, BURST)
        self._serial = itertools.count()
        self._events: list[tuple[float, int, str, Any]] = []
        self._messages: dict[Any, str] = {}
        self._busy_until = 0.0
        self.outcome = Outcome(0)
        self._prepare(scale)

    def _prepare(self, scale: float) -> None:
        self._manager.put_flavor(Flavor("f", {}, (), ()))
        spec = ClusterQueueSpec(
            "",
            {("f", "cpu"): Quota(20_000, 100_000)},
            (ResourceGroup(frozenset({"cpu"}), ("f",)),),
            Policy("LowerPriority", "Any"),
            BEST_EFFORT_FIFO,
        )
        for cohort, number in itertools.product(range(COHORTS), range(QUEUES)):
            name = f"cohort-{cohort}-queue-{number}"
            self._manager.put_cluster_queue(name, spec._replace(cohort=f"cohort-{cohort}"))
            self._manager.put_local_queue(("bench", name), name)
            for workload_class in CLASSES:
                self._submit(name, workload_class, int(workload_class.number * scale))

    def _submit(self, queue: str, workload_class: WorkloadClass, number: int) -> None:
        time_ = 0.0
        for index in range(number):
            time_ += workload_class.interval
            self._schedule(time_, "create", (queue, workload_class, index))
            time_ += self._random.uniform(0, 2 * CREATION_SECONDS)
        self.outcome.workloads += number

    def _schedule(self, at: float, event: str, subject: Any) -> None:
        heapq.heappush(self._events, (at, next(self._serial), event, subject))

    def run(self) -> Outcome:
        """Run until all workloads have finished."""
        started, now = time.perf_counter(), 0.0
        while self._events:
            now = max(now, self._events[0][0])
            while self._events and self._events[0][0] <= now:
                _, _, event, subject = heapq.heappop(self._events)
                getattr(self, f"_{event}")(now, subject)
            if now >= self._busy_until and self._manager.has_heads():
                self._run_cycle(now)
        self.outcome.wall_seconds, self.outcome.virtual_seconds = time.perf_counter() - started, now
        return self.outcome

    def _create(self, now: float, subject: tuple[str, WorkloadClass, int]) -> None:
        queue, workload_class, index = subject
        pods = [PodSet("main", 1, {"cpu": workload_class.cpus * 1000})]
        key = (queue, f"{workload_class.name}-{index}")
        self._manager.add_or_update_workload(
            WorkloadInfo(
                key,
                ("bench", queue),
                workload_class.priority,
                now,
                pods,
                uid=f"{key}",
                equivalence_hash=workload_class.name,
                user_data=(workload_class, now),
            )
        )

    def _requeue(self, now: float, subject: Any) -> None:
        """No change; the main loop schedules after every event."""

    def _admitted(self, now: float, item: WorkloadInfo) -> None:
        if self._manager.has_quota(item) and not item.evicted:
            workload_class, created = item.user_data
            self.outcome.waits.setdefault(workload_class.name, {})[item.key] = now - created
            self._schedule(now + workload_class.run_seconds, "finish", item)

    def _finish(self, now: float, item: WorkloadInfo) -> None:
        if self._manager.has_quota(item) and not item.evicted:
            self._manager.delete_workload(item.key)

    def _evict(self, now: float, item: WorkloadInfo) -> None:
        """Release the quota of an evicted workload and queue it again."""
        self._manager.delete_workload(item.key)
        requeued = WorkloadInfo(
            item.key,
            item.queue,
            item.priority,
            item.time,
            item.pod_sets,
            uid=item.uid,
            equivalence_hash=item.equivalence_hash,
            user_data=item.user_data,
        )
        self._manager.add_or_update_workload(requeued)

    def _run_cycle(self, now: float) -> None:
        cycle = self._manager.schedule()
        self.outcome.cycles += 1
        busy = now
        for entry in cycle.entries:
            if entry.admitted:
                entry.workload.reserved_at = now
                self._schedule(self._limiter.reserve(now), "admitted", entry.workload)
                continue
            for target in entry.preempted:
                busy = max(busy, self._limiter.reserve(now))
                self._schedule(busy, "evict", target.workload)
            if self._messages.get(entry.workload.key) != entry.message:
                self._messages[entry.workload.key] = entry.message
                busy = max(busy, self._limiter.reserve(now))
        self._busy_until = busy
        self._schedule(busy, "requeue", None)
