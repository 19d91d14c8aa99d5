"""What is done to a server while the clock runs: the same client, the same objects and the same number at once for both."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from bench.measure.pods import pod

from sliceworks.base.errors import AlreadyExists
from sliceworks.kube import requests
from sliceworks.kube.connect import open_client
from sliceworks.kube.sender import close_stream
from sliceworks.kube.well_known import NAMESPACE, POD, SERVICE_ACCOUNT

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from bench.measure.servers import Server

    from sliceworks.kube.client import Client

AT_ONCE = 16
NAMESPACE_NAME = "bench"
T = TypeVar("T")


class Load:
    """A client of one server, and the pods it has made there."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.client: Client = open_client(server.kubeconfig, namespace=NAMESPACE_NAME)
        self.names: list[str] = []
        self._serial = 0

    async def prepare(self, warm_up: int) -> None:
        """Make the namespace, and let both sides get warm: connections, caches, compiled paths."""
        await self.client.create(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE_NAME}}, resource=NAMESPACE
        )
        with suppress(AlreadyExists):  # a controller's work, where there is one
            await self.client.create(
                {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}, resource=SERVICE_ACCOUNT
            )
        await self.creates(warm_up)
        await self.gets(warm_up)
        await self.patches(warm_up)

    async def creates(self, count: int) -> float:
        """New pods per second."""
        fresh = [f"pod-{self._serial + index}" for index in range(count)]
        self._serial += count
        rate = await _per_second(fresh, lambda name: self.client.create(pod(name), resource=POD))
        self.names += fresh
        return rate

    async def gets(self, count: int) -> float:
        """Reads of one pod per second."""
        return await _per_second(self._some(count), lambda name: self.client.get(POD, name))

    async def patches(self, count: int) -> float:
        """Merge patches of one pod per second; each changes something."""
        self._serial += 1
        step = str(self._serial)
        rounds = [(name, f"{step}-{index}") for index, name in enumerate(self._some(count))]
        return await _per_second(
            rounds, lambda pair: self.client.patch(POD, pair[0], {"metadata": {"annotations": {"example.com/step": pair[1]}}})
        )

    def _some(self, count: int) -> list[str]:
        return [self.names[index % len(self.names)] for index in range(count)]

    async def fill(self, count: int) -> None:
        """Make pods until there are so many."""
        if count > len(self.names):
            await self.creates(count - len(self.names))

    async def list_seconds(self) -> float:
        """Seconds for one list of all pods in one answer, decoded."""
        started = time.perf_counter()
        found = await self.client.list(POD, NAMESPACE_NAME)
        seconds = time.perf_counter() - started
        if len(found.items) != len(self.names):
            raise SystemExit(f"{self.server.name} listed {len(found.items)} pods of {len(self.names)}")
        return seconds

    async def fan_out(self, watchers: int, events: int) -> float:
        """Events delivered per second: pods are patched, and every watcher is told of every patch."""
        newest = (await self.client.list(POD, NAMESPACE_NAME, limit=1)).resource_version
        opened = [asyncio.Event() for _ in range(watchers)]
        watching = [asyncio.create_task(self._follow(newest, events, event)) for event in opened]
        await self.patches(1)
        await asyncio.gather(*(event.wait() for event in opened))
        started = time.perf_counter()
        await self.patches(events)
        await asyncio.gather(*watching)
        return watchers * events / (time.perf_counter() - started)

    async def _follow(self, since: str, events: int, opened: asyncio.Event) -> None:
        """One watcher: the first event shows that the watch is open, the others count. It counts lines and decodes none: a hundred
        watchers are a hundred programs elsewhere, and here they must not be what is measured."""
        response = await self.client.exchange(requests.watch(POD, NAMESPACE_NAME, resource_version=since), stream=True)
        assert response.stream is not None
        seen = -1
        try:
            async for piece in response.stream:
                seen += piece.count(b"\n")
                if seen >= 0:
                    opened.set()
                if seen >= events:
                    return
        finally:
            await close_stream(response.stream)

    async def close(self) -> None:
        """Let go of the connections."""
        await self.client.close()


async def _per_second(work: Iterable[T], act: Callable[[T], Awaitable[object]]) -> float:
    """Do all of it, sixteen at once, and say how many were done per second."""
    waiting = list(work)
    count = len(waiting)
    waiting.reverse()

    async def worker() -> None:
        while waiting:
            await act(waiting.pop())

    started = time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(AT_ONCE)))
    return count / (time.perf_counter() - started)
