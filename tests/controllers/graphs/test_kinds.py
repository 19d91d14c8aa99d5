"""The kinds that a live cluster has, and those that cannot be read."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from tests.support.embedded import Embedded, on_twin
from tests.support.graphs import BOX, BOXES, GRAPHS, Stage, Watched, on_stage

from sliceworks.base import clock
from sliceworks.controllers.graphs import Options
from sliceworks.controllers.graphs.served_kinds import ServedKinds, described
from sliceworks.kube.client import Client
from sliceworks.kube.resources import Resource
from sliceworks.kube.well_known import DEPLOYMENT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import pytest

    from sliceworks.kube.transport import Request, Response


def test_kind_is_what_its_server_says() -> None:
    async def main(twin: Embedded) -> None:
        client = Client(twin.cluster.transport())
        found = await described(client, DEPLOYMENT)
        assert found is not None
        assert (found.api_version, found.kind, found.plural, found.namespaced) == ("apps/v1", "Deployment", "deployments", True)
        spec = found.schema.properties["spec"]
        assert spec.properties["replicas"].type == "integer"
        assert spec.properties["template"].properties["spec"].properties["containers"].type == "array"
        kinds = ServedKinds()
        kinds.add(found)
        assert kinds.find("apps/v1", "Deployment") is found
        assert kinds.find("apps/v1", "Nothing") is None
        assert list(kinds.names()) == [("apps/v1", "Deployment")]

    on_twin(main)


def test_kind_that_its_server_does_not_describe() -> None:
    async def main(twin: Embedded) -> None:
        nothing = Resource("apps", "v1", "Nothing", "nothings")
        assert await described(Client(twin.cluster.transport()), nothing) is None

    on_twin(main)


def test_one_that_cannot_be_read_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(stage: Stage) -> None:
        pass_on = stage.transport.send

        async def send(request: Request, *, stream: bool = False) -> Response:
            if request.path == "/api/v1/secrets":
                await asyncio.Event().wait()
            return await pass_on(request, stream=stream)

        monkeypatch.setattr(stage.transport, "send", send)
        safe = BOX.replace("box", "safe").replace("Box", "Safe").replace("ConfigMap", "Secret")
        await stage.apply(safe.replace(", data:", ", stringData:"))
        await stage.apply(BOX)
        assert (await stage.condition(f"{GRAPHS}/safe", "Ready")).get("status") != "True"
        assert (await stage.condition(f"{GRAPHS}/box", "Ready"))["status"] == "True"
        await stage.settle(60)
        told = await stage.condition(f"{GRAPHS}/safe", "ControllerReady")
        assert "secrets kro.run/owned=true could not be read" in told["message"]

    on_stage(main, Options(graph_workers=2))


def test_a_kind_that_went_with_its_definition_is_not_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of its kind brings a definition up again, and the watch may tell of its own end later."""
    at_once = Watched.send

    async def later(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for chunk in chunks:
            await clock.sleep(1)
            yield chunk

    async def send(self: Watched, request: Request, *, stream: bool = False) -> Response:
        answer = await at_once(self, request, stream=stream)
        if request.path == GRAPHS and answer.stream is not None:
            return replace(answer, stream=later(answer.stream))
        return answer

    async def main(stage: Stage) -> None:
        await stage.apply(BOX)
        before = len(stage.transport.sent)
        await stage.twin.do("DELETE", f"{GRAPHS}/box")
        await stage.settle()
        assert await stage.twin.gone(f"{GRAPHS}/box")
        listed = [path for _, path in stage.transport.sent[before:]].count(BOXES.replace("/namespaces/default", ""))
        assert listed == 1, "once, to see whether any is left"

    monkeypatch.setattr(Watched, "send", send)
    on_stage(main, Options(allow_crd_deletion=True))


def test_a_definition_that_makes_nothing_tells_no_order() -> None:
    async def main(stage: Stage) -> None:
        await stage.apply(BOX.partition("  resources:")[0])
        told = (await stage.get(f"{GRAPHS}/box"))["status"]
        assert told["state"] == "Active"
        assert "topologicalOrder" not in told, "kro has none then"

    on_stage(main)
