"""Reads Kueue's side of a job: its Workload, the queue and those who share it, admission checks, and who is ahead."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from sliceworks.base.conditions import is_true
from sliceworks.catalog.labels import JOB_UID
from sliceworks.kube.well_known import NAMESPACE
from sliceworks.training.why import admission, line, quota
from sliceworks.training.why.evidence import owner
from sliceworks.training.why.reading import CHECK, CLUSTER_QUEUE, COHORT, FLAVOR, HEAD, JOBSET, LOCAL_QUEUE, WORKLOAD, line_up
from sliceworks.training.words import QUEUE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sliceworks.kube.resources import Resource
    from sliceworks.training.why.reading import Reader

Object = dict[str, Any]
_MOST_SCANNED = 1500  # Workloads that are looked through for those that have quota
_ASKED = 4  # so many objects of a kind are asked about more closely


class QueueSide:
    """Reads into `found`, by the names that evidence has for it."""

    def __init__(self, read: Reader, namespace: str, found: Object) -> None:
        self._read, self._namespace, self._found = read, namespace, found

    async def read(self, jobset: Object) -> None:
        """The Workload of a JobSet, and whatever says why it waits."""
        metadata = jobset["metadata"]
        found = await self._read.items(WORKLOAD, self._namespace, labels=f"{JOB_UID}={metadata['uid']}")
        if found is None and WORKLOAD.kind not in self._read.hidden:
            self._found["kueue"] = False
            return
        workload = next(iter(found or ()), None)
        self._found["workload"] = workload
        if is_true(workload, "Admitted") or is_true(workload, "Finished"):
            return
        if is_true(workload, "QuotaReserved"):
            await self._checks(workload)
            return
        await asyncio.gather(self._queues(metadata["labels"][QUEUE], workload), self._preemptor(workload))

    async def _checks(self, workload: Object | None) -> None:
        names = [each["name"] for each in ((workload or {}).get("status") or {}).get("admissionChecks") or ()]
        self._found["checks"] = await self._named(CHECK, names[:_ASKED])

    async def _preemptor(self, workload: Object | None) -> None:
        if uid := admission.preemptor_uid(workload):
            # It may be of another team, whose Workloads may not be seen: then those of this namespace are asked.
            found = await self._read.items(WORKLOAD, None, labels=f"{JOB_UID}={uid}", quiet=True)
            found = found or await self._read.items(WORKLOAD, self._namespace, labels=f"{JOB_UID}={uid}")
            self._found["preemptor"] = next(iter(found or ()), None)

    async def _queues(self, name: str, workload: Object | None) -> None:
        local, home = await asyncio.gather(
            self._read.get(LOCAL_QUEUE, name, self._namespace), self._read.get(NAMESPACE, self._namespace, quiet=True)
        )
        self._found |= {"local_queue": local, "home": home}
        if local is None:
            known = await self._read.items(LOCAL_QUEUE, self._namespace, limit=100)
            self._found["local_queues"] = [each["metadata"]["name"] for each in known or ()]
            return
        queue = await self._read.get(CLUSTER_QUEUE, local["spec"]["clusterQueue"])
        self._found["cluster_queue"] = queue
        tasks = [self._line(local, workload, int(((queue or local).get("status") or {}).get("pendingWorkloads") or 0))]
        if queue is not None:
            tasks += [self._flavors(queue), self._cohort(queue)]
        await asyncio.gather(*tasks)
        if workload is not None:
            # Whoever may not see the ClusterQueue sees the jobs of the own namespace that have its quota.
            queues = (
                self._found["cohort"] if queue is not None else [{**local, "metadata": {"name": local["spec"]["clusterQueue"]}}]
            )
            await self._scan(local["spec"]["clusterQueue"], {each["metadata"]["name"]: each for each in queues})

    async def _flavors(self, queue: Object) -> None:
        names = [each["name"] for group in queue["spec"].get("resourceGroups") or () for each in group["flavors"]]
        self._found["flavors"] = await self._named(FLAVOR, dict.fromkeys(names))

    async def _cohort(self, queue: Object) -> None:
        """The queues that share quota with this one."""
        cohort = quota.cohort_of(queue)
        queues = [queue]
        if cohort:
            known, cohorts = await asyncio.gather(self._read.items(CLUSTER_QUEUE), self._read.items(COHORT, quiet=True))
            tree = quota.tree(cohort, cohorts or [])
            queues = [each for each in known or () if quota.cohort_of(each) in tree] or queues
            self._found["cohorts"] = [each for each in cohorts or () if each["metadata"]["name"] in tree]
        self._found["cohort"] = queues

    async def _scan(self, queue: str, queues: dict[str, Object]) -> None:
        """The jobs that have quota, and those who wait where Kueue does not tell. No selector finds either: Workloads are looked
        through until all are found, or enough was read."""
        wanted = sum(int((each.get("status") or {}).get("reservingWorkloads") or 0) for each in queues.values())
        ordered = "place" in self._found
        holders: list[Object] = []
        others: list[Object] = []
        looked = self._read.each(WORKLOAD, self._namespace, most=0 if ordered and not wanted else _MOST_SCANNED)
        whole = True
        async with aclosing(looked):
            async for workload in looked:
                if ((workload.get("status") or {}).get("admission") or {}).get("clusterQueue") in queues:
                    holders.append(workload)
                elif not ordered and line.waits(workload):
                    others.append(workload)
                if ordered and len(holders) >= wanted:
                    whole = False
                    break
        self._found |= {"holders": holders, "all_holders": len(holders) >= wanted}
        if not ordered and whole and self._read.whole:
            await self._order(queue, others)
        await self._deadlines(holders)

    async def _order(self, queue: str, waiting: list[Object]) -> None:
        """The order of those who wait, worked out from their Workloads."""
        known = await self._read.items(LOCAL_QUEUE, None, quiet=True) or [self._found["local_queue"]]
        leads = {
            (each["metadata"]["namespace"], each["metadata"]["name"]) for each in known if each["spec"]["clusterQueue"] == queue
        }
        mine = [each for each in waiting if (each["metadata"]["namespace"], each["spec"].get("queueName", "")) in leads]
        ordered = sorted(mine, key=line_up)
        own = self._found["workload"]["metadata"]["uid"]
        for place, each in enumerate(ordered):
            if each["metadata"]["uid"] == own:
                self._found |= {"place": place, "head": ordered[:HEAD]}

    async def _deadlines(self, holders: list[Object]) -> None:
        """The JobSets of those who have quota: some say how long they may run."""
        some = [(each["metadata"]["namespace"], owner(each)) for each in holders[:_ASKED]]
        jobsets = await asyncio.gather(*(self._read.get(JOBSET, name, place, quiet=True) for place, name in some))
        self._found["holder_jobsets"] = {key: each for key, each in zip(some, jobsets, strict=True) if each is not None}

    async def _line(self, local: Object, workload: Object | None, waiting: int) -> None:
        turn = None if workload is None else await self._read.turn(local, workload, waiting)
        if turn is not None:
            self._found |= {"place": turn.place, "head": list(turn.head)}

    async def _named(self, resource: Resource, names: Iterable[str]) -> dict[str, Object]:
        wanted = list(names)
        found = await asyncio.gather(*(self._read.get(resource, name) for name in wanted))
        return {name: each for name, each in zip(wanted, found, strict=True) if each is not None}
