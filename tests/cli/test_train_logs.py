"""Logs of many hosts: in the order of time, behind their hosts, and through restarts and broken connections."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from tests.training.test_pictures import container, pod, stored

from sliceworks.base import clock
from sliceworks.base.errors import BadRequest, NotFound, Unreachable
from sliceworks.cli.log_following import Following
from sliceworks.cli.log_printing import Printer
from sliceworks.cli.log_reading import Part, read_all, split
from sliceworks.cli.train_follow import Picture
from sliceworks.training import choosing
from sliceworks.training.choosing import Choice

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

Object = dict[str, Any]
RUNNING: Object = {"phase": "Running", "containerStatuses": container({"running": {}})}


class Pods:
    """A client whose pods have written: each request takes the next of what is scripted for a pod, a text or an error."""

    def __init__(self, **written: list[str | Exception]) -> None:
        self.written = written
        self.asked: list[Object] = []

    def _next(self, name: str, options: Object) -> str:
        self.asked.append({"pod": name, **options})
        script = self.written[name.replace("-", "_")]
        found = script.pop(0) if script else NotFound("gone", details={"name": name})
        if isinstance(found, Exception):
            raise found
        return found

    async def logs(self, name: str, _namespace: str, **options: Any) -> str:
        return self._next(name, options)

    async def follow_logs(self, name: str, _namespace: str, **options: Any) -> AsyncGenerator[bytes, None]:
        text = self._next(name, options)
        broken = text.endswith("!")
        for piece in (text.removesuffix("!")[:7], text.removesuffix("!")[7:]):
            yield piece.encode()
        if broken:
            raise Unreachable("the connection broke")


def read(client: Any, pods: list[Object], part: Part | None = None) -> list[str]:
    async def main() -> list[str]:
        found = choosing.latest(choosing.sources(stored(), pods, Choice()))
        return [f"{each.source.host.label} {each.text}" for each in await read_all(client, found, part or Part())]

    return clock.run(main(), virtual=True)


def test_lines_of_all_hosts_come_in_the_order_of_time() -> None:
    client = Pods(train_slice_0_0_0=["t1Z a\nt3Z c\n"], train_slice_0_1_0=["t2Z b\nt4Z d\n"])
    lines = read(client, [pod(0, 0, **RUNNING), pod(0, 1, **RUNNING)], Part(tail=5, since=60))
    assert lines == ["slice-0/0 a", "slice-0/1 b", "slice-0/0 c", "slice-0/1 d"]
    asked = {"container": "trainer", "timestamps": True, "tail_lines": 5, "since_seconds": 60}
    assert client.asked[0] == {"pod": "train-slice-0-0-0", **asked}


def test_a_pod_that_is_gone_or_waits_has_no_lines() -> None:
    client = Pods(train_slice_0_0_0=["t1Z a\n"], train_slice_0_1_0=[BadRequest("waiting to start")], train_slice_1_0_0=[])
    assert read(client, [pod(0, 0), pod(0, 1), pod(1, 0)]) == ["slice-0/0 a"]


def test_a_line_may_be_empty_or_have_no_time() -> None:
    [source] = choosing.sources(stored(), [pod(0, 0)], Choice())
    assert [(each.at, each.text) for each in (split("t1Z ", source), split("t1Z", source), split("unable", source))] == [
        ("t1Z", ""),
        ("t1Z", ""),
        ("", "unable"),
    ]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, "slice-0/0 | hello\n"),
        ({"one": True}, "hello\n"),
        ({"timestamps": True}, "slice-0/0 | t1Z hello\n"),
    ],
)
def test_a_line_stands_behind_its_host(capsys: pytest.CaptureFixture[str], options: dict[str, bool], told: str) -> None:
    [source] = choosing.sources(stored(), [pod(0, 0)], Choice())
    Printer(**options).write(split("t1Z hello", source))
    assert capsys.readouterr().out == told


def test_each_host_has_a_colour_of_its_own_on_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sliceworks.base.progress.coloured", lambda _stream: True)
    printer = Printer()
    for source in choosing.sources(stored(), [pod(0, 0), pod(0, 1), pod(0, 0)], Choice()):
        printer.write(split("t1Z x", source))
    first, again, second = (line.partition("m")[0] for line in capsys.readouterr().out.splitlines())
    assert (first == again, first == second) == (True, False)


def test_as_json_a_line_says_where_it_is_from(capsys: pytest.CaptureFixture[str]) -> None:
    [source] = choosing.sources(stored(), [pod(1, 0, attempt=2)], Choice())
    Printer(as_json=True).write(split("t1Z hello", source))
    found = orjson.loads(capsys.readouterr().out)
    assert found == {"at": "t1Z", "job": "slice", "slice": 1, "host": 0, "attempt": 2, "pod": "train-slice-1-0-2", "line": "hello"}


class Script:
    """Pictures of a job, one after another."""

    def __init__(self, *pictures: Picture) -> None:
        self._pictures = pictures

    async def __aenter__(self) -> Script:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    async def pictures(self) -> AsyncGenerator[Picture, None]:
        for each in self._pictures:
            yield each
            await asyncio.sleep(3)


def followed(monkeypatch: pytest.MonkeyPatch, client: Any, *pictures: Picture) -> None:
    monkeypatch.setattr("sliceworks.cli.log_following.follow", lambda *_: Script(*pictures))
    following = Following(client, stored(), Choice(), Part(), Printer())
    clock.run(following.run(), virtual=True)


DONE: Object = {"phase": "Succeeded", "containerStatuses": container({"terminated": {"exitCode": 0}})}
ENDED = [{"type": "Completed", "status": "True"}]


def test_following_goes_on_where_a_connection_broke(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    client = Pods(train_slice_0_0_0=["t1Z a\nt2Z b\nt2Z c\n!", Unreachable("away"), "t2Z b\nt2Z c\nt2Z d\nt3Z e\n"])
    pictures = [Picture(stored(), None, [pod(0, 0, **RUNNING)]), Picture(stored(conditions=ENDED), None, [pod(0, 0, **DONE)])]
    followed(monkeypatch, client, *pictures)
    assert [line[-1] for line in capsys.readouterr().out.splitlines()] == ["a", "b", "c", "d", "e"]
    assert [each.get("since_time") for each in client.asked][:3] == [None, "t2Z", "t2Z"]


def test_following_goes_through_restarts(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    client = Pods(train_slice_0_0_0=["t1Z first\n"], train_slice_0_0_1=["t5Z second\nt6Z unended"])
    followed(
        monkeypatch,
        client,
        Picture(stored(), None, [pod(0, 0, **RUNNING)]),
        Picture(stored(restarts=1), None, []),
        Picture(stored(restarts=1), None, [pod(0, 0, attempt=1, phase="Pending")]),
        Picture(stored(restarts=1), None, [pod(0, 0, attempt=1, **RUNNING)]),
        Picture(stored(conditions=ENDED), None, [pod(0, 0, attempt=1, **DONE)]),
    )
    said = capsys.readouterr()
    assert said.out == "slice-0/0 | first\nslice-0/0 | second\nslice-0/0 | unended\n"
    assert said.err == "train begins again: attempt 1\n"


def test_following_ends_though_the_end_of_the_job_is_seen_before_that_of_its_pods(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    client = Pods(train_slice_0_0_0=["t1Z a\n"] * 100)
    followed(
        monkeypatch,
        client,
        Picture(stored(), None, [pod(0, 0, **RUNNING)]),
        Picture(stored(conditions=ENDED), None, [pod(0, 0, **RUNNING)]),
        Picture(stored(conditions=ENDED), None, [pod(0, 0, **DONE)]),
    )
    assert capsys.readouterr().out == "slice-0/0 | a\n"
    assert len(client.asked) < 20


def test_following_ends_with_a_job_that_is_removed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    client = Pods(train_slice_0_0_0=["t1Z a\n"])
    followed(monkeypatch, client, Picture(stored(), None, [pod(0, 0, **RUNNING)]), Picture(stored(), None, [], gone=True))
    assert capsys.readouterr().out == "slice-0/0 | a\n"
