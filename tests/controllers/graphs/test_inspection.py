"""An instance looked at from outside: its objects, how each resource stands, and what a change would do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml
from tests.support.graphs import on_stage

from sliceworks.controllers.graphs import inspection
from sliceworks.graph import definitions
from sliceworks.graph.compile import compile as compile_graph
from sliceworks.graph.differences import between
from sliceworks.graph.kinds import BuiltinKinds
from sliceworks.graph.rendering import render
from sliceworks.kube.client import Client

if TYPE_CHECKING:
    from tests.support.graphs import Stage

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
SHOP = "apiVersion: kro.run/v1alpha1\nkind: Shop\nmetadata: {name: corner}\n"
SHARED = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: shared}\ndata: {a: b}\n"


def test_states_and_differences() -> None:
    graph = compile_graph(definitions.read(yaml.load(GRAPH, yaml.CSafeLoader)), BuiltinKinds())

    async def main(stage: Stage) -> None:
        await stage.apply(SHARED)
        await stage.apply(GRAPH)
        await stage.apply(SHOP)
        client = Client(stage.twin.cluster.transport(), namespace="default")
        instance = await inspection.find_instance(client, graph, "corner", "")
        observed, states = await inspection.observed(client, graph, instance)
        assert states == {
            "shared": "ready",
            "settings": "ready",
            "service": "left out",
            "deployment": "waiting",
            "last": "absent",
        }
        assert {name: len(objects) for name, objects in observed.items()} == {
            "shared": 1,
            "settings": 1,
            "service": 0,
            "deployment": 1,
            "last": 0,
        }

        # What is asked for now is there, but for what waits.
        assert _changes(graph, instance, observed) == {"last": "create"}
        # Another wish shows what would become of it.
        wanted = {**instance, "spec": {"size": 3, "open": True}}
        assert _changes(graph, wanted, observed) == {"service": "create", "deployment": "change", "last": "create"}

    on_stage(main)


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


def test_job_that_is_done_and_gone_is_ready_and_not_made_again() -> None:
    graph = compile_graph(definitions.read(yaml.load(JOBS, yaml.CSafeLoader)), BuiltinKinds())

    async def main(stage: Stage) -> None:
        await stage.apply(NODE)
        await stage.apply(JOBS)
        await stage.apply("apiVersion: kro.run/v1alpha1\nkind: Once\nmetadata: {name: now}")
        await stage.settle(60)
        assert await stage.names("/apis/batch/v1/namespaces/default/jobs") == []
        client = Client(stage.twin.cluster.transport(), namespace="default")
        instance = await inspection.find_instance(client, graph, "now", "default")
        observed, states = await inspection.observed(client, graph, instance)
        assert states == {"job": "ready"}
        assert _changes(graph, instance, observed) == {}

    on_stage(main, workloads=True)


def _changes(graph: Any, instance: Object, observed: dict[str, list[Object]]) -> dict[str, str]:
    rendered = render(graph, instance, observed)
    new = {each.node.id: each.objects for each in rendered if each.state == "made"}
    old = {name: objects for name, objects in observed.items() if name != "shared"}
    return {each.node: each.action for each in between(old, new, live=True) if each.action != "keep"}
