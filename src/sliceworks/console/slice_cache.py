"""All slices of a cluster, updated incrementally: a change recomputes only the affected pools."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.base import clock
from sliceworks.base.errors import SliceworksError
from sliceworks.console.kinds import JOBSETS, NODES, PODS
from sliceworks.console.views import hosts, slice_view
from sliceworks.console.views.queue_view import teams_by_namespace

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sliceworks.cloud import Container
    from sliceworks.console.cluster_cache import ClusterCache
    from sliceworks.console.views.hosts import Work
    from sliceworks.console.views.slice_view import SliceView
    from sliceworks.kube.resources import Key

KINDS = (NODES, PODS, JOBSETS)
POLL_INTERVAL = 3.0  # seconds; the cloud API has no watch


def get_slice_cache(cache: ClusterCache) -> SliceCache:
    """The slice cache that all pages of a cluster share."""
    return cache.compute(SliceCache)


class SliceCache:
    """Slices by node pool. `version` grows with every change."""

    def __init__(self, cache: ClusterCache) -> None:
        self.version = 0
        self._tables = {resource: cache.table(resource) for resource in KINDS}
        self._seen = dict.fromkeys(KINDS, -1)
        self._cache = cache
        self._teams: object = None
        self._pools: dict[str, dict[str, None]] = {}
        self._pool_of: dict[str, str] = {}
        self._work: dict[Key, tuple[str, Work]] = {}
        self._work_by_node: dict[str, Work] = {}
        self._drained: set[str] = set()
        self._views: dict[str, tuple[SliceView, ...]] = {}
        self._ordered: tuple[int, list[SliceView]] = (-1, [])
        self._pending: list[SliceView] = []
        self._polled_at = -POLL_INTERVAL

    async def poll(self, cloud: Container | None) -> None:
        """Read slices without nodes from the cloud, unless another page just did; errors yield no slices."""
        if cloud is None or clock.loop_time() - self._polled_at < POLL_INTERVAL * 0.8:
            return
        self._polled_at = clock.loop_time()
        try:
            pools = await cloud.list_node_pools()
        except SliceworksError:
            pools = []
        self._update()
        existing = {pool for pool, nodes in self._pools.items() if nodes}
        pending = slice_view.pending_slices(pools, existing, teams_by_namespace(self._cache))
        if pending != self._pending:
            self._pending = pending
            self.version += 1

    def all(self) -> list[SliceView]:
        """Every slice, worst state first."""
        self._update()
        if self._ordered[0] != self.version:
            current = [view for views in self._views.values() for view in views]
            existing = {view.pool for view in current}
            self._ordered = (
                self.version,
                slice_view.sort_slices([*current, *(view for view in self._pending if view.pool not in existing)]),
            )
        return self._ordered[1]

    def named(self, name: str) -> SliceView | None:
        """The slice of a name, or None."""
        return next((item for item in self.all() if item.name == name), None)

    def _update(self) -> None:
        stale = {*self._nodes(self._changed(0)), *self._pods(self._changed(1)), *self._jobsets(self._changed(2))}
        teams = teams_by_namespace(self._cache)
        if teams is not self._teams:
            self._teams = teams
            stale.update(self._pools)
        if stale:
            context = slice_view.SliceContext(self._work_by_node, frozenset(self._drained), teams)
            for pool in stale:
                self._recompute(pool, context)

    def _changed(self, place: int) -> set[Key]:
        resource = KINDS[place]
        table, seen = self._tables[resource], self._seen[resource]
        self._seen[resource] = table.version
        if seen < 0:
            return set(table.store.keys())
        return table.since(seen) if table.version != seen else set()

    def _nodes(self, keys: Iterable[Key]) -> Iterable[str]:
        """The pools whose nodes changed."""
        for key in keys:
            before = self._pool_of.pop(key.name, None)
            if before is not None:
                self._pools[before].pop(key.name, None)
                yield before
            node = self._tables[NODES].get(key.name)
            if node is not None and hosts.chips(node):
                pool = self._pool_of[key.name] = slice_view.pool_of(node)
                self._pools.setdefault(pool, {})[key.name] = None
                yield pool

    def _pods(self, keys: Iterable[Key]) -> Iterable[str]:
        """The pools whose work changed."""
        for key in keys:
            before = self._work.pop(key, None)
            pod = self._tables[PODS].get(key.name, key.namespace)
            after = hosts.work_of(pod) if pod is not None else None
            if before is not None and self._work_by_node.get(before[0]) == before[1]:
                del self._work_by_node[before[0]]
            if after is not None:
                self._work[key] = after
                self._work_by_node[after[0]] = after[1]
            if before != after:
                yield from (self._pool_of[node] for node, _ in filter(None, (before, after)) if node in self._pool_of)

    def _jobsets(self, keys: Iterable[Key]) -> Iterable[str]:
        """The pools of JobSets whose drain annotation changed."""
        for key in keys:
            jobset = self._tables[JOBSETS].get(key.name, key.namespace)
            name = f"{key.namespace}/{key.name}"
            drained = jobset is not None and slice_view.is_drained(jobset)
            if drained != (name in self._drained):
                (self._drained.add if drained else self._drained.discard)(name)
                yield from (pool for pool, views in self._views.items() if any(view.owner == name for view in views))

    def _recompute(self, pool: str, context: slice_view.SliceContext) -> None:
        nodes = [node for name in self._pools.get(pool, ()) if (node := self._tables[NODES].get(name)) is not None]
        views = tuple(slice_view.slices_of_pool(pool, nodes, context)) if nodes else ()
        if views != self._views.get(pool, ()):
            self.version += 1
            if views:
                self._views[pool] = views
            else:
                self._views.pop(pool, None)
