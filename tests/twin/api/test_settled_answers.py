"""No answer tells of a write that a crash could take back, whatever is written at the same moment."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import orjson
from tests.support.stores import durable

from sliceworks.base import clock
from sliceworks.kube.transport import Request
from sliceworks.twin.cluster import Cluster

if TYPE_CHECKING:
    from pathlib import Path

MAPS = "/api/v1/namespaces/default/configmaps"
ROUNDS = 60


def newest(value: Any) -> int:
    """The newest revision that an answer gives away."""
    if isinstance(value, dict):
        own = int(value.get("resourceVersion") or 0) if str(value.get("resourceVersion", "")).isdigit() else 0
        return max([own, *(newest(child) for child in value.values())])
    return max((newest(child) for child in value), default=0) if isinstance(value, list) else 0


class Crowd:
    """Many clients at once; each answer is looked at in the very moment in which it comes."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.headers = {"authorization": f"Bearer {cluster.token}", "content-type": "application/json"}
        self.early: list[tuple[str, int, int]] = []
        self.seen: dict[str, int] = {}

    async def ask(self, method: str, path: str, body: Any = None) -> Any:
        path, _, query = path.partition("?")
        pairs = tuple((name, value) for name, _, value in (part.partition("=") for part in query.split("&") if part))
        data = orjson.dumps(body) if body is not None else b""
        response = await self.cluster.api.handle(Request(method, path, pairs, self.headers, data))
        if response.stream is None:
            if response.status == 409:
                entry = self.cluster.store.get("/configmaps", "default", body["metadata"]["name"])
                self.look("taken", {"resourceVersion": str(entry.revision if entry else 0)})
            return self.look(f"{method} {query} {response.status}", orjson.loads(response.body))
        events: list[Any] = []
        async for chunk in response.stream:
            lines = [orjson.loads(line) for line in chunk.splitlines()]
            self.look(f"watch {query}", lines)
            events += lines
        return events

    def look(self, what: str, answer: Any) -> Any:
        self.seen[what] = self.seen.get(what, 0) + 1
        if newest(answer) > self.cluster.store.announced:
            self.early.append((what, newest(answer), self.cluster.store.announced))
        return answer

    async def writer(self, number: int) -> None:
        for step in range(ROUNDS):
            await self.ask("POST", MAPS, {"metadata": {"name": f"{number}-{step}"}})
            await self.ask("POST", MAPS, {"metadata": {"name": f"shared-{step}"}})
            await asyncio.sleep(0)
            if step % 3 == 0:
                await self.ask("DELETE", f"{MAPS}/{number}-{step}")

    async def reader(self, number: int) -> None:
        for step in range(ROUNDS):
            for _ in range((number + step) % 4):
                await asyncio.sleep(0)
            await self.ask("GET", f"{MAPS}?limit=5")
            await self.ask("GET", f"{MAPS}/shared-{step}")

    async def watcher(self, number: int) -> None:
        for step in range(5):
            for _ in range(number + step):
                await asyncio.sleep(0)
            options = "allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan" if number % 2 else ""
            events = await self.ask("GET", f"{MAPS}?watch=1&timeoutSeconds=1&{options}")
            told = [(e["type"], newest(e)) for e in events if e["type"] != "BOOKMARK"]
            assert len(told) == len(set(told)), "something was told twice"


def test_nothing_is_told_before_it_is_durable(tmp_path: Path) -> None:
    async def main() -> None:
        async with Cluster(durable(tmp_path), ca="the authority") as cluster:
            crowd = Crowd(cluster)
            await asyncio.gather(
                *(crowd.writer(number) for number in range(4)),
                *(crowd.reader(number) for number in range(4)),
                *(crowd.watcher(number) for number in range(4)),
            )
            assert crowd.early == []
            assert len(crowd.seen) > 6

    clock.run(main(), virtual=True, seed=3)
