"""Controllers do a bounded piece of work per turn of the event loop, so that the API responds while they work."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

import pytest
from tests.support.embedded_twin import EmbeddedTwin, run_on_twin

from sliceworks.base.loops import VirtualLoop
from sliceworks.twin.controllers.builtin import garbage_collector
from sliceworks.twin.controllers.runtime.controller_context import WRITES_PER_TURN
from sliceworks.twin.store.entry import Entry

if TYPE_CHECKING:
    from collections.abc import Awaitable

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


class Turns:
    """Counts something per turn of the event loop while another task works, and asks for /livez in each turn."""

    def __init__(self, twin: EmbeddedTwin, read: Any) -> None:
        self.counts: list[int] = []
        self._twin, self._read = twin, read

    async def during(self, work: Awaitable[Any]) -> None:
        task = asyncio.ensure_future(work)
        before = self._read()
        while not task.done():
            await asyncio.sleep(0)
            now = self._read()
            self.counts.append(now - before)
            before = now
            if len(self.counts) % 10 == 0:
                assert (await self._twin.ask("GET", "/livez?verbose"))[0] == 200
                before = self._read()
        await task


def deployment(replicas: int) -> dict[str, Any]:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    return {"metadata": {"name": "large"}, "spec": spec}


def test_large_deployment_is_created_in_bursts(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(twin: EmbeddedTwin) -> None:
        store = twin.cluster.store
        turns = Turns(twin, lambda: store.revision)

        async def work() -> None:
            await twin.do("POST", "/apis/apps/v1/namespaces/default/deployments", deployment(1200))
            while store.count("/pods") < 1200:
                await asyncio.sleep(0)

        await turns.during(work())
        assert max(turns.counts) <= 2 * WRITES_PER_TURN
        assert sum(turns.counts) >= 1200

    monkeypatch.setattr(EmbeddedTwin, "ask", _ask_without_body(EmbeddedTwin.ask))
    run_on_twin(main, workloads=True)


def _ask_without_body(ask: Any) -> Any:
    """Responses of /livez are text."""

    async def patched(self: EmbeddedTwin, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        if path.startswith("/livez"):
            from sliceworks.base.transport import Request

            response = await self._transport.send(Request(method, "/livez", (), {}, b""))
            return response.status, None
        result: tuple[int, Any] = await ask(self, method, path, body, **headers)
        return result

    return patched


@pytest.mark.parametrize("same_name", [False, True], ids=["absent owners", "one name"])
def test_object_with_many_owners_is_collected_in_small_steps(same_name: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each turn inspects a bounded number of owners, and decodes the stored objects once, not once for each owner."""
    decoded = 0
    object_of = Entry.object

    def counted(entry: Entry) -> Any:
        nonlocal decoded
        decoded += 1
        return object_of(entry)

    async def main(twin: EmbeddedTwin) -> None:
        nonlocal decoded
        owner = {"apiVersion": "v1", "kind": "ConfigMap"}
        refs = [{**owner, "name": "many" if same_name else f"o{i}", "uid": str(UUID(int=i + 1))} for i in range(5000)]
        await twin.do("POST", CONFIG_MAPS, {"metadata": {"name": "other", "ownerReferences": refs[:1]}})
        decoded = 0
        await twin.do("POST", CONFIG_MAPS, {"metadata": {"name": "many", "ownerReferences": refs}})
        turns = 0
        while twin.cluster.store.get("/configmaps", "default", "many") is not None:
            await asyncio.sleep(0)
            turns += 1
            assert turns < 1000
        assert turns >= 5000 // garbage_collector._OWNERS_PER_TURN
        assert decoded < 200

    monkeypatch.setattr(Entry, "object", counted)
    run_on_twin(main)


def test_large_owners_are_decoded_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """An object of a few bytes names owners of megabytes: the garbage collector reads each."""
    decoded, in_thread = list[bool](), False
    object_of, run_in_executor = Entry.object, cast("Any", VirtualLoop.run_in_executor)

    def record(entry: Entry) -> Any:
        if len(entry.data) > 200_000:
            decoded.append(in_thread)
        return object_of(entry)

    def run_in_thread(*arguments: Any) -> Any:
        nonlocal in_thread
        in_thread = True
        try:
            return run_in_executor(*arguments)
        finally:
            in_thread = False

    async def main(twin: EmbeddedTwin) -> None:
        refs = []
        for number in range(3):
            body = {"metadata": {"name": f"large-{number}"}, "data": {"a": "x" * 200_000}}
            owner = await twin.do("POST", CONFIG_MAPS, body)
            refs.append({"apiVersion": "v1", "kind": "ConfigMap", "name": owner["metadata"]["name"], "uid": str(UUID(int=number))})
        monkeypatch.setattr(Entry, "object", record)
        monkeypatch.setattr(VirtualLoop, "run_in_executor", run_in_thread)
        await twin.do("POST", CONFIG_MAPS, {"metadata": {"name": "owned", "ownerReferences": refs}})
        while twin.cluster.store.get("/configmaps", "default", "owned") is not None:
            await asyncio.sleep(0)

    run_on_twin(main, workloads=True)
    assert decoded == [True, True, True]
