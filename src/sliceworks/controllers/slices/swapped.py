"""Leaders whose pool was taken by another Job of the same kind, and the pools that those others have left to be made.

Nothing ties a leader to the pool that was made for its Job: where several wait, any of them may go to the first pool there is. The
Job that went there no longer waits, so nobody asks for its own pool, and the one whose pool it took would wait for ever. It gets
the pool of the other in exchange: one that is neither waiting nor has a pool. So no JobSet has more pools than Jobs.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from sliceworks.controllers.slices.bodies import job_key, pool_name
from sliceworks.controllers.slices.views import Problem, Ref

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sliceworks.controllers.slices.demands import Demand
    from sliceworks.controllers.slices.views import Pool
    from sliceworks.controllers.slices.world import Decision, World

_WORKS = ("RUNNING", "RECONCILING")
_BROKEN = ("ERROR", "RUNNING_WITH_ERROR")
GRACE = 15.0  # seconds in which any scheduler would have placed a leader on a pool of its own that is free


@dataclass(slots=True)
class _Group:
    """The Jobs of one template: all want the same, and any pool of theirs suits each."""

    waiting: list[Demand] = field(default_factory=list)
    pools: list[Pool] = field(default_factory=list)


def exchanges(wanted: Iterable[Demand], world: World, decision: Decision) -> Iterator[Demand]:
    """What those without a place want instead of their own pools."""
    groups: dict[tuple[Ref, str], _Group] = {}
    for demand in wanted:
        if demand.workload is None and not isinstance(demand.ask, Problem):
            groups.setdefault((demand.jobset.ref, _stem(demand.job.name)), _Group()).waiting.append(demand)
    for pool in world.pools.values() if groups else ():
        own = pool.ours and world.guest(pool) is None
        group = groups.get((pool.jobset, _stem(pool.job.name))) if own else None
        if group is not None:
            group.pools.append(pool)
    for (_, stem), group in groups.items():
        yield from _of_group(stem, group, world, decision)


def _of_group(stem: str, group: _Group, world: World, decision: Decision) -> Iterator[Demand]:
    jobset, by_job = group.waiting[0].jobset, {pool.job: pool for pool in group.pools}
    waiting = {demand.job for demand in group.waiting}
    missing = [demand for demand in group.waiting if (pool := by_job.get(demand.job)) is not None and pool.status in _WORKS]
    if not missing:
        return
    settled = sum(_is_settled(by_job[demand.job], world, decision) for demand in missing)
    others = [job for name in _jobs(jobset.jobs, stem) if (job := Ref(jobset.ref.namespace, name)) not in waiting]
    # Of pools that came just now some may still be free: as many as there are more of them than Jobs that found a place.
    placed = sum(job in world.seen for job in others)
    free = max(sum(pool.status in _WORKS for pool in group.pools) - placed, 0)
    lacking = max(settled, len(missing) - free)
    coming = sum(_is_coming(job, by_job.get(job), jobset.ref, world) for job in others)
    left = (job for job in others if _is_left(by_job.get(job)) and not _is_asked_for(job, jobset.ref, world))
    for demand, job in zip(missing[: max(lacking - coming, 0)], left, strict=False):
        yield replace(demand, job=job, key=job_key(job))


def _is_left(pool: Pool | None) -> bool:
    """Whether a Job that does not wait has no pool that anybody could have: none at all, or one that came to nothing."""
    return pool is None or pool.status in _BROKEN


def _is_settled(pool: Pool, world: World, decision: Decision) -> bool:
    """Whether a pool has worked for so long that its own leader would be there if it were free."""
    until = world.working.get(pool.name, world.now) + GRACE
    if until > world.now:
        decision.look_at(until)
    return until <= world.now


def _is_coming(job: Ref, pool: Pool | None, jobset: Ref, world: World) -> bool:
    """Whether a pool of one that does not wait is being made, for somebody who does."""
    return pool.status == "PROVISIONING" if pool is not None else _is_asked_for(job, jobset, world)


def _is_asked_for(job: Ref, jobset: Ref, world: World) -> bool:
    return world.busy.get(pool_name(jobset.name, job_key(job))) == "create"


def _stem(job: str) -> str:
    """A Job's name without its index."""
    return job.rpartition("-")[0]


def _jobs(names: Iterable[str], stem: str) -> list[str]:
    """The Jobs of one template, in their order."""
    return sorted((name for name in names if _stem(name) == stem), key=lambda name: int(name.rpartition("-")[2]))
