"""Senders that are pods, without a cluster: how rows come back exactly or are said to be missing, and what pods tell."""

from __future__ import annotations

import hashlib
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from tests.support.load_tests import record, spec

from sliceworks.base import clock
from sliceworks.base.errors import InvalidDocument, Unreachable
from sliceworks.loadtest.cluster import objects, pods
from sliceworks.loadtest.cluster.collecting import Collector
from sliceworks.loadtest.cluster.news import KINDS, News, unpacked
from sliceworks.loadtest.cluster.running import ClusterRun
from sliceworks.loadtest.listening import Listener
from sliceworks.loadtest.rows import Writer, read
from sliceworks.specs.load_test import Workers

if TYPE_CHECKING:
    from pathlib import Path

Object = dict[str, Any]
TOLD = {"due": 4, "sent": 4, "ended": 4, "failed": 0, "failures": {}, "times": [], "first": [], "delay": 0.0}


def test_news_come_as_they_were_sent() -> None:
    news = News([{"begins": 1}], {"rows": b"r\n", "pieces": b"", "texts": b"\n\nt"}, "worker-3", True, "", {"rows": "digest"})
    assert unpacked(news.packed()) == news
    for cut in range(len(news.packed())):
        with pytest.raises(ValueError, match=r"."):
            unpacked(news.packed()[:cut])


class Pod:
    """A keeper that gives out files in small parts, and misbehaves as told."""

    def __init__(self, folder: Path, *, fails: int = 0, dies_after: int | None = None, lies: bool = False) -> None:
        folder.mkdir()
        with Writer(folder, "worker-0", 0) as writer:
            for number in range(4):
                row = record(number, number / 10)
                for piece in range(3):
                    row.piece(row.sent + piece * 1_000_000)
                writer.add(row)
        self.files = {kind: (folder / f"worker-0.{kind}").read_bytes() for kind in ("rows", "pieces")}
        self.fails, self.dies_after, self.lies, self.asked = fails, dies_after, lies, 0

    async def ask(self, method: str, path: str) -> bytes:
        self.asked += 1
        if self.fails or (self.dies_after is not None and self.asked > self.dies_after):
            self.fails -= 1
            raise Unreachable("no answer")
        query = dict(part.split("=") for part in path.partition("?")[2].split("&"))
        parts = {kind: self.files.get(kind, b"")[int(query[kind]) :][:100] for kind in KINDS}
        done = not any(parts.values())
        lines = [{"begins": 5_000_000_000}] if query["lines"] == "0" else []
        whole = {kind: hashlib.sha256(content).hexdigest() for kind, content in self.files.items()}
        return News(
            lines + ([{**TOLD, "done": True}] if done and query["lines"] == "1" else []),
            parts,
            "worker-0",
            done,
            "",
            {**whole, **({"rows": "0"} if self.lies else {})} if done else {},
        ).packed()

    async def gone(self) -> str:
        return "pod/x was deleted" if self.dies_after is not None and self.asked > self.dies_after else ""


def collected(pod: Pod, folder: Path) -> tuple[Collector, Listener]:
    folder.mkdir()

    async def main() -> tuple[Collector, Listener]:
        collector, listener = Collector(0, pod.ask, pod.gone, folder), Listener(spec().stop)
        await collector.collect(listener)
        return collector, listener

    return clock.run(main(), virtual=True)


@pytest.mark.parametrize("fails", [0, 3])
def test_rows_come_exactly(tmp_path: Path, fails: int) -> None:
    pod = Pod(tmp_path / "pod", fails=fails)
    collector, listener = collected(pod, tmp_path / "here")
    assert (collector.lost, listener.began, listener.came_to_its_end(0)) == ("", 5.0, True)
    for kind, content in pod.files.items():
        assert (tmp_path / "here" / f"worker-0.{kind}").read_bytes() == content


def test_what_came_before_a_pod_was_lost_is_kept(tmp_path: Path) -> None:
    collector, _ = collected(Pod(tmp_path / "pod", dies_after=3), tmp_path / "here")
    assert collector.lost == "pod/x was deleted"
    rows, _ = read(tmp_path / "here" / "worker-0.rows")
    assert 0 < len(rows) < 4


def test_a_pod_that_is_silent_for_long_is_lost(tmp_path: Path) -> None:
    collector, _ = collected(Pod(tmp_path / "pod", fails=1_000), tmp_path / "here")
    assert collector.lost == "it does not answer: no answer"


def test_rows_that_differ_are_not_taken_for_whole(tmp_path: Path) -> None:
    collector, _ = collected(Pod(tmp_path / "pod", lies=True), tmp_path / "here")
    assert collector.lost == "its rows did not come whole"


def test_rows_that_cannot_be_written_here_end_the_test(tmp_path: Path) -> None:
    pod, folder = Pod(tmp_path / "pod"), tmp_path / "here"
    (folder.parent / "full").mkdir()
    collector, listener = Collector(0, pod.ask, pod.gone, tmp_path / "nowhere"), None

    async def main() -> Listener:
        heard = Listener(spec().stop)
        await collector.collect(heard)
        return heard

    listener = clock.run(main(), virtual=True)
    assert collector.lost == "its rows cannot be written here: No such file or directory"
    assert listener.why == collector.lost


def test_a_sender_that_could_not_be_told_to_stop_is_told_again(tmp_path: Path) -> None:
    heard: list[str] = []

    async def ask(pod: Object, method: str, path: str) -> bytes:
        heard.append(f"{method} {path}")
        if len(heard) < 3:
            raise Unreachable("the way to it broke")
        return b""

    async def main() -> None:
        launch = cast("Any", SimpleNamespace(pods=1))
        run = ClusterRun(cast("Any", None), launch, tmp_path, ask, rule=spec().stop)
        run._pods = {0: {"metadata": {"name": "p"}}}
        run.stop("it was interrupted")
        await run._end_when_told()

    clock.run(main(), virtual=True)
    assert heard == ["POST /stop"] * 3


def pod(**status: Any) -> Object:
    return {"metadata": {"name": "p", "annotations": {"batch.kubernetes.io/job-completion-index": "3"}}, "status": status}


def container(**state: Any) -> Object:
    return {"containerStatuses": [{"name": "sender", "state": state}]}


@pytest.mark.parametrize(
    ("found", "runs", "over"),
    [
        (pod(), False, ""),
        (pod(phase="Running", podIP="10.0.0.1"), True, ""),
        (pod(phase="Failed", reason="Evicted", message="low on memory"), False, "pod/p: low on memory"),
        (
            pod(phase="Failed", **container(terminated={"exitCode": 137, "reason": "OOMKilled"})),
            False,
            "pod/p has ended: OOMKilled, exit code 137",
        ),
        (pod(phase="Succeeded"), False, "pod/p has ended: Succeeded, exit code unknown"),
    ],
)
def test_whether_a_pod_can_be_asked(found: Object, runs: bool, over: str) -> None:
    assert (pods.runs(found), pods.over(found), pods.index(found)) == (runs, over, 3)


@pytest.mark.parametrize(
    ("found", "words", "hopeless"),
    [
        (pod(), "pod/p has not started", False),
        (
            pod(conditions=[{"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available"}]),
            "pod/p: 0/3 nodes are available",
            False,
        ),
        (pod(**container(waiting={"reason": "ImagePullBackOff", "message": "no image"})), "pod/p: ImagePullBackOff no image", True),
    ],
)
def test_why_a_pod_does_not_run(found: Object, words: str, hopeless: bool) -> None:
    assert (pods.waits_for(found), pods.hopeless(found)) == (words, hopeless)


def test_prompts_that_do_not_fit_beside_pods_belong_into_a_bucket() -> None:
    objects.check({"prompts.jsonl": b"x" * 900_000})
    with pytest.raises(InvalidDocument) as caught:
        objects.check({"prompts.jsonl": b"x" * 1_000_000})
    assert "gs://" in caught.value.hint


def test_one_sender_needs_nobody_and_secrets_are_no_text() -> None:
    for count, pods_wanted in ((1, 1), (2, 3), (20, 21)):
        workers = Workers.model_validate({"where": "cluster", "image": "i:1", "count": count})
        launch = objects.Launch("load-x", "n", workers, 60.0, {}, {"SLICEWORKS_LOAD_KEY": "secret-word"})
        assert objects.job(launch)["spec"]["completions"] == pods_wanted
        assert "secret-word" not in str([launch, objects.job(launch), *objects.around(launch)])
