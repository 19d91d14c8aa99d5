"""The lifecycle of a graph with conditions, loops and changes, on any cluster and with any controller for ResourceGraphDefinitions.

The expected outcome is recorded from the real kro on the real control plane.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import orjson
import yaml
from tests.support import goldens
from tests.support.chainsaw import apply, differing
from tests.support.custom_resources import CRDS
from tests.support.kro import GRAPHS
from tests.support.polling import eventually

if TYPE_CHECKING:
    from tests.support.http import Api

Object = dict[str, Any]

# kro derives these from the namespace's name.
HASH = re.compile(r"(applyset-|sha256:)[\w-]{43}")
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


def play(api: Api, ns: str, *, real: bool = False, owners: frozenset[str] = frozenset()) -> None:
    """Run the whole lifecycle of a shop; with `real`, kro runs on the real control plane and may record the outcome.

    `owners` are field managers that kro has on an instance and that are optional elsewhere.
    """
    graph = yaml.load(GRAPH, yaml.CSafeLoader)
    apply(api, graph)
    await_graph(api, "shop")
    shops = f"/apis/kro.run/v1alpha1/namespaces/{ns}/shops"
    words = {ns: "NS", api.get(f"{GRAPHS}/shop").json["metadata"]["uid"]: "GRAPH"}
    body = {"metadata": {"name": "corner"}, "spec": {"title": "Corner", "colours": ["red", "green"]}}
    typed = {"apiVersion": "kro.run/v1alpha1", "kind": "Shop", **body}

    # 1. The generated CRD sets defaults and rejects invalid instances.
    api.post(shops, {**typed, "spec": {"title": "no"}}).refused(422, "Invalid")
    api.post(shops, {**typed, "spec": {}}).refused(422, "Invalid")
    assert api.post(shops, typed).ok(201).json["spec"]["replicas"] == 2

    # 2. Resources without unmet dependencies are created; the others wait for the deployment.
    deployment = f"/apis/apps/v1/namespaces/{ns}/deployments/corner"
    eventually(lambda: api.get(deployment).status == 200, what="the deployment is there")
    eventually(lambda: state(api, f"{shops}/corner") == "IN_PROGRESS")
    api.get(f"/api/v1/namespaces/{ns}/services/corner").refused(404, "NotFound")

    # 3. Once it is ready, all resources are, and the status has the values of its children.
    api.patch(f"{deployment}/status", {"status": {"replicas": 2, "readyReplicas": 2}}).ok(200)
    eventually(lambda: active(api, f"{shops}/corner"), what="the shop is active")
    children = {name: children_of(api, ns, name) for name in ("configmaps", "services", "apps/deployments")}
    goldens.check("test_kro", "children", children, real=real, words=words)
    instance = settled(api.get(f"{shops}/corner").json)
    instance["metadata"]["owners"] = sorted({*instance["metadata"]["owners"], *owners})
    goldens.check("test_kro", "instance", instance, real=real, words=words)
    definition = api.get(f"{CRDS}/shops.kro.run").ok(200).json
    goldens.check("test_kro", "definition", definition["spec"], real=real, words=words)

    # 4. A change propagates: a condition and a shorter list remove one child each, one child has a new value.
    api.patch(f"{shops}/corner", {"spec": {"open": False, "colours": ["red"], "title": "Closed"}}).ok(200)
    eventually(lambda: names_of(api, ns) == ["corner-red", "corner-settings"], what="the second note is deleted")
    eventually(lambda: api.get(f"/api/v1/namespaces/{ns}/services/corner").status == 404, what="the service is deleted")
    eventually(lambda: api.get(f"/api/v1/namespaces/{ns}/configmaps/corner-settings").json["data"]["title"] == "Closed")

    # 5. Drift of a child is reverted.
    api.delete(f"/api/v1/namespaces/{ns}/configmaps/corner-red").ok()
    eventually(lambda: names_of(api, ns) == ["corner-red", "corner-settings"], what="the note is back")
    api.patch(f"/api/v1/namespaces/{ns}/configmaps/corner-settings", {"data": {"title": "by hand"}}).ok(200)
    eventually(lambda: api.get(f"/api/v1/namespaces/{ns}/configmaps/corner-settings").json["data"]["title"] == "Closed")

    # 6. Deleting the instance deletes its children; then the graph can be deleted.
    api.delete(f"{shops}/corner").ok()
    eventually(lambda: api.get(f"{shops}/corner").status == 404, what="the shop is deleted")
    assert names_of(api, ns) == []
    api.get(deployment).refused(404, "NotFound")
    api.delete(f"{GRAPHS}/shop").ok()
    eventually(lambda: api.get(f"{GRAPHS}/shop").status == 404, what="the graph is deleted")


def await_graph(api: Api, name: str) -> None:
    """Wait until a graph is served."""
    eventually(lambda: active(api, f"{GRAPHS}/{name}", "Active"), what=f"graph {name} is active")


def active(api: Api, path: str, state: str = "ACTIVE") -> bool:
    """Whether an object is in this state and ready."""
    expected = {"status": {"state": state, "(conditions[?type == 'Ready'])": [{"status": "True"}]}}
    return not differing(expected, api.get(path).json)


def condition(api: Api, name: str, kind: str) -> Object:
    """A condition of a graph."""
    conditions: list[Object] = api.get(f"{GRAPHS}/{name}").json.get("status", {}).get("conditions", [])
    return next((condition for condition in conditions if condition["type"] == kind), {"status": "Unknown"})


def state(api: Api, path: str) -> str:
    """The state of an instance."""
    return str(api.get(path).json.get("status", {}).get("state"))


def children_of(api: Api, ns: str, resource: str) -> list[Object]:
    """The objects of this graph of one resource."""
    group, _, plural = resource.rpartition("/")
    root = f"/apis/{group}/v1" if group else "/api/v1"
    items = api.get(f"{root}/namespaces/{ns}/{plural}", {"labelSelector": "kro.run/owned=true"}).ok(200).json["items"]
    return [settled(item) for item in items]


def settled(obj: Object) -> Object:
    """The object without times, versions and counters."""
    metadata = {key: value for key, value in obj["metadata"].items() if key not in {"generation", "managedFields"}}
    owners = sorted({entry["manager"] for entry in obj["metadata"]["managedFields"]})
    text = orjson.dumps({**obj, "metadata": {**metadata, "owners": owners}}).decode()
    settled: Object = orjson.loads(HASH.sub("HASH", text))
    return settled


def names_of(api: Api, ns: str) -> list[str]:
    """The names of this graph's ConfigMaps."""
    listed = api.get(f"/api/v1/namespaces/{ns}/configmaps", {"labelSelector": "kro.run/owned=true"})
    return sorted(listed.ok(200).names)
