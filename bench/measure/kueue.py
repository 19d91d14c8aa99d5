"""Kueue's published benchmark of its scheduler, on the twin's core, in virtual time and without pods.

30 ClusterQueues in 5 cohorts get 15,000 workloads in three classes. Kueue's own run of it is bound by the 50 writes a second that
its client allows itself, so the same pace is kept here: admissions wait for their turn to be written, and while the scheduler
writes down why somebody waits, it decides nothing. Who makes the workloads of a class waits for each to be made before the next
interval begins. How long that took is not published, and large ones wait the shorter the slower they come: `CREATION` is chosen
so that all three classes wait as long as they are said to. As there, the averages are those of five runs, and one that was
preempted has waited until it was admitted for the last time.
"""

from __future__ import annotations

import heapq
import itertools
import random
import time
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sliceworks.twin.workloads.kueue.core.brain import Brain, QueueSpec
from sliceworks.twin.workloads.kueue.core.model import BEST_EFFORT, Flavor, Group, Item, PodSet, Policy
from sliceworks.twin.workloads.kueue.core.quotas import Quota

COHORTS, QUEUES = 5, 6
WRITES, BURST = 50.0, 100
CREATION = 0.08
"""The seconds that making a workload takes, on average."""


class Class(NamedTuple):
    """Workloads of one size: so many in each queue, one every so often."""

    name: str
    number: int
    every: float
    runs: float
    priority: int
    cpus: int


CLASSES = (Class("small", 350, 0.1, 0.2, 50, 1), Class("medium", 100, 0.5, 0.5, 100, 5), Class("large", 50, 1.2, 1.0, 200, 20))
PUBLISHED = {"small": 215.5, "medium": 76.8, "large": 6.7}
"""Kueue's average seconds to admission, over five runs, of 351 s each."""


@dataclass(slots=True)
class Outcome:
    """What a run took, and how long each class waited."""

    workloads: int
    wall: float = 0.0
    virtual: float = 0.0
    cycles: int = 0
    waited: dict[str, dict[Any, float]] = field(default_factory=dict)

    def averages(self) -> dict[str, float]:
        return {name: sum(times.values()) / len(times) for name, times in self.waited.items()}


class Pen:
    """Writes, one after another: a bucket of tokens."""

    def __init__(self, rate: float, burst: int) -> None:
        self._step, self._spare, self._next = 1 / rate, burst / rate, 0.0

    def write(self, now: float) -> float:
        """When a write that is asked for now is done."""
        self._next = max(self._next, now - self._spare) + self._step
        return max(now, self._next)


class Run:
    """One run of the benchmark; `scale` multiplies the numbers of workloads."""

    def __init__(self, scale: float = 1.0, *, paced: bool = True, seed: int = 0) -> None:
        self._brain, self._dice = Brain(), random.Random(seed)
        self._pen = Pen(WRITES if paced else 1e9, BURST)
        self._serial = itertools.count()
        self._due: list[tuple[float, int, str, Any]] = []
        self._told: dict[Any, str] = {}
        self._busy = 0.0
        self.outcome = Outcome(0)
        self._prepare(scale)

    def _prepare(self, scale: float) -> None:
        self._brain.put_flavor(Flavor("f", {}, (), ()))
        spec = QueueSpec(
            "",
            {("f", "cpu"): Quota(20_000, 100_000)},
            (Group(frozenset({"cpu"}), ("f",)),),
            Policy("LowerPriority", "Any"),
            BEST_EFFORT,
        )
        for cohort, number in itertools.product(range(COHORTS), range(QUEUES)):
            name = f"cohort-{cohort}-queue-{number}"
            self._brain.put_queue(name, spec._replace(cohort=f"cohort-{cohort}"))
            self._brain.put_local(("bench", name), name)
            for one in CLASSES:
                self._submit(name, one, int(one.number * scale))

    def _submit(self, queue: str, one: Class, number: int) -> None:
        moment = 0.0
        for index in range(number):
            moment += one.every
            self._later(moment, "come", (queue, one, index))
            moment += self._dice.uniform(0, 2 * CREATION)
        self.outcome.workloads += number

    def _later(self, moment: float, what: str, about: Any) -> None:
        heapq.heappush(self._due, (moment, next(self._serial), what, about))

    def run(self) -> Outcome:
        """Until all have ended."""
        started, now = time.perf_counter(), 0.0
        while self._due:
            now = max(now, self._due[0][0])
            while self._due and self._due[0][0] <= now:
                _, _, what, about = heapq.heappop(self._due)
                getattr(self, f"_{what}")(now, about)
            if now >= self._busy and self._brain.ready:
                self._cycle(now)
        self.outcome.wall, self.outcome.virtual = time.perf_counter() - started, now
        return self.outcome

    def _come(self, now: float, about: tuple[str, Class, int]) -> None:
        queue, one, index = about
        pods = [PodSet("main", 1, {"cpu": one.cpus * 1000})]
        key = (queue, f"{one.name}-{index}")
        self._brain.submit(Item(key, ("bench", queue), one.priority, now, pods, uid=f"{key}", shape=one.name, facts=(one, now)))

    def _wake(self, now: float, about: Any) -> None:
        """Only to look again."""

    def _admitted(self, now: float, item: Item) -> None:
        if self._brain.holds(item) and not item.evicted:
            one, came = item.facts
            self.outcome.waited.setdefault(one.name, {})[item.key] = now - came
            self._later(now + one.runs, "end", item)

    def _end(self, now: float, item: Item) -> None:
        if self._brain.holds(item) and not item.evicted:
            self._brain.withdraw(item.key)

    def _stop(self, now: float, item: Item) -> None:
        """An evicted workload gives its quota back and waits again."""
        self._brain.withdraw(item.key)
        again = Item(
            item.key, item.queue, item.priority, item.time, item.pod_sets, uid=item.uid, shape=item.shape, facts=item.facts
        )
        self._brain.submit(again)

    def _cycle(self, now: float) -> None:
        done = self._brain.cycle()
        self.outcome.cycles += 1
        busy = now
        for entry in done.entries:
            if entry.admitted:
                entry.item.reserved_at = now
                self._later(self._pen.write(now), "admitted", entry.item)
                continue
            for target in entry.evicting:
                busy = max(busy, self._pen.write(now))
                self._later(busy, "stop", target.item)
            if self._told.get(entry.item.key) != entry.message:
                self._told[entry.item.key] = entry.message
                busy = max(busy, self._pen.write(now))
        self._busy = busy
        self._later(busy, "wake", None)
