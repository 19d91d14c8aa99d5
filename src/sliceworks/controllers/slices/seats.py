"""Who sits where: the pools that placed leaders are on.

Nothing ties a leader to the pool that was made for its Job, so a pool may serve another JobSet than its own. Only leaders that
have just been placed are looked up, each once, with its node; those that were placed earlier are read in chunks at the start.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from sliceworks.base.errors import NotFound, SliceworksError
from sliceworks.controllers.slices import words
from sliceworks.controllers.slices.views import Ref, Seat
from sliceworks.kube.well_known import NODE, POD

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sliceworks.controllers.slices.views import JobSetView
    from sliceworks.kube.client import Client
    from sliceworks.kube.resources import Object

log = logging.getLogger(__name__)
LEADERS = f"{words.JOBSET_NAME},{words.COMPLETION_INDEX}=0"
_PLACED = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
_POOL = "cloud.google.com/gke-nodepool"
_AT_ONCE = 16


class Seats:
    """Remembers each placed leader's pool, by its Job."""

    def __init__(self, client: Client, changed: Callable[[], None]) -> None:
        self._client, self._changed = client, changed
        self._seats: dict[Ref, Seat] = {}
        self._pools: dict[str, str] = {}
        self._room = asyncio.Semaphore(_AT_ONCE)
        self._looking: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Read the leaders that are placed already."""
        async for pod in self._client.each(POD, labels=LEADERS, fields=_PLACED):
            await self._sit(pod)

    async def close(self) -> None:
        """Look no more."""
        for task in self._looking:
            task.cancel()
        await asyncio.gather(*self._looking, return_exceptions=True)

    def look(self, name: str, namespace: str) -> None:
        """A leader waits no more: see whether it has found a place."""
        task = asyncio.create_task(self._look(name, namespace))
        self._looking.add(task)
        task.add_done_callback(self._looking.discard)

    def taken(self, jobsets: Mapping[Ref, JobSetView], waiting: Mapping[Ref, object]) -> dict[Ref, Seat]:
        """The seats that count: of JobSets that go on, and not of Jobs whose leader waits again."""
        for job, seat in list(self._seats.items()):
            jobset = jobsets.get(seat.jobset)
            if jobset is None or jobset.ended or jobset.deleting or jobset.suspended or job in waiting:
                del self._seats[job]
        return self._seats

    async def _look(self, name: str, namespace: str) -> None:
        try:
            async with self._room:
                await self._sit(await self._client.get(POD, name, namespace))
        except NotFound:
            return
        except SliceworksError as error:
            log.warning("where pod %s/%s is cannot be seen: %s", namespace, name, error)
        self._changed()

    async def _sit(self, pod: Object) -> None:
        metadata, node = pod["metadata"], (pod.get("spec") or {}).get("nodeName", "")
        owner = next((each for each in metadata.get("ownerReferences") or () if each.get("controller")), None)
        jobset = (metadata.get("labels") or {}).get(words.JOBSET_NAME, "")
        over = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed") or metadata.get("deletionTimestamp")
        if not node or owner is None or not jobset or over:
            return
        pool = await self._pool_of(node)
        if pool:
            namespace = metadata["namespace"]
            self._seats[Ref(namespace, owner["name"])] = Seat(Ref(namespace, jobset), pool)

    async def _pool_of(self, node: str) -> str:
        if node not in self._pools:
            try:
                found = await self._client.get(NODE, node)
            except NotFound:
                return ""
            self._pools[node] = (found["metadata"].get("labels") or {}).get(_POOL, "")
        return self._pools[node]
