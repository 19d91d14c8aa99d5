"""The Sliceworks controllers on a twin: they run while their Deployments exist, with the permissions of those."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from tests.support import environments
from tests.support.environments import EXAMPLES, on_twin, silent, small

from sliceworks.base import clock
from sliceworks.base.errors import NotFound
from sliceworks.base.transport import Request
from sliceworks.base.yaml_documents import load_path
from sliceworks.infra.cluster import inventory
from sliceworks.infra.cluster.applier import Applier
from sliceworks.infra.cluster.destroyer import Destroyer
from sliceworks.kube.client import Client
from sliceworks.kube.resources import DEPLOYMENT, JOBSET, NODE, Resource
from sliceworks.platform.controller_host import run_installed
from sliceworks.twin.cluster import Cluster

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from sliceworks.specs.environment import Environment

Object = dict[str, Any]
GEMMA = Resource("kro.run", "v1alpha1", "GemmaOnTPUServer", "gemmaontpuservers")
BUCKET = Resource("storage.cnrm.cloud.google.com", "v1beta1", "StorageBucket", "storagebuckets")


@asynccontextmanager
async def twin(environment: Environment) -> AsyncIterator[tuple[Cluster, Client]]:
    """A twin with the environment applied, and a cluster of that name in its cloud."""
    async with Cluster() as cluster, Client(cluster.transport()) as client, run_installed(cluster):
        await clock.sleep(1)
        place = {"project": "my-project", "location": "us-central2", "name": "small-cluster"}
        cluster.cloud.services["container"].configure({"clusters": [place]})
        for name, more, room in (("cpu-0", {}, {}), ("tpu-0", TPU, {"google.com/tpu": "8"})):
            labels = {"sliceworks.dev/node": "simulated", "iam.gke.io/gke-metadata-server-enabled": "true", **more}
            whole = {"cpu": "64", "memory": "256Gi", "pods": "110", **room}
            node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}
            await client.create({**node, "status": {"capacity": whole, "allocatable": whole}})
        name = environment.metadata.name
        await Applier(client, name).apply(on_twin(environment), await inventory.read(client, name), silent)
        yield cluster, client


TPU = {"cloud.google.com/gke-tpu-accelerator": "tpu-v5-lite-podslice", "cloud.google.com/gke-tpu-topology": "2x4"}


def is_ready(obj: Object) -> bool:
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def test_self_service_user_creates_and_deletes_a_server() -> None:
    environment = environments.example("self-service")
    [instance] = load_path(EXAMPLES / "graphs" / "gemma-on-tpu" / "instance.yaml")

    async def main() -> None:
        async with twin(environment) as (_cluster, client):
            await client.create(instance.data)
            async with asyncio.timeout(3600):
                while not is_ready(await client.get(GEMMA, "gemma-tpu", "config-connector")):
                    await clock.sleep(10)
            remover = Destroyer(client, await inventory.read(client, "self-service"))
            [bucket] = (await client.list_all(BUCKET)).items
            await remover.remove(silent)
            assert remover.remaining == [f"StorageBucket {bucket['metadata']['name']}"]
            with pytest.raises(NotFound):
                await client.get(DEPLOYMENT, "kro", "kro-system")

    clock.run(main(), virtual=True, seed=1)


SLICES = "  addons: {slices: true, image: a/b:c, kueue: false}\n"


def waiting_job() -> Object:
    selector = {"cloud.google.com/gke-tpu-accelerator": "tpu-v4-podslice", "cloud.google.com/gke-tpu-topology": "2x2x2"}
    chips = {"limits": {"google.com/tpu": 4}}
    pod = {"restartPolicy": "Never", "nodeSelector": selector, "containers": [{"name": "a", "image": "a", "resources": chips}]}
    job = {"parallelism": 2, "completions": 2, "backoffLimit": 0, "template": {"spec": pod}}
    annotations = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "cloud.google.com/gke-nodepool"}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "job", "namespace": "default", "annotations": annotations},
        "spec": {"replicatedJobs": [{"name": "slice", "template": {"spec": job}}]},
    }


def test_slices_controller_runs_until_its_deployment_is_deleted() -> None:
    async def main() -> None:
        async with twin(small(SLICES)) as (_cluster, client):
            await client.create(waiting_job())
            async with asyncio.timeout(3600):
                while len((await client.list_all(NODE, labels="cloud.google.com/gke-tpu-topology=2x2x2")).items) < 2:
                    await clock.sleep(10)
            assert tasks("tpu-provisioner-controller-manager")
            await client.delete(DEPLOYMENT, "tpu-provisioner-controller-manager", "tpu-provisioner-system")
            await clock.sleep(1)
            assert not tasks("tpu-provisioner-controller-manager")

    clock.run(main(), virtual=True, seed=1)


def test_changed_settings_restart_the_slices_controller() -> None:
    """The first zone does not exist; the second one is set by an apply, whose Deployment names another ConfigMap."""

    def in_zone(zone: str) -> Environment:
        environment = small(SLICES)
        return environment.model_copy(update={"spec": environment.spec.model_copy(update={"zones": (zone,)})})

    async def main() -> None:
        async with twin(in_zone("us-central2-c")) as (_cluster, client):
            await client.create(waiting_job())
            await clock.sleep(300)
            selector = "cloud.google.com/gke-tpu-topology=2x2x2"
            assert not (await client.list_all(NODE, labels=selector)).items
            changed = in_zone("us-central2-b")
            name = changed.metadata.name
            await Applier(client, name).apply(on_twin(changed), await inventory.read(client, name), silent)
            async with asyncio.timeout(3600):
                while len((await client.list_all(NODE, labels=selector)).items) < 2:
                    await clock.sleep(10)
            assert len(tasks("tpu-provisioner-controller-manager")) == 1

    clock.run(main(), virtual=True, seed=1)


def test_installed_controller_needs_the_roles_of_its_google_service_account() -> None:
    """In a project that has service accounts: the pod's account may act as the controller's, and that may change clusters."""
    email = "tpu-provisioner@my-project.iam.gserviceaccount.com"
    binding = "serviceAccount:my-project.svc.id.goog[tpu-provisioner-system/tpu-provisioner-controller-manager]"

    async def main() -> None:
        async with twin(small(SLICES)) as (cluster, client):

            async def call(path: str, body: Object) -> None:
                headers = {"authorization": f"Bearer {cluster.token}"}
                response = await cluster.serve_cloud(Request("POST", path, headers=headers, body=orjson.dumps(body)))
                assert response.status == 200, response.body

            async def grant(resource: str, role: str, member: str) -> None:
                await call(f"{resource}:setIamPolicy", {"policy": {"bindings": [{"role": role, "members": [member]}]}})

            async def message() -> str:
                await clock.sleep(120)
                conditions = (await client.get(JOBSET, "job", "default")).get("status", {}).get("conditions", ())
                return "".join(item["message"] for item in conditions if item["type"] == "sliceworks.dev/SlicesReady")

            await call("/iam/v1/projects/my-project/serviceAccounts", {"accountId": "tpu-provisioner"})
            await client.create(waiting_job())
            assert "iam.serviceAccounts.getAccessToken" in await message()
            await grant(f"/iam/v1/projects/my-project/serviceAccounts/{email}", "roles/iam.workloadIdentityUser", binding)
            assert "container.clusters" in await message()
            await grant("/cloudresourcemanager/v1/projects/my-project", "roles/editor", f"serviceAccount:{email}")
            await clock.sleep(900)
            assert await message() == "1 of 1 slices are ready"

    clock.run(main(), virtual=True, seed=1)


def tasks(name: str) -> list[str]:
    return [task.get_name() for task in asyncio.all_tasks() if task.get_name() == f"{name} of the twin"]


def test_foreign_deployment_starts_no_controller() -> None:
    async def main() -> None:
        async with Cluster() as cluster, Client(cluster.transport()) as client, run_installed(cluster):
            labels = {"app.kubernetes.io/name": "kro", "app.kubernetes.io/component": "graphs"}
            template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "a", "image": "a"}]}}
            spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
            metadata = {"name": "kro", "namespace": "default", "labels": labels}
            await client.create({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec})
            await client.patch(
                DEPLOYMENT,
                "kro",
                {"status": {"replicas": 1, "readyReplicas": 1, "availableReplicas": 1}},
                "default",
                subresource="status",
            )
            await clock.sleep(1)
            assert not tasks("kro")

    clock.run(main(), virtual=True, seed=1)
