"""No response reveals a write that is not durable, with many concurrent clients."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import orjson
from tests.support.stores import durable

from sliceworks.base import clock
from sliceworks.base.transport import Request
from sliceworks.twin.cluster import Cluster

if TYPE_CHECKING:
    from pathlib import Path

MAPS = "/api/v1/namespaces/default/configmaps"
ROUNDS = 60


def newest(value: Any) -> int:
    """The newest revision in a response."""
    if isinstance(value, dict):
        own = int(value.get("resourceVersion") or 0) if str(value.get("resourceVersion", "")).isdigit() else 0
        return max([own, *(newest(child) for child in value.values())])
    return max((newest(child) for child in value), default=0) if isinstance(value, list) else 0


class Clients:
    """Concurrent clients; each response is checked when it arrives."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.headers = {"authorization": f"Bearer {cluster.token}", "content-type": "application/json"}
        self.early: list[tuple[str, int, int]] = []
        self.seen: dict[str, int] = {}

    async def request(self, method: str, path: str, body: Any = None) -> Any:
        path, _, query = path.partition("?")
        pairs = tuple((name, value) for name, _, value in (part.partition("=") for part in query.split("&") if part))
        data = orjson.dumps(body) if body is not None else b""
        response = await self.cluster.api.handle(Request(method, path, pairs, self.headers, data))
        if response.stream is None:
            if response.status == 409:
                entry = self.cluster.store.get("/configmaps", "default", body["metadata"]["name"])
                self.check("taken", {"resourceVersion": str(entry.revision if entry else 0)})
            return self.check(f"{method} {query} {response.status}", orjson.loads(response.body))
        events: list[Any] = []
        async for chunk in response.stream:
            lines = [orjson.loads(line) for line in chunk.splitlines()]
            self.check(f"watch {query}", lines)
            events += lines
        return events

    def check(self, what: str, document: Any) -> Any:
        self.seen[what] = self.seen.get(what, 0) + 1
        if newest(document) > self.cluster.store.announced:
            self.early.append((what, newest(document), self.cluster.store.announced))
        return document

    async def writer(self, number: int) -> None:
        for step in range(ROUNDS):
            await self.request("POST", MAPS, {"metadata": {"name": f"{number}-{step}"}})
            await self.request("POST", MAPS, {"metadata": {"name": f"shared-{step}"}})
            await asyncio.sleep(0)
            if step % 3 == 0:
                await self.request("DELETE", f"{MAPS}/{number}-{step}")

    async def reader(self, number: int) -> None:
        for step in range(ROUNDS):
            for _ in range((number + step) % 4):
                await asyncio.sleep(0)
            await self.request("GET", f"{MAPS}?limit=5")
            await self.request("GET", f"{MAPS}/shared-{step}")

    async def watcher(self, number: int) -> None:
        for step in range(5):
            for _ in range(number + step):
                await asyncio.sleep(0)
            options = "allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan" if number % 2 else ""
            events = await self.request("GET", f"{MAPS}?watch=1&timeoutSeconds=1&{options}")
            announced = [(e["type"], newest(e)) for e in events if e["type"] != "BOOKMARK"]
            assert len(announced) == len(set(announced)), "an event was sent twice"


def test_responses_contain_durable_writes_only(tmp_path: Path) -> None:
    async def main() -> None:
        async with Cluster(durable(tmp_path), ca="the authority") as cluster:
            clients = Clients(cluster)
            await asyncio.gather(
                *(clients.writer(number) for number in range(4)),
                *(clients.reader(number) for number in range(4)),
                *(clients.watcher(number) for number in range(4)),
            )
            assert clients.early == []
            assert len(clients.seen) > 6

    clock.run(main(), virtual=True, seed=3)
