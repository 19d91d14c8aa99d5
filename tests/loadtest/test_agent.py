"""The agent in a pod of a load test: it serves its rows until they are collected, and ends a test without a collector."""

from __future__ import annotations

import asyncio
from argparse import Namespace
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from aiohttp import ClientError, ClientSession
from tests.real.processes import free_port
from tests.support.golden_server import RecordingServer
from tests.support.load_tests import spec

from sliceworks.base import clock
from sliceworks.loadtest import load_plan, request_log, runner
from sliceworks.loadtest.cluster import agent
from sliceworks.loadtest.cluster.agent import WorkerAgent
from sliceworks.loadtest.cluster.collector import TOKEN_HEADER, Collector, decode_report
from sliceworks.loadtest.request_log import read_records
from sliceworks.loadtest.runner import Listener

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path


class Pod:
    """An agent and the server that its worker calls ten times a second for a minute; tokens are counted by the agent only."""

    def __init__(self, folder: Path, **told: Any) -> None:
        self.golden, self.port, self.report = RecordingServer(tokens=1, reports=False), free_port(), told
        self.config, self.data, self.here = (folder / name for name in ("config", "data", "here"))
        for item in (self.config, self.data, self.here):
            item.mkdir()

    def keeper(self) -> WorkerAgent:
        request = {"stages": [{"constant": 10, "for": "60s"}], "tokens": {"tokenizer": "elsewhere.json"}}
        plan = load_plan.create(spec(target={"url": self.golden.url}, **request), self.config)
        (self.config / "test.json").write_bytes(orjson.dumps({**runner.test_config(plan), "csv": False, "web": 0, **self.report}))
        where = {"host": "127.0.0.1", "port": self.port, "master": "", "master_port": 0, "patience": 0.0}
        return WorkerAgent(Namespace(config=self.config, data=self.data, **where), "word")

    async def query(self, method: str, path: str, word: str = "word") -> bytes:
        async with (
            ClientSession(f"http://127.0.0.1:{self.port}") as session,
            session.request(method, path, headers={TOKEN_HEADER: word}) as response,
        ):
            response.raise_for_status()
            return await response.read()

    def live(self, work: Callable[[WorkerAgent], Awaitable[Any]]) -> tuple[int, Any]:
        """The exit code, and the result of what was done meanwhile."""

        async def main() -> tuple[int, Any]:
            async with self.golden:
                kept = self.keeper()
                task = asyncio.create_task(kept.run(0, ""))
                result = await work(kept)
                return await task, result

        return clock.run(main())


def test_terminating_pod_serves_all_rows(tmp_path: Path) -> None:
    pod = Pod(tmp_path)

    async def is_gone() -> str:
        return ""

    async def work(kept: WorkerAgent) -> tuple[Collector, Listener]:
        while len(pod.golden.seen) < 10:
            await asyncio.sleep(0.05)
        kept._terminate()
        collector, listener = Collector(0, pod.query, is_gone, pod.here, interval=0.1), Listener(spec().stop)
        await collector.collect(listener)
        await pod.query("POST", "/finish")
        return collector, listener

    code, (collector, listener) = pod.live(work)
    assert (code, collector.lost, listener.is_complete(0)) == (0, "", False)
    rows, _ = read_records(pod.here / "worker-0.rows")
    assert len(rows) == len(pod.golden.seen) < 100
    assert [item.text for item in request_log.read_texts(pod.here / "worker-0.texts")] == ["word "] * len(rows)


def test_stop_before_the_first_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pod, prepare, stopped = Pod(tmp_path), WorkerAgent._prepare, asyncio.Event()

    async def slowly(kept: WorkerAgent) -> dict[str, Any]:
        await stopped.wait()
        return await prepare(kept)

    async def work(_: WorkerAgent) -> None:
        await _listening(pod)
        await pod.query("POST", "/stop")
        stopped.set()
        while not decode_report(await pod.query("GET", "/report")).ended:
            await asyncio.sleep(0.05)
        await pod.query("POST", "/finish")

    monkeypatch.setattr(WorkerAgent, "_prepare", slowly)
    assert pod.live(work)[0] == 0
    assert len(pod.golden.seen) < 100


async def _listening(pod: Pod) -> None:
    """Wait until the agent answers."""
    while True:
        try:
            await pod.query("GET", "/report")
        except ClientError:
            await asyncio.sleep(0.05)
        else:
            return


def test_test_without_collector_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent, "_COLLECTOR_TIMEOUT", 0.5)
    pod = Pod(tmp_path)

    async def work(_: WorkerAgent) -> None:
        return None

    assert pod.live(work)[0] == 1
    assert len(pod.golden.seen) < 100


def test_unreadable_input_is_reported(tmp_path: Path) -> None:
    """A bucket in a cloud that has none; requests without the token get no details."""
    pod = Pod(tmp_path, bucket="gs://loads/prompts.jsonl")

    async def work(_: WorkerAgent) -> Any:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("SLICEWORKS_LOAD_CLOUD", orjson.dumps({"endpoint": pod.golden.url, "token": "x"}).decode())
            await _listening(pod)
            for _again in range(200):
                await asyncio.sleep(0.05)
                if (report := decode_report(await pod.query("GET", "/report"))).ended:
                    break
        with pytest.raises(Exception, match="401"):
            await pod.query("GET", "/report", "guess")
        await pod.query("POST", "/finish")
        return report

    code, report = pod.live(work)
    assert code == 1
    assert report.problem.startswith("gs://loads/prompts.jsonl: cannot read: ")
