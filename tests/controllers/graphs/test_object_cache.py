"""Object caches: responses to writes that arrive after later watch events, and the memory of cached objects."""

from __future__ import annotations

import random
import string
import tracemalloc
from typing import TYPE_CHECKING, Any

from tests.support.graph_controller import A_BOX, BOX, BOXES, GraphHarness, RecordingTransport, run_with_controller

from sliceworks.base import clock
from sliceworks.controllers.graphs import well_known
from sliceworks.controllers.graphs.object_cache import ObjectCaches, to_cached
from sliceworks.kube.client import Client
from sliceworks.kube.resources import Resource

if TYPE_CHECKING:
    import pytest

    from sliceworks.base.transport import Request, Response

CHILD = "/api/v1/namespaces/default/configmaps/a"
LOCK = {"metadata": {"finalizers": ["example.com/lock"]}}


def test_object_deleted_before_response_does_not_block(monkeypatch: pytest.MonkeyPatch) -> None:
    at_once = RecordingTransport.send

    async def send(self: RecordingTransport, request: Request, *, stream: bool = False) -> Response:
        answer = await at_once(self, request, stream=stream)
        if (request.method, request.path) == ("DELETE", CHILD):
            await clock.sleep(1)
        return answer

    async def main(harness: GraphHarness) -> None:
        await harness.apply(BOX)
        await harness.apply(A_BOX)
        await harness.twin.do("PATCH", CHILD, LOCK)
        await harness.settle()
        await harness.twin.do("DELETE", f"{BOXES}/a")
        await harness.settle(0.5)
        await harness.twin.do("PATCH", CHILD, {"metadata": {"finalizers": None}})
        await harness.settle(2)
        assert await harness.twin.gone(CHILD)
        assert await harness.twin.gone(f"{BOXES}/a")

    monkeypatch.setattr(RecordingTransport, "send", send)
    run_with_controller(main)


def test_relabeled_object_is_cached_again() -> None:
    resource = Resource("", "v1", "ConfigMap", "configmaps", namespaced=True)

    async def main(harness: GraphHarness) -> None:
        client = Client(harness.twin.cluster.transport(), namespace="default")
        views = ObjectCaches(client, lambda _resource, _delta: None, lambda _resource, _delta: None)
        view = await views.children(resource)
        created = await client.create(_labelled("true"))
        await harness.settle(1)
        await client.patch(resource, "one", _labelled("false"), "default")
        await harness.settle(1)
        view.record_write(created)
        assert view.get("one", "default") is None
        view.record_write(await client.patch(resource, "one", _labelled("true"), "default"))
        await harness.settle(1)
        result = view.get("one", "default")
        assert result is not None
        assert result.uid == created["metadata"]["uid"]
        await views.close()

    run_with_controller(main)


def _labelled(value: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one", "labels": {"kro.run/owned": value}}}


def test_cached_objects_allocate_less_than_their_json() -> None:
    count, padding = 200, "".join(random.Random(1).choices(string.ascii_letters, k=2_000))
    fields: dict[str, Any] = {"f:data": {f"f:field-{number}": {} for number in range(20)}}
    managed = {"manager": well_known.APPLYSET, "operation": "Apply", "fieldsV1": fields}
    objects: list[dict[str, Any]] = [
        {
            "kind": "Padded",
            "metadata": {"name": f"object-{number}", "namespace": "default", "managedFields": [managed]},
            "data": {"padding": padding},
        }
        for number in range(count)
    ]
    tracemalloc.start()
    try:
        records = [to_cached(obj) for obj in objects]
        allocated, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert allocated / count < 1_000
    assert [record.object for record in records] == objects
    assert len({id(record.fields) for record in records}) == 1
