"""Models in Cloud Storage on a twin's cluster: Jobs and servers fail with the cause unless objects exist and their account may use
them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.model_services import service

from sliceworks.base import clock
from sliceworks.base.errors import CloudNotFound, SliceworksError
from sliceworks.base.names import project_number
from sliceworks.base.transport import InProcess
from sliceworks.cloud.container import Container
from sliceworks.cloud.credentials import Token
from sliceworks.cloud.session import Session
from sliceworks.kube.client import Client
from sliceworks.kube.resources import POD, SERVICE_ACCOUNT
from sliceworks.rehearsal.simulation.deployment import assume_sources
from sliceworks.serving.rollout import Rollout
from sliceworks.twin.cluster import Cluster

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

Object = dict[str, Any]
EMAIL = "models@p.iam.gserviceaccount.com"
MEMBER = f"serviceAccount:{EMAIL}"
KUBERNETES = "serviceAccount:p.svc.id.goog[default/models]"
DIRECT = (
    "principal://iam.googleapis.com/projects/{}/locations/global/workloadIdentityPools/p.svc.id.goog/subject/ns/default/sa/models"
)
SERVICE = service(
    "triton",
    "identity: {serviceAccount: models}, startupTimeout: 60s, triton: {repository: gs://the-models/repository, "
    "models: [{name: densenet, source: gs://the-models/incoming/densenet}]}",
)


class Site:
    """A GKE cluster with Workload Identity in the twin's cloud, a bucket, and an account that may write it."""

    def __init__(self, twin: Cluster) -> None:
        self.twin = twin
        self.client = Client(twin.transport())
        self.cloud = Session(credentials=Token(twin.token), transport=InProcess(twin.cloud.serve))
        self.told: list[str] = []

    async def build(self) -> None:
        pool = {"name": "cpu", "initialNodeCount": 2, "config": {"machineType": "n2-standard-16"}}
        body = {"name": "c", "nodePools": [pool], "workloadIdentityConfig": {"workloadPool": "p.svc.id.goog"}}
        await self.cloud.call("POST", "/container/v1/projects/p/locations/us-central1-a/clusters", {"cluster": body})
        container = Container(self.cloud, "p", "us-central1-a", "c", prefix="/container")
        while (await container.get_cluster())["status"] != "RUNNING":
            await clock.sleep(30)
        await self.cloud.call("POST", "/iam/v1/projects/p/serviceAccounts", {"accountId": "models"})
        await self.bind("roles/iam.workloadIdentityUser", KUBERNETES)
        await self.cloud.call("POST", "/storage/v1/b", {"name": "the-models"}, query={"project": "p"})
        await self.grant("roles/storage.objectAdmin", MEMBER)
        metadata = {"name": "models", "namespace": "default", "annotations": {"iam.gke.io/gcp-service-account": EMAIL}}
        await self.client.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}, resource=SERVICE_ACCOUNT)

    async def bind(self, *binding: str) -> None:
        policy = {"bindings": [{"role": binding[0], "members": list(binding[1:])}] if binding else []}
        await self.cloud.call("POST", f"/iam/v1/projects/p/serviceAccounts/{EMAIL}:setIamPolicy", {"policy": policy})

    async def grant(self, *binding: str) -> None:
        policy = {"bindings": [{"role": binding[0], "members": list(binding[1:])}] if binding else []}
        await self.cloud.call("PUT", "/storage/v1/b/the-models/iam", policy)

    def upload(self) -> None:
        self.twin.pod_storage.write(
            {"metadata": {"annotations": {"sliceworks.dev/writes": "gs://the-models/incoming/densenet/config.pbtxt"}}}
        )

    async def has(self, name: str) -> bool:
        try:
            await self.cloud.call("GET", f"/storage/v1/b/the-models/o/{name.replace('/', '%2F')}")
        except CloudNotFound:
            return False
        return True

    async def deploy(self, *, assume: bool = False) -> None:
        rollout = Rollout(self.client, SERVICE, SERVICE.model_dump(by_alias=True, exclude_unset=True, mode="json"), "default")
        objects = await rollout.prepare()
        if assume:
            assume_sources(self.twin.pod_storage, objects, self.told.append)
        record = await rollout.apply(self.told.append, 1800)
        await rollout.follow(record, self.told.append, 1800)


def run_on_site(scenario: Callable[[Site], Awaitable[None]]) -> None:
    async def main() -> None:
        async with Cluster() as twin:
            site = Site(twin)
            await site.build()
            await scenario(site)

    clock.run(main(), virtual=True, seed=1)


def test_failed_job_runs_again_when_its_source_exists() -> None:
    async def scenario(site: Site) -> None:
        with pytest.raises(
            SliceworksError, match="container copy exited with code 1: No such object: the-models/incoming/densenet"
        ):
            await site.deploy()
        site.upload()
        await site.deploy()
        assert await site.has("repository/densenet/config.pbtxt")

    run_on_site(scenario)


async def _revoke(site: Site) -> None:
    await site.grant()


async def _make_read_only(site: Site) -> None:
    await site.grant("roles/storage.objectViewer", MEMBER)


async def _unbind(site: Site) -> None:
    await site.bind()


async def _delete_bucket(site: Site) -> None:
    await site.cloud.call("DELETE", "/storage/v1/b/the-models/o/incoming%2Fdensenet%2Fconfig.pbtxt")
    await site.cloud.call("DELETE", "/storage/v1/b/the-models")


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        (_revoke, f"{EMAIL} does not have storage.objects.list access to the Google Cloud Storage bucket the-models"),
        (_make_read_only, f"{EMAIL} does not have storage.objects.create access to the Google Cloud Storage bucket the-models"),
        (
            _unbind,
            rf"p.svc.id.goog\[default/models\] cannot act as {EMAIL}: Permission 'iam.serviceAccounts.getAccessToken' denied",
        ),
        (_delete_bucket, "gs://the-models: The specified bucket does not exist"),
    ],
)
def test_job_fails_with_the_cause(change: Callable[[Site], Awaitable[None]], cause: str) -> None:
    async def scenario(site: Site) -> None:
        site.upload()
        await change(site)
        with pytest.raises(SliceworksError, match=cause):
            await site.deploy()

    run_on_site(scenario)


def test_kubernetes_account_without_a_google_account_is_a_principal() -> None:
    async def scenario(site: Site) -> None:
        site.upload()
        await site.grant("roles/storage.objectAdmin", DIRECT.format(project_number("p")))
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "models", "namespace": "default"}}
        await site.client.apply(account, resource=SERVICE_ACCOUNT)
        await site.deploy()
        assert await site.has("repository/densenet/config.pbtxt")

    run_on_site(scenario)


def test_server_without_its_model_does_not_become_ready() -> None:
    async def scenario(site: Site) -> None:
        site.upload()
        await site.deploy()
        await site.cloud.call("DELETE", "/storage/v1/b/the-models/o/repository%2Fdensenet%2Fconfig.pbtxt")
        pods = [pod for pod in (await site.client.list(POD, "default")).items if "copy" not in pod["metadata"]["name"]]
        await site.client.delete(POD, pods[0]["metadata"]["name"], "default")
        await clock.sleep(60)
        with pytest.raises(
            SliceworksError, match="container triton exited with code 1: No such object: the-models/repository/densenet"
        ):
            await site.deploy()

    run_on_site(scenario)


def test_rehearsal_assumes_that_sources_exist() -> None:
    async def scenario(site: Site) -> None:
        await site.deploy(assume=True)
        assert "assuming that gs://the-models/incoming/densenet exists" in site.told
        assert await site.has("repository/densenet/config.pbtxt")
        assert await site.has("incoming/densenet/assumed-by-the-rehearsal")  # `rehearse --keep` leaves a bucket with its contents

    run_on_site(scenario)
