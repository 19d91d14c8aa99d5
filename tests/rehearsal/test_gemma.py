"""The Gemma server, from the administrator's first document to the last deletion: on the twin, in virtual time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sliceworks.base import clock, yamls
from sliceworks.base.errors import ApiError
from sliceworks.kube.client import Client
from sliceworks.kube.resources import GVK
from sliceworks.rehearsal import documents
from sliceworks.rehearsal.product import Wants, controllers
from sliceworks.rehearsal.rehearse import rehearse
from sliceworks.twin.cluster import Cluster

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

Object = dict[str, Any]
EXAMPLE = Path(__file__).parents[2] / "examples" / "graphs" / "gemma-on-tpu"
SPACE = "config-connector"
IDENTITY = "iam.gke.io/gcp-service-account"
KINDS = {
    "GemmaOnTPUServer": "kro.run/v1alpha1",
    "ServiceAccount": "v1",
    "Service": "v1",
    "Pod": "v1",
    "Deployment": "apps/v1",
    "Job": "batch/v1",
    "IAMServiceAccount": "iam.cnrm.cloud.google.com/v1beta1",
    "IAMPolicyMember": "iam.cnrm.cloud.google.com/v1beta1",
    "IAMPartialPolicy": "iam.cnrm.cloud.google.com/v1beta1",
    "StorageBucket": "storage.cnrm.cloud.google.com/v1beta1",
}


class Team:
    """A namespace as the administrator has set it up, on a twin with two TPU hosts."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def apply(self, file: str) -> None:
        for document in yamls.load_path(EXAMPLE / file):
            await self.client.apply(document.data, force=True)

    async def all(self, kind: str) -> list[Object]:
        group, _, version = KINDS[kind].rpartition("/")
        return (await self.client.list(await self.client.discovery.by_gvk(GVK(group, version, kind)), SPACE)).items

    async def names(self, kind: str) -> list[str]:
        return sorted(item["metadata"]["name"] for item in await self.all(kind))

    async def one(self, kind: str) -> Object:
        found = await self.all(kind)
        assert len(found) == 1, [item["metadata"]["name"] for item in found]
        return found[0]

    async def server(self) -> Object:
        return await self.one("GemmaOnTPUServer")

    async def change(self, kind: str, name: str, patch: Object) -> None:
        group, _, version = KINDS[kind].rpartition("/")
        await self.client.patch(await self.client.discovery.by_gvk(GVK(group, version, kind)), name, patch, SPACE)

    async def delete(self, kind: str, name: str) -> None:
        group, _, version = KINDS[kind].rpartition("/")
        await self.client.delete(await self.client.discovery.by_gvk(GVK(group, version, kind)), name, SPACE)


def on_team(main: Callable[[Team], Awaitable[None]], definition: str) -> None:
    """Play a story on a twin where a definition is published."""

    async def whole() -> None:
        async with (
            Cluster(config_connector=True) as cluster,
            controllers(cluster, Wants(graphs=True)),
            Client(cluster.transport(), namespace=SPACE) as client,
        ):
            team = Team(client)
            for file in ("day/10-administrator.yaml", "day/20-nodes.yaml", definition):
                await team.apply(file)
            await clock.sleep(30)
            await main(team)

    clock.run(whole(), virtual=True)


def reason(obj: Object, kind: str = "Ready") -> str:
    return str(next(item["reason"] for item in obj["status"]["conditions"] if item["type"] == kind))


def waits_for(obj: Object) -> str:
    return str(next(item["message"] for item in obj["status"]["conditions"] if item["type"] == "ResourcesReady"))


def test_story_from_creation_to_deletion() -> None:
    async def main(team: Team) -> None:
        account = await team.one("ServiceAccount")
        await team.apply("instance.yaml")

        # 1. What needs nothing is made at once; the rest waits for the account's address.
        await clock.sleep(1)
        assert await team.names("IAMServiceAccount") == ["gemma-tpu-wi-jetstream"]
        server = await team.server()
        assert await team.names("StorageBucket") == [f"gemma7b-{server['metadata']['uid']}"]
        assert await team.names("Service") == ["gemma-tpu"]
        assert await team.names("IAMPolicyMember") == await team.names("Job") == []
        assert (server["status"]["state"], reason(server)) == ("IN_PROGRESS", "NotReady")

        # 2. With the address come the bindings and the annotation; the download waits until they are ready.
        await clock.sleep(4.5)
        assert await team.names("IAMPolicyMember") == ["gemma-tpu-storage-insights", "gemma-tpu-storage-object-user"]
        email = "gemma-tpu-wi-jetstream@k8sai-example.iam.gserviceaccount.com"
        assert (await team.one("ServiceAccount"))["metadata"]["annotations"][IDENTITY] == email
        policy = await team.one("IAMPartialPolicy")
        members = [member["member"] for binding in policy["spec"]["bindings"] for member in binding["members"]]
        assert members == ["serviceAccount:k8sai-example.svc.id.goog[config-connector/default]"]
        assert await team.names("Job") == []

        # 3. The download runs, and nothing serves before it is done.
        await clock.sleep(60)
        assert await team.names("Job") == ["gemma-tpu-loader"]
        assert await team.names("Deployment") == []
        assert "downloadCheckpoint" in waits_for(await team.server())

        # 4. Then the server comes up, and tells where it is.
        await clock.sleep(1200)
        server = await team.server()
        assert (server["status"]["state"], reason(server)) == ("ACTIVE", "Ready")
        assert server["status"]["endpoint"] == "http://gemma-tpu.config-connector.svc:8000"
        assert server["status"]["bucket"] == f"gs://gemma7b-{server['metadata']['uid']}"
        assert server["status"]["readyReplicas"] == 1

        # 5. What is left of the download is cleared away, and it is not run again.
        await clock.sleep(3600)
        assert await team.names("Job") == []
        assert reason(await team.server()) == "Ready"

        # 6. Another server.
        await team.change("GemmaOnTPUServer", "gemma-tpu", {"spec": {"replicas": 2}})
        await clock.sleep(30)
        assert (await team.server())["status"]["readyReplicas"] == 2
        assert len(await team.names("Pod")) == 2

        # 7. Gone, but for the weights; and the namespace's own account is as it was.
        await team.delete("GemmaOnTPUServer", "gemma-tpu")
        await clock.sleep(60)
        assert [kind for kind in KINDS if await team.names(kind)] == ["ServiceAccount", "StorageBucket"]
        left = await team.one("ServiceAccount")
        assert left["metadata"]["uid"] == account["metadata"]["uid"]
        assert {key: left["metadata"].get(key) for key in ("annotations", "labels")} == {"annotations": None, "labels": None}
        bucket = await team.one("StorageBucket")
        assert (reason(bucket), bucket["metadata"].get("deletionTimestamp")) == ("UpToDate", None)

    on_team(main, "definition.yaml")


def test_as_it_was_written() -> None:
    async def main(team: Team) -> None:
        with pytest.raises(ApiError, match="kaggelSecret"):
            await team.apply("as-written/instance.yaml")
        account = await team.one("ServiceAccount")
        await team.apply("instance.yaml")
        await clock.sleep(20)
        assert await team.names("StorageBucket") == ["gemma7b-" + await _number(team)]
        for pod in await team.names("Pod"):
            await team.change("Pod", pod, {"metadata": {"annotations": {"sliceworks.dev/run-seconds": "100"}}})
        await clock.sleep(200)
        assert reason(await team.server()) == "Ready"
        await team.delete("GemmaOnTPUServer", "gemma-tpu")
        await clock.sleep(60)
        # It says nothing of giving back: the account goes, as with kro, and the cluster makes a new one.
        left = await team.one("ServiceAccount")
        assert left["metadata"]["uid"] != account["metadata"]["uid"]
        assert await team.names("StorageBucket") == []

    on_team(main, "as-written/rgd.yaml")


async def _number(team: Team) -> str:
    project = await team.client.discovery.by_gvk(GVK("resourcemanager.cnrm.cloud.google.com", "v1beta1", "Project"))
    return str((await team.client.get(project, "acquire-namespace-project", SPACE))["status"]["number"])


def test_slow_and_failing_cloud() -> None:
    async def main(team: Team) -> None:
        await team.apply("instance.yaml")
        await clock.sleep(0.5)
        name = (await team.names("StorageBucket"))[0]
        fails = {"sliceworks.dev/cloud-fails": "quota exceeded"}
        await team.change("StorageBucket", name, {"metadata": {"annotations": fails}})
        await clock.sleep(600)
        assert reason(await team.one("StorageBucket")) == "UpdateFailed"
        assert "bucket" in waits_for(await team.server())
        assert await team.names("Job") == []
        await team.change("StorageBucket", name, {"metadata": {"annotations": {"sliceworks.dev/cloud-fails": None}}})
        await clock.sleep(10)
        assert await team.names("Job") == ["gemma-tpu-loader"]

    on_team(main, "definition.yaml")


def test_whole_day_is_rehearsed() -> None:
    folder = EXAMPLE / "day"
    scenario = documents.scenario(folder)
    assert scenario is not None
    done = rehearse(documents.read(folder), scenario=scenario, folder=folder, seconds=scenario.spec.duration)
    assert not done.failed
    server = [moment for moment in done.moments if moment.subject == "GemmaOnTPUServer config-connector/gemma-tpu"]
    assert server[-1].verb == "deleted"
    assert any("Ready=True" in moment.note for moment in server)
    gone = {moment.subject for moment in done.moments if moment.verb == "deleted"}
    assert "ServiceAccount config-connector/default" not in gone
