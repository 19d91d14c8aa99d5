"""Many nodes, JobSets and pods from submission to completion, in one process and in virtual time.

Nodes are TPU hosts, and every pod takes all chips of one. A JobSet of fifty pods comes every few seconds, so that three quarters of
the nodes are busy once it is under way, whatever the size.
"""

from __future__ import annotations

import resource
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock, collector, progress
from sliceworks.kube.client import Client
from sliceworks.kube.resources import Resource
from sliceworks.twin.cluster import Cluster
from sliceworks.twin.nodes.shapes import create_nodes, tpu_shape

if TYPE_CHECKING:
    from sliceworks.twin.store.entries import Change

JOBSET = Resource("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets", namespaced=True)
SLICES, HOSTS = 1, 50
RUNS = 600.0
BUSY = 0.75
_CHIPS = "google.com/tpu"


@dataclass(slots=True)
class Outcome:
    """What a run took."""

    nodes: int
    jobsets: int
    pods: int
    wall: float = 0.0
    virtual: float = 0.0
    peak_bytes: int = 0

    @property
    def each(self) -> float:
        """Seconds of wall time for one pod."""
        return self.wall / self.pods


class _Count:
    """Knows which JobSets have completed, and which pods have succeeded."""

    def __init__(self) -> None:
        self.completed: set[str] = set()
        self.succeeded: set[str] = set()

    def observe(self, change: Change) -> None:
        if change.resource == "/pods" and change.obj["status"].get("phase") == "Succeeded":
            self.succeeded.add(change.name)
        elif change.resource == "jobset.x-k8s.io/jobsets" and change.obj.get("status", {}).get("terminalState") == "Completed":
            self.completed.add(change.name)


def run(nodes: int, jobsets: int) -> Outcome:
    """All of them, until the last JobSet has completed."""
    with collector.rested():
        return clock.run(_run(nodes, jobsets), virtual=True, seed=1)


async def _run(nodes: int, jobsets: int) -> Outcome:
    outcome, count = Outcome(nodes, jobsets, jobsets * SLICES * HOSTS), _Count()
    async with Cluster() as cluster:
        cluster.store.subscribe(count.observe)
        async with Client(cluster.transport()) as client:
            begun = time.perf_counter()
            await create_nodes(client, tpu_shape("tpu", "tpu-v5-lite-podslice", "4x4"), nodes)
            await clock.sleep(60)  # they boot, and lose the taints of new nodes
            progress.say(f"{nodes:,} nodes after {time.perf_counter() - begun:.1f} s")
            started, first = time.perf_counter(), clock.loop_time()
            every = RUNS / (nodes * BUSY / (SLICES * HOSTS))
            for number in range(jobsets):
                await client.create(_jobset(f"training-{number}"), resource=JOBSET)
                await clock.sleep(every)
            while len(count.completed) < jobsets:
                await clock.sleep(10)
            outcome.wall, outcome.virtual = time.perf_counter() - started, clock.loop_time() - first
    if len(count.succeeded) != outcome.pods:
        raise SystemExit(f"{len(count.succeeded)} pods succeeded of {outcome.pods}")
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
    template = {"metadata": {"annotations": {"sliceworks.dev/run-seconds": f"{RUNS:.0f}"}}, "spec": pod}
    job = {"parallelism": HOSTS, "completions": HOSTS, "completionMode": "Indexed", "backoffLimit": 0, "template": template}
    return {
        "apiVersion": JOBSET.api_version,
        "kind": JOBSET.kind,
        "metadata": {"name": name},
        "spec": {"replicatedJobs": [{"name": "slice", "replicas": SLICES, "template": {"spec": job}}]},
    }


def peak_bytes() -> int:
    """The most memory that this process ever held."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024
