"""A Go client: the real kro controller turns graphs into resources on each cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml
from tests.support import kro
from tests.support.clusters import real_wanted
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.real.processes import Process
    from tests.support.clusters import Cluster
    from tests.support.http import Api

pytestmark = [
    pytest.mark.skipif(not real_wanted(), reason="needs kro built from its Go module: SLICEWORKS_REAL=1"),
    pytest.mark.timeout(300),
]
Object = dict[str, Any]

SITE = """
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: site.example.com}
spec:
  schema:
    apiVersion: v1alpha1
    kind: Site
    spec:
      message: string | default=hello
      replicas: integer | default=1
    status:
      address: ${service.spec.clusterIP}
      available: ${deployment.status.availableReplicas}
  resources:
  - id: settings
    template:
      apiVersion: v1
      kind: ConfigMap
      metadata: {name: "${schema.metadata.name}-settings"}
      data: {message: "${schema.spec.message}"}
  - id: deployment
    readyWhen: ["${deployment.status.availableReplicas == deployment.spec.replicas}"]
    template:
      apiVersion: apps/v1
      kind: Deployment
      metadata: {name: "${schema.metadata.name}"}
      spec:
        replicas: ${schema.spec.replicas}
        selector: {matchLabels: {site: "${schema.metadata.name}"}}
        template:
          metadata: {labels: {site: "${schema.metadata.name}"}}
          spec:
            containers:
            - name: main
              image: example.com/site
              envFrom: [{configMapRef: {name: "${settings.metadata.name}"}}]
  - id: service
    template:
      apiVersion: v1
      kind: Service
      metadata: {name: "${deployment.metadata.name}"}
      spec:
        selector: {site: "${schema.metadata.name}"}
        ports: [{port: 80}]
"""


@pytest.fixture(scope="module")
def controller(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """kro, for the cases of this file."""
    with kro.running(cluster, tmp_path_factory.mktemp("kro")) as process:
        yield process


def condition(obj: Object, kind: str) -> str:
    """The status of a condition."""
    return next((c["status"] for c in obj.get("status", {}).get("conditions", []) if c["type"] == kind), "")


def serve(api: Api, graph: Object) -> None:
    """Create a graph and wait until kro serves its kind."""
    path = f"{kro.GRAPHS}/{graph['metadata']['name']}"
    api.post(kro.GRAPHS, graph).ok(201)
    eventually(lambda: api.get(path).json.get("status", {}).get("state") == "Active", 60, f"{path} is active")


def become_available(api: Api, path: str, replicas: int) -> None:
    """Say that a deployment's pods run, as its controller would."""
    live = eventually(lambda: api.get(path).ok(200).json, 60, f"{path} exists")
    status = {"observedGeneration": live["metadata"]["generation"], "replicas": replicas, "availableReplicas": replicas}
    conditions = [{"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable"}]
    api.patch(f"{path}/status", {"status": {**status, "readyReplicas": replicas, "conditions": conditions}}).ok(200)


@pytest.mark.usefixtures("controller")
def test_graph_of_our_own(api: Api, ns: str, core: str) -> None:
    serve(api, yaml.load(SITE, yaml.CSafeLoader))
    sites = f"/apis/kro.run/v1alpha1/namespaces/{ns}/sites"
    deployment = f"/apis/apps/v1/namespaces/{ns}/deployments/one"
    api.post(sites, {"apiVersion": "kro.run/v1alpha1", "kind": "Site", "metadata": {"name": "one"}, "spec": {"replicas": 2}}).ok(
        201
    )
    become_available(api, deployment, 2)
    eventually(lambda: _active(api, f"{sites}/one"), 60, "the instance is active")
    site = api.get(f"{sites}/one").json
    service = api.get(f"{core}/services/one").ok(200).json
    assert (site["status"]["address"], site["status"]["available"]) == (service["spec"]["clusterIP"], 2)
    assert api.get(f"{core}/configmaps/one-settings").ok(200).json["data"] == {"message": "hello"}

    api.patch(f"{sites}/one", {"spec": {"message": "changed", "replicas": 3}}).ok(200)
    eventually(lambda: api.get(f"{core}/configmaps/one-settings").json["data"] == {"message": "changed"}, 60)
    eventually(lambda: api.get(deployment).json["spec"]["replicas"] == 3, 60)
    become_available(api, deployment, 3)
    eventually(lambda: api.get(f"{sites}/one").json["status"].get("available") == 3, 60)

    api.patch(f"{core}/configmaps/one-settings", {"data": {"message": "by hand"}}).ok(200)
    eventually(lambda: api.get(f"{core}/configmaps/one-settings").json["data"] == {"message": "changed"}, 60, "drift is undone")

    api.delete(f"{sites}/one").ok(200)
    eventually(lambda: api.get(f"{sites}/one").status == 404, 60, "the instance is gone")
    for path in (deployment, f"{core}/services/one", f"{core}/configmaps/one-settings"):
        api.get(path).refused(404, "NotFound")


def _active(api: Api, path: str) -> bool:
    site = api.get(path).ok(200).json
    ready = condition(site, "Ready") == "True" and site["status"]["state"] == "ACTIVE"
    return ready and {"address", "available"} <= site["status"].keys()


@pytest.mark.usefixtures("controller")
def test_graph_from_its_examples(api: Api, ns: str, core: str) -> None:
    examples = kro.folder() / "examples" / "kubernetes" / "webapp"
    serve(api, kro.load(examples / "rg.yaml"))
    instance = kro.load(examples / "instance.yaml")
    instance["spec"].update(namespace=ns)
    apps = f"/apis/kro.run/v1alpha1/namespaces/{ns}/webapps"
    name = instance["metadata"]["name"]
    api.post(apps, instance).ok(201)
    become_available(api, f"/apis/apps/v1/namespaces/{ns}/deployments/{name}", 1)
    eventually(lambda: api.get(f"{core}/services/{name}").status == 200, 60)
    ingress = f"/apis/networking.k8s.io/v1/namespaces/{ns}/ingresses/{name}"
    eventually(lambda: api.get(ingress).status == 200, 60)
    api.patch(f"{ingress}/status", {"status": {"loadBalancer": {"ingress": [{"hostname": "web.example.com"}]}}}).ok(200)
    eventually(lambda: api.get(f"{apps}/{name}").json["status"].get("url") == "web.example.com", 60)
    live = eventually(lambda: api.get(f"{apps}/{name}").json, 60)
    eventually(lambda: api.get(f"{apps}/{name}").json["status"]["state"] == "ACTIVE", 60)
    assert live["status"]["availableReplicas"] == 1
    api.delete(f"{apps}/{name}").ok(200)
    eventually(lambda: api.get(f"{apps}/{name}").status == 404, 60)


@pytest.mark.usefixtures("controller")
def test_bad_graph_is_refused(api: Api) -> None:
    graph = yaml.load(SITE.replace("site.example.com", "bad.example.com").replace("kind: Site", "kind: Bad"), yaml.CSafeLoader)
    graph["spec"]["resources"][0]["template"]["data"]["message"] = "${schema.spec.nothing}"
    api.post(kro.GRAPHS, graph).ok(201)
    path = f"{kro.GRAPHS}/bad.example.com"
    eventually(lambda: api.get(path).json.get("status", {}).get("state") == "Inactive", 60)
    assert "nothing" in str(api.get(path).json["status"]["conditions"])
