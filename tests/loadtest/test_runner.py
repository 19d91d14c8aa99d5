"""Runs against a server that records what it received and sent: both records agree, and failures are visible."""

from __future__ import annotations

import asyncio
import csv
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import orjson
import pytest
from aiohttp import ClientSession, encode_basic_auth
from tests.real.processes import free_port
from tests.support.golden_server import RecordingServer
from tests.support.load_crosscheck import ClientRecord, ServerRecord, disagreements
from tests.support.load_tests import spec

from sliceworks.base import clock
from sliceworks.loadtest import load_plan, request_table, results
from sliceworks.loadtest.runner import LocalRunner, LocustOptions

if TYPE_CHECKING:
    from sliceworks.loadtest.runner import Outcome

pytestmark = pytest.mark.long(70)


class FinishedRun:
    """A finished run: its result, its rows, and the server's record."""

    def __init__(self, folder: Path, golden: RecordingServer, outcome: Outcome, plan: load_plan.Plan) -> None:
        request_table.merge_records(folder)
        self.golden, self.outcome, self.plan, self.folder = golden, outcome, plan, folder
        self.result = results.write_results("test", plan, outcome, folder, {})

    def query(self, query: str) -> list[tuple[Any, ...]]:
        with duckdb.connect() as connection:
            for name in ("requests", "chunks"):
                connection.read_parquet(str(self.folder / f"{name}.parquet")).create_view(name)
            return connection.execute(query).fetchall()


def run(
    folder: Path, golden: RecordingServer, stop_after: int | None = None, *, key: dict[str, str] | None = None, **fields: Any
) -> FinishedRun:
    """A complete run, or one that is stopped after this many requests; delivery is not checked, because the machine may be busy."""

    async def main() -> tuple[Outcome, load_plan.Plan]:
        async with golden:
            free = {"delivery": {"share": 0.0, "delay": "1h"}, **fields}
            target = {"url": golden.url, **({"key": key} if key else {})}
            plan = load_plan.create(spec(target=target, **free), Path())
            test = LocalRunner(plan, folder, Path())
            task = asyncio.create_task(test.run())
            while stop_after is not None and len(golden.seen) < stop_after and not task.done():
                await asyncio.sleep(0.05)
            if stop_after is not None:
                test.stop("interrupted by Ctrl-C")
            return await task, plan

    return FinishedRun(folder, golden, *clock.run(main()))


def test_client_and_server_records_agree(tmp_path: Path) -> None:
    done = run(
        tmp_path, RecordingServer(tokens=5, first=0.05, gap=0.02), stages=[{"poisson": 30, "for": "2s"}], slo=["errors < 1%"]
    )
    assert done.result["problems"] == []
    assert done.result["met"]
    scheduled = len(done.plan.schedule.due_times)
    assert len(done.golden.seen) == scheduled
    assert done.query("SELECT count(*), sum(tokens_out), sum(chunks), min(status) FROM requests") == [
        (scheduled, 5 * scheduled, 5 * scheduled, 200)
    ]
    rows = done.query(
        "SELECT number, first_token - sent, list(received ORDER BY chunk), any_value(tokens_out) "
        "FROM requests JOIN chunks USING (request) GROUP BY ALL"
    )
    known = [ServerRecord(item.number, item.came, tuple(item.chunks)) for item in done.golden.seen.values()]
    reported = [ClientRecord(number, first, tuple(received), tokens) for number, first, received, tokens in rows]
    assert disagreements(reported, known, done.plan.schedule.due_times / 1e9) == set()


def test_workers_divide_requests_exactly(tmp_path: Path) -> None:
    done = run(tmp_path, RecordingServer(tokens=1), stages=[{"constant": 40, "for": "1s"}], workers={"count": 3})
    assert done.result["problems"] == []
    assert sorted(item.number for item in done.golden.seen.values()) == list(range(40))
    assert done.query("SELECT worker, count(*) FROM requests GROUP BY ALL ORDER BY ALL") == [(0, 14), (1, 13), (2, 13)]
    clocks = done.result["clocks"]
    assert clocks["senders"] == 3
    assert 0 < clocks["uncertain"] < 1
    assert clocks["apart"] <= clocks["uncertain"] + clocks["drift"] + 0.001  # they are processes of one machine


_SKEWED = """
import runpy, sys, time
real, sys.argv = time.time_ns, ["generator", *sys.argv[1:]]
time.time_ns = lambda: real() + 3_000_000_000
runpy.run_module("sliceworks.loadtest.generator", run_name="__main__", alter_sys=True)
"""


def test_worker_with_skewed_clock_starts_with_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second of two is on a machine whose clock is three seconds ahead."""
    start, started = asyncio.create_subprocess_exec, list[str]()

    async def skewed(*command: str, **options: Any) -> asyncio.subprocess.Process:
        started.append(command[-1])
        program, _, _, *rest = command
        changed = (program, "-c", _SKEWED, *rest) if len(started) == 3 else command  # the master comes first
        return await start(*changed, **options)

    monkeypatch.setattr(asyncio, "create_subprocess_exec", skewed)
    done = run(tmp_path, RecordingServer(tokens=1), stages=[{"constant": 20, "for": "2s"}], workers={"count": 2})
    assert done.result["problems"] == []
    assert done.result["clocks"]["apart"] == pytest.approx(3, abs=0.5)
    assert done.result["clocks"]["uncertain"] < 0.5
    late = [item.came - done.plan.schedule.due_times[item.number] / 1e9 for item in done.golden.seen.values()]
    assert max(late) - min(late) < 1.5


def test_users_wait_for_responses(tmp_path: Path) -> None:
    prompts = {"texts": ["Hello"], "turns": 3}
    done = run(tmp_path, RecordingServer(tokens=2, first=0.02), stages=[{"users": 4, "for": "3s"}], prompts=prompts)
    assert done.golden.most_at_once == 4
    turns = dict(done.query("SELECT turn, count(*) FROM requests GROUP BY ALL"))
    assert turns[0] >= turns[1] >= turns[2] > 0
    longest = max(len(item.body["messages"]) for item in done.golden.seen.values())
    assert longest == 5


def test_stall_counts_from_the_scheduled_time(tmp_path: Path) -> None:
    golden = RecordingServer(tokens=1, stall=(1.0, 3.0))
    done = run(tmp_path, golden, stages=[{"constant": 50, "for": "4s"}])
    ((share,),) = done.query("SELECT avg((ended - intended > 1.0)::INT) FROM requests")
    assert 0.2 <= share <= 0.4  # those of the stall's first second, of four
    assert done.result["summary"]["latencies"]["e2e"]["p99"] > 1.8


def test_errors_are_classified(tmp_path: Path) -> None:
    golden = RecordingServer(tokens=3, behave={0: "503", 1: "cut", 2: "garbled", 3: "reported", 4: "html", 5: "slow"})
    stages, times = [{"constant": 10, "for": "1s"}], {"idle": "1s"}
    done = run(tmp_path, golden, stages=stages, times=times, stop={"errors": 1.0})
    result = dict(done.query("SELECT number, failure FROM requests ORDER BY number"))
    assert [result[number] for number in range(7)] == ["status", "closed", "garbled", "reported", "closed", "idle-timeout", None]
    assert done.result["summary"]["failures"]["status 503"] == 1


def test_unreachable_target_ends_the_test(tmp_path: Path) -> None:
    golden = RecordingServer()
    golden.refuse = True
    done = run(tmp_path, golden, stages=[{"constant": 50, "for": "60s"}], stop={"over": "1s", "atLeast": 10})
    assert "100% of the last" in done.outcome.stopped
    assert not done.result["valid"]
    assert done.result["summary"]["requests"] < 1_000
    assert set(done.result["summary"]["failures"]) <= {"connect", "interrupted"}


def test_responses_before_target_crash_are_kept(tmp_path: Path) -> None:
    golden = RecordingServer(tokens=1, dies_after=30)
    done = run(tmp_path, golden, stages=[{"constant": 30, "for": "60s"}], stop={"over": "1s", "atLeast": 10})
    assert "of the last" in done.result["problems"][0]
    assert done.result["summary"]["succeeded"] == 30
    assert set(done.result["summary"]["failures"]) <= {"connect", "closed", "interrupted"}
    assert done.result["summary"]["requests"] < 1_000


def test_wrong_key_ends_the_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "wrong")
    golden = RecordingServer(tokens=1, key="right")
    fields: dict[str, Any] = {"stages": [{"constant": 30, "for": "60s"}], "stop": {"over": "1s", "atLeast": 10}}
    done = run(tmp_path, golden, key={"env": "MY_KEY"}, **fields)
    assert done.outcome.stopped.endswith("requests failed, most of them with status 401")
    assert done.result["summary"]["succeeded"] == 0
    assert done.result["summary"]["failures"]["status 401"] >= 10


def test_interrupted_run_keeps_rows(tmp_path: Path) -> None:
    fields: dict[str, Any] = {"stages": [{"constant": 20, "for": "60s"}], "workers": {"count": 2}}
    done = run(tmp_path, RecordingServer(tokens=2, first=1.0), stop_after=20, **fields)
    assert done.result["problems"][0] == "ended early: interrupted by Ctrl-C"
    assert 0 < done.result["summary"]["succeeded"] < 1_000
    assert done.result["summary"]["succeeded"] == len(done.golden.seen)  # active requests were awaited


def test_killed_worker_keeps_rows(tmp_path: Path) -> None:
    golden = RecordingServer(tokens=1)

    async def main() -> tuple[Outcome, load_plan.Plan]:
        async with golden:
            plan = load_plan.create(
                spec(target={"url": golden.url}, stages=[{"constant": 20, "for": "5s"}], workers={"count": 2}), Path()
            )
            run = LocalRunner(plan, tmp_path, Path())
            task = asyncio.create_task(run.run())
            while len(golden.seen) < 40 and not task.done():
                await asyncio.sleep(0.05)
            run._senders[1].kill()
            return await task, plan

    outcome, plan = clock.run(main())
    done = FinishedRun(tmp_path, golden, outcome, plan)
    assert outcome.lost_workers == (1,)
    assert "1 of 2 workers did not finish: number 1" in done.result["problems"]
    killed, whole = sorted(many for (many,) in done.query("SELECT count(*) FROM requests GROUP BY worker"))
    assert 0 < killed < whole == 50
    assert done.result["summary"]["delivery"]["share"] < 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a disk that is always full")
def test_full_disk_ends_the_test(tmp_path: Path) -> None:
    for name in ("rows", "chunks"):
        (tmp_path / f"worker-0.{name}").symlink_to("/dev/full")
    golden = RecordingServer(tokens=1)

    async def main() -> Outcome:
        async with golden:
            plan = load_plan.create(spec(target={"url": golden.url}, stages=[{"constant": 20, "for": "60s"}]), Path())
            return await LocalRunner(plan, tmp_path, Path()).run()

    assert clock.run(main()).stopped == "worker 0 cannot write its log: No space left on device"
    assert len(golden.seen) < 1_000


@pytest.mark.parametrize("workers", [1, 2])
def test_locust_pages_and_files(tmp_path: Path, workers: int) -> None:
    golden, port, answers = RecordingServer(tokens=1), free_port(), dict[str, Any]()

    async def main() -> None:
        async with golden:
            load_test = spec(target={"url": golden.url}, stages=[{"constant": 10, "for": "4s"}], workers={"count": workers})
            run = LocalRunner(
                load_plan.create(load_test, Path()), tmp_path, Path(), locust=LocustOptions(csv=True, port=port, password="pass")
            )
            task = asyncio.create_task(run.run())
            while len(golden.seen) < 15 and not task.done():
                await asyncio.sleep(0.05)
            async with ClientSession(f"http://127.0.0.1:{port}") as session:
                for name, password in (("known", "pass"), ("unknown", "guess")):
                    async with session.get(
                        "/stats/requests", headers={"authorization": encode_basic_auth("locust", password)}
                    ) as response:
                        answers[name] = (response.status, await response.text())
                async with session.post("/swarm", headers={"authorization": encode_basic_auth("locust", "pass")}) as answer:
                    answers["swarm"] = (answer.status, await answer.text())
            await task

    clock.run(main())
    assert answers["known"][0] == 200
    assert "stats" in orjson.loads(answers["known"][1])
    assert answers["unknown"] == (401, "password required\n")
    assert answers["swarm"][0] == 405
    assert len(golden.seen) == 40
    with (tmp_path / "locust_stats.csv").open() as file:
        rows = {row["Name"]: row for row in csv.DictReader(file)}
    assert rows["echo"]["Request Count"] == "40"


def test_key_is_sent_and_never_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "very-secret-word")
    golden = RecordingServer(tokens=1)

    async def main() -> None:
        async with golden:
            plan = load_plan.create(spec(target={"url": golden.url, "key": {"env": "MY_KEY"}}), Path())
            assert "very-secret" not in repr(plan)
            outcome = await LocalRunner(plan, tmp_path, Path()).run()
            request_table.merge_records(tmp_path)
            results.write_results("test", plan, outcome, tmp_path, {})

    clock.run(main())
    assert {item.headers["authorization"] for item in golden.seen.values()} == {"Bearer very-secret-word"}
    for file in tmp_path.rglob("*"):
        assert not file.is_file() or b"very-secret" not in file.read_bytes(), file
