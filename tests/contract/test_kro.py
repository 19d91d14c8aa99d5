"""A Go client: the real kro controller serves our graph, its example and its scenarios on each cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import yaml
from tests.support import goldens, graph_lifecycle, kro
from tests.support.chainsaw import apply, locate
from tests.support.clusters import real_enabled
from tests.support.custom_resources import CRDS
from tests.support.kro import GRAPHS
from tests.support.polling import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.real.processes import Process
    from tests.support.clusters import Cluster
    from tests.support.http import Api

pytestmark = [
    pytest.mark.long(40),
    pytest.mark.real,
    pytest.mark.skipif(not real_enabled(), reason="needs kro built from its Go module: SLICEWORKS_REAL=1"),
]


@pytest.fixture(scope="module")
def controller(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """kro, for all tests of this file."""
    with kro.running(cluster, tmp_path_factory.mktemp("kro")) as process:
        yield process


@pytest.mark.usefixtures("controller")
def test_graph_lifecycle(cluster: Cluster, api: Api, ns: str) -> None:
    graph_lifecycle.play(api, ns, real=cluster.name == "real")


@pytest.mark.usefixtures("controller")
def test_invalid_graph_is_rejected(cluster: Cluster, api: Api, unique_name: str) -> None:
    graph = yaml.load(graph_lifecycle.GRAPH, yaml.CSafeLoader)
    graph["metadata"]["name"] = unique_name
    graph["spec"]["schema"]["kind"] = "Broken"
    graph["spec"]["resources"][0]["template"]["data"]["title"] = "${nobody.spec.title}"
    apply(api, graph)
    eventually(
        lambda: graph_lifecycle.condition(api, unique_name, "GraphAccepted")["status"] == "False", what="the graph is refused"
    )
    seen = graph_lifecycle.condition(api, unique_name, "GraphAccepted")
    goldens.check("test_kro", "refused", {key: seen[key] for key in ("reason", "message")}, real=cluster.name == "real")
    api.delete(f"{GRAPHS}/{unique_name}").ok()


@pytest.mark.usefixtures("controller")
def test_kro_example_is_served(api: Api, ns: str) -> None:
    folder = kro.folder() / "examples" / "kubernetes" / "webapp"
    graph, instance = kro.load(folder / "rg.yaml"), kro.load(folder / "instance.yaml")
    apply(api, graph)
    graph_lifecycle.await_graph(api, graph["metadata"]["name"])
    instance["spec"]["namespace"] = ns
    instance["metadata"]["namespace"] = ns
    apply(api, instance)
    deployment = f"/apis/apps/v1/namespaces/{ns}/deployments/test-app"
    eventually(lambda: api.get(deployment).status == 200, what="the deployment is there")
    api.patch(f"{deployment}/status", {"status": {"replicas": 1, "readyReplicas": 1, "availableReplicas": 1}}).ok(200)
    ingress = f"/apis/networking.k8s.io/v1/namespaces/{ns}/ingresses/test-app"
    eventually(lambda: api.get(ingress).status == 200, what="the ingress is there")
    api.patch(f"{ingress}/status", {"status": {"loadBalancer": {"ingress": [{"hostname": "web.example.com"}]}}}).ok(200)
    eventually(lambda: graph_lifecycle.active(api, locate(api, instance)), what="the web app is active")
    eventually(
        lambda: api.get(locate(api, instance)).json["status"].get("url") == "web.example.com", what="its address is in the status"
    )
    assert [item["spec"]["selector"] for item in graph_lifecycle.children_of(api, ns, "services")] == [{"app": "test-app"}]
    api.delete(locate(api, instance)).ok()
    eventually(lambda: api.get(deployment).status == 404, what="the deployment is deleted")


@pytest.mark.usefixtures("controller")
@pytest.mark.parametrize("name", kro.SCENARIOS)
def test_kro_scenario(api: Api, ns: str, name: str) -> None:
    kro.play(name, api, ns)


def test_definition_is_deleted_with_its_graph(cluster: Cluster, api: Api, controller: Process, tmp_path: Path) -> None:
    graph = yaml.load(graph_lifecycle.GRAPH, yaml.CSafeLoader)
    graph["metadata"]["name"], graph["spec"]["schema"]["kind"] = "stall", "Stall"
    definition = f"{CRDS}/stalls.kro.run"
    controller.kill()
    with kro.running(cluster, tmp_path, "--allow-crd-deletion"):
        apply(api, graph)
        graph_lifecycle.await_graph(api, "stall")
        api.get(definition).ok(200)
        api.delete(f"{GRAPHS}/stall").ok()
        eventually(lambda: api.get(f"{GRAPHS}/stall").status == 404, what="the graph is deleted")
        eventually(lambda: api.get(definition).status == 404, what="its definition is deleted")
    controller.start()
