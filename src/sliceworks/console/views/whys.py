"""Why jobs wait, in words, from what the console has read already: `train why` for whole queues. Reads nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.base.conditions import condition
from sliceworks.console.kinds import (
    CHECKS,
    CLUSTER_QUEUES,
    COHORTS,
    FLAVORS,
    JOBSETS,
    LOCAL_QUEUES,
    NAMESPACES,
)
from sliceworks.training.why import kinds as why_kinds
from sliceworks.training.why import quota
from sliceworks.training.why.evidence import Evidence
from sliceworks.training.why.explain import causes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sliceworks.console.world import World

Object = dict[str, Any]
KINDS = (CHECKS, COHORTS, FLAVORS)
_HEAD = 6
_AT_ONCE = 0.06  # seconds spent on answers for one page
_GOOD_FOR = 15.0
_MOST = 2_000


class Whys:
    """Answers for those at the heads of the queues. Each is good for a while: what everybody waits for changes all the time, why a
    job waits does not."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._known: dict[str, tuple[float, int, str]] = {}
        self._until = 0.0
        self._answered = False
        self.owes = False
        """Whether there was no time for an answer on the last page."""

    def begin(self) -> None:
        """A page is made: so long may be spent on answers for it."""
        self._until = clock.effort() + _AT_ONCE
        self._answered = self.owes = False
        if len(self._known) > _MOST:
            self._known.clear()

    def words(self, workload: Object, place: int, line: Sequence[Object]) -> str:
        """The first cause in our words. What Kueue says, as long as there was no time for more."""
        uid, moment = workload["metadata"]["uid"], clock.loop_time()
        good_until, at, words = self._known.get(uid, (0.0, -1, ""))
        if moment < good_until and at == place:
            return words
        if clock.effort() > self._until and (words or self._answered):
            self.owes = self.owes or not words
            return words or condition(workload, "QuotaReserved").get("message", "")
        self._answered = True  # one that is new on each page at least: so there is an end, however busy the machine is
        words = _why(self._world, workload, place, line)
        self._known[uid] = (moment + _GOOD_FOR, place, words)
        return words


def _why(world: World, workload: Object, place: int, line: Sequence[Object]) -> str:
    """The first cause; what Kueue says where the job itself is not known."""
    metadata = workload["metadata"]
    jobset = next((found for each in metadata.get("ownerReferences") or () if (found := _jobset(world, metadata, each))), None)
    if jobset is None:
        return str(condition(workload, "QuotaReserved").get("message", ""))
    every = causes(_evidence(world, jobset, workload, place, line))
    # Who is ahead is seen in the line itself.
    return next((each.words for each in every if each.kind != why_kinds.BEHIND), "Those before it come first.")


def _jobset(world: World, metadata: Object, owner: Object) -> Object | None:
    return world.table(JOBSETS).get(owner["name"], metadata["namespace"]) if owner.get("kind") == "JobSet" else None


def _evidence(world: World, jobset: Object, workload: Object, place: int, line: Sequence[Object]) -> Evidence:
    namespace = workload["metadata"]["namespace"]
    local = world.table(LOCAL_QUEUES).get(workload["spec"].get("queueName", ""), namespace)
    queue = world.table(CLUSTER_QUEUES).get(local["spec"]["clusterQueue"]) if local else None
    shared, cohorts = _cohort(world, queue)
    return Evidence(
        jobset,
        world.now(),
        workload=workload,
        local_queue=local,
        local_queues=tuple(each["metadata"]["name"] for each in world.table(LOCAL_QUEUES).store.select(namespace)),
        cluster_queue=queue,
        cohort=shared,
        cohorts=cohorts,
        flavors={each["metadata"]["name"]: each for each in world.table(FLAVORS).all()},
        checks={each["metadata"]["name"]: each for each in world.table(CHECKS).all()},
        home=world.table(NAMESPACES).get(namespace),
        place=place,
        head=tuple(line[:_HEAD]),
        # Who has what they wait for is told on the job's own page.
        all_holders=False,
    )


def _cohort(world: World, queue: Object | None) -> tuple[tuple[Object, ...], tuple[Object, ...]]:
    """The queues that share quota with this one, and the cohorts they are in."""
    name = quota.cohort_of(queue) if queue else ""
    if queue is None or not name:
        return ((queue,) if queue else ()), ()
    every = list(world.table(COHORTS).all())
    tree = quota.tree(name, every)
    queues = tuple(each for each in world.table(CLUSTER_QUEUES).all() if quota.cohort_of(each) in tree)
    return queues or (queue,), tuple(each for each in every if each["metadata"]["name"] in tree)
