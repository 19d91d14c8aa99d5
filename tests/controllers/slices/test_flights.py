"""Requests to the cloud that cross: what a list says of one does not touch another of the same pool, and none is lost."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, cast

import pytest

from sliceworks.base import clock
from sliceworks.base.errors import FailedPrecondition
from sliceworks.base.metrics import Registry
from sliceworks.cloud.operations import Operation
from sliceworks.controllers.slices.cloudside import Cloud
from sliceworks.controllers.slices.clusterside import Cluster
from sliceworks.controllers.slices.metrics import Metrics
from sliceworks.controllers.slices.views import Ref, Subject
from sliceworks.controllers.slices.world import Create, Delete, Resume

if TYPE_CHECKING:
    from sliceworks.cloud.container import Container
    from sliceworks.kube.client import Client
    from sliceworks.kube.events import EventRecorder

JOBSET = Subject("jobset.x-k8s.io/v1alpha2", "JobSet", "default", "train")
MAKE = Create("p", {"initialNodeCount": 1}, Ref("default", "j"), Ref("default", "train"), 0, JOBSET, JOBSET, "there", 0.0)
REMOVE = Delete("p", "it is not wanted", JOBSET)


class Silent:
    """Takes events."""

    def record(self, *_: Any, **__: Any) -> None:
        pass


class Sky:
    """A cloud whose only pool is broken. How an operation went is told once `tells` is set; a deletion is refused, later."""

    def __init__(self) -> None:
        self.tells = asyncio.Event()
        self.pools: list[dict[str, Any]] = []

    async def create(self, body: dict[str, Any]) -> Operation:
        self.pools = [{"name": "p", "status": "ERROR"}]
        return Operation("made", "CREATE_NODE_POOL", "p", "DONE")

    async def delete(self, name: str) -> Operation:
        await clock.sleep(5)
        raise FailedPrecondition("something goes on with it")

    async def node_pools(self) -> list[dict[str, Any]]:
        return self.pools

    async def operation(self, name: str) -> Operation:
        await self.tells.wait()
        return Operation(name, "CREATE_NODE_POOL", "p", "DONE")


def _cloud(sky: Any) -> Cloud:
    events = cast("EventRecorder", Silent())
    return Cloud(cast("Container", sky), events, Metrics(Registry()), start=4, changed=lambda: None)


def test_a_deletion_goes_on_while_the_creation_before_it_is_looked_up() -> None:
    async def course() -> None:
        sky = Sky()
        cloud = _cloud(sky)
        cloud.take(MAKE)
        await clock.sleep(1)
        looking = asyncio.create_task(cloud.refresh())
        await clock.sleep(1)
        cloud.take(REMOVE)
        sky.tells.set()
        await looking
        assert cloud.busy() == {"p": "delete"}
        await clock.sleep(5.5)
        # It was refused: it is asked for again, but not at once.
        assert cloud.busy() == {}
        assert cloud.take(REMOVE) == pytest.approx(1.5)

    clock.run(course(), virtual=True)


def test_a_request_that_ends_in_a_bug_is_asked_about_and_not_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    class Odd(Sky):
        async def create(self, body: dict[str, Any]) -> Operation:
            raise KeyError("name")

    async def course() -> None:
        cloud = _cloud(Odd())
        cloud.take(MAKE)
        await clock.sleep(1)
        await cloud.refresh()
        assert cloud.busy() == {}

    with caplog.at_level(logging.CRITICAL):
        clock.run(course(), virtual=True)


def test_an_object_whose_answer_cannot_be_read_is_written_again_but_not_at_once(caplog: pytest.LogCaptureFixture) -> None:
    class Answers:
        written = 0

        def using(self, **_: Any) -> Answers:
            return self

        async def patch(self, *_: Any, **__: Any) -> dict[str, Any]:
            self.written += 1
            return {}

    def misread(_: Any) -> None:
        raise KeyError("metadata")

    async def course() -> None:
        answers, events = Answers(), cast("EventRecorder", Silent())
        resources: dict[str, Any] = {"JobSet": None}
        metrics = Metrics(Registry())
        resume = Resume(JOBSET)

        def look() -> None:
            cluster.take(resume)

        cluster = Cluster(cast("Client", answers), events, metrics, resources=resources, seen=misread, changed=look)
        look()
        await clock.sleep(5)
        await cluster.close()
        assert answers.written == 1

    with caplog.at_level(logging.CRITICAL):
        clock.run(course(), virtual=True)
