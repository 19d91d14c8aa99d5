"""Kinds of a live cluster, and kinds that cannot be listed."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from tests.support.embedded_twin import EmbeddedTwin, run_on_twin
from tests.support.graph_controller import BOX, BOXES, GRAPHS, GraphHarness, RecordingTransport, run_with_controller

from sliceworks.base import clock
from sliceworks.controllers.graphs import Options
from sliceworks.controllers.graphs.compiler import OpenAPIKinds, resolve_openapi
from sliceworks.kube.client import Client
from sliceworks.kube.resources import DEPLOYMENT, Resource

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import pytest

    from sliceworks.base.transport import Request, Response


def test_kind_from_openapi() -> None:
    async def main(twin: EmbeddedTwin) -> None:
        client = Client(twin.cluster.transport())
        result = await resolve_openapi(client, DEPLOYMENT)
        assert result is not None
        assert (result.api_version, result.kind, result.plural, result.namespaced) == ("apps/v1", "Deployment", "deployments", True)
        spec = result.schema.properties["spec"]
        assert spec.properties["replicas"].type == "integer"
        assert spec.properties["template"].properties["spec"].properties["containers"].type == "array"
        kinds = OpenAPIKinds()
        kinds.add(result)
        assert kinds.find("apps/v1", "Deployment") is result
        assert kinds.find("apps/v1", "Nothing") is None
        assert list(kinds.names()) == [("apps/v1", "Deployment")]

    run_on_twin(main)


def test_kind_without_openapi_schema() -> None:
    async def main(twin: EmbeddedTwin) -> None:
        nothing = Resource("apps", "v1", "Nothing", "nothings")
        assert await resolve_openapi(Client(twin.cluster.transport()), nothing) is None

    run_on_twin(main)


def test_unlistable_kind_does_not_block_others(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(harness: GraphHarness) -> None:
        pass_on = harness.transport.send

        async def send(request: Request, *, stream: bool = False) -> Response:
            if request.path == "/api/v1/secrets":
                await asyncio.Event().wait()
            return await pass_on(request, stream=stream)

        monkeypatch.setattr(harness.transport, "send", send)
        safe = BOX.replace("box", "safe").replace("Box", "Safe").replace("ConfigMap", "Secret")
        await harness.apply(safe.replace(", data:", ", stringData:"))
        await harness.apply(BOX)
        assert (await harness.condition(f"{GRAPHS}/safe", "Ready")).get("status") != "True"
        assert (await harness.condition(f"{GRAPHS}/box", "Ready"))["status"] == "True"
        await harness.settle(60)
        reported = await harness.condition(f"{GRAPHS}/safe", "ControllerReady")
        assert "waiting for secrets kro.run/owned=true" in reported["message"]

    run_with_controller(main, Options(graph_workers=2))


def test_kind_deleted_with_its_definition(monkeypatch: pytest.MonkeyPatch) -> None:
    """The deletion of its kind requeues a definition, and the watch may report its own end later."""
    at_once = RecordingTransport.send

    async def later(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for chunk in chunks:
            await clock.sleep(1)
            yield chunk

    async def send(self: RecordingTransport, request: Request, *, stream: bool = False) -> Response:
        answer = await at_once(self, request, stream=stream)
        if request.path == GRAPHS and answer.stream is not None:
            return replace(answer, stream=later(answer.stream))
        return answer

    async def main(harness: GraphHarness) -> None:
        await harness.apply(BOX)
        before = len(harness.transport.sent)
        await harness.twin.do("DELETE", f"{GRAPHS}/box")
        await harness.settle()
        assert await harness.twin.gone(f"{GRAPHS}/box")
        listed = [path for _, path in harness.transport.sent[before:]].count(BOXES.replace("/namespaces/default", ""))
        assert listed == 1, "once, to see whether any is left"

    monkeypatch.setattr(RecordingTransport, "send", send)
    run_with_controller(main, Options(allow_crd_deletion=True))


def test_empty_definition_has_no_order() -> None:
    async def main(harness: GraphHarness) -> None:
        await harness.apply(BOX.partition("  resources:")[0])
        reported = (await harness.get(f"{GRAPHS}/box"))["status"]
        assert reported["state"] == "Active"
        assert "topologicalOrder" not in reported, "kro has none then"

    run_with_controller(main)
