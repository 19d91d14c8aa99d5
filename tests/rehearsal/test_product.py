"""The product's own controllers beside a twin: one that ends by itself does not do so in silence."""

from __future__ import annotations

import pytest

from sliceworks.base import clock
from sliceworks.base.errors import SliceworksError
from sliceworks.controllers.graphs import GraphController
from sliceworks.rehearsal.product import Wants, controllers
from sliceworks.twin.cluster import Cluster


@pytest.mark.parametrize("ready", [False, True])
def test_a_rehearsal_without_its_controller_is_none(monkeypatch: pytest.MonkeyPatch, ready: bool) -> None:
    async def run(controller: GraphController) -> None:
        controller.ready = ready
        await clock.sleep(5)
        raise ExceptionGroup("tasks", [KeyError("a field like no other")])

    async def main() -> None:
        async with Cluster(workloads=False) as cluster, controllers(cluster, Wants(graphs=True)):
            await clock.sleep(60)

    monkeypatch.setattr(GraphController, "run", run)
    with pytest.raises(SliceworksError, match=r"the controller of graphs has ended: 'a field like no other'"):
        clock.run(main(), virtual=True)
