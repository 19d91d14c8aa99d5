"""Inspection of an instance: objects, states of resources, and differences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml
from tests.support.graph_controller import run_with_controller

from sliceworks.controllers.graphs import inspection
from sliceworks.graph import definition_parser
from sliceworks.graph.builder import build_graph as compile_graph
from sliceworks.graph.diff import compare
from sliceworks.graph.kinds import BuiltinKinds
from sliceworks.graph.renderer import render
from sliceworks.kube.client import Client

if TYPE_CHECKING:
    from tests.support.graph_controller import GraphHarness

Object = dict[str, Any]
GRAPH = """
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: shops}
spec:
  schema:
    apiVersion: v1alpha1
    kind: Shop
    spec: {size: integer | default=1, open: boolean | default=false}
  resources:
  - id: shared
    externalRef: {apiVersion: v1, kind: ConfigMap, metadata: {name: shared}}
  - id: settings
    template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}"}, data: {a: "${shared.data.a}"}}
  - id: service
    includeWhen: ["${schema.spec.open}"]
    template: {apiVersion: v1, kind: Service, metadata: {name: "${schema.metadata.name}"}, spec: {ports: [{port: 80}]}}
  - id: deployment
    readyWhen: ["${deployment.status.readyReplicas == deployment.spec.replicas}"]
    template:
      apiVersion: apps/v1
      kind: Deployment
      metadata: {name: "${schema.metadata.name}"}
      spec:
        replicas: ${schema.spec.size}
        selector: {matchLabels: {app: x}}
        template: {metadata: {labels: {app: x}}, spec: {containers: [{name: a, image: example.com/a}]}}
  - id: last
    template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${deployment.metadata.name}-last"}}
"""
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
SHOP = "apiVersion: kro.run/v1alpha1\nkind: Shop\nmetadata: {name: corner}\n"
SHARED = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: shared}\ndata: {a: b}\n"


def test_states_and_differences() -> None:
    graph = compile_graph(definition_parser.parse(yaml.load(GRAPH, yaml.CSafeLoader)), BuiltinKinds())

    async def main(harness: GraphHarness) -> None:
        await harness.apply(SHARED)
        await harness.apply(GRAPH)
        await harness.apply(SHOP)
        client = Client(harness.twin.cluster.transport(), namespace="default")
        instance = await inspection.find_instance(client, graph, "corner", "")
        observed, states = await inspection.observe(client, graph, instance)
        assert states == {
            "shared": "ready",
            "settings": "ready",
            "service": "excluded",
            "deployment": "pending",
            "last": "missing",
        }
        assert {name: len(objects) for name, objects in observed.items()} == {
            "shared": 1,
            "settings": 1,
            "service": 0,
            "deployment": 1,
            "last": 0,
        }

        # All desired objects exist, except pending ones.
        assert _changes(graph, instance, observed) == {"last": "create"}
        # Another spec shows what would change.
        expected = {**instance, "spec": {"size": 3, "open": True}}
        assert _changes(graph, expected, observed) == {"service": "create", "deployment": "change", "last": "create"}

    run_with_controller(main)


JOBS = """
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: once}
spec:
  schema: {apiVersion: v1alpha1, kind: Once, spec: {size: integer | default=1}}
  resources:
  - id: job
    lifecycle: {onComplete: keep}
    readyWhen: ["${job.status.?completionTime.hasValue()}"]
    template:
      apiVersion: batch/v1
      kind: Job
      metadata: {name: "${schema.metadata.name}"}
      spec:
        ttlSecondsAfterFinished: 5
        template:
          metadata: {annotations: {sliceworks.dev/run-seconds: "5"}}
          spec: {restartPolicy: Never, containers: [{name: a, image: example.com/a}]}
"""
NODE = """
apiVersion: v1
kind: Node
metadata: {name: host, labels: {sliceworks.dev/node: simulated}}
status: {capacity: {cpu: "8", memory: 8Gi, pods: "10"}}
"""


def test_completed_and_deleted_job_is_ready() -> None:
    graph = compile_graph(definition_parser.parse(yaml.load(JOBS, yaml.CSafeLoader)), BuiltinKinds())

    async def main(harness: GraphHarness) -> None:
        await harness.apply(NODE)
        await harness.apply(JOBS)
        await harness.apply("apiVersion: kro.run/v1alpha1\nkind: Once\nmetadata: {name: now}")
        await harness.settle(60)
        assert await harness.names("/apis/batch/v1/namespaces/default/jobs") == []
        client = Client(harness.twin.cluster.transport(), namespace="default")
        instance = await inspection.find_instance(client, graph, "now", "default")
        observed, states = await inspection.observe(client, graph, instance)
        assert states == {"job": "ready"}
        assert _changes(graph, instance, observed) == {}

    run_with_controller(main, workloads=True)


def _changes(graph: Any, instance: Object, observed: dict[str, list[Object]]) -> dict[str, str]:
    rendered = render(graph, instance, observed)
    new = {item.node.id: item.objects for item in rendered if item.state == "rendered"}
    old = {name: objects for name, objects in observed.items() if name != "shared"}
    return {item.node: item.action for item in compare(old, new, owned=inspection.owned_fields) if item.action != "keep"}


SHARING = """
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: stands}
spec:
  schema: {apiVersion: v1alpha1, kind: Stand, spec: {size: integer | default=1}}
  resources:
  - id: project
    externalRef: {apiVersion: v1, kind: ConfigMap, metadata: {name: shared}}
  - id: account
    template: {apiVersion: v1, kind: ServiceAccount, metadata: {name: "${schema.metadata.name}-account"}}
  - id: default
    template:
      apiVersion: v1
      kind: ServiceAccount
      metadata: {name: default, annotations: {account: "${account.metadata.uid}"}}
  - id: bucket
    template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "bucket-${project.data.a}"}, data: {a: "1"}}
  - id: loader
    template:
      apiVersion: v1
      kind: ConfigMap
      metadata: {name: "${schema.metadata.name}"}
      data: {bucket: "${bucket.metadata.name}"}
"""


def test_second_instance_is_predicted_as_it_happens() -> None:
    """The instances share objects whose names and values come from other objects."""
    graph = compile_graph(definition_parser.parse(yaml.load(SHARING, yaml.CSafeLoader)), BuiltinKinds())
    stand = {"apiVersion": "kro.run/v1alpha1", "kind": "Stand", "spec": {"size": 1}}
    first, second = ({**stand, "metadata": {"name": name}} for name in ("first", "second"))

    async def main(harness: GraphHarness) -> None:
        await harness.apply(SHARED)
        await harness.apply(SHARING)
        client = Client(harness.twin.cluster.transport(), namespace="default")
        predicted = {item.node: item.action for item in await inspection.compare(client, graph, first)}
        assert predicted == {"account": "create", "default": "change", "bucket": "create", "loader": "create"}
        await harness.apply_one(first)
        assert {item.action for item in await inspection.compare(client, graph, first)} == {"keep"}
        refused = {item.node: (item.action, item.reason) for item in await inspection.compare(client, graph, second)}
        assert refused == {
            "account": ("create", ""),
            "default": ("refuse", "it belongs to Stand default/first"),
            "bucket": ("refuse", "it belongs to Stand default/first"),
            "loader": ("refuse", "it needs bucket"),
        }
        await harness.apply_one(second)
        names = await harness.names("/api/v1/namespaces/default/configmaps"), await harness.names(ACCOUNTS)
        assert names == (["bucket-b", "first", "kube-root-ca.crt", "shared"], ["default", "first-account", "second-account"])

    run_with_controller(main)
