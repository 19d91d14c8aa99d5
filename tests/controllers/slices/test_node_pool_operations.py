"""Pending operations: overlapping requests for one node pool, and requests with unexpected errors."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, cast

import pytest

from sliceworks.base import clock
from sliceworks.base.errors import FailedPrecondition
from sliceworks.base.metrics import Registry
from sliceworks.cloud.container import Operation
from sliceworks.controllers.slices.action_writer import ActionWriter
from sliceworks.controllers.slices.model import CreateNodePool, DeleteNodePool, ObjectReference, ResumeJobSet
from sliceworks.controllers.slices.node_pool_operations import NodePoolManager
from sliceworks.controllers.slices.telemetry import Metrics
from sliceworks.kube.resources import Key

if TYPE_CHECKING:
    from sliceworks.cloud.container import Container
    from sliceworks.kube.client import Client
    from sliceworks.kube.events import EventRecorder

JOBSET = ObjectReference("jobset.x-k8s.io/v1alpha2", "JobSet", "default", "train")
MAKE = CreateNodePool(
    "p",
    {"initialNodeCount": 1},
    Key("default", "j"),
    Key("default", "train"),
    0,
    JOBSET,
    JOBSET,
    "there",
    0.0,
)
REMOVE = DeleteNodePool("p", "it is unused", JOBSET)


class NoEvents:
    """Discards events."""

    def record(self, *_: Any, **__: Any) -> None:
        pass


class FakeContainer:
    """A container API whose only node pool is broken. `get_operation` waits for `released`; a deletion is rejected after 5 s."""

    def __init__(self) -> None:
        self.released = asyncio.Event()
        self.pools: list[dict[str, Any]] = []

    async def create_node_pool(self, body: dict[str, Any]) -> Operation:
        self.pools = [{"name": "p", "status": "ERROR"}]
        return Operation("create-p", "CREATE_NODE_POOL", "p", "DONE")

    async def delete_node_pool(self, name: str) -> Operation:
        await clock.sleep(5)
        raise FailedPrecondition("another operation is running")

    async def get_cluster(self) -> dict[str, Any]:
        return {}

    async def list_node_pools(self) -> list[dict[str, Any]]:
        return self.pools

    async def get_operation(self, name: str) -> Operation:
        await self.released.wait()
        return Operation(name, "CREATE_NODE_POOL", "p", "DONE")


def _cloud(container: Any) -> NodePoolManager:
    events = cast("EventRecorder", NoEvents())
    return NodePoolManager(cast("Container", container), events, Metrics(Registry()), start=4, changed=lambda: None)


def test_deletion_supersedes_creation_during_refresh() -> None:
    async def main() -> None:
        container = FakeContainer()
        manager = _cloud(container)
        manager.start(MAKE)
        await clock.sleep(1)
        refresh = asyncio.create_task(manager.refresh())
        await clock.sleep(1)
        manager.start(REMOVE)
        container.released.set()
        await refresh
        assert manager.pending_operations() == {"p": "delete"}
        await clock.sleep(5.5)
        # The deletion was rejected and is retried after a delay.
        assert manager.pending_operations() == {}
        assert manager.start(REMOVE) == pytest.approx(1.5)

    clock.run(main(), virtual=True)


def test_request_with_unexpected_error_is_resolved_by_list(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(FakeContainer):
        async def create_node_pool(self, body: dict[str, Any]) -> Operation:
            raise KeyError("name")

    async def main() -> None:
        manager = _cloud(Broken())
        manager.start(MAKE)
        await clock.sleep(1)
        await manager.refresh()
        assert manager.pending_operations() == {}

    with caplog.at_level(logging.CRITICAL):
        clock.run(main(), virtual=True)


def test_unreadable_response_delays_next_write(caplog: pytest.LogCaptureFixture) -> None:
    class FakeClient:
        written = 0

        def using(self, **_: Any) -> FakeClient:
            return self

        async def patch(self, *_: Any, **__: Any) -> dict[str, Any]:
            self.written += 1
            return {}

    def misread(_: Any) -> None:
        raise KeyError("metadata")

    async def main() -> None:
        client, events = FakeClient(), cast("EventRecorder", NoEvents())
        resources: dict[str, Any] = {"JobSet": None}
        metrics = Metrics(Registry())
        resume = ResumeJobSet(JOBSET)

        def write() -> None:
            cluster.start(resume)

        cluster = ActionWriter(cast("Client", client), events, metrics, resources=resources, on_write=misread, changed=write)
        write()
        await clock.sleep(5)
        await cluster.close()
        assert client.written == 1

    with caplog.at_level(logging.CRITICAL):
        clock.run(main(), virtual=True)
