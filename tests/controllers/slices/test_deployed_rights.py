"""The rights that deploy/slices gives are all that the controller needs: it runs as its service account, and is refused nothing."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.slices import SETTINGS, Rig, jobset, rig

from sliceworks.base import clock
from sliceworks.base.errors import Forbidden
from sliceworks.controllers.slices import words
from sliceworks.controllers.slices.controller import SlicesController
from sliceworks.kube.client import Client
from sliceworks.kube.leader import LeaderElection
from sliceworks.kube.well_known import SECRET
from sliceworks.twin.auth.identity import service_account

BASE = Path(__file__).parents[3] / "deploy" / "slices" / "base"
NAMESPACE, ACCOUNT = "tpu-provisioner-system", "tpu-provisioner-controller-manager"
QUEUED = {"kueue.x-k8s.io/queue-name": "queue"}


async def deploy(made: Rig) -> Client:
    """Apply the manifests of rights; a client that acts as the controller's service account."""
    for file in ("namespace.yaml", "account.yaml", "rights.yaml"):
        for document in yaml.safe_load_all((BASE / file).read_text()):
            await made.client.apply(document, NAMESPACE)
    return Client(made.cluster.as_user(service_account(NAMESPACE, ACCOUNT)), namespace=NAMESPACE)


async def queues(made: Rig) -> None:
    """A queue of Kueue whose workloads wait for the controller's check."""
    check = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "AdmissionCheck", "metadata": {"name": "slices"}}
    check["spec"] = {"controllerName": words.CHECK_CONTROLLER}
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


def test_the_controller_needs_no_more_than_it_is_given(caplog: pytest.LogCaptureFixture) -> None:
    async def course() -> None:
        async with rig() as made:
            client = await deploy(made)
            with pytest.raises(Forbidden):
                await client.list(SECRET)
            await queues(made)
            controller = SlicesController(client, made.open_container(), SETTINGS)
            election = LeaderElection(client, words.LEASE, NAMESPACE)
            task = asyncio.create_task(election.run(controller.run))
            await made.client.create(jobset("plain", 1))
            await made.client.create(jobset("queued", 1, labels=QUEUED))
            await made.client.create(jobset("impossible", 1, topology="2x2x3"))
            await made.until(lambda: _ended(made, "plain", "queued"), 900)
            await made.until(lambda: _gone(made), 300)
            assert not task.done()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    with caplog.at_level(logging.INFO):
        clock.run(course(), virtual=True, seed=3)
    assert not [line for line in caplog.messages if "orbidden" in line]


async def _ended(made: Rig, *names: str) -> bool:
    return all([bool(await made.condition(name, "Completed")) for name in names])


async def _gone(made: Rig) -> bool:
    return not await made.slices()
