"""The queue manager: queues, order, flavors, preemption and idleness."""

from __future__ import annotations

from typing import Any

from sliceworks.twin.controllers.kueue.core.model import Flavor, PodSet, Policy, ResourceGroup, WorkloadInfo
from sliceworks.twin.controllers.kueue.core.queue_manager import ClusterQueueSpec, QueueManager
from sliceworks.twin.controllers.kueue.core.quota_tree import Quota
from sliceworks.twin.controllers.kueue.core.workload_queue import MAX_TRIED_EQUIVALENT


class Scheduler:
    """A queue manager, and a clock that counts calls."""

    def __init__(self) -> None:
        self.manager = QueueManager()
        self.now = 0

    def queue(
        self, name: str, cohort: str = "", strategy: str = "BestEffortFIFO", policy: Policy | None = None, **quotas: Any
    ) -> None:
        flavor_resources = {
            (flavor, "cpu"): quota if isinstance(quota, Quota) else Quota(quota) for flavor, quota in quotas.items()
        }
        for flavor in quotas:
            self.manager.put_flavor(Flavor(flavor, {}, (), ()))
        groups = (ResourceGroup(frozenset({"cpu"}), tuple(quotas)),)
        self.manager.put_cluster_queue(name, ClusterQueueSpec(cohort, flavor_resources, groups, policy or Policy(), strategy))
        self.manager.put_local_queue(("ns", name), name)

    def submit(self, name: str, queue: str, cpu: int, *, priority: int = 0, min_count: int = -1, count: int = 1) -> WorkloadInfo:
        self.now += 1
        workload = WorkloadInfo(
            ("ns", name),
            ("ns", queue),
            priority,
            self.now,
            [PodSet("main", count, {"cpu": cpu}, min_count)],
            uid=name,
            equivalence_hash=cpu,
        )
        self.manager.add_or_update_workload(workload)
        return workload

    def run_until_idle(self) -> dict[str, str]:
        """Schedule until the manager is idle; preempted workloads stop at once. Returns the flavor of each admitted workload."""
        for _ in range(100):
            if not self.manager.has_heads():
                break
            result = self.manager.schedule()
            for entry in result.entries:
                if entry.admitted:
                    self.now += 1
                    entry.workload.reserved_at = self.now
                for target in entry.preempted:
                    self.manager.delete_workload(target.workload.key)
                    target.workload.evicted = False
                    self.manager.add_or_update_workload(target.workload)
        else:
            raise AssertionError("the queue manager never becomes idle")
        admitted = [workload for queue in self.manager.tree.cluster_queues.values() for workload in queue.workloads.values()]
        return {workload.key[1]: next(iter(workload.usage))[0] for workload in admitted}


def test_workloads_are_admitted_in_order_of_submission() -> None:
    scheduler = Scheduler()
    scheduler.queue("q", f=2000)
    for name in "abc":
        scheduler.submit(name, "q", 1000)
    assert scheduler.run_until_idle() == {"a": "f", "b": "f"}
    scheduler.manager.delete_workload(("ns", "a"))
    assert scheduler.run_until_idle() == {"b": "f", "c": "f"}


def test_quota_below_usage_leaves_the_usage_of_the_cohort_as_it_is() -> None:
    """A workload without preemption candidates reserves what its queue may still use in the cycle, which is negative here."""
    scheduler = Scheduler()
    policy = Policy(within_cluster_queue="LowerPriority")
    scheduler.queue("q", "all", policy=policy, f=Quota(12000, 0, 3000))
    for name in "ab":
        scheduler.submit(name, "q", 5500, priority=5)
    assert scheduler.run_until_idle() == {"a": "f", "b": "f"}
    scheduler.queue("q", "all", policy=policy, f=Quota(4000, 0, 3000))
    scheduler.submit("late", "q", 3000)
    cohort = scheduler.manager.tree.cohorts["all"]
    for _ in range(2):
        assert scheduler.run_until_idle() == {"a": "f", "b": "f"}
        assert cohort.usage == {("f", "cpu"): 10000}
        scheduler.manager.requeue_cluster_queue("q")
    for name in "ab":
        scheduler.manager.delete_workload(("ns", name))
    assert scheduler.run_until_idle() == {"late": "f"}


def test_higher_priority_is_admitted_first() -> None:
    scheduler = Scheduler()
    scheduler.queue("q", f=1000)
    scheduler.submit("a", "q", 1000)
    scheduler.submit("b", "q", 1000, priority=5)
    assert scheduler.run_until_idle() == {"b": "f"}


def test_best_effort_queue_skips_a_workload_that_does_not_fit() -> None:
    for strategy, expected in (("StrictFIFO", {"a": "f"}), ("BestEffortFIFO", {"a": "f", "c": "f"})):
        scheduler = Scheduler()
        scheduler.queue("q", strategy=strategy, f=3000)
        for name, cpu in (("a", 2000), ("b", 2000), ("c", 1000)):
            scheduler.submit(name, "q", cpu)
        assert scheduler.run_until_idle() == expected


def test_second_flavor_is_used_when_the_first_is_full() -> None:
    scheduler = Scheduler()
    scheduler.queue("q", f=1000, g=1000)
    for name in "abc":
        scheduler.submit(name, "q", 1000)
    assert scheduler.run_until_idle() == {"a": "f", "b": "g"}


def test_partial_admission_reduces_the_pod_count() -> None:
    scheduler = Scheduler()
    scheduler.queue("q", f=3000)
    scheduler.submit("a", "q", 5000, count=5, min_count=2)
    assert scheduler.run_until_idle() == {"a": "f"}
    assert scheduler.manager.tree.cluster_queues["q"].usage == {("f", "cpu"): 3000}


def test_preemption_selects_the_fewest_workloads() -> None:
    scheduler = Scheduler()
    scheduler.queue("q", policy=Policy(within_cluster_queue="LowerPriority"), f=4000)
    scheduler.submit("a", "q", 1000, priority=1)
    scheduler.submit("b", "q", 3000, priority=2)
    assert scheduler.run_until_idle() == {"a": "f", "b": "f"}
    scheduler.submit("c", "q", 3000, priority=9)
    assert scheduler.run_until_idle() == {"a": "f", "c": "f"}


def test_reclaim_preempts_borrowing_workloads() -> None:
    scheduler = Scheduler()
    scheduler.queue("q", "all", policy=Policy(reclaim_within_cohort="Any"), f=2000)
    scheduler.queue("r", "all", f=2000)
    scheduler.submit("a", "r", 2000, priority=9)
    scheduler.run_until_idle()
    scheduler.submit("b", "r", 2000, priority=9)
    assert scheduler.run_until_idle() == {"a": "f", "b": "f"}
    scheduler.submit("c", "q", 1000)
    assert sorted(scheduler.run_until_idle()) == ["a", "c"]


def test_borrower_takes_quota_that_a_larger_pending_workload_cannot_use() -> None:
    scheduler = Scheduler()
    scheduler.queue("q", "all", f=2000)
    scheduler.queue("r", "all", f=0)
    scheduler.submit("a", "q", 1000)
    scheduler.run_until_idle()
    scheduler.submit("b", "q", 2000)
    scheduler.submit("c", "r", 1000)
    assert sorted(scheduler.run_until_idle()) == ["a", "c"]


def _count_cycles(scheduler: Scheduler) -> int:
    """The number of cycles until the manager has no heads."""
    cycles = 0
    while scheduler.manager.has_heads():
        scheduler.manager.schedule()
        cycles += 1
    return cycles


def test_equivalent_workloads_are_not_tried_again_before_a_change() -> None:
    scheduler = Scheduler()
    scheduler.queue("q", f=1000)
    for number in range(MAX_TRIED_EQUIVALENT * 10):
        scheduler.submit(f"j{number:03}", "q", 1000)
    assert _count_cycles(scheduler) < MAX_TRIED_EQUIVALENT * 10 + 5
    assert len(scheduler.manager.pending["q"]) == MAX_TRIED_EQUIVALENT * 10 - 1
    scheduler.manager.delete_workload(("ns", "j000"))
    assert _count_cycles(scheduler) <= MAX_TRIED_EQUIVALENT + 5
    assert ("ns", "j001") in scheduler.manager.tree.cluster_queues["q"].workloads


def test_cohort_cycle_blocks_admission() -> None:
    scheduler = Scheduler()
    scheduler.manager.put_cohort("one", "two", {})
    scheduler.manager.put_cohort("two", "one", {})
    scheduler.queue("q", "one", f=2000)
    scheduler.submit("a", "q", 1000)
    assert scheduler.run_until_idle() == {}
    scheduler.manager.put_cohort("two", "", {})
    assert scheduler.run_until_idle() == {"a": "f"}


def test_workload_waits_for_its_queue_to_be_created() -> None:
    scheduler = Scheduler()
    scheduler.submit("a", "q", 1000)
    assert scheduler.run_until_idle() == {}
    scheduler.queue("q", f=1000)
    assert scheduler.run_until_idle() == {"a": "f"}


def test_reservations_count_in_a_queue_that_is_created_after_them() -> None:
    scheduler = Scheduler()
    scheduler.queue("q", "all", f=1000)
    for name in "ab":
        workload = WorkloadInfo(("ns", name), ("ns", "r"), 0, 0, [], cluster_queue="r", usage={("f", "cpu"): 1000}, reserved_at=1)
        scheduler.manager.reserve(workload)
    scheduler.submit("c", "q", 1000)
    scheduler.queue("r", "all", f=1000)
    assert sorted(scheduler.run_until_idle()) == ["a", "b"]
    scheduler.manager.delete_workload(("ns", "a"))
    assert sorted(scheduler.run_until_idle()) == ["b", "c"]


def test_a_strict_queue_goes_on_when_its_blocked_head_is_deleted_or_dequeued() -> None:
    for change in ("delete", "dequeue"):
        scheduler = Scheduler()
        scheduler.queue("q", strategy="StrictFIFO", f=1000)
        scheduler.manager.put_local_queue(("ns", "other"), "q")
        scheduler.submit("a", "other", 5000)
        scheduler.submit("b", "q", 1000)
        assert scheduler.run_until_idle() == {}
        if change == "delete":
            scheduler.manager.delete_workload(("ns", "a"))
        else:
            scheduler.manager.drop_local_queue(("ns", "other"))
        assert scheduler.run_until_idle() == {"b": "f"}
