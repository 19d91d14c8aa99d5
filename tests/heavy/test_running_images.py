"""Our images at work, run as a node would run the pods of our manifests.

The gateway answers, controllers reconcile with their rights alone, the load worker sends; and each ends well when it is told to,
within the time that its manifest gives it.
"""

from __future__ import annotations

import asyncio
import time
import urllib.error
import urllib.request
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import openai
import orjson
import pytest
import yaml
from tests.heavy import images
from tests.heavy.containers import Given, own_network, started
from tests.support.clusters import TwinCluster, answers
from tests.support.deployments import DEPLOY, manifests
from tests.support.echoing import echoing

from sliceworks.base.errors import SliceworksError
from sliceworks.kube import open_client
from sliceworks.loadtest import plans, running
from sliceworks.loadtest.cluster import objects as load
from sliceworks.loadtest.cluster.news import TOKEN, unpacked
from sliceworks.specs.load_test import LoadTestSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.heavy.containers import Container

pytestmark = pytest.mark.timeout(900)
Object = dict[str, Any]
EXAMPLES = images.ROOT / "examples"
KEY = "research-key"
MEBIBYTES = 1024**2


@pytest.fixture(scope="module")
def built() -> dict[str, str]:
    """All of them, before the network is left."""
    return {target: images.build(target) for target in images.OURS}


@pytest.fixture(scope="module")
def alone(built: dict[str, str]) -> Iterator[None]:
    with own_network():
        yield


@pytest.fixture(scope="module")
def twin(alone: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwinCluster]:
    cluster = TwinCluster(tmp_path_factory.mktemp("twin"), workloads=True)
    yield cluster
    cluster.stop()


def deployment(objects: list[Object]) -> Object:
    """The pod of the one Deployment among them, and what a node needs to know of it."""
    (found,) = [each for each in objects if each["kind"] == "Deployment"]
    pod: Object = found["spec"]["template"]["spec"]
    return pod


def applied(cluster: TwinCluster, objects: list[Object]) -> None:
    """Put everything but Deployments into a cluster: what those run, runs here."""

    async def main() -> None:
        async with open_client(cluster.kubeconfig) as client:
            for each in objects:
                if each["kind"] != "Deployment":
                    await client.apply(each, force=True)

    asyncio.run(main())


def in_pod(cluster: TwinCluster, namespace: str, account: str, **variables: str) -> Given:
    """What a pod of an account finds in a cluster."""
    answer = cluster.api.post(f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token", {"spec": {}}).ok()
    files = {
        "token": answer.json["status"]["token"].encode(),
        "ca.crt": cluster.authority.read_bytes(),
        "namespace": namespace.encode(),
    }
    port = cluster.url.rpartition(":")[2]
    address = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": port}
    return Given(account=files, variables={**address, **variables})


def until(found: Callable[[], Any], container: Container, seconds: float = 60) -> Any:
    """What is found at last; fails with the container's own words."""
    deadline = time.monotonic() + seconds
    while not (result := found()):
        assert container.alive(), container.tail()
        assert time.monotonic() < deadline, container.tail()
        time.sleep(0.1)
    return result


def ended_well(container: Container, pod: Object) -> None:
    """It has held less memory than it may, and ends before its node would kill it."""
    most = int(pod["containers"][0]["resources"]["limits"]["memory"].replace("Gi", "000Mi").removesuffix("Mi"))
    assert container.most_memory() < most * MEBIBYTES
    assert container.end(pod["terminationGracePeriodSeconds"]) == 0, container.tail()
    assert "Traceback" not in container.tail(1000)


def asked(url: str, method: str = "GET", **headers: str) -> bytes:
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers, method=method), timeout=10) as answer:
        found: bytes = answer.read()
    return found


def test_the_gateway_answers_and_ends_what_is_under_way(built: dict[str, str], alone: None, tmp_path: Path) -> None:
    pod = deployment(manifests(DEPLOY / "gateway" / "example"))
    document = yaml.safe_load((DEPLOY / "gateway" / "example" / "gateway.yaml").read_text())
    with echoing("--token-time", "20ms") as model:
        document["spec"]["models"] = [{"name": "gemma", "backends": [{"kind": "openai", "url": model}]}]
        given = Given({"configuration": {"gateway.yaml": orjson.dumps(document)}}, variables={"ADMIN_KEY": "administrator"})
        with started(built["gateway"], pod, tmp_path, given) as container:
            container.wait_until(lambda: answers("http://127.0.0.1:8081", "/readyz"))
            client = openai.OpenAI(base_url="http://127.0.0.1:8080/v1", api_key=KEY, max_retries=0)
            question: Any = {"model": "gemma", "messages": [{"role": "user", "content": "one two three " * 40}], "max_tokens": 100}
            assert client.chat.completions.create(**question).choices[0].message.content
            stream = client.chat.completions.create(**question, stream=True)
            first = next(iter(stream))
            ended_well(container, pod)
            assert first.model == "gemma"
            assert sum(1 for _ in stream) >= 100


def test_the_gateway_looks_for_servers_with_its_own_rights(built: dict[str, str], twin: TwinCluster, tmp_path: Path) -> None:
    made = manifests(DEPLOY / "gateway" / "example")
    pod = deployment(made)
    applied(twin, made)
    given = in_pod(twin, "models", pod["serviceAccountName"], ADMIN_KEY="administrator")
    text = (DEPLOY / "gateway" / "example" / "gateway.yaml").read_bytes()
    with started(built["gateway"], pod, tmp_path, replace(given, files={"configuration": {"gateway.yaml": text}})) as container:
        until(lambda: answers("http://127.0.0.1:8081", "/healthz"), container)
        with pytest.raises(openai.AuthenticationError):
            openai.OpenAI(base_url="http://127.0.0.1:8080/v1", api_key="nobody", max_retries=0).models.list()
        known = openai.OpenAI(base_url="http://127.0.0.1:8080/v1", api_key=KEY, max_retries=0).models.list()
        assert {model.id for model in known} == {"gemma", "densenet"}
        ended_well(container, pod)


def test_the_graphs_controller_reconciles(built: dict[str, str], twin: TwinCluster, tmp_path: Path) -> None:
    made = manifests(DEPLOY / "graphs" / "example")
    pod = deployment(made)
    applied(twin, made)
    given = in_pod(twin, "kro-system", pod["serviceAccountName"])
    with started(built["controllers"], pod, tmp_path, given) as container:
        until(lambda: answers("http://127.0.0.1:8079", "/readyz"), container)
        for name in ("node", "definition", "instance"):
            document = yaml.safe_load((EXAMPLES / "graphs" / "web-application" / f"{name}.yaml").read_text())
            until(partial(_taken, twin, document), container)
        shop = "/apis/kro.run/v1alpha1/namespaces/default/webapplications/shop"
        until(lambda: twin.api.get(shop).json.get("status", {}).get("state") == "ACTIVE", container)
        assert twin.api.get("/apis/apps/v1/namespaces/default/deployments/shop").ok().json["status"]["readyReplicas"] == 2
        assert b"instance_reconcile_total" in asked("http://127.0.0.1:8078/metrics")
        ended_well(container, pod)


def _taken(cluster: TwinCluster, obj: Object) -> bool:
    """Whether an object could be applied: its kind comes a moment after its definition."""
    try:
        applied(cluster, [obj])
    except SliceworksError:
        return False
    return True


def test_the_slices_controller_asks_the_cloud_for_slices(built: dict[str, str], twin: TwinCluster, tmp_path: Path) -> None:
    overlay = DEPLOY / "slices" / "example-project" / "example-cluster"
    made = manifests(overlay)
    pod = deployment(made)
    applied(twin, made)
    lines = (overlay / "settings.env").read_text().splitlines()
    settings = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    state = orjson.loads((twin.kubeconfig.parent / "ready.json").read_bytes())
    cloud = {"GOOGLE_CONTAINER_CUSTOM_ENDPOINT": f"{state['cloud']}/container", "GOOGLE_OAUTH_ACCESS_TOKEN": twin.token}
    cluster = {"project": settings["GCP_PROJECT_ID"], "location": settings["GCP_CLUSTER_LOCATION"], "name": settings["GCP_CLUSTER"]}
    twin.api.post("/debug/twin/cloud", {"set": {"container": {"clusters": [cluster]}}}).ok()
    given = in_pod(twin, "tpu-provisioner-system", pod["serviceAccountName"], **settings, **cloud)
    with started(built["controllers"], pod, tmp_path, given) as container:
        until(lambda: answers("http://127.0.0.1:8081", "/readyz"), container)
        applied(twin, [yaml.safe_load((EXAMPLES / "slices" / "10-two-small-slices.yaml").read_text())])
        pods = "/api/v1/namespaces/default/pods"
        until(lambda: _running(twin.api.get(pods).ok().json["items"]) == 4, container, 120)
        ended_well(container, pod)


def _running(pods: list[Object]) -> int:
    return sum(each.get("status", {}).get("phase") == "Running" and "two-small-slices" in each["metadata"]["name"] for each in pods)


def test_the_load_worker_sends_and_gives_out_its_rows(built: dict[str, str], alone: None, tmp_path: Path) -> None:
    with echoing() as model:
        launch = _launch(model, tmp_path)
        pod = load.job(launch)["spec"]["template"]["spec"]
        given = Given({"config": launch.files}, variables=launch.secrets)
        with started(built["load-worker"], pod, tmp_path / "pod", given) as container:
            until(lambda: _news(container) is not None, container)
            until(lambda: (news := _news(container)) is not None and news.ended, container, 30)
            news = _news(container)
            assert news is not None
            assert news.problem == ""
            assert len(news.parts["rows"]) > 0
            asked("http://127.0.0.1:8090/leave", "POST", **{TOKEN: "word"})
            assert container.ended(10) == 0, container.tail()
        assert orjson.loads(asked(f"{model}/echo/records"))


def test_a_load_worker_that_is_told_to_end_does(built: dict[str, str], alone: None, tmp_path: Path) -> None:
    with echoing() as model:
        launch = _launch(model, tmp_path, seconds=300)
        pod = load.job(launch)["spec"]["template"]["spec"]
        given = Given({"config": launch.files}, variables=launch.secrets)
        with started(built["load-worker"], pod, tmp_path / "pod", given) as container:
            until(lambda: (news := _news(container)) is not None and news.parts["rows"], container, 30)
            ended_well(container, pod)


def _launch(model: str, folder: Path, seconds: int = 2) -> load.Launch:
    spec = LoadTestSpec.model_validate(
        {
            "target": {"url": model},
            "model": "echo",
            "prompts": {"texts": ["Hello"]},
            "stages": [{"constant": 20, "for": f"{seconds}s"}],
            "workers": {"where": "cluster", "count": 1, "image": "load-worker:1"},
        }
    )
    plan = plans.make(spec, folder)
    told = {**running.test_of(plan), "csv": False, "web": 0, "bucket": ""}
    secrets = {"SLICEWORKS_LOAD_TOKEN": "word"}
    return load.Launch("load-x", "default", spec.workers, float(seconds), {"test.json": orjson.dumps(told)}, secrets)


def _news(container: Container) -> Any:
    """What it tells; None while it does not answer."""
    try:
        return unpacked(asked("http://127.0.0.1:8090/news", **{TOKEN: "word"}))
    except (urllib.error.URLError, OSError):
        return None
