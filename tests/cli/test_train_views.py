"""`train list`, `show`, `logs`, `restart`, `cancel` and `top` on a twin with nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import pytest
from tests.support.train_shell import TEAM, Shell, send, with_machines

from sliceworks.base import clock
from sliceworks.cli import train_client
from sliceworks.cli.train_table import JobFilter, JobTable, RowAppender
from sliceworks.kube.resources import JOB, POD
from sliceworks.training.status import job_state

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.kube.client import Client

Object = dict[str, Any]
pytestmark = pytest.mark.long(30)
HERE = ("-n", TEAM)


@pytest.fixture
def train(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Shell]:
    shell = Shell(monkeypatch, capsys)
    shell.ready(busy)
    yield shell
    shell.close()


async def busy(client: Client) -> None:
    """One job occupies two slices, and another is pending."""
    await with_machines(client)
    await send(client, "hello-multi-slice")
    await send(client, "hello-one-slice")


async def failed(client: Client) -> None:
    await with_machines(client)
    await send(client, "hello-one-slice", fail="crash", fail_seconds="60")
    await clock.sleep(300)


def test_running_jobs_are_listed_first(train: Shell) -> None:
    output = train("list", *HERE)
    assert [line[0] for line in output.lines] == ["NAME", "hello-multi-slice", "hello-one-slice"]
    assert [line[5] for line in output.lines[1:]] == ["running", "queued"]
    wide = train("list", "-A", "-o", "wide")
    assert wide.lines[1][:2] == [TEAM, "hello-multi-slice"]
    assert wide.lines[1][9:11] == ["8", "32"]


def test_jobs_are_filtered(train: Shell) -> None:
    both = ["hello-multi-slice", "hello-one-slice"]
    for flags, names in (
        (("--state", "queued"), both[1:]),
        (("--state", "running", "--state", "queued"), both),
        (("--state", "failed"), []),
        (("--queue", "tpu-job-queue"), both),
        (("--queue", "other"), []),
        (("--type", "v4-32"), both),
        (("--type", "v4-16"), []),
        (("--team", "tpu-training"), both),
        (("--team", "research"), []),
    ):
        assert train("list", "-o", "name", *flags).out.split() == [f"jobset/{name}" for name in names], flags


def test_unknown_team_is_an_error(train: Shell) -> None:
    output = train("list", "--team", "reserch")
    assert output.err.splitlines() == ["error: team 'reserch' not found", "hint: did you mean research?"]


def test_finished_jobs_are_sorted_newest_first() -> None:
    def job(name: str, born: str, **conditions: str) -> Object:
        reported = [{"type": kind, "status": "True", "lastTransitionTime": at} for kind, at in conditions.items()]
        spec = {"replicatedJobs": [{"name": "slice"}]}
        return {"metadata": {"name": name, "creationTimestamp": born}, "spec": spec, "status": {"conditions": reported}}

    jobs = [job("a", "1", Completed="5"), job("b", "2", Failed="7"), job("c", "4"), job("d", "3")]
    assert [item["metadata"]["name"] for item in JobTable(JobFilter()).select(jobs)] == ["d", "c", "b", "a"]


def test_show_prints_hosts_timeline_and_events(train: Shell) -> None:
    output = train("show", "hello-multi-slice")
    facts, hosts, times, events = output.out.split("\n\n")
    assert "State      running: 8 of 8 hosts are ready\n" in facts
    assert "Slices     2 × v4-32, on-demand, 8 hosts, 32 chips, 103.04 USD per hour\n" in facts
    assert "Queue      tpu-job-queue, priority high, admitted by slices\n" in facts
    assert [line.split()[0] for line in hosts.splitlines()][1:] == [
        *(f"slice-{number}/{host}" for number in (0, 1) for host in range(4)),
        "tensorboard-0/0",
    ]
    assert [line.split()[2] for line in times.splitlines()[1:]] == ["submitted", "quota", "admitted", "first", "last"]
    assert events.splitlines()[0].split() == ["AGE", "TYPE", "EVENT", "OF", "MESSAGE"]


def test_show_as_json(train: Shell) -> None:
    result = orjson.loads(train("show", "hello-one-slice", "-o", "json").out)
    assert (result["state"], result["type"], len(result["hosts"])) == ("queued", "v4-32", 4)
    assert result["hosts"][0]["pod"] is None
    assert result["line"].startswith("queued in tpu-job-queue: couldn't assign flavors")
    assert result["timeline"][0]["event"] == "submitted"


def test_missing_job_is_an_error_with_the_closest_name(train: Shell) -> None:
    for command in (("show",), ("logs",), ("cancel", "-y"), ("restart", "-y"), ("wait",)):
        output = train(command[0], "hello-one-slce", *command[1:])
        assert output.err.splitlines() == [
            "error: training job 'hello-one-slce' not found in namespace tpu-training",
            "hint: did you mean hello-one-slice?",
        ]


def test_job_is_cancelled(train: Shell) -> None:
    output = train("cancel", "hello-multi-slice", "-y")
    assert output.out == "jobset/hello-multi-slice cancelled\n"
    assert [line[0] for line in train("list").lines[1:]] == ["hello-one-slice"]


async def running_uids(client: Client) -> set[str]:
    """The uids of all running objects."""
    every = [*(await client.list_all(POD, TEAM)).items, *(await client.list_all(JOB, TEAM)).items]
    return {item["metadata"]["uid"] for item in every if "one-slice" not in item["metadata"]["name"]}


def test_running_job_restarts_in_place(train: Shell) -> None:
    before = train.on(running_uids)
    output = train("restart", "hello-multi-slice", "-y")
    assert (output.code, output.out) == (0, "jobset/hello-multi-slice restarted\n"), output.err
    train.on(lambda _client: clock.sleep(90))
    after = train.on(running_uids)
    assert (len(before), len(after), before & after) == (12, 12, set())
    assert [line[5:7] for line in train("list").lines[1:]] == [["running", "0"], ["queued", "0"]]


def test_finished_job_is_resubmitted(train: Shell) -> None:
    async def only(client: Client) -> Object:
        [result] = await train_client.list_jobsets(client, TEAM)
        return result

    train.ready(failed)
    old = train.on(only)
    output = train("restart", "hello-one-slice", "-y", "-o", "json")
    assert output.code == 0, output.err
    fresh = orjson.loads(output.out)
    train.on(lambda _client: clock.sleep(30))
    new = train.on(only)
    assert old["metadata"]["uid"] != new["metadata"]["uid"]
    assert (job_state(old), job_state(fresh), job_state(new)) == ("failed", "queued", "running")
    assert "kueue" in str(_pod_template(old)["metadata"])
    assert "kueue" not in str(_pod_template(fresh)["metadata"])
    assert _pod_template(new)["spec"] == _pod_template(old)["spec"]


def test_pending_job_cannot_be_restarted(train: Shell) -> None:
    output = train("restart", "hello-one-slice", "-y")
    assert output.err.splitlines()[0] == "error: hello-one-slice is queued and has no running pods to restart"
    assert train("restart", "hello-one-slice", "-y", "--requeue").out == "jobset/hello-one-slice resubmitted\n"


def test_logs_of_simulated_pods_are_an_error(train: Shell) -> None:
    for more in ((), ("-f",)):
        output = train("logs", "hello-multi-slice", *more)
        assert (output.code, "error: this twin only simulates pods" in output.err) == (1, True), output.err


def test_logs_of_pending_job_are_an_error(train: Shell) -> None:
    output = train("logs", "hello-one-slice")
    assert "error: no logs from hello-one-slice yet: it is queued in tpu-job-queue" in output.err


def test_logs_of_deleted_attempt_are_an_error(train: Shell) -> None:
    output = train("logs", "hello-multi-slice", "--previous")
    assert "error: hello-multi-slice has not been restarted, so it has no previous logs" in output.err
    train.ready(failed)
    output = train("logs", "hello-one-slice", "--previous")
    assert "error: the pods of attempt 0 of hello-one-slice were deleted with their logs" in output.err
    assert "gcloud logging read" in output.err


def test_top_shows_chips_as_bars(train: Shell) -> None:
    output = train("top")
    teams, queues, types = output.out.split("\n\n")
    assert teams.splitlines()[1].split() == ["tpu-training", "#" * 20, "32", "32", "1", "1"]
    assert teams.splitlines()[2].split() == ["research", "." * 20, "0", "32", "0", "0"]
    assert queues.splitlines()[1].split() == ["slices", "#" * 20, "32", "32", "1", "1"]
    assert types.splitlines()[1].split() == ["v4-32", "#" * 20, "32", "32"]
    assert orjson.loads(train("top", "-o", "json").out)["types"][0]["used"] == 32


def _pod_template(jobset: Object) -> Object:
    template: Object = jobset["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    return template


def test_changes_are_rows_without_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    def job(name: str, **status: Any) -> Object:
        metadata = {"name": name, "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"}
        return {"metadata": metadata, "spec": {"replicatedJobs": [{"name": "slice"}]}, "status": status}

    shown = RowAppender(JobTable(JobFilter()))
    shown.draw([job("a"), job("b")])
    shown.draw([job("a"), job("b", restarts=1)])
    shown.draw([job("a")])
    shown.draw([job("a"), job("b", restarts=1)])
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [(line[0], line[6]) for line in lines] == [("NAME", "RESTARTS"), ("a", "0"), ("b", "0"), ("b", "1"), ("b", "1")]
    RowAppender(JobTable(JobFilter(), "json")).draw([job("a"), job("b")])
    assert [orjson.loads(line)["metadata"]["name"] for line in capsys.readouterr().out.splitlines()] == ["a", "b"]
