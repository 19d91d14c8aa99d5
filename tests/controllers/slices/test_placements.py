"""Placements are read until the API server responds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from sliceworks.base import clock
from sliceworks.base.errors import Unreachable
from sliceworks.catalog.labels import JOBSET_NAME, NODE_POOL
from sliceworks.controllers.slices.placements import Placements
from sliceworks.kube.resources import Key

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from sliceworks.kube.client import Client

OWNER = {"apiVersion": "batch/v1", "kind": "Job", "name": "train-slice-0", "uid": "u", "controller": True}
POD = {
    "metadata": {"name": "p", "namespace": "default", "labels": {JOBSET_NAME: "train"}, "ownerReferences": [OWNER]},
    "spec": {"nodeName": "n"},
}
NODE = {"metadata": {"name": "n", "labels": {NODE_POOL: "pool"}}}


class UnreachableClient:
    """A cluster that does not answer at first."""

    def __init__(self, times: int) -> None:
        self._times = times

    def _answer(self, obj: Any) -> Any:
        self._times -= 1
        if self._times >= 0:
            raise Unreachable("no answer")
        return obj

    async def iterate(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        yield POD

    async def get(self, *_: Any) -> Any:
        return self._answer(POD)

    async def find(self, *_: Any) -> Any:
        return self._answer(NODE)


def _placements_after(times: int, *, from_the_start: bool) -> dict[Key, str]:
    async def main() -> dict[Key, str]:
        placements = Placements(cast("Client", UnreachableClient(times)), lambda: None)
        if from_the_start:
            await placements.open()
        else:
            placements.track("p", "default")
        await clock.sleep(300)
        await placements.close()
        return {job: placement.pool for job, (placement, _) in placements._placements.items()}

    return clock.run(main(), virtual=True)


def test_failed_read_of_a_leader_is_retried() -> None:
    seated = {Key("default", "train-slice-0"): "pool"}
    for times in (0, 1, 5):
        assert _placements_after(times, from_the_start=False) == seated
        assert _placements_after(times, from_the_start=True) == seated
