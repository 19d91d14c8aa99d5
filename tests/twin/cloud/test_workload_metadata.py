"""Nodes of a cluster with a workload pool run the GKE metadata server, which their label says."""

from __future__ import annotations

from typing import Any

import pytest

from sliceworks.base import clock
from sliceworks.base.transport import InProcess
from sliceworks.cloud.container import Container
from sliceworks.cloud.credentials import Token
from sliceworks.cloud.session import Session
from sliceworks.kube.client import Client
from sliceworks.kube.resources import NODE
from sliceworks.twin.cluster import Cluster

LABEL = "iam.gke.io/gke-metadata-server-enabled"


@pytest.mark.parametrize(
    ("identity", "config", "value"),
    [
        ({"workloadPool": "p.svc.id.goog"}, {}, "true"),
        ({"workloadPool": "p.svc.id.goog"}, {"workloadMetadataConfig": {"mode": "GCE_METADATA"}}, None),
        ({}, {}, None),
    ],
)
def test_label_follows_the_workload_pool(identity: dict[str, str], config: dict[str, Any], value: str | None) -> None:
    async def work() -> None:
        async with Cluster() as cluster:
            session = Session(credentials=Token(cluster.token), transport=InProcess(cluster.cloud.serve))
            pool = {"name": "cpu", "initialNodeCount": 1, "config": {"machineType": "n2-standard-8", **config}}
            body = {"name": "c", "nodePools": [pool], "workloadIdentityConfig": identity}
            path = "/container/v1/projects/p/locations/us-central1-a/clusters"
            await session.call("POST", path, {"cluster": body})
            container = Container(session, "p", "us-central1-a", "c", prefix="/container")
            while (await container.get_cluster())["status"] != "RUNNING":
                await clock.sleep(30)
            [node] = (await Client(cluster.transport()).list(NODE)).items
            assert node["metadata"]["labels"].get(LABEL) == value

    clock.run(work(), virtual=True)
