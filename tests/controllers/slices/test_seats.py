"""Who sits where is looked up until the cluster has answered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from sliceworks.base import clock
from sliceworks.base.errors import Unreachable
from sliceworks.catalog.labels import JOBSET_NAME, NODE_POOL
from sliceworks.controllers.slices.seats import Seats
from sliceworks.controllers.slices.views import Ref

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from sliceworks.kube.client import Client

OWNER = {"apiVersion": "batch/v1", "kind": "Job", "name": "train-slice-0", "uid": "u", "controller": True}
POD = {
    "metadata": {"name": "p", "namespace": "default", "labels": {JOBSET_NAME: "train"}, "ownerReferences": [OWNER]},
    "spec": {"nodeName": "n"},
}
NODE = {"metadata": {"name": "n", "labels": {NODE_POOL: "pool"}}}


class Away:
    """A cluster that does not answer at first."""

    def __init__(self, times: int) -> None:
        self._times = times

    def _answer(self, found: Any) -> Any:
        self._times -= 1
        if self._times >= 0:
            raise Unreachable("no answer")
        return found

    async def each(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        yield POD

    async def get(self, *_: Any) -> Any:
        return self._answer(POD)

    async def find(self, *_: Any) -> Any:
        return self._answer(NODE)


def _seated(times: int, *, from_the_start: bool) -> dict[Ref, str]:
    async def main() -> dict[Ref, str]:
        seats = Seats(cast("Client", Away(times)), lambda: None)
        if from_the_start:
            await seats.open()
        else:
            seats.look("p", "default")
        await clock.sleep(300)
        await seats.close()
        return {job: seat.pool for job, (seat, _) in seats._seats.items()}

    return clock.run(main(), virtual=True)


def test_a_leader_that_could_not_be_looked_up_is_looked_up_again() -> None:
    seated = {Ref("default", "train-slice-0"): "pool"}
    for times in (0, 1, 5):
        assert _seated(times, from_the_start=False) == seated
        assert _seated(times, from_the_start=True) == seated
