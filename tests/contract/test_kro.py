"""A Go client: the real kro controller serves a graph of ours, its own example and its own scenarios on each cluster."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import orjson
import pytest
import yaml
from tests.support import goldens, kro
from tests.support.clusters import real_wanted
from tests.support.custom import CRDS
from tests.support.kro import GRAPHS
from tests.support.scenarios import Scenario, apply, differing, locate
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.real.processes import Process
    from tests.support.clusters import Cluster
    from tests.support.http import Api

Object = dict[str, Any]
pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(not real_wanted(), reason="needs kro built from its Go module: SLICEWORKS_REAL=1"),
]

# kro makes these of the namespace's name.
HASH = re.compile(r"(applyset-|sha256:)[\w-]{43}")
# The folders of kro's own end-to-end scenarios.
SCENARIOS = (
    "cel-random-namespaced-function",
    "check-arbitary-objects",
    "check-external-references",
    "check-instance-creation",
    "check-instance-update",
    "check-multi-resource-rgd",
    "check-required-default-interactions",
    "check-rgd-creation",
    "check-rgd-deletion",
    "check-unknown-fields",
    "check-validation-markers",
)
GRAPH = """
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: shop}
spec:
  schema:
    apiVersion: v1alpha1
    kind: Shop
    spec:
      title: string | required=true minLength=3
      replicas: integer | default=2 minimum=1 maximum=5
      image: string | default="example.com/shop:1"
      open: boolean | default=true
      colours: "[]string"
    status:
      ready: ${deployment.status.readyReplicas}
      address: ${service.spec.clusterIP}
  resources:
  - id: settings
    template:
      apiVersion: v1
      kind: ConfigMap
      metadata: {name: "${schema.metadata.name}-settings"}
      data:
        title: ${schema.spec.title}
        size: ${string(schema.spec.replicas)}
  - id: deployment
    readyWhen: ["${deployment.status.readyReplicas == deployment.spec.replicas}"]
    template:
      apiVersion: apps/v1
      kind: Deployment
      metadata: {name: "${schema.metadata.name}"}
      spec:
        replicas: ${schema.spec.replicas}
        selector: {matchLabels: {shop: "${schema.metadata.name}"}}
        template:
          metadata: {labels: {shop: "${schema.metadata.name}"}}
          spec:
            containers:
            - name: main
              image: ${schema.spec.image}
              envFrom: [{configMapRef: {name: "${settings.metadata.name}"}}]
  - id: service
    includeWhen: ["${schema.spec.open}"]
    template:
      apiVersion: v1
      kind: Service
      metadata: {name: "${deployment.metadata.name}"}
      spec:
        selector: ${deployment.spec.selector.matchLabels}
        ports: [{port: 80}]
  - id: notes
    forEach: [{colour: "${schema.spec.colours}"}]
    template:
      apiVersion: v1
      kind: ConfigMap
      metadata: {name: "${schema.metadata.name}-${colour}"}
      data: {colour: "${colour}"}
"""


@pytest.fixture(scope="module")
def controller(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """kro, for the cases of this file."""
    with kro.running(cluster, tmp_path_factory.mktemp("kro")) as process:
        yield process


@pytest.mark.usefixtures("controller")
def test_graph_of_ours(cluster: Cluster, api: Api, ns: str) -> None:
    real = cluster.name == "real"
    graph = yaml.load(GRAPH, yaml.CSafeLoader)
    apply(api, graph)
    _await_graph(api, "shop")
    shops = f"/apis/kro.run/v1alpha1/namespaces/{ns}/shops"
    words = {ns: "NS", api.get(f"{GRAPHS}/shop").json["metadata"]["uid"]: "GRAPH"}
    body = {"metadata": {"name": "corner"}, "spec": {"title": "Corner", "colours": ["red", "green"]}}
    typed = {"apiVersion": "kro.run/v1alpha1", "kind": "Shop", **body}

    # 1. The generated definition defaults and refuses.
    api.post(shops, {**typed, "spec": {"title": "no"}}).refused(422, "Invalid")
    api.post(shops, {**typed, "spec": {}}).refused(422, "Invalid")
    assert api.post(shops, typed).ok(201).json["spec"]["replicas"] == 2

    # 2. What can be made is made, and the rest waits for the deployment.
    deployment = f"/apis/apps/v1/namespaces/{ns}/deployments/corner"
    eventually(lambda: api.get(deployment).status == 200, what="the deployment is there")
    eventually(lambda: _state(api, f"{shops}/corner") == "IN_PROGRESS")
    api.get(f"/api/v1/namespaces/{ns}/services/corner").refused(404, "NotFound")

    # 3. Once it is ready, everything is, and the status tells what the graph takes from its children.
    api.patch(f"{deployment}/status", {"status": {"replicas": 2, "readyReplicas": 2}}).ok(200)
    eventually(lambda: _active(api, f"{shops}/corner"), what="the shop is active")
    children = {name: _children(api, ns, name) for name in ("configmaps", "services", "apps/deployments")}
    goldens.check("test_kro", "children", children, real=real, words=words)
    goldens.check("test_kro", "instance", _settled(api.get(f"{shops}/corner").json), real=real, words=words)
    definition = api.get(f"{CRDS}/shops.kro.run").ok(200).json
    goldens.check("test_kro", "definition", definition["spec"], real=real, words=words)

    # 4. A change flows: one child less by a condition, one less by a shorter list, one with a new value.
    api.patch(f"{shops}/corner", {"spec": {"open": False, "colours": ["red"], "title": "Closed"}}).ok(200)
    eventually(lambda: _names(api, ns) == ["corner-red", "corner-settings"], what="the second note is gone")
    eventually(lambda: api.get(f"/api/v1/namespaces/{ns}/services/corner").status == 404, what="the service is gone")
    eventually(lambda: api.get(f"/api/v1/namespaces/{ns}/configmaps/corner-settings").json["data"]["title"] == "Closed")

    # 5. What somebody else broke is put right.
    api.delete(f"/api/v1/namespaces/{ns}/configmaps/corner-red").ok()
    eventually(lambda: _names(api, ns) == ["corner-red", "corner-settings"], what="the note is back")
    api.patch(f"/api/v1/namespaces/{ns}/configmaps/corner-settings", {"data": {"title": "by hand"}}).ok(200)
    eventually(lambda: api.get(f"/api/v1/namespaces/{ns}/configmaps/corner-settings").json["data"]["title"] == "Closed")

    # 6. Deletion takes the children along, and the graph can go after that.
    api.delete(f"{shops}/corner").ok()
    eventually(lambda: api.get(f"{shops}/corner").status == 404, what="the shop is gone")
    assert _names(api, ns) == []
    api.get(deployment).refused(404, "NotFound")
    api.delete(f"{GRAPHS}/shop").ok()
    eventually(lambda: api.get(f"{GRAPHS}/shop").status == 404, what="the graph is gone")


@pytest.mark.usefixtures("controller")
def test_graph_that_cannot_be(cluster: Cluster, api: Api, unique_name: str) -> None:
    graph = yaml.load(GRAPH, yaml.CSafeLoader)
    graph["metadata"]["name"] = unique_name
    graph["spec"]["schema"]["kind"] = "Broken"
    graph["spec"]["resources"][0]["template"]["data"]["title"] = "${nobody.spec.title}"
    apply(api, graph)
    eventually(lambda: _condition(api, unique_name, "GraphAccepted")["status"] == "False", what="the graph is refused")
    seen = _condition(api, unique_name, "GraphAccepted")
    goldens.check("test_kro", "refused", {key: seen[key] for key in ("reason", "message")}, real=cluster.name == "real")
    api.delete(f"{GRAPHS}/{unique_name}").ok()


@pytest.mark.usefixtures("controller")
def test_own_example(api: Api, ns: str) -> None:
    folder = kro.folder() / "examples" / "kubernetes" / "webapp"
    graph, instance = kro.load(folder / "rg.yaml"), kro.load(folder / "instance.yaml")
    apply(api, graph)
    _await_graph(api, graph["metadata"]["name"])
    instance["spec"]["namespace"] = ns
    instance["metadata"]["namespace"] = ns
    apply(api, instance)
    deployment = f"/apis/apps/v1/namespaces/{ns}/deployments/test-app"
    eventually(lambda: api.get(deployment).status == 200, what="the deployment is there")
    api.patch(f"{deployment}/status", {"status": {"replicas": 1, "readyReplicas": 1, "availableReplicas": 1}}).ok(200)
    ingress = f"/apis/networking.k8s.io/v1/namespaces/{ns}/ingresses/test-app"
    eventually(lambda: api.get(ingress).status == 200, what="the ingress is there")
    api.patch(f"{ingress}/status", {"status": {"loadBalancer": {"ingress": [{"hostname": "web.example.com"}]}}}).ok(200)
    eventually(lambda: _active(api, locate(api, instance)), what="the web app is active")
    eventually(lambda: api.get(locate(api, instance)).json["status"].get("url") == "web.example.com", what="its address is told")
    assert [item["spec"]["selector"] for item in _children(api, ns, "services")] == [{"app": "test-app"}]
    api.delete(locate(api, instance)).ok()
    eventually(lambda: api.get(deployment).status == 404, what="the deployment is gone")


@pytest.mark.usefixtures("controller")
@pytest.mark.parametrize("name", SCENARIOS)
def test_own_scenario(api: Api, ns: str, name: str) -> None:
    def scale_up() -> None:
        """What the autoscaler of the scenario would do: no such controller runs here."""
        deployment = f"/apis/apps/v1/namespaces/{ns}/deployments/test-app-deployment"
        eventually(lambda: api.get(deployment).json["metadata"]["generation"] == 2, what="the change has come to the deployment")
        api.patch(f"{deployment}/scale", {"spec": {"replicas": 2}}).ok(200)

    before = {"deployment-update-assert.yaml": scale_up} if name == "check-multi-resource-rgd" else {}
    Scenario(kro.folder() / "test" / "e2e" / "chainsaw" / name, api, ns, before).play()


def test_definition_goes_with_its_graph(cluster: Cluster, api: Api, controller: Process, tmp_path: Path) -> None:
    graph = yaml.load(GRAPH, yaml.CSafeLoader)
    graph["metadata"]["name"], graph["spec"]["schema"]["kind"] = "stall", "Stall"
    definition = f"{CRDS}/stalls.kro.run"
    controller.kill()
    with kro.running(cluster, tmp_path, "--allow-crd-deletion"):
        apply(api, graph)
        _await_graph(api, "stall")
        api.get(definition).ok(200)
        api.delete(f"{GRAPHS}/stall").ok()
        eventually(lambda: api.get(f"{GRAPHS}/stall").status == 404, what="the graph is gone")
        eventually(lambda: api.get(definition).status == 404, what="its definition is gone")
    controller.start()


def _await_graph(api: Api, name: str) -> None:
    eventually(lambda: _active(api, f"{GRAPHS}/{name}", "Active"), what=f"graph {name} is active")


def _active(api: Api, path: str, state: str = "ACTIVE") -> bool:
    expected = {"status": {"state": state, "(conditions[?type == 'Ready'])": [{"status": "True"}]}}
    return not differing(expected, api.get(path).json)


def _condition(api: Api, name: str, kind: str) -> Object:
    conditions: list[Object] = api.get(f"{GRAPHS}/{name}").json.get("status", {}).get("conditions", [])
    return next((item for item in conditions if item["type"] == kind), {"status": "Unknown"})


def _state(api: Api, path: str) -> str:
    return str(api.get(path).json.get("status", {}).get("state"))


def _children(api: Api, ns: str, resource: str) -> list[Object]:
    group, _, plural = resource.rpartition("/")
    root = f"/apis/{group}/v1" if group else "/api/v1"
    items = api.get(f"{root}/namespaces/{ns}/{plural}", {"labelSelector": "kro.run/owned=true"}).ok(200).json["items"]
    return [_settled(item) for item in items]


def _settled(obj: Object) -> Object:
    """The object without what depends on how often it was written, and on when."""
    metadata = {key: value for key, value in obj["metadata"].items() if key not in {"generation", "managedFields"}}
    owners = sorted({entry["manager"] for entry in obj["metadata"]["managedFields"]})
    text = orjson.dumps({**obj, "metadata": {**metadata, "owners": owners}}).decode()
    settled: Object = orjson.loads(HASH.sub("HASH", text))
    return settled


def _names(api: Api, ns: str) -> list[str]:
    listed = api.get(f"/api/v1/namespaces/{ns}/configmaps", {"labelSelector": "kro.run/owned=true"})
    return sorted(listed.ok(200).names)
