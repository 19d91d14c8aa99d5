"""Who sits where: the pools that placed leaders are on.

Nothing ties a leader to the pool that was made for its Job, so a pool may serve another JobSet than its own. Only leaders that
have just been placed are looked up, each once, with its node; those that were placed earlier are read in chunks at the start.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, NamedTuple

from sliceworks.base import clock
from sliceworks.base.errors import NotFound, SliceworksError
from sliceworks.catalog.labels import NODE_POOL
from sliceworks.controllers.slices import words
from sliceworks.controllers.slices.views import Ref, Seat
from sliceworks.kube.backoff import Backoff
from sliceworks.kube.resources import controller_of
from sliceworks.kube.well_known import NODE, POD

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sliceworks.controllers.slices.views import JobSetView
    from sliceworks.kube.client import Client
    from sliceworks.kube.resources import Object

log = logging.getLogger(__name__)
LEADERS = f"{words.JOBSET_NAME},{words.COMPLETION_INDEX}=0"
_PLACED = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
_AT_ONCE = 16
_AGAIN = Backoff(first=1.0, cap=60.0)
_UNKNOWN = 60.0  # seconds after which a leader whose JobSet is still not known counts no more
_NODES_KEPT = 20_000


class _Place(NamedTuple):
    job: Ref
    jobset: Ref
    node: str


class Seats:
    """Remembers each placed leader's pool, by its Job."""

    def __init__(self, client: Client, changed: Callable[[], None]) -> None:
        self._client, self._changed = client, changed
        self._seats: dict[Ref, tuple[Seat, float]] = {}
        self._pools: dict[str, str] = {}
        self._room = asyncio.Semaphore(_AT_ONCE)
        self._looking: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Read the leaders that are placed already."""
        async with asyncio.TaskGroup() as group:
            async for pod in self._client.each(POD, labels=LEADERS, fields=_PLACED):
                if (place := _place_of(pod)) is not None:
                    group.create_task(self._settle_first(pod["metadata"]["name"], place))

    async def _settle_first(self, name: str, place: _Place) -> None:
        """What cannot be seen now holds nobody up."""
        if not await self._settle(place):
            self.look(name, place.job.namespace)

    async def close(self) -> None:
        """Look no more."""
        for task in self._looking:
            task.cancel()
        await asyncio.gather(*self._looking, return_exceptions=True)

    def look(self, name: str, namespace: str) -> None:
        """A leader waits no more: see whether it has found a place."""
        task = asyncio.create_task(self._insist(name, namespace))
        self._looking.add(task)
        task.add_done_callback(self._looking.discard)

    async def _insist(self, name: str, namespace: str) -> None:
        """Look until the cluster has answered: a leader that is not known to sit somewhere may lose its place."""
        failures = 0
        while not await self._look(name, namespace):
            failures += 1
            await clock.sleep(_AGAIN.delay(failures))

    def taken(self, jobsets: Mapping[Ref, JobSetView], waiting: Mapping[Ref, object]) -> dict[Ref, Seat]:
        """The seats that count: of JobSets that go on, and not of Jobs whose leader waits again."""
        found: dict[Ref, Seat] = {}
        now = clock.loop_time()
        for job, (seat, since) in list(self._seats.items()):
            jobset = jobsets.get(seat.jobset)
            if jobset is None:
                # A leader may be seen before its JobSet is.
                if now - since > _UNKNOWN:
                    del self._seats[job]
            elif jobset.ended or jobset.deleting or jobset.suspended or job in waiting:
                del self._seats[job]
            else:
                found[job] = seat
        return found

    async def _look(self, name: str, namespace: str) -> bool:
        """Whether it has been seen where a pod is."""
        try:
            async with self._room:
                pod = await self._client.get(POD, name, namespace)
        except NotFound:
            return True
        except SliceworksError as error:
            log.warning("where pod %s/%s is cannot be seen: %s", namespace, name, error)
            return False
        place = _place_of(pod)
        return place is None or await self._settle(place)

    async def _settle(self, place: _Place) -> bool:
        """Whether it has been seen whose node a place is on."""
        try:
            async with self._room:
                pool = await self._pool_of(place.node)
        except SliceworksError as error:
            log.warning("whose node %s is cannot be seen: %s", place.node, error)
            return False
        if pool:
            self._seats[place.job] = (Seat(place.jobset, pool), clock.loop_time())
            self._changed()
        return True

    async def _pool_of(self, node: str) -> str:
        if node not in self._pools:
            if len(self._pools) > _NODES_KEPT:
                self._pools.clear()
            found = await self._client.find(NODE, node)
            if found is None:
                return ""
            self._pools[node] = (found["metadata"].get("labels") or {}).get(NODE_POOL, "")
        return self._pools[node]


def _place_of(pod: Object) -> _Place | None:
    """The node of a leader that is at work; None for one that is not."""
    metadata, node = pod["metadata"], (pod.get("spec") or {}).get("nodeName", "")
    owner = controller_of(pod)
    jobset = (metadata.get("labels") or {}).get(words.JOBSET_NAME, "")
    over = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed") or metadata.get("deletionTimestamp")
    if not node or owner is None or not jobset or over:
        return None
    namespace = metadata["namespace"]
    return _Place(Ref(namespace, owner["name"]), Ref(namespace, jobset), node)
