"""Reads what an answer needs, and no more: how much is read depends on the job, not on how much else the cluster holds."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.base.errors import SliceworksError
from sliceworks.catalog import labels
from sliceworks.kube.well_known import CORE_EVENT, JOB, NAMESPACE, NODE, PERSISTENT_VOLUME_CLAIM, POD
from sliceworks.training.why import admission, capacity, hosts, line, matching, placement, quota
from sliceworks.training.why.evidence import Evidence, is_true, owner
from sliceworks.training.why.reading import (
    CHECK,
    CLUSTER_QUEUE,
    COHORT,
    FLAVOR,
    HEAD,
    JOBSET,
    LOCAL_QUEUE,
    WORKLOAD,
    Reader,
    line_up,
)
from sliceworks.training.words import QUEUE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sliceworks.cloud import Container
    from sliceworks.kube import Client

Object = dict[str, Any]
_JOBSET_NAME = "jobset.sigs.k8s.io/jobset-name"
_JOB_UID = "kueue.x-k8s.io/job-uid"
_MOST_PODS = 1000
_MOST_SCANNED = 1500  # Workloads that are looked through for those that have quota
_ASKED = 4  # so many objects of a kind are asked about more closely


async def gather(client: Client, namespace: str, name: str, *, container: Container | None = None) -> Evidence:
    """Everything about one JobSet. NotFound where there is none; `container` is asked where node pools are awaited."""
    return await _Gatherer(client, namespace, container).gather(name)


class _Gatherer:
    """Reads layer after layer; each decides what the next needs."""

    def __init__(self, client: Client, namespace: str, container: Container | None) -> None:
        self._read, self._namespace, self._container = Reader(client), namespace, container
        self._found: Object = {}

    async def gather(self, name: str) -> Evidence:
        jobset = await self._read.must(JOBSET, name, self._namespace)
        self._found["jobset"] = jobset
        over = is_true(jobset, "Completed")
        tasks = [self._told("JobSet", name)]
        if QUEUE in (jobset["metadata"].get("labels") or {}) and not over:
            tasks.append(self._queue_side(jobset))
        if not over and (not jobset["spec"].get("suspend") or is_true(jobset, "Failed")):
            tasks.append(self._pod_side(name))
        await asyncio.gather(*tasks)
        evidence = self._evidence()
        if capacity.awaited(evidence) and self._container is not None:
            await self._cloud_side(name, self._container)
        return self._evidence()

    def _evidence(self) -> Evidence:
        given: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in self._found.items()}
        return Evidence(now=clock.now(), hidden=frozenset(self._read.hidden), unseen=tuple(self._read.unseen), **given)

    # Kueue.

    async def _queue_side(self, jobset: Object) -> None:
        metadata = jobset["metadata"]
        found = await self._read.items(WORKLOAD, self._namespace, labels=f"{_JOB_UID}={metadata['uid']}")
        if found is None:
            self._found["kueue"] = False
            return
        workload = next(iter(found), None)
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
            found = await self._read.items(WORKLOAD, None, labels=f"{_JOB_UID}={uid}", quiet=True)
            found = found or await self._read.items(WORKLOAD, self._namespace, labels=f"{_JOB_UID}={uid}")
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

    # Jobs, pods and nodes.

    async def _pod_side(self, name: str) -> None:
        chosen = f"{_JOBSET_NAME}={name}"
        jobs, pods = await asyncio.gather(
            self._read.items(JOB, self._namespace, labels=chosen),
            self._read.items(POD, self._namespace, labels=chosen, limit=_MOST_PODS),
        )
        pods = [pod for pod in pods or () if "deletionTimestamp" not in pod["metadata"] or pod["status"].get("phase") == "Failed"]
        self._found |= {"jobs": jobs or [], "pods": pods}
        waiting = [pod for pod in pods if pod["status"].get("phase") == "Pending"]
        short = [
            job
            for job in jobs or ()
            if int((job.get("status") or {}).get("active") or 0) < int(job["spec"].get("parallelism") or 1)
        ]
        tasks = [self._told("Pod", pod["metadata"]["name"]) for pod in waiting[:_ASKED]]
        tasks += [self._told("Job", job["metadata"]["name"]) for job in short[:_ASKED]]
        waiting = placement.unplaced(tuple(pods))
        await asyncio.gather(*tasks, self._nodes(waiting), self._claims(waiting))

    async def _nodes(self, unplaced: list[Object]) -> None:
        """The nodes that pods without a place select; where there are none, which of their labels no node has."""
        alike = {placement.selector_of(pod): pod for pod in unplaced}
        self._found |= {"nodes": {}, "lone_labels": {}, "guests": {}}
        for selector, pod in list(alike.items())[:_ASKED]:
            nodes = await self._read.items(NODE, None, labels=selector, limit=hosts.MOST)
            if nodes is None:
                return
            self._found["nodes"][selector] = tuple(nodes)
            if nodes:
                await self._guests(nodes, pod)
            else:
                await self._lone(f"{key}={value}" for key, value in (pod["spec"].get("nodeSelector") or {}).items())

    async def _lone(self, chosen: Iterable[str]) -> None:
        alone = list(chosen)
        found = await asyncio.gather(*(self._read.items(NODE, None, labels=each, limit=1) for each in alone))
        self._found["lone_labels"] |= {label: bool(nodes) for label, nodes in zip(alone, found, strict=True)}

    async def _guests(self, nodes: list[Object], waiting: Object) -> None:
        """Who is on the nodes that would fit: where a pod waits for chips, those who have them."""
        names = [each["metadata"]["name"] for each in nodes[:_ASKED]]
        chosen = "spec.nodeName={},status.phase=Running"
        found = await asyncio.gather(
            *(self._read.items(POD, None, fields=chosen.format(name), limit=100, quiet=True) for name in names)
        )
        scarce = {name for name in matching.requests(waiting["spec"]) if "/" in name}
        for name, pods in zip(names, found, strict=True):
            there = (pod for pod in pods or () if not scarce or scarce & matching.requests(pod["spec"]).keys())
            self._found["guests"][name] = tuple(dict.fromkeys(_whose(pod) for pod in there))

    async def _claims(self, unplaced: list[Object]) -> None:
        names = list(dict.fromkeys(name for pod in unplaced for name in placement.claims_of(pod)))[:_ASKED]
        found = await asyncio.gather(*(self._read.get(PERSISTENT_VOLUME_CLAIM, name, self._namespace) for name in names))
        if "PersistentVolumeClaim" not in self._read.hidden:
            self._found["claims"] = dict(zip(names, found, strict=True))

    async def _told(self, kind: str, name: str) -> None:
        chosen = f"involvedObject.kind={kind},involvedObject.name={name}"
        found = await self._read.items(CORE_EVENT, self._namespace, fields=chosen, limit=100, quiet=True)
        self._found["events"] = [*self._found.get("events", ()), *(found or ())]

    # The cloud.

    async def _cloud_side(self, name: str, container: Container) -> None:
        try:
            pools, operations = await asyncio.gather(container.node_pools(), container.operations())
        except SliceworksError as error:
            self._read.unseen.append(f"the node pools of {container.cluster}: {error.message}")
            return
        own = {labels.POOL_JOBSET_NAME: name, labels.POOL_JOBSET_NAMESPACE: self._namespace}
        self._found["pools"] = [each for each in pools if own.items() <= ((each.get("config") or {}).get("labels") or {}).items()]
        names = {each["name"] for each in self._found["pools"]}
        self._found["operations"] = [each for each in operations if each.target in names]

    async def _named(self, resource: Any, names: Iterable[str]) -> dict[str, Object]:
        wanted = list(names)
        found = await asyncio.gather(*(self._read.get(resource, name) for name in wanted))
        return {name: each for name, each in zip(wanted, found, strict=True) if each is not None}


def _whose(pod: Object) -> str:
    """The job that a pod belongs to, as people know it."""
    metadata = pod["metadata"]
    named = (metadata.get("labels") or {}).get(_JOBSET_NAME) or owner(pod)
    return f"{metadata['namespace']}/{named}"
