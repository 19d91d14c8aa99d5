"""The Gemma example from the administrator's first document to the last deletion, on the twin in virtual time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sliceworks.base import clock, yaml_documents
from sliceworks.base.errors import ApiError
from sliceworks.kube.client import Client
from sliceworks.kube.resources import GVK
from sliceworks.platform import loader
from sliceworks.platform.controller_host import ControllerRequirements, run_controllers
from sliceworks.rehearsal.basic_run import rehearse
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
    """A namespace prepared by the administrator, on a twin with two TPU hosts."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def apply(self, file: str) -> None:
        for document in yaml_documents.load_path(EXAMPLE / file):
            await self.client.apply(document.data, force=True)

    async def all(self, kind: str) -> list[Object]:
        group, _, version = KINDS[kind].rpartition("/")
        return (await self.client.list(await self.client.discovery.by_gvk(GVK(group, version, kind)), SPACE)).items

    async def names(self, kind: str) -> list[str]:
        return sorted(item["metadata"]["name"] for item in await self.all(kind))

    async def one(self, kind: str) -> Object:
        result = await self.all(kind)
        assert len(result) == 1, [item["metadata"]["name"] for item in result]
        return result[0]

    async def identities(self) -> dict[str, str]:
        """The Google service account of each ServiceAccount."""
        accounts = await self.all("ServiceAccount")
        return {item["metadata"]["name"]: (item["metadata"].get("annotations") or {}).get(IDENTITY, "") for item in accounts}

    async def server(self) -> Object:
        return await self.one("GemmaOnTPUServer")

    async def change(self, kind: str, name: str, patch: Object) -> None:
        group, _, version = KINDS[kind].rpartition("/")
        await self.client.patch(await self.client.discovery.by_gvk(GVK(group, version, kind)), name, patch, SPACE)

    async def delete(self, kind: str, name: str) -> None:
        group, _, version = KINDS[kind].rpartition("/")
        await self.client.delete(await self.client.discovery.by_gvk(GVK(group, version, kind)), name, SPACE)


def run_on_team(main: Callable[[Team], Awaitable[None]], definition: str) -> None:
    """Run a test on a twin where a definition is published."""

    async def run_main() -> None:
        async with (
            Cluster(config_connector=True) as cluster,
            run_controllers(cluster, ControllerRequirements(graphs=True)),
            Client(cluster.transport(), namespace=SPACE) as client,
        ):
            team = Team(client)
            for file in ("day/10-administrator.yaml", "day/20-nodes.yaml", definition):
                await team.apply(file)
            await clock.sleep(30)
            await main(team)

    clock.run(run_main(), virtual=True)


def reason(obj: Object, kind: str = "Ready") -> str:
    return str(next(condition["reason"] for condition in obj["status"]["conditions"] if condition["type"] == kind))


def waits_for(obj: Object) -> str:
    return str(next(condition["message"] for condition in obj["status"]["conditions"] if condition["type"] == "ResourcesReady"))


def test_lifecycle_from_creation_to_deletion() -> None:
    async def main(team: Team) -> None:
        await team.apply("instance.yaml")
        bucket = f"gemma7b-{await _number(team)}-gemma-tpu"

        # 1. Resources without dependencies are created immediately; the others wait for the account's email.
        await clock.sleep(1)
        assert await team.names("IAMServiceAccount") == ["gemma-tpu-wi-jetstream"]
        server = await team.server()
        assert await team.names("StorageBucket") == [bucket]
        assert await team.names("Service") == ["gemma-tpu"]
        assert await team.names("IAMPolicyMember") == await team.names("Job") == []
        assert (server["status"]["state"], reason(server)) == ("IN_PROGRESS", "NotReady")

        # 2. With the email, the bindings and the annotation are created; the download waits until they are ready.
        await clock.sleep(4.5)
        assert await team.names("IAMPolicyMember") == ["gemma-tpu-storage-insights", "gemma-tpu-storage-object-user"]
        email = "gemma-tpu-wi-jetstream@k8sai-example.iam.gserviceaccount.com"
        assert await team.identities() == {"default": "", "gemma-tpu": email}
        policy = await team.one("IAMPartialPolicy")
        members = [member["member"] for binding in policy["spec"]["bindings"] for member in binding["members"]]
        assert members == ["serviceAccount:k8sai-example.svc.id.goog[config-connector/gemma-tpu]"]
        assert await team.names("Job") == []

        # 3. The download runs, and no server starts before it completes.
        await clock.sleep(60)
        assert await team.names("Job") == ["gemma-tpu-loader"]
        assert await team.names("Deployment") == []
        assert "downloadCheckpoint" in waits_for(await team.server())

        # 4. Then the server starts, and the status has its address.
        await clock.sleep(1200)
        server = await team.server()
        assert (server["status"]["state"], reason(server)) == ("ACTIVE", "Ready")
        assert server["status"]["endpoint"] == "http://gemma-tpu.config-connector.svc:8000"
        assert server["status"]["bucket"] == f"gs://{bucket}"
        assert server["status"]["readyReplicas"] == 1

        # 5. The download's objects are deleted, and it does not run again.
        await clock.sleep(3600)
        assert await team.names("Job") == []
        assert reason(await team.server()) == "Ready"

        # 6. A second server.
        await team.change("GemmaOnTPUServer", "gemma-tpu", {"spec": {"replicas": 2}})
        await clock.sleep(30)
        assert (await team.server())["status"]["readyReplicas"] == 2
        assert len(await team.names("Pod")) == 2

        # 7. All is deleted but the weights; the namespace's own account was never touched.
        await team.delete("GemmaOnTPUServer", "gemma-tpu")
        await clock.sleep(60)
        assert [kind for kind in KINDS if await team.names(kind)] == ["ServiceAccount", "StorageBucket"]
        assert await team.identities() == {"default": ""}
        retained = await team.one("StorageBucket")
        assert (reason(retained), retained["metadata"].get("deletionTimestamp")) == ("UpToDate", None)

        # 8. A new server of the same name takes the retained bucket over.
        await team.apply("instance.yaml")
        await clock.sleep(1300)
        assert reason(await team.server()) == "Ready"
        adopted = await team.one("StorageBucket")
        assert adopted["metadata"]["uid"] == retained["metadata"]["uid"]
        assert adopted["metadata"]["labels"]["kro.run/instance-name"] == "gemma-tpu"

    run_on_team(main, "definition.yaml")


def test_several_servers_in_a_namespace() -> None:
    async def main(team: Team) -> None:
        await team.apply("instance.yaml")
        [document] = yaml_documents.load_path(EXAMPLE / "instance.yaml")
        second = {**document.data, "metadata": {**document.data["metadata"], "name": "second"}}
        await team.client.apply(second, force=True)
        await clock.sleep(1300)
        for server in await team.all("GemmaOnTPUServer"):
            assert (server["status"]["state"], reason(server)) == ("ACTIVE", "Ready"), server["metadata"]["name"]
        domain = "k8sai-example.iam.gserviceaccount.com"
        both = {name: f"{name}-wi-jetstream@{domain}" for name in ("gemma-tpu", "second")}
        assert await team.identities() == {"default": "", **both}
        await team.delete("GemmaOnTPUServer", "second")
        await clock.sleep(60)
        assert reason(await team.server()) == "Ready"
        assert await team.names("Deployment") == ["gemma-tpu"]
        assert len(await team.names("StorageBucket")) == 2

    run_on_team(main, "definition.yaml")


def test_edit_of_the_secret_recreates_the_running_download() -> None:
    async def main(team: Team) -> None:
        await team.apply("instance.yaml")
        await clock.sleep(60)
        before = await team.one("Job")
        await team.change("GemmaOnTPUServer", "gemma-tpu", {"spec": {"kaggleSecret": "other"}})
        await clock.sleep(30)
        after = await team.one("Job")
        assert after["metadata"]["uid"] != before["metadata"]["uid"]
        [volume] = after["spec"]["template"]["spec"]["volumes"]
        assert volume["secret"]["secretName"] == "other"

    run_on_team(main, "definition.yaml")


def test_original_definition() -> None:
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
        # It does not restore the account: the account is deleted, as with kro, and the cluster creates a new one.
        left = await team.one("ServiceAccount")
        assert left["metadata"]["uid"] != account["metadata"]["uid"]
        assert await team.names("StorageBucket") == []

    run_on_team(main, "as-written/rgd.yaml")


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
        assert f"StorageBucket {name}: UpdateFailed: Update call failed: quota exceeded" in waits_for(await team.server())
        assert await team.names("Job") == []
        await team.change("StorageBucket", name, {"metadata": {"annotations": {"sliceworks.dev/cloud-fails": None}}})
        await clock.sleep(10)
        assert await team.names("Job") == ["gemma-tpu-loader"]

    run_on_team(main, "definition.yaml")


def test_example_is_rehearsed() -> None:
    folder = EXAMPLE / "day"
    scenario = loader.load_scenario(folder)
    assert scenario is not None
    done = rehearse(loader.load(folder), scenario=scenario, folder=folder, seconds=scenario.spec.duration)
    assert not done.failed
    server = [moment for moment in done.timeline if moment.subject == "GemmaOnTPUServer config-connector/gemma-tpu"]
    assert server[-1].verb == "deleted"
    assert any("Ready=True" in moment.note for moment in server)
    deleted = {moment.subject for moment in done.timeline if moment.verb == "deleted"}
    assert "ServiceAccount config-connector/default" not in deleted
