"""Slices of generation 7x need a workload policy, which the controller creates if the region has none."""

from __future__ import annotations

from sliceworks.base import clock
from sliceworks.base.transport import InProcess
from sliceworks.cloud.container import Container
from sliceworks.cloud.credentials import Token
from sliceworks.cloud.session import Session
from sliceworks.twin.cluster import Cluster

_PATH = "/compute/v1/projects/p/regions/us-central1/resourcePolicies"


def test_workload_policy_is_created_once() -> None:
    async def work() -> None:
        async with Cluster() as cluster:
            session = Session(credentials=Token(cluster.token), transport=InProcess(cluster.cloud.serve))
            container = Container(session, "p", "us-central1-c", "c", prefix="/container")
            for _ in range(2):
                await container.ensure_workload_policy("tpu-provisioner-4x4x4", "4x4x4")
                await clock.sleep(60)
            [policy] = (await session.call("GET", _PATH))["items"]
            assert policy["name"] == "tpu-provisioner-4x4x4"
            assert policy["workloadPolicy"] == {"type": "HIGH_THROUGHPUT", "acceleratorTopology": "4x4x4"}

    clock.run(work(), virtual=True)
