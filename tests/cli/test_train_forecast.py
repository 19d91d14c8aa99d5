"""`train forecast`: tables and JSON, from a snapshot or a twin; what cannot be told is said in one line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson
import pytest
from tests.support.queue_states import State
from tests.support.train_shell import EXAMPLES, TEAM, Shell, with_machines

from sliceworks.base import clock, yamls
from sliceworks.rehearsal.submissions import read

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sliceworks.kube.client import Client

JOBS = EXAMPLES / "training-jobs"
IF = """
apiVersion: sliceworks.dev/v1alpha1
kind: Scenario
metadata: {name: more}
spec:
  events:
  - {at: 0s, setQuota: {clusterQueue: all, flavor: v4, resource: google.com/tpu, more: "16"}}
"""


@pytest.fixture
def train(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Shell]:
    shell = Shell(monkeypatch, capsys)
    yield shell
    shell.close()


@pytest.fixture
def queues(tmp_path: Path) -> str:
    state = State(16)
    state.past("a", *[600.0] * 40)
    state.job("a-100", began=-300)
    state.job("a-101", came=-200)
    state.job("b-1", came=-100, estimate=600)
    state.job("huge", 64, came=-50, estimate=600)
    state.snapshot().save(tmp_path / "queues.json")
    return str(tmp_path / "queues.json")


def test_all_that_waits_in_order(train: Shell, queues: str) -> None:
    said = train("forecast", "--snapshot", queues, "-q")
    assert said.code == 0, said.err
    assert said.out.splitlines()[0].split("   ")[:2] == ["NAMESPACE", "NAME"]
    assert [line[1:5] for line in said.lines[1:]] == [
        ["a-101", "queue", "5m", "5m"],
        ["b-1", "queue", "15m", "15m"],
        ["huge", "queue", "never", "-"],
    ]
    assert "it asks for 64 google.com/tpu, and ClusterQueue all can never have more than 16" in said.out
    assert said.err == ""


def test_what_is_assumed_is_said(train: Shell, queues: str) -> None:
    said = train("forecast", "a-101", "--snapshot", queues, "-o", "wide")
    assert "2026-11-16T12:05:00Z" in said.out
    assert "Assumed: Nobody submits anything else." in said.err
    assert "Assumed: Run times: 2 from runs alike, 2 from estimates, right within a factor of two." in said.err


def test_what_if_stands_beside_what_is(train: Shell, queues: str, tmp_path: Path) -> None:
    (tmp_path / "if.yaml").write_text(IF)
    said = train("forecast", "a-101", "--snapshot", queues, "--what-if", str(tmp_path / "if.yaml"), "-o", "json", "-q")
    found = orjson.loads(said.out)
    assert found["jobs"][0]["starts"]["median"] == {"seconds": 300.0, "at": "2026-11-16T12:05:00Z"}
    assert found["whatIf"]["jobs"][0]["starts"]["median"]["seconds"] == 0
    assert found["whatIf"]["changes"] == ["the quota of all changes by 16 google.com/tpu of v4"]
    table = train("forecast", "a-101", "--snapshot", queues, "--what-if", str(tmp_path / "if.yaml"))
    assert "THEN STARTS IN" in table.out
    assert table.lines[1][11:13] == ["now", "10m"]
    assert "If: the quota of all changes by 16 google.com/tpu of v4." in table.err


def test_one_seed_prints_the_same(train: Shell, queues: str) -> None:
    first, again = (train("forecast", "--snapshot", queues, "-o", "json", "-q").out for _ in range(2))
    assert first == again
    assert train("forecast", "--snapshot", queues, "-o", "json", "-q", "--seed", "1").out != first


@pytest.mark.parametrize(
    ("arguments", "words", "code"),
    [
        (["a-110"], "error: there is no job 'a-110' that runs or waits\nhint: did you mean a-101?\n", 1),
        (["a-101", "-n", "other"], "error: there is no job 'a-101' that runs or waits in other\n", 1),
        (["a-101", "-f", "{job}"], "error: -f and names both say which job is meant\n", 2),
        (["--twin"], "error: --snapshot and a cluster both say where the queues are\n", 2),
    ],
)
def test_wrong_calls(train: Shell, queues: str, arguments: list[str], words: str, code: int) -> None:
    job = str(JOBS / "hello-one-slice.yaml")
    said = train("forecast", "--snapshot", queues, "-q", *(each.format(job=job) for each in arguments))
    assert (said.code, said.err[: len(words)]) == (code, words)


def test_without_history_and_estimate_it_asks_for_one(train: Shell, tmp_path: Path) -> None:
    state = State(16)
    state.job("mystery", began=-60)
    state.job("mine", estimate=600)
    state.snapshot().save(tmp_path / "queues.json")
    said = train("forecast", "mine", "--snapshot", str(tmp_path / "queues.json"), "-q")
    assert said.code == 1
    assert said.err == (
        "error: it cannot be told when mine starts: nothing says how long mystery will run\n"
        "hint: give those an estimate (spec.estimate of a TrainingJob), or --assume 2h\n"
    )
    assert train("forecast", "mine", "--snapshot", str(tmp_path / "queues.json"), "-q", "--assume", "1h").code == 0


def test_the_queues_of_a_cluster_and_a_job_that_is_not_submitted(train: Shell, tmp_path: Path) -> None:
    async def ready(client: Client) -> None:
        await with_machines(client)
        await client.create(read(JOBS / "hello-multi-slice.yaml").jobset())
        await clock.sleep(60)

    train.ready(ready)
    file, job = str(tmp_path / "queues.json"), str(JOBS / "hello-one-slice.yaml")
    said = train("forecast", "-f", job, "--save", file, "-o", "json", "-q")
    assert said.code == 0, said.err
    [found] = orjson.loads(said.out)["jobs"]
    # The first takes five minutes, of which one has passed.
    assert found["starts"]["median"]["seconds"] == pytest.approx(240, rel=0.3)
    assert found["runTimeFrom"] == "estimate 2m"
    assert train("forecast", "-f", job, "--snapshot", file, "-o", "json", "-q").out == said.out


def test_a_priority_that_does_not_exist_is_named(train: Shell, tmp_path: Path, queues: str) -> None:
    text = (JOBS / "hello-one-slice.yaml").read_text().replace("priority: medium", "priority: urgent")
    (tmp_path / "job.yaml").write_text(text)
    said = train("forecast", "-f", str(tmp_path / "job.yaml"), "--snapshot", queues, "-q")
    assert said.err == f"error: {tmp_path}/job.yaml:9: there is no priority 'urgent'\nhint: there are: high, low\n"


def test_submitting_behind_others_says_when_it_starts(train: Shell, tmp_path: Path) -> None:
    async def ready(client: Client) -> None:
        await with_machines(client)
        await client.create(read(JOBS / "hello-multi-slice.yaml").jobset())
        await clock.sleep(60)

    train.ready(ready)
    said = train("submit", "-f", str(JOBS / "hello-one-slice.yaml"))
    assert said.code == 0, said.err
    assert "hello-one-slice starts in about " in said.err
    [document] = yamls.load_path(JOBS / "hello-one-slice.yaml")
    (tmp_path / "job.yaml").write_text(yamls.dump({**document.data, "metadata": {"name": "second", "namespace": TEAM}}))
    assert "starts in about" not in train("submit", "-f", str(tmp_path / "job.yaml"), "--no-forecast").err
