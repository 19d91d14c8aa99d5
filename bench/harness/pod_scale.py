"""JobSets and their pods from submission to completion, in one process and in virtual time.

Nodes are TPU hosts, and each pod requests all chips of one. JobSets of fifty pods are submitted at a rate that keeps three quarters
of the nodes busy, at every size.
"""

from __future__ import annotations

import resource
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock, memory, progress
from sliceworks.kube.client import Client
from sliceworks.kube.resources import Resource
from sliceworks.twin.cluster import Cluster
from sliceworks.twin.nodes.node_shape import create_nodes, tpu_shape

if TYPE_CHECKING:
    from sliceworks.twin.store.watch_cache import Change

JOBSET = Resource("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets", namespaced=True)
SLICES, HOSTS = 1, 50
RUN_SECONDS = 600.0
UTILIZATION = 0.75
_CHIPS = "google.com/tpu"


@dataclass(slots=True)
class Outcome:
    """Sizes, times and peak memory of one run."""

    nodes: int
    jobsets: int
    pods: int
    wall_seconds: float = 0.0
    virtual_seconds: float = 0.0
    peak_bytes: int = 0

    @property
    def seconds_per_pod(self) -> float:
        """Wall time per pod."""
        return self.wall_seconds / self.pods


class _Completions:
    """Names of completed JobSets and succeeded pods."""

    def __init__(self) -> None:
        self.completed: set[str] = set()
        self.succeeded: set[str] = set()

    def observe(self, change: Change) -> None:
        if change.resource == "/pods" and change.obj["status"].get("phase") == "Succeeded":
            self.succeeded.add(change.name)
        elif change.resource == "jobset.x-k8s.io/jobsets" and change.obj.get("status", {}).get("terminalState") == "Completed":
            self.completed.add(change.name)


def run(nodes: int, jobsets: int) -> Outcome:
    """Submit all JobSets and wait until the last one has completed."""
    with memory.reduced_gc():
        return clock.run(_run(nodes, jobsets), virtual=True, seed=1)


async def _run(nodes: int, jobsets: int) -> Outcome:
    outcome, completions = Outcome(nodes, jobsets, jobsets * SLICES * HOSTS), _Completions()
    async with Cluster() as cluster:
        cluster.store.subscribe(completions.observe)
        async with Client(cluster.transport()) as client:
            started = time.perf_counter()
            await create_nodes(client, tpu_shape("tpu", "tpu-v5-lite-podslice", "4x4"), nodes)
            await clock.sleep(60)  # nodes boot and lose their startup taints
            progress.say(f"{nodes:,} nodes after {time.perf_counter() - started:.1f} s")
            started, virtual_start = time.perf_counter(), clock.loop_time()
            interval = RUN_SECONDS / (nodes * UTILIZATION / (SLICES * HOSTS))
            for number in range(jobsets):
                await client.create(_jobset(f"training-{number}"), resource=JOBSET)
                await clock.sleep(interval)
            while len(completions.completed) < jobsets:
                await clock.sleep(10)
            outcome.wall_seconds, outcome.virtual_seconds = time.perf_counter() - started, clock.loop_time() - virtual_start
    if len(completions.succeeded) != outcome.pods:
        raise SystemExit(f"{len(completions.succeeded)} of {outcome.pods} pods succeeded")
    outcome.peak_bytes = peak_bytes()
    return outcome


def _jobset(name: str) -> dict[str, Any]:
    container = {"name": "train", "image": "example.com/train:1", "resources": {"limits": {_CHIPS: "4"}}}
    pod = {
        "restartPolicy": "Never",
        "nodeSelector": {"cloud.google.com/gke-tpu-accelerator": "tpu-v5-lite-podslice"},
        "tolerations": [{"key": _CHIPS, "operator": "Exists", "effect": "NoSchedule"}],
        "containers": [container],
    }
    template = {"metadata": {"annotations": {"sliceworks.dev/run-seconds": f"{RUN_SECONDS:.0f}"}}, "spec": pod}
    job = {"parallelism": HOSTS, "completions": HOSTS, "completionMode": "Indexed", "backoffLimit": 0, "template": template}
    return {
        "apiVersion": JOBSET.api_version,
        "kind": JOBSET.kind,
        "metadata": {"name": name},
        "spec": {"replicatedJobs": [{"name": "slice", "replicas": SLICES, "template": {"spec": job}}]},
    }


def peak_bytes() -> int:
    """Peak resident memory of this process."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
