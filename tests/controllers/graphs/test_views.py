"""What the controller holds for true: answers to its writes may come later than the news of what happened after them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.support.graphs import A_BOX, BOX, BOXES, Stage, Watched, on_stage

from sliceworks.base import clock
from sliceworks.controllers.graphs.views import Views
from sliceworks.kube.client import Client
from sliceworks.kube.resources import Resource

if TYPE_CHECKING:
    import pytest

    from sliceworks.kube.transport import Request, Response

CHILD = "/api/v1/namespaces/default/configmaps/a"
LOCK = {"metadata": {"finalizers": ["example.com/lock"]}}


def test_what_went_before_its_deletion_was_answered_holds_up_no_instance(monkeypatch: pytest.MonkeyPatch) -> None:
    at_once = Watched.send

    async def send(self: Watched, request: Request, *, stream: bool = False) -> Response:
        answer = await at_once(self, request, stream=stream)
        if (request.method, request.path) == ("DELETE", CHILD):
            await clock.sleep(1)
        return answer

    async def main(stage: Stage) -> None:
        await stage.apply(BOX)
        await stage.apply(A_BOX)
        await stage.twin.do("PATCH", CHILD, LOCK)
        await stage.settle()
        await stage.twin.do("DELETE", f"{BOXES}/a")
        await stage.settle(0.5)
        await stage.twin.do("PATCH", CHILD, {"metadata": {"finalizers": None}})
        await stage.settle(2)
        assert await stage.twin.gone(CHILD)
        assert await stage.twin.gone(f"{BOXES}/a")

    monkeypatch.setattr(Watched, "send", send)
    on_stage(main)


def test_an_object_that_lost_our_label_and_has_it_again_is_known_again() -> None:
    resource = Resource("", "v1", "ConfigMap", "configmaps", namespaced=True)

    async def main(stage: Stage) -> None:
        client = Client(stage.twin.cluster.transport(), namespace="default")
        views = Views(client, lambda _resource, _delta: None, lambda _resource, _delta: None)
        view = await views.children(resource)
        made = await client.create(_labelled("true"))
        await stage.settle(1)
        await client.patch(resource, "one", _labelled("false"), "default")
        await stage.settle(1)
        view.wrote(made)
        assert view.get("one", "default") is None
        view.wrote(await client.patch(resource, "one", _labelled("true"), "default"))
        await stage.settle(1)
        found = view.get("one", "default")
        assert found is not None
        assert found.uid == made["metadata"]["uid"]
        await views.close()

    on_stage(main)


def _labelled(value: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one", "labels": {"kro.run/owned": value}}}
