"""Collects the evidence about one JobSet: Workload and queue, Jobs and pods, node pools; bounded by the size of the job."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.base.conditions import find_condition, is_condition_true
from sliceworks.base.errors import SliceworksError
from sliceworks.catalog import labels
from sliceworks.catalog.labels import JOB_UID, JOBSET_NAME
from sliceworks.kube.pod_requests import exact_requests
from sliceworks.kube.resources import (
    ADMISSION_CHECK,
    CLUSTER_QUEUE,
    COHORT,
    CORE_EVENT,
    JOB,
    JOBSET,
    LOCAL_QUEUE,
    NAMESPACE,
    NODE,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    RESOURCE_FLAVOR,
    WORKLOAD,
)
from sliceworks.training.diagnosis import (
    container_causes,
    placement_causes,
    queue_causes,
    slice_causes,
    workload_causes,
)
from sliceworks.training.diagnosis.model import Evidence
from sliceworks.training.diagnosis.reader import HEAD_SIZE, Reader, queue_sort_key
from sliceworks.training.quota import cohort_of, cohort_tree
from sliceworks.training.status import QUEUE_LABEL, is_pending_workload, owner_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sliceworks.cloud import Container
    from sliceworks.kube import Client
    from sliceworks.kube.resources import Resource

Object = dict[str, Any]
_MAX_PODS = 1000
_MAX_DETAILED = 4  # objects of a kind that are read in detail


class PodCollector:
    """Reads Jobs, pods and nodes into `fields`, the fields of Evidence."""

    def __init__(self, reader: Reader, namespace: str, fields: Object) -> None:
        self._reader, self._namespace, self._fields = reader, namespace, fields

    async def collect(self, name: str) -> None:
        """Read the Jobs and pods of a JobSet; for pending pods also their events and the nodes that they select."""
        selector = f"{JOBSET_NAME}={name}"
        jobs, pods = await asyncio.gather(
            self._reader.items(JOB, self._namespace, labels=selector),
            self._reader.items(POD, self._namespace, labels=selector, limit=_MAX_PODS),
        )
        undeleted = [pod for pod in pods or () if container_causes.is_deletion_overdue(pod, clock.now())]
        pods = [pod for pod in pods or () if "deletionTimestamp" not in pod["metadata"] or pod["status"].get("phase") == "Failed"]
        self._fields |= {"jobs": jobs or [], "pods": pods, "undeleted": undeleted}
        pending = [pod for pod in pods if pod["status"].get("phase") == "Pending"]
        incomplete = [
            job
            for job in jobs or ()
            if int((job.get("status") or {}).get("active") or 0) < int(job["spec"].get("parallelism") or 1)
        ]
        tasks = [self.read_events("Pod", pod["metadata"]["name"]) for pod in pending[:_MAX_DETAILED]]
        tasks += [self.read_events("Job", job["metadata"]["name"]) for job in incomplete[:_MAX_DETAILED]]
        unschedulable = placement_causes.unschedulable_pods(tuple(pods))
        await asyncio.gather(*tasks, self._nodes(unschedulable), self._claims(unschedulable), self._hosts(pods, undeleted))

    async def _nodes(self, unschedulable: list[Object]) -> None:
        """Read the nodes that pods select; if there are none, find out which labels no node has."""
        by_selector = {placement_causes.selector_of(pod): pod for pod in unschedulable}
        self._fields |= {"nodes": {}, "label_exists": {}, "occupants": {}}
        for selector, pod in list(by_selector.items())[:_MAX_DETAILED]:
            nodes = await self._reader.items(NODE, None, labels=selector, limit=placement_causes.MAX_NODES)
            if nodes is None:
                return
            self._fields["nodes"][selector] = tuple(nodes)
            if nodes:
                await self._read_occupants(nodes, pod)
            else:
                await self._find_existing_labels(f"{key}={value}" for key, value in (pod["spec"].get("nodeSelector") or {}).items())

    async def _hosts(self, pods: list[Object], undeleted: list[Object]) -> None:
        """Read the nodes of pods that are scheduled but not ready, or are not deleted in time."""
        affected = [*filter(container_causes.is_unready, pods), *undeleted]
        names = list(dict.fromkeys(pod["spec"]["nodeName"] for pod in affected if pod["spec"].get("nodeName")))[:_MAX_DETAILED]
        nodes = await asyncio.gather(*(self._reader.get(NODE, name, quiet=True) for name in names))
        self._fields["hosts"] = {name: node for name, node in zip(names, nodes, strict=True) if node is not None}

    async def _find_existing_labels(self, selectors: Iterable[str]) -> None:
        labels = list(selectors)
        matches = await asyncio.gather(*(self._reader.items(NODE, None, labels=label, limit=1) for label in labels))
        self._fields["label_exists"] |= {label: bool(nodes) for label, nodes in zip(labels, matches, strict=True)}

    async def _read_occupants(self, nodes: list[Object], pending: Object) -> None:
        """Read the jobs on matching nodes; if the pending pod requests chips, only those that hold chips."""
        names = [node["metadata"]["name"] for node in nodes[:_MAX_DETAILED]]
        selector = "spec.nodeName={},status.phase=Running"
        pods_by_node = await asyncio.gather(
            *(self._reader.items(POD, None, fields=selector.format(name), limit=100, quiet=True) for name in names)
        )
        scarce = {name for name in exact_requests(pending["spec"]) if "/" in name}
        for name, pods in zip(names, pods_by_node, strict=True):
            pods_with_chips = (pod for pod in pods or () if not scarce or scarce & exact_requests(pod["spec"]).keys())
            self._fields["occupants"][name] = tuple(dict.fromkeys(_job_of_pod(pod) for pod in pods_with_chips))

    async def _claims(self, unschedulable: list[Object]) -> None:
        names = list(dict.fromkeys(name for pod in unschedulable for name in placement_causes.claims_of(pod)))[:_MAX_DETAILED]
        claims = await asyncio.gather(*(self._reader.get(PERSISTENT_VOLUME_CLAIM, name, self._namespace) for name in names))
        if "PersistentVolumeClaim" not in self._reader.hidden:
            self._fields["claims"] = dict(zip(names, claims, strict=True))

    async def read_events(self, kind: str, name: str) -> None:
        """Read the events of one object."""
        selector = f"involvedObject.kind={kind},involvedObject.name={name}"
        events = await self._reader.items(CORE_EVENT, self._namespace, fields=selector, limit=100, quiet=True)
        self._fields["events"] = [*self._fields.get("events", ()), *(events or ())]


def _job_of_pod(pod: Object) -> str:
    """The job of a pod: its JobSet, else its owner."""
    metadata = pod["metadata"]
    name = (metadata.get("labels") or {}).get(JOBSET_NAME) or owner_name(pod)
    return f"{metadata['namespace']}/{name}"


_MAX_SCANNED = 1500  # Workloads that are searched for those with quota


class QueueCollector:
    """Reads the Workload, queues and quota into `fields`, the fields of Evidence."""

    def __init__(self, reader: Reader, namespace: str, fields: Object) -> None:
        self._reader, self._namespace, self._fields = reader, namespace, fields

    async def collect(self, jobset: Object) -> None:
        """Read the Workload of a JobSet and, while it is pending, the objects that explain why."""
        metadata = jobset["metadata"]
        workloads = await self._reader.items(WORKLOAD, self._namespace, labels=f"{JOB_UID}={metadata['uid']}")
        if workloads is None and WORKLOAD.kind not in self._reader.hidden:
            self._fields["kueue"] = False
            return
        workload = next(iter(workloads or ()), None)
        self._fields["workload"] = workload
        if is_condition_true(workload, "Admitted") or is_condition_true(workload, "Finished"):
            return
        if is_condition_true(workload, "QuotaReserved"):
            await self._checks(workload)
            return
        await asyncio.gather(self._queues(metadata["labels"][QUEUE_LABEL], workload), self._preemptor(workload))

    async def _checks(self, workload: Object | None) -> None:
        names = [check["name"] for check in ((workload or {}).get("status") or {}).get("admissionChecks") or ()]
        self._fields["checks"] = await self._named(ADMISSION_CHECK, names[:_MAX_DETAILED])

    async def _preemptor(self, workload: Object | None) -> None:
        if uid := workload_causes.preemptor_uid(workload):
            # Without permission to list Workloads of all namespaces, try the job's own.
            workloads = await self._reader.items(WORKLOAD, None, labels=f"{JOB_UID}={uid}", quiet=True)
            workloads = workloads or await self._reader.items(WORKLOAD, self._namespace, labels=f"{JOB_UID}={uid}")
            self._fields["preemptor"] = next(iter(workloads or ()), None)

    async def _queues(self, name: str, workload: Object | None) -> None:
        local, namespace = await asyncio.gather(
            self._reader.get(LOCAL_QUEUE, name, self._namespace), self._reader.get(NAMESPACE, self._namespace, quiet=True)
        )
        self._fields |= {"local_queue": local, "namespace_object": namespace}
        if local is None:
            known = await self._reader.items(LOCAL_QUEUE, self._namespace, limit=100)
            self._fields["local_queues"] = [queue["metadata"]["name"] for queue in known or ()]
            return
        queue = await self._reader.get(CLUSTER_QUEUE, local["spec"]["clusterQueue"])
        self._fields["cluster_queue"] = queue
        tasks = [self._position(local, workload, int(((queue or local).get("status") or {}).get("pendingWorkloads") or 0))]
        if queue is not None:
            tasks += [self._flavors(queue), self._cohort(queue)]
        await asyncio.gather(*tasks)
        if workload is not None:
            # A user who may not read the ClusterQueue still sees the jobs of the namespace that hold its quota.
            queues = (
                self._fields["cohort"] if queue is not None else [{**local, "metadata": {"name": local["spec"]["clusterQueue"]}}]
            )
            await self._scan(local["spec"]["clusterQueue"], {item["metadata"]["name"]: item for item in queues})

    async def _flavors(self, queue: Object) -> None:
        names = [flavor["name"] for group in queue["spec"].get("resourceGroups") or () for flavor in group["flavors"]]
        self._fields["flavors"] = await self._named(RESOURCE_FLAVOR, dict.fromkeys(names))

    async def _cohort(self, queue: Object) -> None:
        """Read the ClusterQueues that share quota with this one."""
        cohort = cohort_of(queue)
        queues = [queue]
        if cohort:
            known, cohorts = await asyncio.gather(self._reader.items(CLUSTER_QUEUE), self._reader.items(COHORT, quiet=True))
            tree = cohort_tree(cohort, cohorts or [])
            queues = [item for item in known or () if cohort_of(item) in tree] or queues
            self._fields["cohorts"] = [item for item in cohorts or () if item["metadata"]["name"] in tree]
        self._fields["cohort"] = queues

    async def _scan(self, queue: str, queues: dict[str, Object]) -> None:
        """Read the Workloads with quota, and the pending ones if Kueue did not report the order.

        No selector finds either, so all Workloads are read up to a maximum, or until all holders are found.
        """
        expected = sum(int((item.get("status") or {}).get("reservingWorkloads") or 0) for item in queues.values())
        ordered = "queue_index" in self._fields
        holders: list[Object] = []
        pending: list[Object] = []
        workloads = self._reader.list_pages(WORKLOAD, self._namespace, maximum=0 if ordered and not expected else _MAX_SCANNED)
        is_complete = True
        async with aclosing(workloads):
            async for workload in workloads:
                if ((workload.get("status") or {}).get("admission") or {}).get("clusterQueue") in queues:
                    holders.append(workload)
                elif not ordered and is_pending_workload(workload):
                    pending.append(workload)
                if ordered and len(holders) >= expected:
                    is_complete = False
                    break
        self._fields |= {"holders": holders, "all_holders": len(holders) >= expected}
        if not ordered and is_complete and self._reader.is_complete:
            await self._order(queue, pending)
        await self._deadlines(holders)

    async def _order(self, queue: str, pending: list[Object]) -> None:
        """Compute the order of the pending Workloads."""
        known = await self._reader.items(LOCAL_QUEUE, None, quiet=True) or [self._fields["local_queue"]]
        local_queues = {
            (item["metadata"]["namespace"], item["metadata"]["name"]) for item in known if item["spec"]["clusterQueue"] == queue
        }
        queued = [item for item in pending if (item["metadata"]["namespace"], item["spec"].get("queueName", "")) in local_queues]
        ordered = sorted(queued, key=queue_sort_key)
        own = self._fields["workload"]["metadata"]["uid"]
        for index, workload in enumerate(ordered):
            if workload["metadata"]["uid"] == own:
                self._fields |= {"queue_index": index, "head": ordered[:HEAD_SIZE]}

    async def _deadlines(self, holders: list[Object]) -> None:
        """Read the JobSets of some quota holders, for their deadlines."""
        keys = [(holder["metadata"]["namespace"], owner_name(holder)) for holder in holders[:_MAX_DETAILED]]
        jobsets = await asyncio.gather(*(self._reader.get(JOBSET, name, namespace, quiet=True) for namespace, name in keys))
        self._fields["holder_jobsets"] = {key: jobset for key, jobset in zip(keys, jobsets, strict=True) if jobset is not None}

    async def _position(self, local: Object, workload: Object | None, pending: int) -> None:
        position = None if workload is None else await self._reader.find_position(local, workload, pending)
        if position is not None:
            self._fields |= {"queue_index": position.queue_index, "head": list(position.head)}

    async def _named(self, resource: Resource, names: Iterable[str]) -> dict[str, Object]:
        keys = list(names)
        objects = await asyncio.gather(*(self._reader.get(resource, name) for name in keys))
        return {name: obj for name, obj in zip(keys, objects, strict=True) if obj is not None}


async def collect_evidence(client: Client, namespace: str, name: str, *, container: Container | None = None) -> Evidence:
    """Read the evidence about one JobSet; raises NotFound. `container` is queried while node pools are being created."""
    reader = Reader(client)
    jobset = await reader.get_required(JOBSET, name, namespace)
    fields: Object = {"jobset": jobset}
    pods = PodCollector(reader, namespace, fields)
    is_completed = is_condition_true(jobset, "Completed")
    tasks = [pods.read_events("JobSet", name)]
    if QUEUE_LABEL in (jobset["metadata"].get("labels") or {}) and not is_completed:
        tasks.append(QueueCollector(reader, namespace, fields).collect(jobset))
    if not is_completed and (not jobset["spec"].get("suspend") or is_condition_true(jobset, "Failed")):
        tasks.append(pods.collect(name))
    await asyncio.gather(*tasks)
    if queue_causes.is_unexplained(_build_evidence(reader, fields)):
        fields["unready"] = await _list_unready(reader, namespace)
    if container is not None and slice_causes.is_waiting_for_slices(_build_evidence(reader, fields)):
        fields |= await _collect_pools(
            reader, container, own={labels.POOL_JOBSET_NAME: name, labels.POOL_JOBSET_NAMESPACE: namespace}
        )
    return _build_evidence(reader, fields)


async def _list_unready(reader: Reader, namespace: str) -> list[Object]:
    """The admitted Workloads of any queue whose pods are not ready. Kueue reports this only if it waits for them."""
    unready: list[Object] = []
    async with aclosing(reader.list_pages(WORKLOAD, namespace, maximum=_MAX_SCANNED)) as workloads:
        async for workload in workloads:
            is_active = is_condition_true(workload, "Admitted") and not is_condition_true(workload, "Finished")
            if is_active and find_condition(workload, "PodsReady").get("status") == "False":
                unready.append(workload)
    return unready


def _build_evidence(reader: Reader, fields: Object) -> Evidence:
    values: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in fields.items()}
    return Evidence(now=clock.now(), hidden=frozenset(reader.hidden), unreadable=tuple(reader.unreadable), **values)


async def _collect_pools(reader: Reader, container: Container, own: dict[str, str]) -> Object:
    """The node pools of a JobSet and their operations."""
    try:
        pools, operations = await asyncio.gather(container.list_node_pools(), container.list_operations())
    except SliceworksError as error:
        reader.unreadable.append(f"node pools of {container.cluster}: {error.message}")
        return {}
    owned = [pool for pool in pools if own.items() <= ((pool.get("config") or {}).get("labels") or {}).items()]
    names = {pool["name"] for pool in owned}
    return {"pools": owned, "operations": [operation for operation in operations if operation.target in names]}
