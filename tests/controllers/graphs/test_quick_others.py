"""Others that are quicker than a pass: what they do while it runs is not lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.support.graphs import on_stage

from sliceworks.base import clock

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.support.graphs import Stage

    from sliceworks.kube.transport import Request, Response, Transport

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
    """A transport on which something happens right after a call, before its answer is read."""

    def __init__(self, transport: Transport, method: str, path: str, act: Callable[[], Awaitable[Any]]) -> None:
        self._transport, self._call, self._act = transport, (method, path), act

    async def send(self, request: Request, *, stream: bool = False) -> Response:
        response = await self._transport.send(request, stream=stream)
        if (request.method, request.path) == self._call:
            self._call = ("", "")
            await self._act()
            await clock.sleep(0.5)  # the watch is told of it before the answer is read
        return response

    async def close(self) -> None:
        await self._transport.close()


def interrupt(stage: Stage, method: str, path: str, act: Callable[[], Awaitable[Any]]) -> None:
    stage.transport._transport = Interrupted(stage.transport._transport, method, path, act)


def test_child_that_is_ready_before_its_answer_is_read() -> None:
    async def main(stage: Stage) -> None:
        await stage.apply("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: shared}\ndata: {a: b}")
        await stage.apply(GRAPH)
        ready = {"status": {"replicas": 1, "readyReplicas": 1}}
        interrupt(stage, "PATCH", DEPLOYMENT, lambda: stage.twin.do("PATCH", f"{DEPLOYMENT}/status", ready))
        await stage.apply(INSTANCE)
        await stage.settle(5)
        assert (await stage.get(QUICKS))["status"]["state"] == "ACTIVE"
        assert (await stage.get("/api/v1/namespaces/default/configmaps/one"))["data"] == {"a": "b"}

    on_stage(main)


def test_external_that_comes_while_a_pass_runs() -> None:
    async def main(stage: Stage) -> None:
        await stage.apply(GRAPH)
        shared = {"metadata": {"name": "shared"}, "data": {"a": "b"}}
        interrupt(stage, "PATCH", DEPLOYMENT, lambda: stage.twin.do("POST", "/api/v1/namespaces/default/configmaps", shared))
        await stage.apply(INSTANCE)
        await stage.twin.do("PATCH", f"{DEPLOYMENT}/status", {"status": {"replicas": 1, "readyReplicas": 1}})
        await stage.settle(5)
        assert (await stage.get(QUICKS))["status"]["state"] == "ACTIVE"

    on_stage(main)


def test_instance_that_changes_while_a_pass_runs() -> None:
    async def main(stage: Stage) -> None:
        await stage.apply("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: shared}\ndata: {a: b}")
        await stage.apply(GRAPH.replace("readyWhen", "#").replace("data: {a", "data: {name: '${schema.spec.name}', a"))
        await stage.apply(INSTANCE)
        settings = "/api/v1/namespaces/default/configmaps/one"
        change = {"spec": {"name": "c"}}
        interrupt(stage, "PATCH", settings, lambda: stage.twin.do("PATCH", QUICKS, change))
        await stage.twin.do("PATCH", QUICKS, {"spec": {"name": "b"}})
        await stage.settle(5)
        assert (await stage.get(settings))["data"]["name"] == "c"

    on_stage(main)
