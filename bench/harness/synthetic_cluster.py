"""A synthetic busy cluster for the console: teams, queues, thousands of jobs with their pods, and slices.

    python -m bench.harness.synthetic_cluster FOLDER [--jobs 5000] [--slices 1000] [--updates 60]

It is a twin in FOLDER whose objects are written directly to its store. No controllers run; jobs, pods and Workloads change at a
constant rate. The same arguments create the same cluster.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from sliceworks import catalog
from sliceworks.base import clock
from sliceworks.kube import pod_placement
from sliceworks.twin.apiserver import bootstrap
from sliceworks.twin.controllers import jobset as jobset_program
from sliceworks.twin.controllers import kueue as kueue_program
from sliceworks.twin.main import TwinOptions, serve

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from sliceworks.twin.cluster import Cluster

Object = dict[str, Any]
Entry = tuple[str, Object]
"""An object with its resource."""

JOBSETS, WORKLOADS, PODS, NODES = "jobset.x-k8s.io/jobsets", "kueue.x-k8s.io/workloads", "/pods", "/nodes"
_TEAMS = ("assistants", "embeddings", "gemma", "ranking", "robotics", "search", "speech", "vision")
_TYPES = ("v5litepod-16", "v6e-16", "v5p-32", "v4-32")
_MODELS = ("gemma-2b", "gemma-7b", "llama-8b", "bert-large", "vit-h14", "whisper", "t5-xxl", "mixtral", "resnet", "dlrm")
_TASKS = ("pretrain", "sft", "dpo", "eval", "distill", "sweep", "ablation", "finetune")
_CHIPS = "google.com/tpu"
_HOSTS = 4  # per slice, for all types above
_FINISHED = 0.55  # share of finished jobs


@dataclass(slots=True)
class Job:
    """A job, its state and its node pools."""

    name: str
    team: str
    type: str
    state: str
    priority: int
    created: str
    transitioned: str
    pools: tuple[str, ...] = ()
    uid: str = field(default_factory=clock.uid)


class SyntheticCluster:
    """Generates the objects of the cluster, in an order in which they could have been created."""

    def __init__(self, jobs: int, slices: int, seed: int = 1) -> None:
        self._random = Random(seed)
        self._now = clock.now()
        self._pools = [f"slice-{number:04}" for number in range(slices)]
        self.jobs = self._jobs(jobs)

    def _jobs(self, count: int) -> list[Job]:
        free = list(self._pools)[: -max(len(self._pools) // 20, 1)]
        jobs = []
        for number in range(count):
            finished, chance = number < count * _FINISHED, self._random.random()
            state = ("failed" if chance < 0.06 else "completed") if finished else "running" if free else "queued"
            if state == "running" and chance > 0.94:
                state = "starting"
            pools = (free.pop(0),) if state in ("running", "starting") else ()
            jobs.append(self._job(number, state, pools, count - number))
        return jobs

    def _job(self, number: int, state: str, pools: tuple[str, ...], age: int) -> Job:
        choice = self._random.choice
        type_name = _TYPES[int(pools[0][-4:]) % len(_TYPES)] if pools else choice(_TYPES)
        created = self._now - timedelta(seconds=age * 9 + self._random.randrange(9))
        transitioned = created + timedelta(seconds=self._random.randrange(30, 600))
        name = f"{choice(_MODELS)}-{choice(_TASKS)}-{number:04}"
        priority = self._random.choice((10, 50, 50, 50, 100))
        return Job(
            name, choice(_TEAMS), type_name, state, priority, _timestamp(created), _timestamp(min(transitioned, self._now)), pools
        )

    def objects(self) -> Iterator[Entry]:
        """All objects with their resources."""
        for number, team in enumerate(_TEAMS):
            yield from self._team(number, team)
        for type_name in _TYPES:
            yield "kueue.x-k8s.io/resourceflavors", _object("kueue.x-k8s.io/v1beta2", "ResourceFlavor", type_name, spec={})
        for number, pool in enumerate(self._pools):
            yield from self._slice(number, pool)
        for job in self.jobs:
            yield JOBSETS, self.jobset(job)
            yield WORKLOADS, self.workload(job)
            if job.state != "queued":
                yield from ((PODS, self.pod(job, index)) for index in range(_HOSTS))

    def _team(self, number: int, team: str) -> Iterator[Entry]:
        labels = {"kubernetes.io/metadata.name": team, "sliceworks.dev/team": team}
        yield "/namespaces", _object("v1", "Namespace", team, labels=labels, spec={}, status={"phase": "Active"})
        # Running jobs use the whole quota, so that queued jobs wait for quota.
        running = {name: sum(len(job.pools) for job in self.jobs if job.type == name) * 16 for name in _TYPES}
        quotas = {name: -(-chips // len(_TEAMS)) for name, chips in running.items()}
        flavors = [{"name": name, "resources": [{"name": _CHIPS, "nominalQuota": str(quota)}]} for name, quota in quotas.items()]
        used = {name: sum(16 for job in self.jobs if job.pools and (job.team, job.type) == (team, name)) for name in _TYPES}
        status = {
            "admittedWorkloads": sum(job.team == team and bool(job.pools) for job in self.jobs),
            "pendingWorkloads": sum(job.team == team and job.state == "queued" for job in self.jobs),
            "flavorsReservation": [
                {"name": name, "resources": [{"name": _CHIPS, "total": str(chips), "borrowed": str(max(chips - quotas[name], 0))}]}
                for name, chips in used.items()
            ],
            "conditions": [_condition("Active", transitioned=_timestamp(self._now))],
        }
        spec = {
            "cohortName": "all",
            "namespaceSelector": {},
            "queueingStrategy": "BestEffortFIFO",
            "preemption": {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Any"},
            "resourceGroups": [{"coveredResources": [_CHIPS], "flavors": flavors}],
            **({"stopPolicy": "Hold"} if number == len(_TEAMS) - 1 else {}),
        }
        group = "kueue.x-k8s.io"
        yield f"{group}/clusterqueues", _object(f"{group}/v1beta2", "ClusterQueue", team, spec=spec, status=status)
        local = _object(f"{group}/v1beta2", "LocalQueue", "jobs", namespace=team, spec={"clusterQueue": team}, status={})
        yield f"{group}/localqueues", local

    def _slice(self, number: int, pool: str) -> Iterator[Entry]:
        shape = catalog.find(_TYPES[number % len(_TYPES)])
        labels = {**pod_placement.node_selector(shape, "on-demand", ""), "cloud.google.com/gke-nodepool": pool}
        labels |= {"topology.kubernetes.io/zone": "us-central1-a", "node.kubernetes.io/instance-type": shape.machine.name}
        not_ready = number % 97 == 13
        for index in range(_HOSTS):
            ready = _condition("Ready", not (not_ready and index == 2), _timestamp(self._now - timedelta(minutes=number % 50)))
            resources = {_CHIPS: "4", "cpu": "208", "memory": "448Gi"}
            status = {"conditions": [ready], "capacity": resources, "allocatable": resources}
            yield NODES, _object("v1", "Node", f"gke-{pool}-{index}", labels=labels, spec={}, status=status)

    def jobset(self, job: Job) -> Object:
        """The JobSet of a job."""
        shape = catalog.find(job.type)
        pod = {
            "containers": [
                {
                    "name": "trainer",
                    "image": "us-docker.pkg.dev/shop/train:7",
                    "resources": {"requests": {_CHIPS: "4"}, "limits": {_CHIPS: "4"}},
                }
            ],
            "nodeSelector": pod_placement.node_selector(shape, "on-demand", ""),
        }
        template = {"spec": {"parallelism": _HOSTS, "completions": _HOSTS, "completionMode": "Indexed", "template": {"spec": pod}}}
        spec = {"replicatedJobs": [{"name": "slice", "replicas": 1, "template": template}], "failurePolicy": {"maxRestarts": 3}}
        ready = {"ready": int(job.state == "running"), "succeeded": int(job.state == "completed")}
        conditions = [_condition("Suspended", job.state == "queued", job.transitioned if job.pools else job.created)]
        if job.state == "completed":
            conditions.append(_condition("Completed", transitioned=job.transitioned, message="jobset completed successfully"))
        if job.state == "failed":
            conditions.append(
                _condition("Failed", transitioned=job.transitioned, message="jobset failed due to reaching max number of restarts")
            )
        status = {"conditions": conditions, "restarts": 0, "replicatedJobsStatus": [{"name": "slice", **ready}]}
        priority = {10: "low", 50: "medium", 100: "high"}[job.priority]
        labels = {"kueue.x-k8s.io/queue-name": "jobs", "kueue.x-k8s.io/priority-class": priority, "sliceworks.dev/type": job.type}
        obj = _object(
            "jobset.x-k8s.io/v1alpha2",
            "JobSet",
            job.name,
            namespace=job.team,
            labels=labels,
            created=job.created,
            spec=spec,
            status=status,
        )
        obj["spec"]["suspend"] = job.state == "queued"
        obj["metadata"]["uid"] = job.uid
        return obj

    def workload(self, job: Job) -> Object:
        """The Workload of a job."""
        requests = [{"name": "trainer", "image": "us-docker.pkg.dev/shop/train:7", "resources": {"requests": {_CHIPS: "4"}}}]
        sets = [{"name": "slice", "count": _HOSTS, "template": {"spec": {"containers": requests}}}]
        spec = {"active": True, "queueName": "jobs", "priority": job.priority, "podSets": sets}
        owner = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": job.name, "uid": job.uid, "controller": True}
        status: Object = {"conditions": []}
        if job.pools:
            usage = {"name": "slice", "flavors": {_CHIPS: job.type}, "resourceUsage": {_CHIPS: "16"}, "count": _HOSTS}
            status["admission"] = {"clusterQueue": job.team, "podSetAssignments": [usage]}
            status["conditions"] = [
                _condition("QuotaReserved", transitioned=job.transitioned),
                _condition("Admitted", transitioned=job.transitioned),
            ]
        elif job.state == "queued":
            reason = f"insufficient unused quota for {_CHIPS} in flavor {job.type}, 16 more needed"
            message = f"couldn't assign flavors to pod set slice: {reason}"
            status["conditions"] = [_condition("QuotaReserved", False, job.created, message)]
        else:
            status["conditions"] = [_condition("Finished", transitioned=job.transitioned)]
        labels = {"kueue.x-k8s.io/job-uid": job.uid}
        obj = _object(
            "kueue.x-k8s.io/v1beta2",
            "Workload",
            f"jobset-{job.name}",
            namespace=job.team,
            labels=labels,
            created=job.created,
            spec=spec,
            status=status,
        )
        obj["metadata"]["ownerReferences"] = [owner]
        return obj

    def pod(self, job: Job, index: int, restarts: int = 0) -> Object:
        """One pod of a job."""
        phase = {"running": "Running", "starting": "Pending", "completed": "Succeeded", "failed": "Failed"}[job.state]
        node = {"nodeName": f"gke-{job.pools[0]}-{index}"} if job.pools else {}
        container = {"name": "trainer", "image": "us-docker.pkg.dev/shop/train:7", "resources": {"requests": {_CHIPS: "4"}}}
        state = {
            "Running": {"running": {"startedAt": job.transitioned}},
            "Pending": {"waiting": {"reason": "ContainerCreating"}},
        }.get(phase, {"terminated": {"exitCode": int(phase == "Failed"), "reason": "Error" if phase == "Failed" else "Completed"}})
        ready = phase == "Running"
        container_status = {
            "name": "trainer",
            "ready": ready,
            "restartCount": restarts,
            "state": state,
            "image": "us-docker.pkg.dev/shop/train:7",
        }
        status = {
            "phase": phase,
            "podIP": f"10.{index}.{int(job.name[-2:])}.{len(job.name)}",
            "conditions": [_condition("PodScheduled", transitioned=job.transitioned), _condition("Ready", ready, job.transitioned)],
            "containerStatuses": [container_status],
        }
        labels = {
            "jobset.sigs.k8s.io/jobset-name": job.name,
            "jobset.sigs.k8s.io/replicatedjob-name": "slice",
            "jobset.sigs.k8s.io/job-index": "0",
            "jobset.sigs.k8s.io/restart-attempt": "0",
            "batch.kubernetes.io/job-completion-index": str(index),
        }
        spec = {**node, "containers": [container], "restartPolicy": "Never"}
        return _object(
            "v1",
            "Pod",
            f"{job.name}-slice-0-{index}",
            namespace=job.team,
            labels=labels,
            created=job.transitioned,
            spec=spec,
            status=status,
        )

    def change(self) -> Iterator[Entry]:
        """One change: a pod restarts, or a job completes and a queued job gets its slice.

        Jobs complete only while others are queued, so that the number of running jobs is constant.
        """
        running = [job for job in self.jobs if job.state == "running"]
        job = self._random.choice(running or [job for job in self.jobs if job.state != "queued"])
        queued = next((other for other in self.jobs if other.state == "queued"), None)
        if not running or queued is None or self._random.random() < 0.97:
            yield PODS, self.pod(job, self._random.randrange(_HOSTS), restarts=self._random.randrange(1, 9))
            return
        pools, job.state, job.transitioned, job.pools = job.pools, "completed", clock.timestamp(), ()
        yield from self._objects_of(job)
        queued.state, queued.transitioned, queued.pools, queued.type = "running", clock.timestamp(), pools, job.type
        yield from self._objects_of(queued)

    def _objects_of(self, job: Job) -> Iterator[Entry]:
        yield JOBSETS, self.jobset(job)
        yield WORKLOADS, self.workload(job)
        yield from ((PODS, self.pod(job, index)) for index in range(_HOSTS))


def _object(
    api_version: str, kind: str, name: str, *, namespace: str = "", labels: Object | None = None, created: str = "", **fields: Any
) -> Object:
    metadata = {
        "name": name,
        **({"namespace": namespace} if namespace else {}),
        "uid": clock.uid(),
        "creationTimestamp": created or clock.timestamp(),
    }
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata | ({"labels": labels} if labels else {}), **fields}


def _condition(kind: str, status: bool = True, transitioned: str = "", message: str = "") -> Object:
    return {"type": kind, "status": str(status), "lastTransitionTime": transitioned, "reason": kind, "message": message}


def _timestamp(time: datetime) -> str:
    return clock.rfc3339(time)


def put(cluster: Cluster, resource: str, obj: Object) -> None:
    """Write an object directly to the store."""
    metadata = obj["metadata"]
    cluster.store.put(resource, metadata.get("namespace", ""), metadata["name"], obj)


async def run(folder: Path, jobs: int, slices: int, updates: float) -> None:
    """Serve the cluster until SIGTERM."""
    synthetic = SyntheticCluster(jobs, slices)
    options = TwinOptions("synthetic", folder, memory=True, workloads=False)
    await serve(options, lambda cluster: _fill_and_update(cluster, synthetic, updates))


def fill(cluster: Cluster, synthetic: SyntheticCluster) -> None:
    """Write the CRDs of JobSet and Kueue and all objects into a cluster without controllers."""
    store, webhooks = cluster.store, cluster.api_server.webhooks
    installed = [*jobset_program.install(store, webhooks), *kueue_program.install(store, webhooks)]
    crds = [obj for obj in installed if obj["kind"] == "CustomResourceDefinition"]
    bootstrap.create_missing(store, cluster.api_server.registry, cluster.api_server.view, crds)
    for resource, obj in synthetic.objects():
        put(cluster, resource, obj)


@asynccontextmanager
async def _fill_and_update(cluster: Cluster, synthetic: SyntheticCluster, updates: float) -> AsyncIterator[None]:
    fill(cluster, synthetic)
    task = asyncio.create_task(_update(cluster, synthetic, updates))
    print("ready", flush=True)
    yield
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def _update(cluster: Cluster, synthetic: SyntheticCluster, updates: float) -> None:
    """Write changes at a constant rate per second."""
    due = clock.loop_time()
    while updates:
        for resource, obj in synthetic.change():
            old = cluster.store.get(resource, obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
            if old is not None:
                obj["metadata"]["uid"] = old.object()["metadata"]["uid"]
            put(cluster, resource, obj)
            due += 1 / updates
            await clock.sleep(max(due - clock.loop_time(), 0))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--jobs", type=int, default=5_000)
    parser.add_argument("--slices", type=int, default=1_000)
    parser.add_argument("--updates", type=float, default=0.0)
    options = parser.parse_args()
    clock.run(run(options.folder, options.jobs, options.slices, options.updates))
