"""The Sliceworks controllers beside a twin: one that exits unexpectedly fails the rehearsal."""

from __future__ import annotations

import pytest

from sliceworks.base import clock
from sliceworks.base.errors import SliceworksError
from sliceworks.controllers.graphs import GraphController
from sliceworks.platform.controller_host import ControllerRequirements, run_controllers
from sliceworks.twin.cluster import Cluster


@pytest.mark.parametrize("ready", [False, True])
def test_exited_controller_fails_the_rehearsal(monkeypatch: pytest.MonkeyPatch, ready: bool) -> None:
    async def run(controller: GraphController) -> None:
        controller.ready = ready
        await clock.sleep(5)
        raise ExceptionGroup("tasks", [KeyError("a field like no other")])

    async def main() -> None:
        async with Cluster(workloads=False) as cluster, run_controllers(cluster, ControllerRequirements(graphs=True)):
            await clock.sleep(60)

    monkeypatch.setattr(GraphController, "run", run)
    with pytest.raises(SliceworksError, match=r"the graphs controller ended: 'a field like no other'"):
        clock.run(main(), virtual=True)
