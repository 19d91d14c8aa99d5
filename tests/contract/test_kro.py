"""A Go client: the real kro controller serves a graph of ours, its own example and its own scenarios on each cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import yaml
from tests.support import goldens, kro, shops
from tests.support.clusters import real_wanted
from tests.support.custom import CRDS
from tests.support.kro import GRAPHS
from tests.support.scenarios import apply, locate
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.real.processes import Process
    from tests.support.clusters import Cluster
    from tests.support.http import Api

pytestmark = [
    pytest.mark.long(40),
    pytest.mark.real,
    pytest.mark.skipif(not real_wanted(), reason="needs kro built from its Go module: SLICEWORKS_REAL=1"),
]


@pytest.fixture(scope="module")
def controller(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """kro, for the cases of this file."""
    with kro.running(cluster, tmp_path_factory.mktemp("kro")) as process:
        yield process


@pytest.mark.usefixtures("controller")
def test_graph_of_ours(cluster: Cluster, api: Api, ns: str) -> None:
    shops.play(api, ns, real=cluster.name == "real")


@pytest.mark.usefixtures("controller")
def test_graph_that_cannot_be(cluster: Cluster, api: Api, unique_name: str) -> None:
    graph = yaml.load(shops.GRAPH, yaml.CSafeLoader)
    graph["metadata"]["name"] = unique_name
    graph["spec"]["schema"]["kind"] = "Broken"
    graph["spec"]["resources"][0]["template"]["data"]["title"] = "${nobody.spec.title}"
    apply(api, graph)
    eventually(lambda: shops.condition(api, unique_name, "GraphAccepted")["status"] == "False", what="the graph is refused")
    seen = shops.condition(api, unique_name, "GraphAccepted")
    goldens.check("test_kro", "refused", {key: seen[key] for key in ("reason", "message")}, real=cluster.name == "real")
    api.delete(f"{GRAPHS}/{unique_name}").ok()


@pytest.mark.usefixtures("controller")
def test_own_example(api: Api, ns: str) -> None:
    folder = kro.folder() / "examples" / "kubernetes" / "webapp"
    graph, instance = kro.load(folder / "rg.yaml"), kro.load(folder / "instance.yaml")
    apply(api, graph)
    shops.await_graph(api, graph["metadata"]["name"])
    instance["spec"]["namespace"] = ns
    instance["metadata"]["namespace"] = ns
    apply(api, instance)
    deployment = f"/apis/apps/v1/namespaces/{ns}/deployments/test-app"
    eventually(lambda: api.get(deployment).status == 200, what="the deployment is there")
    api.patch(f"{deployment}/status", {"status": {"replicas": 1, "readyReplicas": 1, "availableReplicas": 1}}).ok(200)
    ingress = f"/apis/networking.k8s.io/v1/namespaces/{ns}/ingresses/test-app"
    eventually(lambda: api.get(ingress).status == 200, what="the ingress is there")
    api.patch(f"{ingress}/status", {"status": {"loadBalancer": {"ingress": [{"hostname": "web.example.com"}]}}}).ok(200)
    eventually(lambda: shops.active(api, locate(api, instance)), what="the web app is active")
    eventually(lambda: api.get(locate(api, instance)).json["status"].get("url") == "web.example.com", what="its address is told")
    assert [item["spec"]["selector"] for item in shops.children_of(api, ns, "services")] == [{"app": "test-app"}]
    api.delete(locate(api, instance)).ok()
    eventually(lambda: api.get(deployment).status == 404, what="the deployment is gone")


@pytest.mark.usefixtures("controller")
@pytest.mark.parametrize("name", kro.SCENARIOS)
def test_own_scenario(api: Api, ns: str, name: str) -> None:
    kro.play(name, api, ns)


def test_definition_goes_with_its_graph(cluster: Cluster, api: Api, controller: Process, tmp_path: Path) -> None:
    graph = yaml.load(shops.GRAPH, yaml.CSafeLoader)
    graph["metadata"]["name"], graph["spec"]["schema"]["kind"] = "stall", "Stall"
    definition = f"{CRDS}/stalls.kro.run"
    controller.kill()
    with kro.running(cluster, tmp_path, "--allow-crd-deletion"):
        apply(api, graph)
        shops.await_graph(api, "stall")
        api.get(definition).ok(200)
        api.delete(f"{GRAPHS}/stall").ok()
        eventually(lambda: api.get(f"{GRAPHS}/stall").status == 404, what="the graph is gone")
        eventually(lambda: api.get(definition).status == 404, what="its definition is gone")
    controller.start()
