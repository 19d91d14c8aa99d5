"""One training job as it changes: its JobSet, its Workload and its pods, kept current by watches that outlive a connection."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sliceworks.catalog.labels import JOB_UID, JOBSET_NAME
from sliceworks.cli import train_cluster

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

    from sliceworks.kube import Client, Delta, Informer

Object = dict[str, Any]
_BREATH = 0.1  # changes come in bunches: what is told together is shown together
_OPEN_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Picture:
    """What is known now. A job that is gone is shown as it was last."""

    jobset: Object
    workload: Object | None = None
    pods: list[Object] = field(default_factory=list)
    gone: bool = False


class Follower:
    """Gives a picture after every change."""

    def __init__(self, jobset: Object, jobsets: Informer, workloads: Informer, pods: Informer) -> None:
        self._jobset, self._gone = jobset, False
        self._workloads, self._pods = workloads, pods
        self._news = asyncio.Event()
        self._uid = jobset["metadata"]["uid"]
        jobsets.add_handler(self._take)
        if not any(each["metadata"]["uid"] == self._uid for each in jobsets.store):
            self._gone = True
        for informer in (workloads, pods):
            informer.add_handler(lambda _delta: self._news.set())

    def _take(self, delta: Delta) -> None:
        """Another job that has taken the name is not this one."""
        if delta.object["metadata"]["uid"] == self._uid:
            self._jobset, self._gone = delta.object, delta.kind == "deleted"
            self._news.set()

    def picture(self) -> Picture:
        """As of now."""
        return Picture(self._jobset, next(iter(self._workloads.store), None), list(self._pods.store), self._gone)

    async def pictures(self) -> AsyncGenerator[Picture, None]:
        """The first at once, then one after every bunch of changes."""
        while True:
            self._news.clear()
            yield self.picture()
            await self._news.wait()
            await asyncio.sleep(_BREATH)


@asynccontextmanager
async def follow(client: Client, jobset: Object) -> AsyncIterator[Follower]:
    """Follow one JobSet."""
    from sliceworks.kube import Informers
    from sliceworks.kube.well_known import POD

    metadata = jobset["metadata"]
    name, namespace, uid = metadata["name"], metadata["namespace"], metadata["uid"]
    async with Informers(client) as informers:
        jobsets = informers.open(train_cluster.JOBSETS, namespace, fields=f"metadata.name={name}")
        workloads = informers.open(train_cluster.WORKLOADS, namespace, labels=f"{JOB_UID}={uid}")
        pods = informers.open(POD, namespace, labels=f"{JOBSET_NAME}={name}")
        await jobsets.wait_synced(_OPEN_SECONDS)
        await pods.wait_synced(_OPEN_SECONDS)
        yield Follower(jobset, jobsets, workloads, pods)
