"""`train why` has a cause for every job that does not run, whatever is in its way."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.obstructed_cluster import explain_all

from sliceworks.base import clock
from sliceworks.cli.train_show import diagnose
from sliceworks.kube.client import Client
from sliceworks.kube.resources import NODE, POD
from sliceworks.twin.cluster import Cluster
from sliceworks.twin.nodes.node_shape import NodeShape, create_nodes

if TYPE_CHECKING:
    from sliceworks.training.diagnosis.model import Diagnosis

_SEEDS = int(os.environ.get("SLICEWORKS_SEEDS", "12"))
_FAILED_ONCE = (1, 6, 38, 80, 149, 221)
"""1, 38: Kueue waited for the pods of jobs in another queue. 6: JobSet created no Jobs, and `why` named their dependents. 80: a
node stayed ready that failed at the time at which its lease was created. 149: the host of a pod reported nothing. 221: JobSet
could not create the second part of a job whose first part was ready."""
_VAGUE = ("running", "starting", "pending-in-queue")
"""Answers that name nothing to act on: right for a few seconds, wrong for a job that does not start for minutes."""


@pytest.mark.parametrize("seed", sorted({*range(_SEEDS), *_FAILED_ONCE}))
def test_a_job_that_does_not_run_has_a_cause(seed: int) -> None:
    world, diagnoses = clock.run(explain_all(seed), virtual=True, seed=seed)
    vague = {name: found.causes[0].message for name, found in diagnoses.items() if _is_vague(found, runs=name in world.running)}
    assert not vague, f"{vague} {world.obstacles}"


def _is_vague(diagnosis: Diagnosis, *, runs: bool) -> bool:
    """Whether a diagnosis names nothing to act on: "running" is right for a job that runs, and a job that is only said to depend on
    its own part may wait for anything."""
    names = {cause.kind.name for cause in diagnosis.causes}
    return not (runs and names == {"running"}) and names <= {*_VAGUE, "replicated-job-blocked", "earlier-step"}


def test_random_clusters_obstruct_jobs_in_many_ways() -> None:
    kinds = {
        cause.kind.name
        for seed in range(8)
        for diagnosis in clock.run(explain_all(seed), virtual=True, seed=seed)[1].values()
        for cause in diagnosis.causes
    }
    assert len(kinds) > 5, kinds


def test_job_whose_lost_host_keeps_its_pod_has_a_cause() -> None:
    """Random lives find this rarely: a host is lost, its pod is deleted but does not stop, and the job cannot restart."""

    async def main() -> tuple[list[str], list[str]]:
        async with Cluster() as cluster, Client(cluster.transport(), namespace="default") as client:
            await create_nodes(client, NodeShape(pool="cpu-pool", cpu="8", memory="32Gi"), 4)
            container = {"name": "c", "image": "example.com/train:1"}
            template: dict[str, Any] = {"spec": {"restartPolicy": "Never", "containers": [container]}}
            job = {"name": "first", "template": {"spec": {"backoffLimit": 0, "template": template}}}
            template["metadata"] = {"annotations": {"sliceworks.dev/run-seconds": "4000"}}
            spec = {"replicatedJobs": [job], "failurePolicy": {"maxRestarts": 1}}
            jobset = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "train"}, "spec": spec}
            await client.create(jobset)
            await clock.sleep(60)
            before = [cause.kind.name for cause in (await diagnose(client, "train")).causes]
            [pod] = (await client.list(POD, "default")).items
            silent = {"metadata": {"annotations": {"sliceworks.dev/state": "silent"}}}
            await client.patch(NODE, pod["spec"]["nodeName"], silent)
            await clock.sleep(600)
            return before, [cause.kind.name for cause in (await diagnose(client, "train")).causes]

    before, after = clock.run(main(), virtual=True)
    assert before == ["running"]
    assert after == ["pod-not-deleted"]
