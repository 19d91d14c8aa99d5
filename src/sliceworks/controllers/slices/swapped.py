"""Leaders whose pool was taken by another Job of the same kind, and the pools that those others have left to be made.

Nothing ties a leader to the pool that was made for its Job: where several wait, any of them may go to the first pool there is. The
Job that went there no longer waits, so nobody asks for its own pool, and the one whose pool it took would wait for ever. It gets
the pool of the other in exchange: one that is neither waiting nor has a pool. So no JobSet has more pools than Jobs.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sliceworks.controllers.slices.bodies import job_key, pool_name
from sliceworks.controllers.slices.views import Problem, Ref

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sliceworks.controllers.slices.demands import Demand
    from sliceworks.controllers.slices.views import Pool
    from sliceworks.controllers.slices.world import Decision, World

GRACE = 3.0  # seconds that a scheduler has to place a leader on its own pool


def exchanges(wanted: Iterable[Demand], world: World, decision: Decision) -> Iterator[Demand]:
    """What those without a place want instead of their own pools."""
    pools = {pool.job: pool for pool in world.pools.values() if pool.ours}
    groups: dict[tuple[Ref, str], list[Demand]] = {}
    for demand in wanted:
        if demand.workload is None and not isinstance(demand.ask, Problem):
            groups.setdefault((demand.jobset.ref, _stem(demand.job.name)), []).append(demand)
    for (_, stem), demands in groups.items():
        lacking = [demand for demand in demands if _is_settled(pools.get(demand.job), world, decision)]
        if lacking:
            yield from _of_group(stem, demands, lacking, pools, world)


def _of_group(stem: str, demands: list[Demand], lacking: list[Demand], pools: dict[Ref, Pool], world: World) -> Iterator[Demand]:
    waiting = {demand.job for demand in demands}
    jobset = demands[0].jobset
    others = [job for name in _jobs(jobset.jobs, stem) if (job := Ref(jobset.ref.namespace, name)) not in waiting]
    coming = sum(_is_coming(job, jobset.ref, pools.get(job), world) for job in others)
    free = [job for job in others if job not in pools and not _is_asked_for(job, jobset.ref, world)]
    for demand, job in zip(lacking[coming:], free, strict=False):
        yield replace(demand, job=job, key=job_key(job))


def _is_settled(pool: Pool | None, world: World, decision: Decision) -> bool:
    """Whether a pool has worked for so long that its own leader would be there if it were free."""
    since = world.working.get(pool.name) if pool is not None else None
    if since is None:
        return False
    if since + GRACE > world.now:
        decision.look_at(since + GRACE)
        return False
    return True


def _is_coming(job: Ref, jobset: Ref, pool: Pool | None, world: World) -> bool:
    """Whether another's pool is on its way to somebody who waits."""
    if pool is None:
        return _is_asked_for(job, jobset, world)
    since = world.working.get(pool.name)
    return pool.status == "PROVISIONING" or (since is not None and since + GRACE > world.now)


def _is_asked_for(job: Ref, jobset: Ref, world: World) -> bool:
    return world.busy.get(pool_name(jobset.name, job_key(job))) == "create"


def _stem(job: str) -> str:
    """A Job's name without its index."""
    return job.rpartition("-")[0]


def _jobs(names: Iterable[str], stem: str) -> list[str]:
    """The Jobs of one template, in their order."""
    return sorted((name for name in names if _stem(name) == stem), key=lambda name: int(name.rpartition("-")[2]))
