"""Our images, run as a node runs the pods of our manifests.

The gateway answers and controllers reconcile with only their own permissions; each stops cleanly within its grace period.
"""

from __future__ import annotations

import asyncio
import subprocess
import time
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import openai
import orjson
import pytest
import yaml
from tests.heavy import images
from tests.heavy.containers import Given, started
from tests.heavy.pods import assert_clean_stop, http_request, until
from tests.support.clusters import TwinCluster, responds
from tests.support.deployments import DEPLOY, EXAMPLE, component, manifests
from tests.support.echo_server import run_echo_server
from tests.support.model_services import example

from sliceworks.base.errors import SliceworksError
from sliceworks.kube import open_client
from sliceworks.serving.compiler import manifests as rendered

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


pytestmark = pytest.mark.timeout(900)
Object = dict[str, Any]
EXAMPLES = images.ROOT / "examples"
KEY = "research-key"
NOBODY = 503


@pytest.fixture(scope="module")
def twin(alone: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwinCluster]:
    cluster = TwinCluster(tmp_path_factory.mktemp("twin"), workloads=True)
    yield cluster
    cluster.stop()


def deployment(objects: list[Object]) -> Object:
    """The pod of the only Deployment, and what a node provides for it."""
    (result,) = [obj for obj in objects if obj["kind"] == "Deployment"]
    pod: Object = result["spec"]["template"]["spec"]
    return pod


def applied(cluster: TwinCluster, objects: list[Object]) -> None:
    """Apply everything except Deployments, whose containers run here."""

    async def main() -> None:
        async with open_client(cluster.kubeconfig) as client:
            for obj in objects:
                if obj["kind"] != "Deployment":
                    await client.apply(obj, force=True)

    asyncio.run(main())


def in_pod(cluster: TwinCluster, namespace: str, account: str, **variables: str) -> Given:
    """The files and variables that a pod of an account has."""
    answer = cluster.api.post(f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token", {"spec": {}}).ok()
    files = {
        "token": answer.json["status"]["token"].encode(),
        "ca.crt": cluster.authority.read_bytes(),
        "namespace": namespace.encode(),
    }
    port = cluster.url.rpartition(":")[2]
    address = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": port}
    return Given(account=files, variables={**address, **variables})


def test_gateway_answers_and_finishes_requests(our_images: dict[str, str], alone: None, tmp_path: Path) -> None:
    pod = deployment(manifests(DEPLOY / "gateway"))
    document = yaml.safe_load((EXAMPLE.parent / "example-gateway" / "gateway.yaml").read_text())
    with run_echo_server("--token-time", "20ms") as model:
        document["spec"]["models"] = [{"name": "gemma", "backends": [{"kind": "openai", "url": model}]}]
        given = Given({"configuration": {"gateway.yaml": orjson.dumps(document)}}, variables={"ADMIN_KEY": "administrator"})
        with started(our_images["gateway"], pod, tmp_path, given) as container:
            container.wait_until(lambda: responds("http://127.0.0.1:8081", "/readyz"))
            client = openai.OpenAI(base_url="http://127.0.0.1:8080/v1", api_key=KEY, max_retries=0)
            question: Any = {"model": "gemma", "messages": [{"role": "user", "content": "one two three " * 40}], "max_tokens": 100}
            assert client.chat.completions.create(**question).choices[0].message.content
            stream = client.chat.completions.create(**question, stream=True)
            first = next(iter(stream))
            assert_clean_stop(container, pod)
            assert first.model == "gemma"
            assert sum(1 for _ in stream) >= 100


def test_gateway_discovers_backends_with_its_permissions(our_images: dict[str, str], twin: TwinCluster, tmp_path: Path) -> None:
    created = manifests(DEPLOY / "gateway")
    pod = deployment(created)
    applied(twin, created)
    given = in_pod(twin, "models", pod["serviceAccountName"], ADMIN_KEY="administrator")
    text = (EXAMPLE.parent / "example-gateway" / "gateway.yaml").read_bytes()
    with started(
        our_images["gateway"], pod, tmp_path, replace(given, files={"configuration": {"gateway.yaml": text}})
    ) as container:
        until(lambda: responds("http://127.0.0.1:8081", "/healthz"), container)
        with pytest.raises(openai.AuthenticationError):
            openai.OpenAI(base_url="http://127.0.0.1:8080/v1", api_key="missing", max_retries=0).models.list()
        known = openai.OpenAI(base_url="http://127.0.0.1:8080/v1", api_key=KEY, max_retries=0).models.list()
        assert {model.id for model in known} == {"gemma", "densenet"}
        assert_clean_stop(container, pod)


def test_gateway_of_a_model_service_finds_its_servers(our_images: dict[str, str], twin: TwinCluster, tmp_path: Path) -> None:
    created = rendered(example("llama3-vllm-tpu"))
    front = [item for item in created if item["metadata"]["name"] == "gateway"]
    (server,) = [item for item in created if item["kind"] == "Deployment" and item not in front]
    pod = deployment(front)
    expected = [item for item in created if item["kind"] in ("ServiceAccount", "Role", "RoleBinding", "Service")]
    applied(twin, [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "models"}}, _example_node(), *expected])
    (document,) = [item["data"] for item in front if item["kind"] == "ConfigMap"]
    files = {
        "configuration": {name: text.encode() for name, text in document.items()},
        "secret-gateway-admin": {"key": b"administrator"},
        "secret-gateway-keys": {"team-a": KEY.encode()},
    }
    given = replace(in_pod(twin, "models", pod["serviceAccountName"], POD_IP="127.0.0.1"), files=files)
    with _served(twin, server), started(our_images["gateway"], pod, tmp_path, given) as container:
        until(lambda: responds("http://127.0.0.1:8081", "/readyz"), container)
        client = openai.OpenAI(base_url="http://127.0.0.1:8080/v1", api_key=KEY, max_retries=0)
        question: Any = {"model": "llama-3.1-8b", "messages": [{"role": "user", "content": "one two three"}]}
        until(lambda: _answered(client, question), container)
        assert_clean_stop(container, pod)


def _example_node() -> Object:
    result: Object = yaml.safe_load((EXAMPLES / "graphs" / "web-application" / "node.yaml").read_text())
    return result


@contextmanager
def _served(cluster: TwinCluster, server: Object) -> Iterator[None]:
    """A pod with the labels and the port of a server; an echo model listens at its address."""
    port = next(port for port in server["spec"]["template"]["spec"]["containers"][0]["ports"] if port["name"] == "http")
    spec = {"containers": [{"name": "server", "image": "example.com/server:1", "ports": [port]}]}
    metadata = {"name": "server", "labels": server["spec"]["template"]["metadata"]["labels"]}
    pods = "/api/v1/namespaces/models/pods"
    cluster.api.post(pods, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}).ok()
    with run_echo_server("--host", "0.0.0.0", "--port", str(port["containerPort"])):
        deadline = time.monotonic() + 30
        while not (address := cluster.api.get(f"{pods}/server").ok().json["status"].get("podIP")):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        subprocess.run(["ip", "address", "add", f"{address}/32", "dev", "lo"], check=True)
        yield
    cluster.api.delete(f"{pods}/server").ok()


def _answered(client: openai.OpenAI, question: Any) -> str:
    """The model's response; None while it has no backend."""
    try:
        return client.chat.completions.create(**question).choices[0].message.content or ""
    except openai.APIStatusError as error:
        if error.status_code != NOBODY:
            raise
        return ""


def test_graphs_controller_reconciles(our_images: dict[str, str], twin: TwinCluster, tmp_path: Path) -> None:
    created = [*component(DEPLOY / "controllers", "graphs"), yaml.safe_load((EXAMPLE / "rights.yaml").read_text())]
    pod = deployment(created)
    applied(twin, created)
    given = in_pod(twin, "kro-system", pod["serviceAccountName"])
    with started(our_images["controllers"], pod, tmp_path, given) as container:
        until(lambda: responds("http://127.0.0.1:8079", "/readyz"), container)
        for name in ("node", "definition", "instance"):
            document = yaml.safe_load((EXAMPLES / "graphs" / "web-application" / f"{name}.yaml").read_text())
            until(partial(_taken, twin, document), container)
        shop = "/apis/kro.run/v1alpha1/namespaces/default/webapplications/shop"
        until(lambda: twin.api.get(shop).json.get("status", {}).get("state") == "ACTIVE", container)
        assert twin.api.get("/apis/apps/v1/namespaces/default/deployments/shop").ok().json["status"]["readyReplicas"] == 2
        assert b"instance_reconcile_total" in http_request("http://127.0.0.1:8078/metrics")
        assert_clean_stop(container, pod)


def _taken(cluster: TwinCluster, obj: Object) -> bool:
    """Whether an object could be applied: its kind is served shortly after its definition."""
    try:
        applied(cluster, [obj])
    except SliceworksError:
        return False
    return True


def test_slices_controller_requests_slices(our_images: dict[str, str], twin: TwinCluster, tmp_path: Path) -> None:
    created = component(DEPLOY / "controllers", "slices")
    pod = deployment(created)
    applied(twin, created)
    lines = (EXAMPLE / "settings.env").read_text().splitlines()
    settings = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    state = orjson.loads((twin.kubeconfig.parent / "ready.json").read_bytes())
    cloud = {"GOOGLE_CONTAINER_CUSTOM_ENDPOINT": f"{state['cloud']}/container", "GOOGLE_OAUTH_ACCESS_TOKEN": twin.token}
    cluster = {"project": settings["GCP_PROJECT_ID"], "location": settings["GCP_CLUSTER_LOCATION"], "name": settings["GCP_CLUSTER"]}
    twin.api.post("/debug/twin/cloud", {"set": {"container": {"clusters": [cluster]}}}).ok()
    given = in_pod(twin, "tpu-provisioner-system", pod["serviceAccountName"], **settings, **cloud)
    with started(our_images["controllers"], pod, tmp_path, given) as container:
        until(lambda: responds("http://127.0.0.1:8081", "/readyz"), container)
        applied(twin, [yaml.safe_load((EXAMPLES / "slices" / "10-two-small-slices.yaml").read_text())])
        pods = "/api/v1/namespaces/default/pods"
        until(lambda: _running(twin.api.get(pods).ok().json["items"]) == 4, container, 120)
        assert_clean_stop(container, pod)


def _running(pods: list[Object]) -> int:
    return sum(pod.get("status", {}).get("phase") == "Running" and "two-small-slices" in pod["metadata"]["name"] for pod in pods)
