"""Everything that is watched while a day passes: a listener of the twin's store, from which the record is made in the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.base import clock
from sliceworks.catalog.labels import NODE_POOL
from sliceworks.rehearsal.course.blows import Blows
from sliceworks.rehearsal.course.chips import NODES, PODS, Chips
from sliceworks.rehearsal.course.jobs import JOBSETS, WORKLOADS, Jobs
from sliceworks.rehearsal.course.machines import POOLS, Machines
from sliceworks.rehearsal.course.plain_jobs import JOBS
from sliceworks.rehearsal.course.things import Things
from sliceworks.training.queues import TEAM

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.rehearsal.course.machines import Pool
    from sliceworks.twin.store.entries import Change

_NAMESPACES = "/namespaces"


class Watch:
    """Sees every change of the store. `seen` is told after each, to show a person how things stand."""

    def __init__(self, seen: Callable[[Watch], None]) -> None:
        self._seen = seen
        self._begin = clock.loop_time()
        self._teams: dict[str, str] = {}
        self.jobs, self.machines, self.chips, self.things = Jobs(self.team_of), Machines(), Chips(self.team_of), Things()
        self.blows = Blows()
        self.pools: dict[str, Pool] = {}
        """Every pool that there ever was, by name."""

    @property
    def now(self) -> float:
        """Seconds since the beginning."""
        return clock.loop_time() - self._begin

    def team_of(self, namespace: str) -> str:
        """Whose a namespace is; one that is nobody's counts by its own name."""
        return self._teams.get(namespace, namespace)

    def _know_pool(self, at: float, change: Change) -> None:
        """Machines that were given have a pool too, of which the cloud knows nothing."""
        pool = str((change.obj["metadata"].get("labels") or {}).get(NODE_POOL) or "")
        if pool:
            self.machines.see_node(at, pool, change)
            self._remember(pool)

    def _remember(self, name: str) -> None:
        if (pool := self.machines.find(name)) is not None:
            self.pools[name] = pool

    def observe(self, change: Change) -> None:
        """See one change."""
        at, resource = self.now, change.resource
        if resource == PODS:
            self.chips.see_pod(at, change)
            self.blows.see_pod(at, change)
        elif resource == NODES:
            self.chips.see_node(at, change)
            self.blows.see_node(at, change)
            self._know_pool(at, change)
        elif resource == POOLS:
            self.machines.see(at, change)
            self._remember(change.name)
        elif resource == JOBSETS:
            self.jobs.see_jobset(at, change)
        elif resource == JOBS:
            self.jobs.see_job(at, change)
            self.things.see(at, change)
        elif resource == WORKLOADS:
            self.jobs.see_workload(at, change)
        elif resource == _NAMESPACES:
            self._teams[change.name] = str((change.obj["metadata"].get("labels") or {}).get(TEAM) or change.name)
        else:
            self.things.see(at, change)
        self._seen(self)
