"""The cluster autoscaler: pools that have `autoscaling` follow the pods that wait for room, and give back what nobody needs.

It looks every ten seconds, as long as there is such a pool. What it does is no operation that others see.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.base.errors import SliceworksError
from sliceworks.twin.cloud.container.machines import formation
from sliceworks.twin.cloud.container.nodes import Place
from sliceworks.twin.cloud.container.provisioning import PREFIX, pool_for
from sliceworks.twin.cloud.container.sizing import Sized, enlarged
from sliceworks.twin.cloud.container.yard import places
from sliceworks.twin.cloud.errors import GoogleError

if TYPE_CHECKING:
    from sliceworks.twin.cloud.container.jobs import Jobs
    from sliceworks.twin.cloud.container.pools import Pools
    from sliceworks.twin.cloud.container.yard import Yard
    from sliceworks.twin.cloud.state import Document

log = logging.getLogger(__name__)

Obj = dict[str, Any]
_LOOK = 10.0
_BACK_OFF = 300.0
_KIND = "RESIZE_CLUSTER"


class Scaling:
    """Looks after the sizes of autoscaled pools."""

    def __init__(self, yard: Yard, jobs: Jobs, pools: Pools) -> None:
        self._yard = yard
        self._jobs = jobs
        self._pools = pools
        self._scaled: dict[tuple[str, str], None] = {}
        self._idle: dict[str, float] = {}
        self._failed: dict[tuple[str, str], float] = {}
        self._task: asyncio.Task[None] | None = None

    def saw(self, pool: Document) -> None:
        """A pool is new or has changed."""
        key = (pool.parent, pool.name)
        if (pool.body.get("autoscaling") or {}).get("enabled"):
            self._scaled[key] = None
            if self._task is None or self._task.done():
                self._task = asyncio.create_task(self._run(), name="cloud: autoscaler")
        else:
            self._scaled.pop(key, None)

    def failed(self, pool: Document) -> None:
        """Machines were not to be had: ask again later, and others meanwhile."""
        self._failed[pool.parent, pool.name] = clock.loop_time() + _BACK_OFF

    async def stop(self) -> None:
        """Look no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while self._scaled:
            try:
                await self._look()
            except (SliceworksError, GoogleError) as error:
                log.warning("the autoscaler: %s", error)
            except Exception:
                log.exception("the autoscaler looks again in %g s", _LOOK)
            await clock.sleep(_LOOK)

    async def _look(self) -> None:
        found = self._there()
        waiting = await self._yard.fleet.waiting_pods() if found else []
        busy = await self._yard.fleet.busy_nodes() if any(map(self._may_change, found)) else None
        # Pools may have changed, or gone, while pods were counted: what is done now is done without a pause.
        found = self._there()
        free = {(pool.parent, pool.name): pool for pool in found if self._may_change(pool)}
        if waiting and found:
            self._grow(found, free, waiting)
        if free and busy is not None:
            self._shrink(list(free.values()), busy)

    def _there(self) -> list[Document]:
        """The autoscaled pools whose machines are nodes here."""
        found = [pool for key in list(self._scaled) if (pool := self._yard.pools.get(*key)) is not None]
        self._scaled = {(pool.parent, pool.name): None for pool in found}
        return [pool for pool in found if self._yard.has_nodes(pool.parent)]

    def _may_change(self, pool: Document) -> bool:
        key = (pool.parent, pool.name)
        return (
            pool.body["status"] in ("RUNNING", "RUNNING_WITH_ERROR") and not self._jobs.hidden(*key) and not self._jobs.busy(*key)
        )

    def _grow(self, found: list[Document], free: dict[tuple[str, str], Document], waiting: list[Obj]) -> None:
        now = clock.loop_time()
        closed = {key for key, until in self._failed.items() if until > now}
        sized = [self._sized(pool, (pool.parent, pool.name) in free and (pool.parent, pool.name) not in closed) for pool in found]
        by_name = {pool.name: pool for pool in free.values()}
        growth = enlarged(sized, waiting)
        for name, counts in growth.counts.items():
            self._resize(by_name[name], counts)
        if growth.left:
            self._provision(found[0].parent, growth.left)

    def _provision(self, path: str, pods: list[Obj]) -> None:
        """Make a pool for a pod that none suits, in a cluster that does so; the next look sees to the others."""
        cluster = self._yard.cluster(path)
        if not (cluster.body.get("autopilot") or {}).get("enabled"):
            return
        for pod in pods:
            asked = pool_for(pod, cluster.body["locations"])
            if asked is not None:
                try:
                    self._pools.add(cluster, asked)
                except GoogleError as error:
                    log.info("no pool for %s: %s", pod["metadata"]["name"], error)
                return

    def _sized(self, pool: Document, may_grow: bool) -> Sized:
        scaling, zones = pool.body["autoscaling"], pool.body["locations"]
        there = places(pool)
        counts = {zone: sum(place.zone == zone for place in there) for zone in zones}
        templates = {zone: next(iter(self._yard.nodes(pool, [Place("new", zone, 0)], 0.0))) for zone in zones}
        coming = [place.zone for place in there if not self._yard.fleet.is_ready(place.name)]
        most, most_of_all = int(scaling.get("maxNodeCount") or 0), int(scaling.get("totalMaxNodeCount") or 0)
        if not may_grow:
            most = most_of_all = -1
        return Sized(pool.name, counts, templates, most, most_of_all, formation(pool.body).gang or 1, coming)

    def _shrink(self, pools: list[Document], busy: set[str]) -> None:
        now, idle_after = clock.loop_time(), self._yard.settings.seconds("idle")
        known = [place.name for pool in pools for place in places(pool)]
        self._idle = {name: self._idle.get(name, now) for name in known if name not in busy and self._yard.fleet.is_ready(name)}
        for pool in pools:
            if self._jobs.hidden(pool.parent, pool.name):
                continue
            unneeded = [place for place in places(pool) if now - self._idle.get(place.name, now) >= idle_after]
            gang = formation(pool.body).gang
            if not places(pool) and pool.name.startswith(PREFIX):
                self._pools.remove(pool)
            if not unneeded or (gang and len(unneeded) < len(places(pool))):
                continue
            self._give_back(pool, unneeded)

    def _give_back(self, pool: Document, unneeded: list[Place]) -> None:
        scaling, there = pool.body["autoscaling"], places(pool)
        least, least_of_all = int(scaling.get("minNodeCount") or 0), int(scaling.get("totalMinNodeCount") or 0)
        counts = {zone: sum(place.zone == zone for place in there) for zone in pool.body["locations"]}
        drop: list[Place] = []
        for place in unneeded:
            if counts[place.zone] > least and sum(counts.values()) > least_of_all:
                counts[place.zone] -= 1
                drop.append(place)
        if drop:
            self._resize(pool, counts, drop)

    def _resize(self, pool: Document, counts: dict[str, int], drop: list[Place] | None = None) -> None:
        try:
            self._pools.resize(pool, counts, _KIND, drop=drop, hidden=True)
        except GoogleError:
            self.failed(pool)
