"""Logs of many hosts: sorted by time, prefixed by host, through restarts and broken connections."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from tests.training.test_status import container, pod, stored

from sliceworks.base import clock
from sliceworks.base.errors import BadRequest, NotFound, Unreachable
from sliceworks.cli.train_client import JobSnapshot
from sliceworks.cli.train_log_stream import LogFollower, LogPrinter, LogWindow, parse_line, read_logs
from sliceworks.training import log_source
from sliceworks.training.log_source import PodSelection

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

Object = dict[str, Any]
RUNNING: Object = {"phase": "Running", "containerStatuses": container({"running": {}})}


class Pods:
    """A client with scripted pod logs: each request returns the next string or raises the next error of a pod."""

    def __init__(self, **written: list[str | Exception]) -> None:
        self.written = written
        self.asked: list[Object] = []

    def _next(self, name: str, options: Object) -> str:
        self.asked.append({"pod": name, **options})
        script = self.written[name.replace("-", "_")]
        result = script.pop(0) if script else NotFound("gone", details={"name": name})
        if isinstance(result, Exception):
            raise result
        return result

    async def logs(self, name: str, _namespace: str, **options: Any) -> str:
        return self._next(name, options)

    async def follow_logs(self, name: str, _namespace: str, **options: Any) -> AsyncGenerator[bytes, None]:
        text = self._next(name, options)
        broken = text.endswith("!")
        for piece in (text.removesuffix("!")[:7], text.removesuffix("!")[7:]):
            yield piece.encode()
        if broken:
            raise Unreachable("the connection broke")


def read(client: Any, pods: list[Object], part: LogWindow | None = None) -> list[str]:
    async def main() -> list[str]:
        result = log_source.latest(log_source.list_sources(stored(), pods, PodSelection()))
        return [f"{item.source.host.label} {item.text}" for item in await read_logs(client, result, part or LogWindow())]

    return clock.run(main(), virtual=True)


def test_lines_are_sorted_by_time() -> None:
    client = Pods(train_slice_0_0_0=["t1Z a\nt3Z c\n"], train_slice_0_1_0=["t2Z b\nt4Z d\n"])
    lines = read(client, [pod(0, 0, **RUNNING), pod(0, 1, **RUNNING)], LogWindow(tail=5, since=60))
    assert lines == ["slice-0/0 a", "slice-0/1 b", "slice-0/0 c", "slice-0/1 d"]
    options = {"container": "trainer", "timestamps": True, "tail_lines": 5, "since_seconds": 60}
    assert client.asked[0] == {"pod": "train-slice-0-0-0", **options}


def test_missing_or_pending_pod_has_no_lines() -> None:
    client = Pods(train_slice_0_0_0=["t1Z a\n"], train_slice_0_1_0=[BadRequest("waiting to start")], train_slice_1_0_0=[])
    assert read(client, [pod(0, 0), pod(0, 1), pod(1, 0)]) == ["slice-0/0 a"]


def test_empty_lines_and_lines_without_time() -> None:
    [source] = log_source.list_sources(stored(), [pod(0, 0)], PodSelection())
    assert [
        (item.at, item.text) for item in (parse_line("t1Z ", source), parse_line("t1Z", source), parse_line("unable", source))
    ] == [
        ("t1Z", ""),
        ("t1Z", ""),
        ("", "unable"),
    ]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, "slice-0/0 | hello\n"),
        ({"single_source": True}, "hello\n"),
        ({"timestamps": True}, "slice-0/0 | t1Z hello\n"),
    ],
)
def test_lines_are_prefixed_by_host(capsys: pytest.CaptureFixture[str], options: dict[str, bool], expected: str) -> None:
    [source] = log_source.list_sources(stored(), [pod(0, 0)], PodSelection())
    LogPrinter(**options).write(parse_line("t1Z hello", source))
    assert capsys.readouterr().out == expected


def test_each_host_has_its_colour_on_a_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sliceworks.base.progress.is_colored", lambda _stream: True)
    printer = LogPrinter()
    for source in log_source.list_sources(stored(), [pod(0, 0), pod(0, 1), pod(0, 0)], PodSelection()):
        printer.write(parse_line("t1Z x", source))
    first, again, second = (line.partition("m")[0] for line in capsys.readouterr().out.splitlines())
    assert (first == again, first == second) == (True, False)


def test_json_lines_name_their_source(capsys: pytest.CaptureFixture[str]) -> None:
    [source] = log_source.list_sources(stored(), [pod(1, 0, attempt=2)], PodSelection())
    LogPrinter(as_json=True).write(parse_line("t1Z hello", source))
    result = orjson.loads(capsys.readouterr().out)
    assert result == {"at": "t1Z", "job": "slice", "slice": 1, "host": 0, "attempt": 2, "pod": "train-slice-1-0-2", "line": "hello"}


class Script:
    """Successive snapshots of a job."""

    def __init__(self, *snapshots: JobSnapshot) -> None:
        self._snapshots = snapshots

    async def __aenter__(self) -> Script:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    async def snapshots(self) -> AsyncGenerator[JobSnapshot, None]:
        for snapshot in self._snapshots:
            yield snapshot
            await asyncio.sleep(3)


def followed(monkeypatch: pytest.MonkeyPatch, client: Any, *snapshots: JobSnapshot) -> None:
    monkeypatch.setattr("sliceworks.cli.train_log_stream.watch_job", lambda *_: Script(*snapshots))
    following = LogFollower(client, stored(), PodSelection(), LogWindow(), LogPrinter())
    clock.run(following.run(), virtual=True)


DONE: Object = {"phase": "Succeeded", "containerStatuses": container({"terminated": {"exitCode": 0}})}
ENDED = [{"type": "Completed", "status": "True"}]


def test_follow_resumes_after_broken_connection(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    client = Pods(train_slice_0_0_0=["t1Z a\nt2Z b\nt2Z c\n!", Unreachable("away"), "t2Z b\nt2Z c\nt2Z d\nt3Z e\n"])
    snapshots = [
        JobSnapshot(stored(), None, [pod(0, 0, **RUNNING)]),
        JobSnapshot(stored(conditions=ENDED), None, [pod(0, 0, **DONE)]),
    ]
    followed(monkeypatch, client, *snapshots)
    assert [line[-1] for line in capsys.readouterr().out.splitlines()] == ["a", "b", "c", "d", "e"]
    assert [item.get("since_time") for item in client.asked][:3] == [None, "t2Z", "t2Z"]


def test_follow_continues_through_restarts(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    client = Pods(train_slice_0_0_0=["t1Z first\n"], train_slice_0_0_1=["t5Z second\nt6Z unended"])
    followed(
        monkeypatch,
        client,
        JobSnapshot(stored(), None, [pod(0, 0, **RUNNING)]),
        JobSnapshot(stored(restarts=1), None, []),
        JobSnapshot(stored(restarts=1), None, [pod(0, 0, attempt=1, phase="Pending")]),
        JobSnapshot(stored(restarts=1), None, [pod(0, 0, attempt=1, **RUNNING)]),
        JobSnapshot(stored(conditions=ENDED), None, [pod(0, 0, attempt=1, **DONE)]),
    )
    output = capsys.readouterr()
    assert output.out == "slice-0/0 | first\nslice-0/0 | second\nslice-0/0 | unended\n"
    assert output.err == "train restarted: attempt 1\n"


def test_follow_ends_when_job_ends_before_its_pods(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    client = Pods(train_slice_0_0_0=["t1Z a\n"] * 100)
    followed(
        monkeypatch,
        client,
        JobSnapshot(stored(), None, [pod(0, 0, **RUNNING)]),
        JobSnapshot(stored(conditions=ENDED), None, [pod(0, 0, **RUNNING)]),
        JobSnapshot(stored(conditions=ENDED), None, [pod(0, 0, **DONE)]),
    )
    assert capsys.readouterr().out == "slice-0/0 | a\n"
    assert len(client.asked) < 20


def test_follow_ends_when_job_is_deleted(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    client = Pods(train_slice_0_0_0=["t1Z a\n"])
    followed(
        monkeypatch, client, JobSnapshot(stored(), None, [pod(0, 0, **RUNNING)]), JobSnapshot(stored(), None, [], is_deleted=True)
    )
    assert capsys.readouterr().out == "slice-0/0 | a\n"
