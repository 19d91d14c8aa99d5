"""The controller of graphs, which dies at a chosen call and is started again; and a count of what comes into being meanwhile."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from tests.support.graphs import Watched

from sliceworks.controllers.graphs import GraphController
from sliceworks.kube.client import Client
from sliceworks.kube.well_known import CONFIG_MAP, JOB, SECRET, SERVICE_ACCOUNT

if TYPE_CHECKING:
    from tests.support.embedded import Embedded

Meanwhile = Callable[[], Awaitable[None]]
"""What happens while the controller is dead."""


class Mortal:
    """The controller, which dies once and is started again at once."""

    def __init__(self, twin: Embedded, die_at: int | None, *, before: bool, meanwhile: Meanwhile | None = None) -> None:
        self._twin, self._meanwhile = twin, meanwhile
        self.first = self._transport(die_at, before=before)
        self._task = asyncio.create_task(self._live())

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    def _transport(self, die_at: int | None, *, before: bool) -> Watched:
        transport = Watched(self._twin.cluster.transport())
        transport.die_at, transport.die_before = die_at, before
        return transport

    async def _live(self) -> None:
        transport = self.first
        while True:
            work = asyncio.create_task(GraphController(Client(transport)).run())
            death = asyncio.create_task(transport.died.wait())
            try:
                await asyncio.wait((work, death), return_when=asyncio.FIRST_COMPLETED)
            finally:
                transport.died.set()
                for task in (work, death):
                    task.cancel()
                await asyncio.gather(work, death, return_exceptions=True)
            if self._meanwhile is not None:
                await self._meanwhile()
            transport = self._transport(None, before=True)


class Births:
    """Counts the objects that come into being and those that go."""

    def __init__(self, twin: Embedded) -> None:
        self.made: Counter[str] = Counter()
        self.gone: Counter[str] = Counter()
        client = Client(twin.cluster.transport())
        self._tasks = [asyncio.create_task(self._follow(client, kind)) for kind in (CONFIG_MAP, SECRET, SERVICE_ACCOUNT, JOB)]

    async def _follow(self, client: Client, kind: Any) -> None:
        async with aclosing(client.watch(kind, "default", resource_version="0", timeout_seconds=100_000)) as events:
            async for event in events:
                name = f"{kind.kind}/{event.object['metadata']['name']}"
                if event.type == "ADDED":
                    self.made[name] += 1
                elif event.type == "DELETED":
                    self.gone[name] += 1

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
