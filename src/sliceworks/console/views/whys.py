"""Why a job waits, in words, from what the console has read already: `train why` for whole queues. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.console.kinds import (
    CHECKS,
    CLUSTER_QUEUES,
    COHORTS,
    FLAVORS,
    JOBSETS,
    LOCAL_QUEUES,
    NAMESPACES,
    WORKLOADS,
)
from sliceworks.training.why import kinds, quota
from sliceworks.training.why.evidence import Evidence
from sliceworks.training.why.explain import explain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sliceworks.console.world import World

Object = dict[str, Any]
KINDS = (CHECKS, COHORTS, FLAVORS)
_HEAD = 6
_HOLDERS = 40  # of so many it is looked at what they hold: who has what is for the job's own page


def why(world: World, workload: Object, place: int, line: Sequence[Object]) -> str:
    """The first cause in our words; what Kueue says where the job itself is not known."""
    metadata = workload["metadata"]
    jobset = next((found for each in metadata.get("ownerReferences") or () if (found := _jobset(world, metadata, each))), None)
    if jobset is None:
        conditions = (workload.get("status") or {}).get("conditions") or ()
        return next((str(each.get("message", "")) for each in conditions if each["type"] == "QuotaReserved"), "")
    causes = explain(_evidence(world, jobset, workload, place, line)).causes
    # Who is ahead is seen in the line itself.
    return next((each.words for each in causes if each.kind != kinds.BEHIND), "Those before it come first.")


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
        holders=_holders(world, shared),
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


def _holders(world: World, queues: tuple[Object, ...]) -> tuple[Object, ...]:
    found: list[Object] = []
    for each in queues:
        found += world.table(WORKLOADS).store.by_index("holds", each["metadata"]["name"])[:_HOLDERS]
    return tuple(found[:_HOLDERS])
