"""`train forecast`: tables and JSON, from a snapshot or a twin; impossible forecasts are one-line errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson
import pytest
from tests.support.queue_states import State
from tests.support.train_shell import EXAMPLES, TEAM, Shell, with_machines

from sliceworks.base import clock, yaml_documents
from sliceworks.training.submission import load

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
  - {at: 0s, setQuota: {clusterQueue: all, flavor: v4, resource: google.com/tpu, delta: "16"}}
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
    state.job("a-100", started=-300)
    state.job("a-101", came=-200)
    state.job("b-1", came=-100, estimate=600)
    state.job("huge", 64, came=-50, estimate=600)
    state.snapshot().save(tmp_path / "queues.json")
    return str(tmp_path / "queues.json")


def test_pending_jobs_are_listed_in_order(train: Shell, queues: str) -> None:
    output = train("forecast", "--snapshot", queues, "-q")
    assert output.code == 0, output.err
    assert output.out.splitlines()[0].split("   ")[:2] == ["NAMESPACE", "NAME"]
    assert [line[1:5] for line in output.lines[1:]] == [
        ["a-101", "queue", "5m", "5m"],
        ["b-1", "queue", "15m", "15m"],
        ["huge", "queue", "never", "-"],
    ]
    assert "it requests 64 google.com/tpu, ClusterQueue all provides at most 16" in output.out
    assert output.err == ""


def test_assumptions_are_printed(train: Shell, queues: str) -> None:
    output = train("forecast", "a-101", "--snapshot", queues, "-o", "wide")
    assert "2026-11-16T12:05:00Z" in output.out
    assert "Assumed: No other jobs are submitted." in output.err
    assert "Assumed: Run times: 2 from similar runs, 2 from estimates, within a factor of two." in output.err


def test_what_if_is_compared_with_the_present(train: Shell, queues: str, tmp_path: Path) -> None:
    (tmp_path / "if.yaml").write_text(IF)
    output = train("forecast", "a-101", "--snapshot", queues, "--what-if", str(tmp_path / "if.yaml"), "-o", "json", "-q")
    result = orjson.loads(output.out)
    assert result["jobs"][0]["starts"]["median"] == {"seconds": 300.0, "at": "2026-11-16T12:05:00Z"}
    assert result["whatIf"]["jobs"][0]["starts"]["median"]["seconds"] == 0
    assert result["whatIf"]["changes"] == ["the quota of all changes by 16 google.com/tpu of v4"]
    table = train("forecast", "a-101", "--snapshot", queues, "--what-if", str(tmp_path / "if.yaml"))
    assert "THEN STARTS IN" in table.out
    assert table.lines[1][11:13] == ["now", "10m"]
    assert "If: the quota of all changes by 16 google.com/tpu of v4." in table.err


def test_same_seed_prints_the_same(train: Shell, queues: str) -> None:
    first, again = (train("forecast", "--snapshot", queues, "-o", "json", "-q").out for _ in range(2))
    assert first == again
    assert train("forecast", "--snapshot", queues, "-o", "json", "-q", "--seed", "1").out != first


@pytest.mark.parametrize(
    ("arguments", "words", "code"),
    [
        (["a-110"], "error: no running or pending job 'a-110' found\nhint: did you mean a-101?\n", 1),
        (["a-101", "-n", "other"], "error: no running or pending job 'a-101' found in other\n", 1),
        (["a-101", "-f", "{job}"], "error: -f cannot be combined with job names\n", 2),
        (["--twin"], "error: --snapshot cannot be combined with a cluster\n", 2),
    ],
)
def test_usage_errors(train: Shell, queues: str, arguments: list[str], words: str, code: int) -> None:
    job = str(JOBS / "hello-one-slice.yaml")
    output = train("forecast", "--snapshot", queues, "-q", *(item.format(job=job) for item in arguments))
    assert (output.code, output.err[: len(words)]) == (code, words)


def test_missing_history_and_estimate_is_an_error(train: Shell, tmp_path: Path) -> None:
    state = State(16)
    state.job("mystery", started=-60)
    state.job("mine", estimate=600)
    state.snapshot().save(tmp_path / "queues.json")
    output = train("forecast", "mine", "--snapshot", str(tmp_path / "queues.json"), "-q")
    assert output.code == 1
    assert output.err == (
        "error: the start of mine cannot be forecast: the run time of mystery is unknown\n"
        "hint: set spec.estimate in those TrainingJobs, or pass --assume 2h\n"
    )
    assert train("forecast", "mine", "--snapshot", str(tmp_path / "queues.json"), "-q", "--assume", "1h").code == 0


def test_forecast_of_unsubmitted_job_on_a_cluster(train: Shell, tmp_path: Path) -> None:
    async def ready(client: Client) -> None:
        await with_machines(client)
        await client.create(load(JOBS / "hello-multi-slice.yaml").jobset())
        await clock.sleep(60)

    train.ready(ready)
    file, job = str(tmp_path / "queues.json"), str(JOBS / "hello-one-slice.yaml")
    output = train("forecast", "-f", job, "--save", file, "-o", "json", "-q")
    assert output.code == 0, output.err
    [result] = orjson.loads(output.out)["jobs"]
    # The first takes five minutes, of which one has passed.
    assert result["starts"]["median"]["seconds"] == pytest.approx(240, rel=0.3)
    assert result["runTimeFrom"] == "estimate 2m"
    assert train("forecast", "-f", job, "--snapshot", file, "-o", "json", "-q").out == output.out


def test_missing_priority_is_an_error(train: Shell, tmp_path: Path, queues: str) -> None:
    text = (JOBS / "hello-one-slice.yaml").read_text().replace("priority: medium", "priority: urgent")
    (tmp_path / "job.yaml").write_text(text)
    output = train("forecast", "-f", str(tmp_path / "job.yaml"), "--snapshot", queues, "-q")
    assert output.err == f"error: {tmp_path}/job.yaml:9: priority 'urgent' not found\nhint: known priorities: high, low\n"


def test_submit_prints_expected_start(train: Shell, tmp_path: Path) -> None:
    async def ready(client: Client) -> None:
        await with_machines(client)
        await client.create(load(JOBS / "hello-multi-slice.yaml").jobset())
        await clock.sleep(60)

    train.ready(ready)
    output = train("submit", "-f", str(JOBS / "hello-one-slice.yaml"))
    assert output.code == 0, output.err
    assert "hello-one-slice starts in about " in output.err
    [document] = yaml_documents.load_path(JOBS / "hello-one-slice.yaml")
    (tmp_path / "job.yaml").write_text(yaml_documents.dump({**document.data, "metadata": {"name": "second", "namespace": TEAM}}))
    assert "starts in about" not in train("submit", "-f", str(tmp_path / "job.yaml"), "--no-forecast").err
