"""Runs against a server that writes down what it really got and sent: both sides must agree, and what goes wrong must show."""

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
from tests.support.both_sides import Known, Told, disagreements
from tests.support.golden_server import Golden
from tests.support.load_tests import spec

from sliceworks.base import clock
from sliceworks.loadtest import merging, plans, results
from sliceworks.loadtest.running import Locust, Run

if TYPE_CHECKING:
    from sliceworks.loadtest.running import Outcome

pytestmark = [pytest.mark.timeout(180), pytest.mark.long(50)]


class Done:
    """A run that has ended: its result, its rows, and what the server saw."""

    def __init__(self, folder: Path, golden: Golden, outcome: Outcome, plan: plans.Plan) -> None:
        merging.merge(folder)
        self.golden, self.outcome, self.plan, self.folder = golden, outcome, plan, folder
        self.result = results.conclude("test", plan, outcome, folder, {})

    def ask(self, query: str) -> list[tuple[Any, ...]]:
        with duckdb.connect() as connection:
            for name in ("requests", "pieces"):
                connection.read_parquet(str(self.folder / f"{name}.parquet")).create_view(name)
            return connection.execute(query).fetchall()


def run(folder: Path, golden: Golden, stop_after: int | None = None, *, key: dict[str, str] | None = None, **fields: Any) -> Done:
    """A whole run, or one that is stopped after so many requests. Delivery is not judged: machines that run tests are busy."""

    async def main() -> tuple[Outcome, plans.Plan]:
        async with golden:
            free = {"delivery": {"share": 0.0, "delay": "1h"}, **fields}
            target = {"url": golden.url, **({"key": key} if key else {})}
            plan = plans.make(spec(target=target, **free), Path())
            test = Run(plan, folder, Path())
            task = asyncio.create_task(test.run())
            while stop_after is not None and len(golden.seen) < stop_after and not task.done():
                await asyncio.sleep(0.05)
            if stop_after is not None:
                test.stop("somebody pressed Ctrl-C")
            return await task, plan

    return Done(folder, golden, *clock.run(main()))


def test_both_sides_saw_the_same(tmp_path: Path) -> None:
    done = run(tmp_path, Golden(tokens=5, first=0.05, gap=0.02), stages=[{"poisson": 30, "for": "2s"}], slo=["errors < 1%"])
    assert done.result["problems"] == []
    assert done.result["kept"]
    asked = len(done.plan.schedule.moments)
    assert len(done.golden.seen) == asked
    assert done.ask("SELECT count(*), sum(tokens_out), sum(pieces), min(status) FROM requests") == [
        (asked, 5 * asked, 5 * asked, 200)
    ]
    rows = done.ask(
        "SELECT number, first_token - sent, list(came ORDER BY piece), any_value(tokens_out) "
        "FROM requests JOIN pieces USING (request) GROUP BY ALL"
    )
    known = [Known(each.number, each.came, tuple(each.pieces)) for each in done.golden.seen.values()]
    told = [Told(number, first, tuple(came), tokens) for number, first, came, tokens in rows]
    assert disagreements(told, known, done.plan.schedule.moments / 1e9) == set()


def test_several_workers_share_exactly(tmp_path: Path) -> None:
    done = run(tmp_path, Golden(tokens=1), stages=[{"constant": 40, "for": "1s"}], workers={"count": 3})
    assert done.result["problems"] == []
    assert sorted(each.number for each in done.golden.seen.values()) == list(range(40))
    assert done.ask("SELECT worker, count(*) FROM requests GROUP BY ALL ORDER BY ALL") == [(0, 14), (1, 13), (2, 13)]
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


def test_a_sender_whose_clock_is_wrong_begins_with_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second of two is on a machine whose clock is three seconds ahead."""
    start, begun = asyncio.create_subprocess_exec, list[str]()

    async def skewed(*command: str, **options: Any) -> asyncio.subprocess.Process:
        begun.append(command[-1])
        program, _, _, *rest = command
        changed = (program, "-c", _SKEWED, *rest) if len(begun) == 3 else command  # the master comes first
        return await start(*changed, **options)

    monkeypatch.setattr(asyncio, "create_subprocess_exec", skewed)
    done = run(tmp_path, Golden(tokens=1), stages=[{"constant": 20, "for": "2s"}], workers={"count": 2})
    assert done.result["problems"] == []
    assert done.result["clocks"]["apart"] == pytest.approx(3, abs=0.5)
    assert done.result["clocks"]["uncertain"] < 0.5
    late = [each.came - done.plan.schedule.moments[each.number] / 1e9 for each in done.golden.seen.values()]
    assert max(late) - min(late) < 1.5


def test_users_wait_for_their_answers(tmp_path: Path) -> None:
    prompts = {"texts": ["Hello"], "turns": 3}
    done = run(tmp_path, Golden(tokens=2, first=0.02), stages=[{"users": 4, "for": "3s"}], prompts=prompts)
    assert done.golden.most_at_once == 4
    turns = dict(done.ask("SELECT turn, count(*) FROM requests GROUP BY ALL"))
    assert turns[0] >= turns[1] >= turns[2] > 0
    longest = max(len(each.body["messages"]) for each in done.golden.seen.values())
    assert longest == 5


def test_a_stall_shows_from_the_intended_moment(tmp_path: Path) -> None:
    golden = Golden(tokens=1, stall=(1.0, 3.0))
    done = run(tmp_path, golden, stages=[{"constant": 50, "for": "4s"}])
    ((share,),) = done.ask("SELECT avg((ended - intended > 1.0)::INT) FROM requests")
    assert 0.2 <= share <= 0.4  # those of the stall's first second, of four
    assert done.result["summary"]["times"]["e2e"]["p99"] > 1.8


def test_errors_are_told_apart(tmp_path: Path) -> None:
    golden = Golden(tokens=3, behave={0: "503", 1: "cut", 2: "garbled", 3: "reported", 4: "html", 5: "slow"})
    stages, times = [{"constant": 10, "for": "1s"}], {"idle": "1s"}
    done = run(tmp_path, golden, stages=stages, times=times, stop={"errors": 1.0})
    found = dict(done.ask("SELECT number, failure FROM requests ORDER BY number"))
    assert [found[number] for number in range(7)] == ["status", "closed", "garbled", "reported", "closed", "idle-timeout", None]
    assert done.result["summary"]["failures"]["status 503"] == 1


def test_a_target_that_is_down_ends_the_test(tmp_path: Path) -> None:
    golden = Golden()
    golden.refuse = True
    done = run(tmp_path, golden, stages=[{"constant": 50, "for": "60s"}], stop={"over": "1s", "atLeast": 10})
    assert "100% of the last" in done.outcome.stopped
    assert not done.result["valid"]
    assert done.result["summary"]["requests"] < 1_000
    assert set(done.result["summary"]["failures"]) <= {"connect", "interrupted"}


def test_a_target_that_dies_leaves_what_it_answered(tmp_path: Path) -> None:
    golden = Golden(tokens=1, dies_after=30)
    done = run(tmp_path, golden, stages=[{"constant": 30, "for": "60s"}], stop={"over": "1s", "atLeast": 10})
    assert "of the last" in done.result["problems"][0]
    assert done.result["summary"]["succeeded"] == 30
    assert set(done.result["summary"]["failures"]) <= {"connect", "closed", "interrupted"}
    assert done.result["summary"]["requests"] < 1_000


def test_a_wrong_key_ends_the_test_and_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "wrong")
    golden = Golden(tokens=1, key="right")
    fields: dict[str, Any] = {"stages": [{"constant": 30, "for": "60s"}], "stop": {"over": "1s", "atLeast": 10}}
    done = run(tmp_path, golden, key={"env": "MY_KEY"}, **fields)
    assert done.outcome.stopped.endswith("requests failed, most of them with status 401")
    assert done.result["summary"]["succeeded"] == 0
    assert done.result["summary"]["failures"]["status 401"] >= 10


def test_what_was_measured_before_the_end_is_kept(tmp_path: Path) -> None:
    fields: dict[str, Any] = {"stages": [{"constant": 20, "for": "60s"}], "workers": {"count": 2}}
    done = run(tmp_path, Golden(tokens=2, first=1.0), stop_after=20, **fields)
    assert done.result["problems"][0] == "ended early: somebody pressed Ctrl-C"
    assert 0 < done.result["summary"]["succeeded"] < 1_000
    assert done.result["summary"]["succeeded"] == len(done.golden.seen)  # those that were under way were waited for


def test_a_sender_that_is_killed_leaves_what_it_measured(tmp_path: Path) -> None:
    golden = Golden(tokens=1)

    async def main() -> tuple[Outcome, plans.Plan]:
        async with golden:
            plan = plans.make(
                spec(target={"url": golden.url}, stages=[{"constant": 20, "for": "5s"}], workers={"count": 2}), Path()
            )
            run = Run(plan, tmp_path, Path())
            task = asyncio.create_task(run.run())
            while len(golden.seen) < 40 and not task.done():
                await asyncio.sleep(0.05)
            run._senders[1].kill()
            return await task, plan

    outcome, plan = clock.run(main())
    done = Done(tmp_path, golden, outcome, plan)
    assert outcome.lost_workers == (1,)
    assert "1 of 2 senders did not come to its end: number 1" in done.result["problems"]
    killed, whole = sorted(many for (many,) in done.ask("SELECT count(*) FROM requests GROUP BY worker"))
    assert 0 < killed < whole == 50
    assert done.result["summary"]["delivery"]["share"] < 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a disk that is always full")
def test_a_full_disk_ends_the_test_and_says_so(tmp_path: Path) -> None:
    for name in ("rows", "pieces"):
        (tmp_path / f"worker-0.{name}").symlink_to("/dev/full")
    golden = Golden(tokens=1)

    async def main() -> Outcome:
        async with golden:
            plan = plans.make(spec(target={"url": golden.url}, stages=[{"constant": 20, "for": "60s"}]), Path())
            return await Run(plan, tmp_path, Path()).run()

    assert clock.run(main()).stopped == "sender 0 cannot write its rows: No space left on device"
    assert len(golden.seen) < 1_000


@pytest.mark.parametrize("workers", [1, 2])
def test_locusts_own_pages_and_files(tmp_path: Path, workers: int) -> None:
    golden, port, answers = Golden(tokens=1), free_port(), dict[str, Any]()

    async def main() -> None:
        async with golden:
            asked = spec(target={"url": golden.url}, stages=[{"constant": 10, "for": "4s"}], workers={"count": workers})
            run = Run(plans.make(asked, Path()), tmp_path, Path(), locust=Locust(csv=True, port=port, password="pass"))
            task = asyncio.create_task(run.run())
            while len(golden.seen) < 15 and not task.done():
                await asyncio.sleep(0.05)
            async with ClientSession(f"http://127.0.0.1:{port}") as session:
                for name, password in (("known", "pass"), ("unknown", "guess")):
                    async with session.get(
                        "/stats/requests", headers={"authorization": encode_basic_auth("locust", password)}
                    ) as answer:
                        answers[name] = (answer.status, await answer.text())
                async with session.post("/swarm", headers={"authorization": encode_basic_auth("locust", "pass")}) as answer:
                    answers["swarm"] = (answer.status, await answer.text())
            await task

    clock.run(main())
    assert answers["known"][0] == 200
    assert "stats" in orjson.loads(answers["known"][1])
    assert answers["unknown"] == (401, "a password is needed\n")
    assert answers["swarm"][0] == 405
    assert len(golden.seen) == 40
    with (tmp_path / "locust_stats.csv").open() as file:
        rows = {row["Name"]: row for row in csv.DictReader(file)}
    assert rows["echo"]["Request Count"] == "40"


def test_a_key_is_sent_and_shows_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "very-secret-word")
    golden = Golden(tokens=1)

    async def main() -> None:
        async with golden:
            plan = plans.make(spec(target={"url": golden.url, "key": {"env": "MY_KEY"}}), Path())
            assert "very-secret" not in repr(plan)
            outcome = await Run(plan, tmp_path, Path()).run()
            merging.merge(tmp_path)
            results.conclude("test", plan, outcome, tmp_path, {})

    clock.run(main())
    assert {each.headers["authorization"] for each in golden.seen.values()} == {"Bearer very-secret-word"}
    for file in tmp_path.rglob("*"):
        assert not file.is_file() or b"very-secret" not in file.read_bytes(), file
