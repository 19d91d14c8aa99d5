"""A busy cluster out of nothing, for the console to show: teams, queues, thousands of jobs with their pods, and a thousand slices.

    python -m bench.measure.console_worlds FOLDER [--jobs 5000] [--slices 1000] [--updates 60]

It is a twin as others are, in FOLDER, whose objects were put straight into its store: nothing runs there but the API, and so many
changes a second of jobs, pods and Workloads. The same numbers give the same cluster.
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
from sliceworks.catalog import placing
from sliceworks.twin import bootstrap
from sliceworks.twin.main import TwinOptions, serve
from sliceworks.twin.workloads import jobset as jobset_program
from sliceworks.twin.workloads import kueue as kueue_program

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from sliceworks.twin.cluster import Cluster

Object = dict[str, Any]
Put = tuple[str, Object]

JOBSETS, WORKLOADS, PODS, NODES = "jobset.x-k8s.io/jobsets", "kueue.x-k8s.io/workloads", "/pods", "/nodes"
_TEAMS = ("assistants", "embeddings", "gemma", "ranking", "robotics", "search", "speech", "vision")
_TYPES = ("v5litepod-16", "v6e-16", "v5p-32", "v4-32")
_MODELS = ("gemma-2b", "gemma-7b", "llama-8b", "bert-large", "vit-h14", "whisper", "t5-xxl", "mixtral", "resnet", "dlrm")
_TASKS = ("pretrain", "sft", "dpo", "eval", "distill", "sweep", "ablation", "finetune")
_CHIPS = "google.com/tpu"
_HOSTS = 4  # of a slice of every type above
_ENDED = 0.55  # of all jobs, so many have ended


@dataclass(slots=True)
class Job:
    """One job: how it stands, and its slices' pools."""

    name: str
    team: str
    type: str
    state: str
    priority: int
    born: str
    moved: str
    pools: tuple[str, ...] = ()
    uid: str = field(default_factory=clock.uid)


class BigWorld:
    """Makes the objects, in an order in which they could have been made."""

    def __init__(self, jobs: int, slices: int, seed: int = 1) -> None:
        self._random = Random(seed)
        self._now = clock.now()
        self._pools = [f"slice-{number:04}" for number in range(slices)]
        self.jobs = self._jobs(jobs)

    def _jobs(self, count: int) -> list[Job]:
        free = list(self._pools)[: -max(len(self._pools) // 20, 1)]
        found = []
        for number in range(count):
            ended, chance = number < count * _ENDED, self._random.random()
            state = ("failed" if chance < 0.06 else "completed") if ended else "running" if free else "queued"
            if state == "running" and chance > 0.94:
                state = "starting"
            pools = (free.pop(0),) if state in ("running", "starting") else ()
            found.append(self._job(number, state, pools, count - number))
        return found

    def _job(self, number: int, state: str, pools: tuple[str, ...], old: int) -> Job:
        pick = self._random.choice
        type_name = _TYPES[int(pools[0][-4:]) % len(_TYPES)] if pools else pick(_TYPES)
        born = self._now - timedelta(seconds=old * 9 + self._random.randrange(9))
        moved = born + timedelta(seconds=self._random.randrange(30, 600))
        name = f"{pick(_MODELS)}-{pick(_TASKS)}-{number:04}"
        priority = self._random.choice((10, 50, 50, 50, 100))
        return Job(name, pick(_TEAMS), type_name, state, priority, _text(born), _text(min(moved, self._now)), pools)

    def objects(self) -> Iterator[Put]:
        """Every object with the resource it is of."""
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

    def _team(self, number: int, team: str) -> Iterator[Put]:
        labels = {"kubernetes.io/metadata.name": team, "sliceworks.dev/team": team}
        yield "/namespaces", _object("v1", "Namespace", team, labels=labels, spec={}, status={"phase": "Active"})
        # All that runs is all that there is quota for: whoever waits, waits for others.
        quota = -(-sum(len(job.pools) for job in self.jobs) * 16 // (len(_TEAMS) * len(_TYPES)))
        flavors = [{"name": each, "resources": [{"name": _CHIPS, "nominalQuota": str(quota)}]} for each in _TYPES]
        used = {each: sum(16 for job in self.jobs if job.pools and (job.team, job.type) == (team, each)) for each in _TYPES}
        status = {
            "admittedWorkloads": sum(job.team == team and bool(job.pools) for job in self.jobs),
            "pendingWorkloads": sum(job.team == team and job.state == "queued" for job in self.jobs),
            "flavorsReservation": [
                {"name": each, "resources": [{"name": _CHIPS, "total": str(chips), "borrowed": str(max(chips - quota, 0))}]}
                for each, chips in used.items()
            ],
            "conditions": [_condition("Active", moved=_text(self._now))],
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

    def _slice(self, number: int, pool: str) -> Iterator[Put]:
        shape = catalog.find(_TYPES[number % len(_TYPES)])
        labels = {**placing.node_selector(shape, "on-demand", ""), "cloud.google.com/gke-nodepool": pool}
        labels |= {"topology.kubernetes.io/zone": "us-central1-a", "node.kubernetes.io/instance-type": shape.machine.name}
        lost = number % 97 == 13
        for index in range(_HOSTS):
            ready = _condition("Ready", not (lost and index == 2), _text(self._now - timedelta(minutes=number % 50)))
            amount = {_CHIPS: "4", "cpu": "208", "memory": "448Gi"}
            status = {"conditions": [ready], "capacity": amount, "allocatable": amount}
            yield NODES, _object("v1", "Node", f"gke-{pool}-{index}", labels=labels, spec={}, status=status)

    def jobset(self, job: Job) -> Object:
        shape = catalog.find(job.type)
        pod = {
            "containers": [
                {
                    "name": "trainer",
                    "image": "us-docker.pkg.dev/shop/train:7",
                    "resources": {"requests": {_CHIPS: "4"}, "limits": {_CHIPS: "4"}},
                }
            ],
            "nodeSelector": placing.node_selector(shape, "on-demand", ""),
        }
        template = {"spec": {"parallelism": _HOSTS, "completions": _HOSTS, "completionMode": "Indexed", "template": {"spec": pod}}}
        spec = {"replicatedJobs": [{"name": "slice", "replicas": 1, "template": template}], "failurePolicy": {"maxRestarts": 3}}
        ready = {"ready": int(job.state == "running"), "succeeded": int(job.state == "completed")}
        conditions = [_condition("Suspended", job.state == "queued", job.moved if job.pools else job.born)]
        if job.state == "completed":
            conditions.append(_condition("Completed", moved=job.moved, message="jobset completed successfully"))
        if job.state == "failed":
            conditions.append(_condition("Failed", moved=job.moved, message="jobset failed due to reaching max number of restarts"))
        status = {"conditions": conditions, "restarts": 0, "replicatedJobsStatus": [{"name": "slice", **ready}]}
        word = {10: "low", 50: "medium", 100: "high"}[job.priority]
        labels = {"kueue.x-k8s.io/queue-name": "jobs", "kueue.x-k8s.io/priority-class": word, "sliceworks.dev/type": job.type}
        made = _object(
            "jobset.x-k8s.io/v1alpha2",
            "JobSet",
            job.name,
            namespace=job.team,
            labels=labels,
            born=job.born,
            spec=spec,
            status=status,
        )
        made["spec"]["suspend"] = job.state == "queued"
        made["metadata"]["uid"] = job.uid
        return made

    def workload(self, job: Job) -> Object:
        requests = [{"name": "trainer", "image": "us-docker.pkg.dev/shop/train:7", "resources": {"requests": {_CHIPS: "4"}}}]
        sets = [{"name": "slice", "count": _HOSTS, "template": {"spec": {"containers": requests}}}]
        spec = {"active": True, "queueName": "jobs", "priority": job.priority, "podSets": sets}
        owner = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": job.name, "uid": job.uid, "controller": True}
        status: Object = {"conditions": []}
        if job.pools:
            usage = {"name": "slice", "flavors": {_CHIPS: job.type}, "resourceUsage": {_CHIPS: "16"}, "count": _HOSTS}
            status["admission"] = {"clusterQueue": job.team, "podSetAssignments": [usage]}
            status["conditions"] = [_condition("QuotaReserved", moved=job.moved), _condition("Admitted", moved=job.moved)]
        elif job.state == "queued":
            short = f"insufficient unused quota for {_CHIPS} in flavor {job.type}, 16 more needed"
            told = f"couldn't assign flavors to pod set slice: {short}"
            status["conditions"] = [_condition("QuotaReserved", False, job.born, told)]
        else:
            status["conditions"] = [_condition("Finished", moved=job.moved)]
        labels = {"kueue.x-k8s.io/job-uid": job.uid}
        made = _object(
            "kueue.x-k8s.io/v1beta2",
            "Workload",
            f"jobset-{job.name}",
            namespace=job.team,
            labels=labels,
            born=job.born,
            spec=spec,
            status=status,
        )
        made["metadata"]["ownerReferences"] = [owner]
        return made

    def pod(self, job: Job, index: int, restarts: int = 0) -> Object:
        phase = {"running": "Running", "starting": "Pending", "completed": "Succeeded", "failed": "Failed"}[job.state]
        node = {"nodeName": f"gke-{job.pools[0]}-{index}"} if job.pools else {}
        container = {"name": "trainer", "image": "us-docker.pkg.dev/shop/train:7", "resources": {"requests": {_CHIPS: "4"}}}
        state = {"Running": {"running": {"startedAt": job.moved}}, "Pending": {"waiting": {"reason": "ContainerCreating"}}}.get(
            phase, {"terminated": {"exitCode": int(phase == "Failed"), "reason": "Error" if phase == "Failed" else "Completed"}}
        )
        ready = phase == "Running"
        told = {
            "name": "trainer",
            "ready": ready,
            "restartCount": restarts,
            "state": state,
            "image": "us-docker.pkg.dev/shop/train:7",
        }
        status = {
            "phase": phase,
            "podIP": f"10.{index}.{int(job.name[-2:])}.{len(job.name)}",
            "conditions": [_condition("PodScheduled", moved=job.moved), _condition("Ready", ready, job.moved)],
            "containerStatuses": [told],
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
            "v1", "Pod", f"{job.name}-slice-0-{index}", namespace=job.team, labels=labels, born=job.moved, spec=spec, status=status
        )

    def change(self) -> Iterator[Put]:
        """Something happens: a pod is restarted, or a job ends and its slice goes to the next that waits. When nobody waits any
        more, nobody ends: however long somebody looks, as many run as in the beginning."""
        running = [job for job in self.jobs if job.state == "running"]
        job = self._random.choice(running or [job for job in self.jobs if job.state != "queued"])
        following = next((each for each in self.jobs if each.state == "queued"), None)
        if not running or following is None or self._random.random() < 0.97:
            yield PODS, self.pod(job, self._random.randrange(_HOSTS), restarts=self._random.randrange(1, 9))
            return
        pools, job.state, job.moved, job.pools = job.pools, "completed", clock.timestamp(), ()
        yield from self._all_of(job)
        following.state, following.moved, following.pools, following.type = "running", clock.timestamp(), pools, job.type
        yield from self._all_of(following)

    def _all_of(self, job: Job) -> Iterator[Put]:
        yield JOBSETS, self.jobset(job)
        yield WORKLOADS, self.workload(job)
        yield from ((PODS, self.pod(job, index)) for index in range(_HOSTS))


def _object(
    api_version: str, kind: str, name: str, *, namespace: str = "", labels: Object | None = None, born: str = "", **rest: Any
) -> Object:
    metadata = {
        "name": name,
        **({"namespace": namespace} if namespace else {}),
        "uid": clock.uid(),
        "creationTimestamp": born or clock.timestamp(),
    }
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata | ({"labels": labels} if labels else {}), **rest}


def _condition(kind: str, holds: bool = True, moved: str = "", message: str = "") -> Object:
    return {"type": kind, "status": str(holds), "lastTransitionTime": moved, "reason": kind, "message": message}


def _text(moment: datetime) -> str:
    return clock.rfc3339(moment)


def put(cluster: Cluster, resource: str, obj: Object) -> None:
    """Write an object past the API."""
    metadata = obj["metadata"]
    cluster.store.put(resource, metadata.get("namespace", ""), metadata["name"], obj)


async def run(folder: Path, jobs: int, slices: int, updates: float) -> None:
    """Be that cluster until SIGTERM."""
    world = BigWorld(jobs, slices)

    await serve(TwinOptions("big", folder, memory=True, workloads=False), lambda cluster: _filled(cluster, world, updates))


def fill(cluster: Cluster, world: BigWorld) -> None:
    """Put everything into a cluster that runs no workloads: the kinds of JobSet and Kueue first."""
    store, webhooks = cluster.store, cluster.core.webhooks
    installed = [*jobset_program.install(store, webhooks), *kueue_program.install(store, webhooks)]
    kinds = [each for each in installed if each["kind"] == "CustomResourceDefinition"]
    bootstrap.fill(store, cluster.core.registry, cluster.core.view, kinds)
    for resource, obj in world.objects():
        put(cluster, resource, obj)


@asynccontextmanager
async def _filled(cluster: Cluster, world: BigWorld, updates: float) -> AsyncIterator[None]:
    fill(cluster, world)
    changing = asyncio.create_task(_change(cluster, world, updates))
    print("ready", flush=True)
    yield
    changing.cancel()
    with suppress(asyncio.CancelledError):
        await changing


async def _change(cluster: Cluster, world: BigWorld, updates: float) -> None:
    """So many writes a second, one by one."""
    due = clock.loop_time()
    while updates:
        for resource, obj in world.change():
            old = cluster.store.get(resource, obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
            if old is not None:
                obj["metadata"]["uid"] = old.object()["metadata"]["uid"]
            put(cluster, resource, obj)
            due += 1 / updates
            await clock.sleep(max(due - clock.loop_time(), 0))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--jobs", type=int, default=5_000)
    parser.add_argument("--slices", type=int, default=1_000)
    parser.add_argument("--updates", type=float, default=0.0)
    given = parser.parse_args()
    clock.run(run(given.folder, given.jobs, given.slices, given.updates))
