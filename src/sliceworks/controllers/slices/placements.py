"""Placements: the node pool that each scheduled leader pod runs on.

Nothing binds a leader to the node pool that was created for its Job, so another JobSet may occupy the pool. Each leader is read
once, with its node, when it has been scheduled; leaders that were scheduled before the start are listed in chunks.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, NamedTuple

from sliceworks.base import clock
from sliceworks.base.errors import NotFound, SliceworksError
from sliceworks.base.retry import Backoff
from sliceworks.catalog.labels import NODE_POOL
from sliceworks.controllers.slices import well_known
from sliceworks.controllers.slices.model import Placement
from sliceworks.kube.resources import NODE, POD, Key, controller_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sliceworks.controllers.slices.model import JobSetView
    from sliceworks.kube.client import Client
    from sliceworks.kube.resources import Object

log = logging.getLogger(__name__)
LEADER_SELECTOR = f"{well_known.JOBSET_NAME},{well_known.COMPLETION_INDEX}=0"
_SCHEDULED = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
_MAX_CONCURRENT = 16
_BACKOFF = Backoff(first=1.0, cap=60.0)
_UNKNOWN_JOBSET_TIMEOUT = 60.0  # seconds after which a leader without a known JobSet is dropped
_MAX_NODES = 20_000


class _LeaderNode(NamedTuple):
    job: Key
    jobset: Key
    node: str


class Placements:
    """The node pool of each scheduled leader, by Job."""

    def __init__(self, client: Client, changed: Callable[[], None]) -> None:
        self._client, self._changed = client, changed
        self._placements: dict[Key, tuple[Placement, float]] = {}
        self._pools: dict[str, str] = {}
        self._semaphore = asyncio.Semaphore(_MAX_CONCURRENT)
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """List the leaders that are already scheduled."""
        async with asyncio.TaskGroup() as group:
            async for pod in self._client.iterate(POD, labels=LEADER_SELECTOR, fields=_SCHEDULED):
                if (leader := _leader_node(pod)) is not None:
                    group.create_task(self._record_or_retry(pod["metadata"]["name"], leader))

    async def _record_or_retry(self, name: str, leader: _LeaderNode) -> None:
        """Retry a failed read in the background, so that it does not block the start."""
        if not await self._record(leader):
            self.track(name, leader.job.namespace)

    async def close(self) -> None:
        """Cancel pending reads."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def track(self, name: str, namespace: str) -> None:
        """Read where a leader is that is no longer unschedulable."""
        task = asyncio.create_task(self._read_with_retry(name, namespace))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _read_with_retry(self, name: str, namespace: str) -> None:
        """Retry until the read succeeds: the node pool of an unknown placement could be deleted."""
        failures = 0
        while not await self._read(name, namespace):
            failures += 1
            await clock.sleep(_BACKOFF.delay(failures))

    def current(self, jobsets: Mapping[Key, JobSetView], unschedulable: Mapping[Key, object]) -> dict[Key, Placement]:
        """The placements of active JobSets, without Jobs whose leader is unschedulable again."""
        current: dict[Key, Placement] = {}
        now = clock.loop_time()
        for job, (placement, since) in list(self._placements.items()):
            jobset = jobsets.get(placement.jobset)
            if jobset is None:
                # The leader may arrive before its JobSet.
                if now - since > _UNKNOWN_JOBSET_TIMEOUT:
                    del self._placements[job]
            elif jobset.ended or jobset.deleting or jobset.suspended or job in unschedulable:
                del self._placements[job]
            else:
                current[job] = placement
        return current

    async def _read(self, name: str, namespace: str) -> bool:
        """Read a pod's placement; returns whether that succeeded."""
        try:
            async with self._semaphore:
                pod = await self._client.get(POD, name, namespace)
        except NotFound:
            return True
        except SliceworksError as error:
            log.warning("cannot read pod %s/%s: %s", namespace, name, error)
            return False
        leader = _leader_node(pod)
        return leader is None or await self._record(leader)

    async def _record(self, leader: _LeaderNode) -> bool:
        """Read the node's pool and record the placement; returns whether that succeeded."""
        try:
            async with self._semaphore:
                pool = await self._pool_of(leader.node)
        except SliceworksError as error:
            log.warning("cannot read node %s: %s", leader.node, error)
            return False
        if pool:
            self._placements[leader.job] = (Placement(leader.jobset, pool), clock.loop_time())
            self._changed()
        return True

    async def _pool_of(self, node: str) -> str:
        if node not in self._pools:
            if len(self._pools) > _MAX_NODES:
                self._pools.clear()
            obj = await self._client.find(NODE, node)
            if obj is None:
                return ""
            self._pools[node] = (obj["metadata"].get("labels") or {}).get(NODE_POOL, "")
        return self._pools[node]


def _leader_node(pod: Object) -> _LeaderNode | None:
    """The node of a running leader; None for other pods."""
    metadata, node = pod["metadata"], (pod.get("spec") or {}).get("nodeName", "")
    owner = controller_of(pod)
    jobset = (metadata.get("labels") or {}).get(well_known.JOBSET_NAME, "")
    is_over = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed") or metadata.get("deletionTimestamp")
    if not node or owner is None or not jobset or is_over:
        return None
    namespace = metadata["namespace"]
    return _LeaderNode(Key(namespace, owner["name"]), Key(namespace, jobset), node)
