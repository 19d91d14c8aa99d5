"""Changes during a reconcile are not lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.support.graph_controller import run_with_controller

from sliceworks.base import clock

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.support.graph_controller import GraphHarness

    from sliceworks.base.transport import Request, Response, Transport

GRAPH = """
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: quick}
spec:
  schema: {apiVersion: v1alpha1, kind: Quick, spec: {name: string | default=a}}
  resources:
  - id: deployment
    readyWhen: ["${deployment.status.readyReplicas == 1}"]
    template:
      apiVersion: apps/v1
      kind: Deployment
      metadata: {name: "${schema.metadata.name}"}
      spec:
        selector: {matchLabels: {app: x}}
        template: {metadata: {labels: {app: x}}, spec: {containers: [{name: a, image: example.com/a}]}}
  - id: shared
    externalRef: {apiVersion: v1, kind: ConfigMap, metadata: {name: shared}}
  - id: settings
    template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${deployment.metadata.name}"}, data: {a: "${shared.data.a}"}}
"""
INSTANCE = "apiVersion: kro.run/v1alpha1\nkind: Quick\nmetadata: {name: one}\n"
DEPLOYMENT = "/apis/apps/v1/namespaces/default/deployments/one"
QUICKS = "/apis/kro.run/v1alpha1/namespaces/default/quicks/one"


class Interrupted:
    """A transport that runs a callback after a call, before its response is read."""

    def __init__(self, transport: Transport, method: str, path: str, act: Callable[[], Awaitable[Any]]) -> None:
        self._transport, self._call, self._act = transport, (method, path), act

    async def send(self, request: Request, *, stream: bool = False) -> Response:
        response = await self._transport.send(request, stream=stream)
        if (request.method, request.path) == self._call:
            self._call = ("", "")
            await self._act()
            await clock.sleep(0.5)  # the watch delivers it before the response is read
        return response

    async def close(self) -> None:
        await self._transport.close()


def interrupt(harness: GraphHarness, method: str, path: str, act: Callable[[], Awaitable[Any]]) -> None:
    harness.transport._transport = Interrupted(harness.transport._transport, method, path, act)


def test_child_ready_before_response() -> None:
    async def main(harness: GraphHarness) -> None:
        await harness.apply("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: shared}\ndata: {a: b}")
        await harness.apply(GRAPH)
        ready = {"status": {"replicas": 1, "readyReplicas": 1}}
        interrupt(harness, "PATCH", DEPLOYMENT, lambda: harness.twin.do("PATCH", f"{DEPLOYMENT}/status", ready))
        await harness.apply(INSTANCE)
        await harness.settle(5)
        assert (await harness.get(QUICKS))["status"]["state"] == "ACTIVE"
        assert (await harness.get("/api/v1/namespaces/default/configmaps/one"))["data"] == {"a": "b"}

    run_with_controller(main)


def test_external_object_created_during_reconcile() -> None:
    async def main(harness: GraphHarness) -> None:
        await harness.apply(GRAPH)
        shared = {"metadata": {"name": "shared"}, "data": {"a": "b"}}
        interrupt(harness, "PATCH", DEPLOYMENT, lambda: harness.twin.do("POST", "/api/v1/namespaces/default/configmaps", shared))
        await harness.apply(INSTANCE)
        await harness.twin.do("PATCH", f"{DEPLOYMENT}/status", {"status": {"replicas": 1, "readyReplicas": 1}})
        await harness.settle(5)
        assert (await harness.get(QUICKS))["status"]["state"] == "ACTIVE"

    run_with_controller(main)


def test_instance_changed_during_reconcile() -> None:
    async def main(harness: GraphHarness) -> None:
        await harness.apply("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: shared}\ndata: {a: b}")
        await harness.apply(GRAPH.replace("readyWhen", "#").replace("data: {a", "data: {name: '${schema.spec.name}', a"))
        await harness.apply(INSTANCE)
        settings = "/api/v1/namespaces/default/configmaps/one"
        change = {"spec": {"name": "c"}}
        interrupt(harness, "PATCH", settings, lambda: harness.twin.do("PATCH", QUICKS, change))
        await harness.twin.do("PATCH", QUICKS, {"spec": {"name": "b"}})
        await harness.settle(5)
        assert (await harness.get(settings))["data"]["name"] == "c"

    run_with_controller(main)
