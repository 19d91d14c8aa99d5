"""The core as a whole: queues, order, flavors, preemption, and when it comes to rest."""

from __future__ import annotations

from typing import Any

from sliceworks.twin.workloads.kueue.core.brain import Brain, QueueSpec
from sliceworks.twin.workloads.kueue.core.model import Flavor, Group, Item, PodSet, Policy
from sliceworks.twin.workloads.kueue.core.pending import CROWD
from sliceworks.twin.workloads.kueue.core.quotas import Quota


class Desk:
    """A brain, and a clock that counts."""

    def __init__(self) -> None:
        self.brain = Brain()
        self.now = 0

    def queue(
        self, name: str, cohort: str = "", strategy: str = "BestEffortFIFO", policy: Policy | None = None, **quotas: Any
    ) -> None:
        cells = {(flavor, "cpu"): quota if isinstance(quota, Quota) else Quota(quota) for flavor, quota in quotas.items()}
        for flavor in quotas:
            self.brain.put_flavor(Flavor(flavor, {}, (), ()))
        groups = (Group(frozenset({"cpu"}), tuple(quotas)),)
        self.brain.put_queue(name, QueueSpec(cohort, cells, groups, policy or Policy(), strategy))
        self.brain.put_local(("ns", name), name)

    def submit(self, name: str, queue: str, cpu: int, *, priority: int = 0, least: int = -1, count: int = 1) -> Item:
        self.now += 1
        item = Item(
            ("ns", name), ("ns", queue), priority, self.now, [PodSet("main", count, {"cpu": cpu}, least)], uid=name, shape=cpu
        )
        self.brain.submit(item)
        return item

    def settle(self) -> dict[str, str]:
        """Run until nothing happens; evicted ones stop at once. Returns who is admitted with what."""
        for _ in range(100):
            if not self.brain.ready:
                break
            done = self.brain.cycle()
            for entry in done.entries:
                if entry.admitted:
                    self.now += 1
                    entry.item.reserved_at = self.now
                for target in entry.evicting:
                    self.brain.withdraw(target.item.key)
                    target.item.evicted = False
                    self.brain.submit(target.item)
        else:
            raise AssertionError("it never comes to rest")
        held = [item for leaf in self.brain.tree.leaves.values() for item in leaf.items.values()]
        return {item.key[1]: next(iter(item.usage))[0] for item in held}


def test_first_come_first_served() -> None:
    desk = Desk()
    desk.queue("q", f=2000)
    for name in "abc":
        desk.submit(name, "q", 1000)
    assert desk.settle() == {"a": "f", "b": "f"}
    desk.brain.withdraw(("ns", "a"))
    assert desk.settle() == {"b": "f", "c": "f"}


def test_priority_goes_first() -> None:
    desk = Desk()
    desk.queue("q", f=1000)
    desk.submit("a", "q", 1000)
    desk.submit("b", "q", 1000, priority=5)
    assert desk.settle() == {"b": "f"}


def test_strict_and_best_effort() -> None:
    for strategy, expected in (("StrictFIFO", {"a": "f"}), ("BestEffortFIFO", {"a": "f", "c": "f"})):
        desk = Desk()
        desk.queue("q", strategy=strategy, f=3000)
        for name, cpu in (("a", 2000), ("b", 2000), ("c", 1000)):
            desk.submit(name, "q", cpu)
        assert desk.settle() == expected


def test_the_second_flavor() -> None:
    desk = Desk()
    desk.queue("q", f=1000, g=1000)
    for name in "abc":
        desk.submit(name, "q", 1000)
    assert desk.settle() == {"a": "f", "b": "g"}


def test_fewer_pods_where_allowed() -> None:
    desk = Desk()
    desk.queue("q", f=3000)
    desk.submit("a", "q", 5000, count=5, least=2)
    assert desk.settle() == {"a": "f"}
    assert desk.brain.tree.leaves["q"].usage == {("f", "cpu"): 3000}


def test_preemption_takes_the_fewest() -> None:
    desk = Desk()
    desk.queue("q", policy=Policy(within="LowerPriority"), f=4000)
    desk.submit("a", "q", 1000, priority=1)
    desk.submit("b", "q", 3000, priority=2)
    assert desk.settle() == {"a": "f", "b": "f"}
    desk.submit("c", "q", 3000, priority=9)
    assert desk.settle() == {"a": "f", "c": "f"}


def test_a_queue_takes_back_what_others_borrowed() -> None:
    desk = Desk()
    desk.queue("q", "all", policy=Policy(reclaim="Any"), f=2000)
    desk.queue("r", "all", f=2000)
    desk.submit("a", "r", 2000, priority=9)
    desk.settle()
    desk.submit("b", "r", 2000, priority=9)
    assert desk.settle() == {"a": "f", "b": "f"}
    desk.submit("c", "q", 1000)
    assert sorted(desk.settle()) == ["a", "c"]


def test_what_waits_without_candidates_is_kept_for_it() -> None:
    desk = Desk()
    desk.queue("q", "all", f=2000)
    desk.queue("r", "all", f=0)
    desk.submit("a", "q", 1000)
    desk.settle()
    desk.submit("b", "q", 2000)
    desk.submit("c", "r", 1000)
    assert sorted(desk.settle()) == ["a", "c"]


def _rounds(desk: Desk) -> int:
    """How many cycles it takes until nothing is left to try."""
    rounds = 0
    while desk.brain.ready:
        desk.brain.cycle()
        rounds += 1
    return rounds


def test_a_crowd_is_tried_once() -> None:
    desk = Desk()
    desk.queue("q", f=1000)
    for number in range(CROWD * 10):
        desk.submit(f"j{number:03}", "q", 1000)
    assert _rounds(desk) < CROWD * 10 + 5
    assert len(desk.brain.pending["q"]) == CROWD * 10 - 1
    desk.brain.withdraw(("ns", "j000"))
    assert _rounds(desk) <= CROWD + 5
    assert ("ns", "j001") in desk.brain.tree.leaves["q"].items


def test_cyclic_cohorts_admit_nobody() -> None:
    desk = Desk()
    desk.brain.put_cohort("one", "two", {})
    desk.brain.put_cohort("two", "one", {})
    desk.queue("q", "one", f=2000)
    desk.submit("a", "q", 1000)
    assert desk.settle() == {}
    desk.brain.put_cohort("two", "", {})
    assert desk.settle() == {"a": "f"}


def test_a_queue_that_comes_later() -> None:
    desk = Desk()
    desk.submit("a", "q", 1000)
    assert desk.settle() == {}
    desk.queue("q", f=1000)
    assert desk.settle() == {"a": "f"}
