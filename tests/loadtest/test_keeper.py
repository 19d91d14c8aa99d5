"""What runs in a pod of a load test: it gives its rows out to the end, and ends a test that nobody follows any more."""

from __future__ import annotations

import asyncio
from argparse import Namespace
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from aiohttp import ClientError, ClientSession
from tests.real.processes import free_port
from tests.support.golden_server import Golden
from tests.support.load_tests import spec

from sliceworks.base import clock
from sliceworks.loadtest import plans, running, texts
from sliceworks.loadtest.cluster import keeper
from sliceworks.loadtest.cluster.collecting import Collector
from sliceworks.loadtest.cluster.keeper import Keeper
from sliceworks.loadtest.cluster.news import TOKEN, unpacked
from sliceworks.loadtest.listening import Listener
from sliceworks.loadtest.rows import read

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

pytestmark = pytest.mark.timeout(60)


class Pod:
    """A keeper and the server that its sender asks for a minute, ten times a second; nobody but us counts tokens."""

    def __init__(self, folder: Path, **told: Any) -> None:
        self.golden, self.port, self.told = Golden(tokens=1, reports=False), free_port(), told
        self.config, self.data, self.here = (folder / name for name in ("config", "data", "here"))
        for each in (self.config, self.data, self.here):
            each.mkdir()

    def keeper(self) -> Keeper:
        asked = {"stages": [{"constant": 10, "for": "60s"}], "tokens": {"tokenizer": "elsewhere.json"}}
        plan = plans.make(spec(target={"url": self.golden.url}, **asked), self.config)
        (self.config / "test.json").write_bytes(orjson.dumps({**running.test_of(plan), "csv": False, "web": 0, **self.told}))
        where = {"host": "127.0.0.1", "port": self.port, "master": "", "master_port": 0, "patience": 0.0}
        return Keeper(Namespace(config=self.config, data=self.data, **where), "word")

    async def ask(self, method: str, path: str, word: str = "word") -> bytes:
        async with (
            ClientSession(f"http://127.0.0.1:{self.port}") as session,
            session.request(method, path, headers={TOKEN: word}) as answer,
        ):
            answer.raise_for_status()
            return await answer.read()

    def live(self, work: Callable[[Keeper], Awaitable[Any]]) -> tuple[int, Any]:
        """Its exit code, and what came of what was done meanwhile."""

        async def main() -> tuple[int, Any]:
            async with self.golden:
                kept = self.keeper()
                task = asyncio.create_task(kept.run(0, ""))
                found = await work(kept)
                return await task, found

        return clock.run(main())


def test_a_pod_that_is_to_go_gives_out_all_it_measured(tmp_path: Path) -> None:
    pod = Pod(tmp_path)

    async def gone() -> str:
        return ""

    async def work(kept: Keeper) -> tuple[Collector, Listener]:
        while len(pod.golden.seen) < 10:
            await asyncio.sleep(0.05)
        kept._going()
        collector, listener = Collector(0, pod.ask, gone, pod.here, every=0.1), Listener(spec().stop)
        await collector.collect(listener)
        await pod.ask("POST", "/leave")
        return collector, listener

    code, (collector, listener) = pod.live(work)
    assert (code, collector.lost, listener.came_to_its_end(0)) == (0, "", False)
    rows, _ = read(pod.here / "worker-0.rows")
    assert len(rows) == len(pod.golden.seen) < 100
    assert [each.text for each in texts.read(pod.here / "worker-0.texts")] == ["word "] * len(rows)


def test_what_is_told_to_stop_before_it_sends_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pod, prepare, stopped = Pod(tmp_path), Keeper._prepare, asyncio.Event()

    async def slowly(kept: Keeper) -> dict[str, Any]:
        await stopped.wait()
        return await prepare(kept)

    async def work(_: Keeper) -> None:
        await _listening(pod)
        await pod.ask("POST", "/stop")
        stopped.set()
        while not unpacked(await pod.ask("GET", "/news")).ended:
            await asyncio.sleep(0.05)
        await pod.ask("POST", "/leave")

    monkeypatch.setattr(Keeper, "_prepare", slowly)
    assert pod.live(work)[0] == 0
    assert len(pod.golden.seen) < 100


async def _listening(pod: Pod) -> None:
    """Wait until the keeper can be asked."""
    while True:
        try:
            await pod.ask("GET", "/news")
        except ClientError:
            await asyncio.sleep(0.05)
        else:
            return


def test_a_test_that_nobody_follows_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeper, "_ALONE", 0.5)
    pod = Pod(tmp_path)

    async def work(_: Keeper) -> None:
        return None

    assert pod.live(work)[0] == 1
    assert len(pod.golden.seen) < 100


def test_what_it_cannot_read_is_told(tmp_path: Path) -> None:
    """A bucket in a cloud that has none; strangers are told nothing."""
    pod = Pod(tmp_path, bucket="gs://loads/prompts.jsonl")

    async def work(_: Keeper) -> Any:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("SLICEWORKS_LOAD_CLOUD", orjson.dumps({"endpoint": pod.golden.url, "token": "x"}).decode())
            await _listening(pod)
            for _again in range(200):
                await asyncio.sleep(0.05)
                if (news := unpacked(await pod.ask("GET", "/news"))).ended:
                    break
        with pytest.raises(Exception, match="401"):
            await pod.ask("GET", "/news", "guess")
        await pod.ask("POST", "/leave")
        return news

    code, news = pod.live(work)
    assert code == 1
    assert news.problem.startswith("gs://loads/prompts.jsonl: cannot be read: ")
