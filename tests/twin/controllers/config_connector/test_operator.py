"""Config Connector installed from its release bundle: download, operator, ConfigConnector, pods, project number."""

from __future__ import annotations

import io
import tarfile
from typing import TYPE_CHECKING, Any

import yaml
from tests.support.embedded_twin import run_on_twin

from sliceworks.base import clock
from sliceworks.base.transport import Request
from sliceworks.kube.client import Client

if TYPE_CHECKING:
    from tests.support.embedded_twin import EmbeddedTwin

BUNDLE = "/storage/v1/b/configconnector-operator/o/latest%2Frelease-bundle.tar.gz"
CORE = "/apis/core.cnrm.cloud.google.com/v1beta1/configconnectors"
NAME = "configconnector.core.cnrm.cloud.google.com"
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "host", "labels": {"sliceworks.dev/node": "simulated"}},
    "status": {"capacity": {"cpu": "8", "memory": "32Gi", "pods": "20"}},
}


async def call(twin: EmbeddedTwin, method: str, path: str, query: tuple[tuple[str, str], ...] = ()) -> tuple[int, bytes]:
    headers = {"authorization": f"Bearer {twin.cluster.token}"}
    response = await twin.cluster.serve_cloud(Request(method, path, query=query, headers=headers))
    return response.status, response.body


async def pods(twin: EmbeddedTwin, namespace: str) -> dict[str, bool]:
    """Whether each pod of a namespace is ready."""
    listed = await twin.do("GET", f"/api/v1/namespaces/{namespace}/pods")
    return {
        item["metadata"]["name"]: any(c["type"] == "Ready" and c["status"] == "True" for c in item["status"].get("conditions", ()))
        for item in listed["items"]
    }


def test_installation_from_the_release_bundle() -> None:
    async def main(twin: EmbeddedTwin) -> None:
        client = Client(twin.cluster.transport())
        await client.create(NODE)
        status, content = await call(twin, "GET", BUNDLE, (("alt", "media"),))
        assert status == 200
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:gz") as bundle:
            file = bundle.extractfile("operator-system/autopilot-configconnector-operator.yaml")
            assert file is not None
            objects: list[dict[str, Any]] = list(yaml.safe_load_all(file.read()))
        for obj in objects:
            await client.apply(obj, field_manager="kubectl")
            await clock.sleep(1)
        await clock.sleep(10)
        assert await pods(twin, "configconnector-operator-system") == {"configconnector-operator-0": True}
        assert await twin.gone("/api/v1/namespaces/cnrm-system")

        spec = {"mode": "cluster", "googleServiceAccount": "kcc@k8sai-example.iam.gserviceaccount.com", "stateIntoSpec": "Absent"}
        connector = {"apiVersion": f"{NAME.partition('.')[2]}/v1beta1", "kind": "ConfigConnector", "metadata": {"name": NAME}}
        await client.apply({**connector, "spec": spec}, field_manager="kubectl")
        await clock.sleep(30)
        system = await pods(twin, "cnrm-system")
        assert len(system) == 6
        assert all(system.values())
        assert "cnrm-controller-manager-0" in system

        annotations = {"cnrm.cloud.google.com/project-id": "k8sai-example"}
        await twin.do("POST", "/api/v1/namespaces", {"metadata": {"name": "team", "annotations": annotations}})
        project = {"name": "", "resourceID": "k8sai-example", "folderRef": {"external": "123456789012"}}
        path = "/apis/resourcemanager.cnrm.cloud.google.com/v1beta1/namespaces/team/projects"
        kind = {"apiVersion": "resourcemanager.cnrm.cloud.google.com/v1beta1", "kind": "Project"}
        await twin.do("POST", path, {**kind, "metadata": {"name": "p"}, "spec": project})
        await clock.sleep(30)
        number = (await twin.do("GET", f"{path}/p"))["status"]["number"]
        _, described = await call(twin, "GET", "/cloudresourcemanager/v1/projects/k8sai-example")
        assert yaml.safe_load(described)["projectNumber"] == number

        await twin.do("DELETE", f"{CORE}/{NAME}")
        await clock.sleep(60)
        assert await pods(twin, "cnrm-system") == {}

    run_on_twin(main, workloads=True)


def test_public_bundle_is_read_only() -> None:
    async def main(twin: EmbeddedTwin) -> None:
        assert (await call(twin, "DELETE", BUNDLE))[0] == 403
        assert (await call(twin, "GET", BUNDLE.replace("latest", "0.0.1")))[0] == 404

    run_on_twin(main)
