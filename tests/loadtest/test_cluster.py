"""Workers in pods, without a cluster: rows are collected exactly or reported missing, and pod problems are reported."""

from __future__ import annotations

import hashlib
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from tests.support.load_tests import record, spec

from sliceworks.base import clock
from sliceworks.base.errors import InvalidDocument, Unreachable
from sliceworks.loadtest.cluster import cluster_runner, worker_job
from sliceworks.loadtest.cluster.cluster_runner import ClusterRunner
from sliceworks.loadtest.cluster.collector import FILE_KINDS, AgentReport, Collector, decode_report
from sliceworks.loadtest.request_log import RecordWriter, read_records
from sliceworks.loadtest.runner import Listener
from sliceworks.specs.load_test import Workers

if TYPE_CHECKING:
    from pathlib import Path

Object = dict[str, Any]
TOLD = {"due": 4, "sent": 4, "ended": 4, "failed": 0, "failures": {}, "times": [], "first": [], "delay": 0.0}


def test_report_round_trip() -> None:
    report = AgentReport(
        [{"begins": 1}], {"rows": b"r\n", "chunks": b"", "texts": b"\n\nt"}, "worker-3", True, "", {"rows": "digest"}
    )
    assert decode_report(report.encode()) == report
    for cut in range(len(report.encode())):
        with pytest.raises(ValueError, match=r"."):
            decode_report(report.encode()[:cut])


class Pod:
    """An agent that serves files in small parts and injects configured failures."""

    def __init__(self, folder: Path, *, fails: int = 0, dies_after: int | None = None, lies: bool = False) -> None:
        folder.mkdir()
        with RecordWriter(folder, "worker-0", 0) as writer:
            for number in range(4):
                row = record(number, number / 10)
                for chunk in range(3):
                    row.chunk(row.sent + chunk * 1_000_000)
                writer.add(row)
        self.files = {kind: (folder / f"worker-0.{kind}").read_bytes() for kind in ("rows", "chunks")}
        self.fails, self.dies_after, self.lies, self.asked = fails, dies_after, lies, 0

    async def send(self, method: str, path: str) -> bytes:
        self.asked += 1
        if self.fails or (self.dies_after is not None and self.asked > self.dies_after):
            self.fails -= 1
            raise Unreachable("no answer")
        query = dict(part.split("=") for part in path.partition("?")[2].split("&"))
        parts = {kind: self.files.get(kind, b"")[int(query[kind]) :][:100] for kind in FILE_KINDS}
        done = not any(parts.values())
        lines = [{"begins": 5_000_000_000}] if query["lines"] == "0" else []
        whole = {kind: hashlib.sha256(content).hexdigest() for kind, content in self.files.items()}
        return AgentReport(
            lines + ([{**TOLD, "done": True}] if done and query["lines"] == "1" else []),
            parts,
            "worker-0",
            done,
            "",
            {**whole, **({"rows": "0"} if self.lies else {})} if done else {},
        ).encode()

    async def is_gone(self) -> str:
        return "pod/x was deleted" if self.dies_after is not None and self.asked > self.dies_after else ""


def collected(pod: Pod, folder: Path) -> tuple[Collector, Listener]:
    folder.mkdir()

    async def main() -> tuple[Collector, Listener]:
        collector, listener = Collector(0, pod.send, pod.is_gone, folder), Listener(spec().stop)
        await collector.collect(listener)
        return collector, listener

    return clock.run(main(), virtual=True)


@pytest.mark.parametrize("fails", [0, 3])
def test_rows_are_collected_exactly(tmp_path: Path, fails: int) -> None:
    pod = Pod(tmp_path / "pod", fails=fails)
    collector, listener = collected(pod, tmp_path / "here")
    assert (collector.lost, listener.started, listener.is_complete(0)) == ("", 5.0, True)
    for kind, content in pod.files.items():
        assert (tmp_path / "here" / f"worker-0.{kind}").read_bytes() == content


def test_rows_of_lost_pod_are_kept(tmp_path: Path) -> None:
    collector, _ = collected(Pod(tmp_path / "pod", dies_after=3), tmp_path / "here")
    assert collector.lost == "pod/x was deleted"
    rows, _ = read_records(tmp_path / "here" / "worker-0.rows")
    assert 0 < len(rows) < 4


def test_unreachable_pod_is_lost_after_timeout(tmp_path: Path) -> None:
    collector, _ = collected(Pod(tmp_path / "pod", fails=1_000), tmp_path / "here")
    assert collector.lost == "no response: no answer"


def test_corrupt_rows_are_reported(tmp_path: Path) -> None:
    collector, _ = collected(Pod(tmp_path / "pod", lies=True), tmp_path / "here")
    assert collector.lost == "its rows are incomplete"


def test_unwritable_rows_end_the_test(tmp_path: Path) -> None:
    pod, folder = Pod(tmp_path / "pod"), tmp_path / "here"
    (folder.parent / "full").mkdir()
    collector, listener = Collector(0, pod.send, pod.is_gone, tmp_path / "nowhere"), None

    async def main() -> Listener:
        received = Listener(spec().stop)
        await collector.collect(received)
        return received

    listener = clock.run(main(), virtual=True)
    assert collector.lost == "cannot write its log: No such file or directory"
    assert listener.why == collector.lost


def test_failed_stop_request_is_retried(tmp_path: Path) -> None:
    received: list[str] = []

    async def ask(pod: Object, method: str, path: str) -> bytes:
        received.append(f"{method} {path}")
        if len(received) < 3:
            raise Unreachable("connection lost")
        return b""

    async def main() -> None:
        launch = cast("Any", SimpleNamespace(pods=1))
        run = ClusterRunner(cast("Any", None), launch, tmp_path, ask, rule=spec().stop)
        run._pods = {0: {"metadata": {"name": "p"}}}
        run.stop("it was interrupted")
        await run._stop_workers()

    clock.run(main(), virtual=True)
    assert received == ["POST /stop"] * 3


def pod(**status: Any) -> Object:
    return {"metadata": {"name": "p", "annotations": {"batch.kubernetes.io/job-completion-index": "3"}}, "status": status}


def container(**state: Any) -> Object:
    return {"containerStatuses": [{"name": "worker", "state": state}]}


@pytest.mark.parametrize(
    ("pod", "runs", "over"),
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
def test_pod_is_reachable(pod: Object, runs: bool, over: str) -> None:
    assert (cluster_runner.is_running(pod), cluster_runner.termination_reason(pod), cluster_runner.pod_index(pod)) == (
        runs,
        over,
        3,
    )


@pytest.mark.parametrize(
    ("pod", "words", "hopeless"),
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
def test_pod_problem_is_explained(pod: Object, words: str, hopeless: bool) -> None:
    assert (cluster_runner.pending_reason(pod), cluster_runner.is_unrecoverable(pod)) == (words, hopeless)


def test_large_prompts_must_be_in_a_bucket() -> None:
    worker_job.check_files({"prompts.jsonl": b"x" * 900_000})
    with pytest.raises(InvalidDocument) as caught:
        worker_job.check_files({"prompts.jsonl": b"x" * 1_000_000})
    assert "gs://" in caught.value.hint


def test_single_worker_job_and_secret_references() -> None:
    for count, pods_wanted in ((1, 1), (2, 3), (20, 21)):
        workers = Workers.model_validate({"where": "cluster", "image": "i:1", "count": count})
        launch = worker_job.WorkerJob("load-x", "n", workers, 60.0, {}, {"SLICEWORKS_LOAD_KEY": "secret-word"})
        assert worker_job.build_job(launch)["spec"]["completions"] == pods_wanted
        assert "secret-word" not in str([launch, worker_job.build_job(launch), *worker_job.build_dependents(launch)])
