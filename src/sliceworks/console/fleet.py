"""All slices of a world, kept current: when something changes, only the pools that it touches are read again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.base import clock
from sliceworks.base.errors import SliceworksError
from sliceworks.console.kinds import JOBSETS, NODES, PODS
from sliceworks.console.views import hosts, pools, slices
from sliceworks.console.views.teams import team_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sliceworks.cloud import Container
    from sliceworks.console.views.hosts import Work
    from sliceworks.console.views.slices import SliceView
    from sliceworks.console.world import World
    from sliceworks.kube.resources import Key

KINDS = (NODES, PODS, JOBSETS)
LOOK_EVERY = 3.0  # seconds between looks at the cloud, which has no watch


def fleet_of(world: World) -> Fleet:
    """The one fleet of a world, whoever looks at it."""
    return world.once(Fleet)


class Fleet:
    """Slices by pool. `version` grows when one of them has changed."""

    def __init__(self, world: World) -> None:
        self.version = 0
        self._tables = {resource: world.table(resource) for resource in KINDS}
        self._seen = dict.fromkeys(KINDS, -1)
        self._world = world
        self._teams: object = None
        self._pools: dict[str, dict[str, None]] = {}
        self._pool_of: dict[str, str] = {}
        self._work: dict[Key, tuple[str, Work]] = {}
        self._at_work: dict[str, Work] = {}
        self._drained: set[str] = set()
        self._views: dict[str, tuple[SliceView, ...]] = {}
        self._ordered: tuple[int, list[SliceView]] = (-1, [])
        self._coming: list[SliceView] = []
        self._asked = -LOOK_EVERY

    async def ask(self, cloud: Container | None) -> None:
        """Ask the cloud for slices that have no nodes yet, unless somebody just has. What it does not tell is not shown."""
        if cloud is None or clock.loop_time() - self._asked < LOOK_EVERY * 0.8:
            return
        self._asked = clock.loop_time()
        try:
            found = await cloud.node_pools()
        except SliceworksError:
            found = []
        self._look()
        made = {pool for pool, nodes in self._pools.items() if nodes}
        coming = pools.coming(found, made, team_of(self._world))
        if coming != self._coming:
            self._coming = coming
            self.version += 1

    def all(self) -> list[SliceView]:
        """Every slice, those with trouble first."""
        self._look()
        if self._ordered[0] != self.version:
            found = [view for views in self._views.values() for view in views]
            made = {view.pool for view in found}
            self._ordered = (self.version, slices.in_order([*found, *(view for view in self._coming if view.pool not in made)]))
        return self._ordered[1]

    def named(self, name: str) -> SliceView | None:
        """One slice."""
        return next((each for each in self.all() if each.name == name), None)

    def _look(self) -> None:
        stale = {*self._nodes(self._changed(0)), *self._pods(self._changed(1)), *self._jobsets(self._changed(2))}
        teams = team_of(self._world)
        if teams is not self._teams:
            self._teams = teams
            stale.update(self._pools)
        if stale:
            around = slices.Around(self._at_work, frozenset(self._drained), teams)
            for pool in stale:
                self._renew(pool, around)

    def _changed(self, place: int) -> set[Key]:
        resource = KINDS[place]
        table, seen = self._tables[resource], self._seen[resource]
        self._seen[resource] = table.version
        if seen < 0:
            return set(table.store.keys())
        return table.since(seen) if table.version != seen else set()

    def _nodes(self, keys: Iterable[Key]) -> Iterable[str]:
        """The pools whose nodes came, went or changed."""
        for key in keys:
            before = self._pool_of.pop(key.name, None)
            if before is not None:
                self._pools[before].pop(key.name, None)
                yield before
            node = self._tables[NODES].get(key.name)
            if node is not None and hosts.chips(node):
                pool = self._pool_of[key.name] = slices.pool_of(node)
                self._pools.setdefault(pool, {})[key.name] = None
                yield pool

    def _pods(self, keys: Iterable[Key]) -> Iterable[str]:
        """The pools on which work began, changed or ended."""
        for key in keys:
            before = self._work.pop(key, None)
            pod = self._tables[PODS].get(key.name, key.namespace)
            after = hosts.work_of(pod) if pod is not None else None
            if before is not None and self._at_work.get(before[0]) == before[1]:
                del self._at_work[before[0]]
            if after is not None:
                self._work[key] = after
                self._at_work[after[0]] = after[1]
            if before != after:
                yield from (self._pool_of[node] for node, _ in filter(None, (before, after)) if node in self._pool_of)

    def _jobsets(self, keys: Iterable[Key]) -> Iterable[str]:
        """The pools of JobSets that have begun, or ended, to give slices back."""
        for key in keys:
            jobset = self._tables[JOBSETS].get(key.name, key.namespace)
            name = f"{key.namespace}/{key.name}"
            drained = jobset is not None and slices.is_drained(jobset)
            if drained != (name in self._drained):
                (self._drained.add if drained else self._drained.discard)(name)
                yield from (pool for pool, views in self._views.items() if any(view.owner == name for view in views))

    def _renew(self, pool: str, around: slices.Around) -> None:
        nodes = [node for name in self._pools.get(pool, ()) if (node := self._tables[NODES].get(name)) is not None]
        views = tuple(slices.of_pool(pool, nodes, around)) if nodes else ()
        if views != self._views.get(pool, ()):
            self.version += 1
            if views:
                self._views[pool] = views
            else:
                self._views.pop(pool, None)
