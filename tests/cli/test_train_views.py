"""`train list`, `show`, `logs`, `restart`, `cancel` and `top` on a twin with machines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import pytest
from tests.support.train_shell import TEAM, Shell, send, with_machines

from sliceworks.base import clock
from sliceworks.cli import train_cluster
from sliceworks.cli.train_rows import Filter, Table
from sliceworks.cli.train_watch import Appender
from sliceworks.kube.well_known import JOB, POD
from sliceworks.training.states import state

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.kube.client import Client

Object = dict[str, Any]
HERE = ("-n", TEAM)


@pytest.fixture
def train(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Shell]:
    shell = Shell(monkeypatch, capsys)
    shell.ready(busy)
    yield shell
    shell.close()


async def busy(client: Client) -> None:
    """Two slices are taken by one job, and another waits."""
    await with_machines(client)
    await send(client, "hello-multi-slice")
    await send(client, "hello-one-slice")


async def failed(client: Client) -> None:
    await with_machines(client)
    await send(client, "hello-one-slice", fail="crash", fail_seconds="60")
    await clock.sleep(300)


def test_jobs_are_listed_with_what_runs_first(train: Shell) -> None:
    said = train("list", *HERE)
    assert [line[0] for line in said.lines] == ["NAME", "hello-multi-slice", "hello-one-slice"]
    assert [line[5] for line in said.lines[1:]] == ["running", "queued"]
    wide = train("list", "-A", "-o", "wide")
    assert wide.lines[1][:2] == [TEAM, "hello-multi-slice"]
    assert wide.lines[1][9:11] == ["8", "32"]


def test_jobs_are_picked(train: Shell) -> None:
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


def test_an_unknown_team_is_told(train: Shell) -> None:
    said = train("list", "--team", "reserch")
    assert said.err.splitlines() == ["error: there is no team 'reserch' in this cluster", "hint: did you mean research?"]


def test_what_ended_last_comes_first_among_what_has_ended() -> None:
    def job(name: str, born: str, **conditions: str) -> Object:
        told = [{"type": kind, "status": "True", "lastTransitionTime": at} for kind, at in conditions.items()]
        spec = {"replicatedJobs": [{"name": "slice"}]}
        return {"metadata": {"name": name, "creationTimestamp": born}, "spec": spec, "status": {"conditions": told}}

    jobs = [job("a", "1", Completed="5"), job("b", "2", Failed="7"), job("c", "4"), job("d", "3")]
    assert [each["metadata"]["name"] for each in Table(Filter()).wanted(jobs)] == ["d", "c", "b", "a"]


def test_one_job_is_shown_with_its_hosts_timeline_and_events(train: Shell) -> None:
    said = train("show", "hello-multi-slice")
    facts, hosts, times, events = said.out.split("\n\n")
    assert "State      running: 8 of 8 hosts are ready\n" in facts
    assert "Slices     2 × v4-32, on-demand, 8 hosts, 32 chips, 103.04 USD an hour\n" in facts
    assert "Queue      tpu-job-queue, priority high, admitted by slices\n" in facts
    assert [line.split()[0] for line in hosts.splitlines()][1:] == [
        *(f"slice-{number}/{host}" for number in (0, 1) for host in range(4)),
        "tensorboard-0/0",
    ]
    assert [line.split()[2] for line in times.splitlines()[1:]] == ["submitted", "has", "admitted", "first", "last"]
    assert events.splitlines()[0].split() == ["AGE", "TYPE", "EVENT", "OF", "MESSAGE"]


def test_a_job_is_shown_as_data_too(train: Shell) -> None:
    found = orjson.loads(train("show", "hello-one-slice", "-o", "json").out)
    assert (found["state"], found["type"], len(found["hosts"])) == ("queued", "v4-32", 4)
    assert found["hosts"][0]["pod"] is None
    assert found["line"].startswith("queued in tpu-job-queue: couldn't assign flavors")
    assert found["timeline"][0]["what"] == "submitted"


def test_a_job_that_is_not_there_is_told_with_the_closest(train: Shell) -> None:
    for command in (("show",), ("logs",), ("cancel", "-y"), ("restart", "-y"), ("wait",)):
        said = train(command[0], "hello-one-slce", *command[1:])
        assert said.err.splitlines() == [
            "error: there is no training job 'hello-one-slce' in tpu-training",
            "hint: did you mean hello-one-slice?",
        ]


def test_a_job_is_cancelled(train: Shell) -> None:
    said = train("cancel", "hello-multi-slice", "-y")
    assert said.out == "jobset/hello-multi-slice is cancelled\n"
    assert [line[0] for line in train("list").lines[1:]] == ["hello-one-slice"]


async def kin(client: Client) -> set[str]:
    """Everything that runs, by its uid."""
    every = [*(await client.list_all(POD, TEAM)).items, *(await client.list_all(JOB, TEAM)).items]
    return {each["metadata"]["uid"] for each in every if "one-slice" not in each["metadata"]["name"]}


def test_what_runs_begins_again_in_its_place(train: Shell) -> None:
    before = train.on(kin)
    said = train("restart", "hello-multi-slice", "-y")
    assert (said.code, said.out) == (0, "jobset/hello-multi-slice begins again\n"), said.err
    train.on(lambda _client: clock.sleep(90))
    after = train.on(kin)
    assert (len(before), len(after), before & after) == (12, 12, set())
    assert [line[5:7] for line in train("list").lines[1:]] == [["running", "0"], ["queued", "0"]]


def test_what_has_ended_is_submitted_again_as_it_was(train: Shell) -> None:
    async def only(client: Client) -> Object:
        [found] = await train_cluster.all_jobsets(client, TEAM)
        return found

    train.ready(failed)
    old = train.on(only)
    said = train("restart", "hello-one-slice", "-y", "-o", "json")
    assert said.code == 0, said.err
    fresh = orjson.loads(said.out)
    train.on(lambda _client: clock.sleep(30))
    new = train.on(only)
    assert old["metadata"]["uid"] != new["metadata"]["uid"]
    assert (state(old), state(fresh), state(new)) == ("failed", "queued", "running")
    assert "kueue" in str(_pod_template(old)["metadata"])
    assert "kueue" not in str(_pod_template(fresh)["metadata"])
    assert _pod_template(new)["spec"] == _pod_template(old)["spec"]


def test_what_waits_has_nothing_to_begin_again(train: Shell) -> None:
    said = train("restart", "hello-one-slice", "-y")
    assert said.err.splitlines()[0] == "error: hello-one-slice is queued: nothing runs that could begin again"
    assert train("restart", "hello-one-slice", "-y", "--requeue").out == "jobset/hello-one-slice is submitted again\n"


def test_logs_of_a_twin_that_runs_nothing_are_told_so(train: Shell) -> None:
    for more in ((), ("-f",)):
        said = train("logs", "hello-multi-slice", *more)
        assert (said.code, "error: this twin plays pods and runs no programs" in said.err) == (1, True), said.err


def test_logs_of_a_job_that_has_not_started_are_told_so(train: Shell) -> None:
    said = train("logs", "hello-one-slice")
    assert "error: no host of hello-one-slice has written anything yet: it is queued in tpu-job-queue" in said.err


def test_logs_of_an_attempt_that_is_gone_are_told_so(train: Shell) -> None:
    said = train("logs", "hello-multi-slice", "--previous")
    assert "error: hello-multi-slice has not been restarted: there is nothing before" in said.err
    train.ready(failed)
    said = train("logs", "hello-one-slice", "--previous")
    assert "error: the pods of attempt 0 of hello-one-slice are gone, and their logs with them" in said.err
    assert "gcloud logging read" in said.err


def test_chips_in_use_are_shown_as_bars(train: Shell) -> None:
    said = train("top")
    teams, queues, types = said.out.split("\n\n")
    assert teams.splitlines()[1].split() == ["tpu-training", "#" * 20, "32", "32", "1", "1"]
    assert teams.splitlines()[2].split() == ["research", "." * 20, "0", "32", "0", "0"]
    assert queues.splitlines()[1].split() == ["slices", "#" * 20, "32", "32", "1", "1"]
    assert types.splitlines()[1].split() == ["v4-32", "#" * 20, "32", "32"]
    assert orjson.loads(train("top", "-o", "json").out)["types"][0]["used"] == 32


def _pod_template(jobset: Object) -> Object:
    template: Object = jobset["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    return template


def test_elsewhere_each_change_is_a_row(capsys: pytest.CaptureFixture[str]) -> None:
    def job(name: str, **status: Any) -> Object:
        metadata = {"name": name, "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"}
        return {"metadata": metadata, "spec": {"replicatedJobs": [{"name": "slice"}]}, "status": status}

    shown = Appender(Table(Filter()))
    shown.draw([job("a"), job("b")])
    shown.draw([job("a"), job("b", restarts=1)])
    shown.draw([job("a")])
    shown.draw([job("a"), job("b", restarts=1)])
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [(line[0], line[6]) for line in lines] == [("NAME", "RESTARTS"), ("a", "0"), ("b", "0"), ("b", "1"), ("b", "1")]
    Appender(Table(Filter(), "json")).draw([job("a"), job("b")])
    assert [orjson.loads(line)["metadata"]["name"] for line in capsys.readouterr().out.splitlines()] == ["a", "b"]
