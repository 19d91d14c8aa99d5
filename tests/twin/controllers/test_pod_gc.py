"""The pod garbage collector: of too many finished pods the oldest are deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.embedded_twin import EmbeddedTwin, run_on_twin

from sliceworks.base import clock
from sliceworks.twin.controllers.builtin.pod_gc import PodGCController

if TYPE_CHECKING:
    import pytest

    from sliceworks.twin.controllers.runtime.pod_index import Pod

PODS = "/api/v1/namespaces/default/pods"


def test_oldest_finished_pods_beyond_the_limit_are_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PodGCController, "max_finished", 3)

    async def main(twin: EmbeddedTwin) -> None:
        async def names() -> list[str]:
            return [item["metadata"]["name"] for item in (await twin.do("GET", PODS))["items"]]

        for name in ("z-oldest", "b", "running", "c", "a", "y"):
            await twin.do("POST", PODS, {"metadata": {"name": name}, "spec": {"containers": [{"name": "main", "image": "x"}]}})
            if name != "running":
                phase = "Failed" if name == "b" else "Succeeded"
                await twin.do("PATCH", f"{PODS}/{name}/status", {"status": {"phase": phase}})
            await clock.sleep(2)
        assert len(await names()) == 6
        await clock.sleep(25)
        assert await names() == ["a", "c", "running", "y"]
        await twin.do("PATCH", f"{PODS}/running/status", {"status": {"phase": "Succeeded"}})
        await clock.sleep(25)
        assert await names() == ["a", "c", "y"]

    run_on_twin(main, workloads=True)


def test_pods_that_finish_while_others_are_deleted_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PodGCController, "max_finished", 2)
    delete = PodGCController._force_delete
    pending = ["late-1", "late-2", "late-3"]

    async def main(twin: EmbeddedTwin) -> None:
        async def finish(name: str) -> None:
            await twin.do("POST", PODS, {"metadata": {"name": name}, "spec": {"containers": [{"name": "main", "image": "x"}]}})
            await twin.do("PATCH", f"{PODS}/{name}/status", {"status": {"phase": "Succeeded"}})

        async def crossed(controller: PodGCController, pod: Pod) -> None:
            while pending:
                await finish(pending.pop())
            await delete(controller, pod)

        monkeypatch.setattr(PodGCController, "_force_delete", crossed)
        for name in ("a", "b", "c"):
            await finish(name)
        await clock.sleep(60)
        assert len((await twin.do("GET", PODS))["items"]) == 2

    run_on_twin(main, workloads=True)
