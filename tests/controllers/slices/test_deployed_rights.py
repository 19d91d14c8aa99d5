"""The RBAC rules of the slices controller are sufficient: the controller runs as its service account without a Forbidden error."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from tests.support.deployments import DEPLOY, component
from tests.support.slices_controller import SETTINGS, Rig, jobset, rig

from sliceworks.base import clock
from sliceworks.base.errors import Forbidden
from sliceworks.controllers.slices import well_known
from sliceworks.controllers.slices.controller import SlicesController
from sliceworks.kube.client import Client
from sliceworks.kube.leader_election import LeaderElection
from sliceworks.kube.resources import SECRET
from sliceworks.twin.apiserver.auth.authentication import service_account

NAMESPACE, ACCOUNT = "tpu-provisioner-system", "tpu-provisioner-controller-manager"
QUEUED = {"kueue.x-k8s.io/queue-name": "queue"}


async def deploy(made: Rig) -> Client:
    """Apply the RBAC manifests; returns a client that acts as the controller's service account."""
    for obj in component(DEPLOY / "controllers", "slices"):
        if obj["kind"] in ("Namespace", "ServiceAccount") or obj["apiVersion"].startswith("rbac."):
            await made.client.apply(obj, NAMESPACE)
    return Client(made.cluster.as_user(service_account(NAMESPACE, ACCOUNT)), namespace=NAMESPACE)


async def queues(made: Rig) -> None:
    """A Kueue queue whose workloads wait for the controller's admission check."""
    check = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "AdmissionCheck", "metadata": {"name": "slices"}}
    check["spec"] = {"controllerName": well_known.CHECK_CONTROLLER}
    flavor = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": "tpu"}}
    quota: dict[str, Any] = {"name": "tpu", "resources": [{"name": "google.com/tpu", "nominalQuota": 64}]}
    spec = {
        "namespaceSelector": {},
        "resourceGroups": [{"coveredResources": ["google.com/tpu"], "flavors": [quota]}],
        "admissionChecksStrategy": {"admissionChecks": [{"name": "slices"}]},
    }
    cluster = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "metadata": {"name": "all"}, "spec": spec}
    local = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "LocalQueue", "metadata": {"name": "queue"}}
    local["spec"] = {"clusterQueue": "all"}
    for document in (check, flavor, cluster, local):
        await made.client.apply(document, "default")


def test_rbac_is_sufficient(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with rig() as created:
            client = await deploy(created)
            with pytest.raises(Forbidden):
                await client.list(SECRET)
            await queues(created)
            controller = SlicesController(client, created.open_container(), SETTINGS)
            election = LeaderElection(client, well_known.LEASE, NAMESPACE)
            task = asyncio.create_task(election.run(controller.run))
            await created.client.create(jobset("plain", 1))
            await created.client.create(jobset("queued", 1, labels=QUEUED))
            await created.client.create(jobset("impossible", 1, topology="2x2x3"))
            await created.until(lambda: _ended(created, "plain", "queued"), 900)
            await created.until(lambda: _deleted(created), 300)
            assert not task.done()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    with caplog.at_level(logging.INFO):
        clock.run(scenario(), virtual=True, seed=3)
    assert not [line for line in caplog.messages if "orbidden" in line]


async def _ended(made: Rig, *names: str) -> bool:
    return all([bool(await made.condition(name, "Completed")) for name in names])


async def _deleted(made: Rig) -> bool:
    return not await made.slices()
