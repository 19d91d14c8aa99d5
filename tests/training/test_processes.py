"""A job with real processes: its logs are followed through a restart, and a TensorBoard beside it serves its files."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest
from tests.real.processes import free_port
from tests.training.test_compile import job
from tests.training.test_queues import HEAD, build_queues

from sliceworks import catalog
from sliceworks.base import clock
from sliceworks.cli.train_client import list_pods
from sliceworks.cli.train_description import JobDetails, describe_job
from sliceworks.cli.train_log_stream import LogFollower, LogPrinter, LogWindow
from sliceworks.kube.client import Client
from sliceworks.kube.resources import JOBSET, PERSISTENT_VOLUME_CLAIM
from sliceworks.training.jobset import build_jobset
from sliceworks.training.log_source import PodSelection
from sliceworks.twin.cluster import Cluster
from sliceworks.twin.nodes.node_shape import NodeShape, create_nodes
from sliceworks.twin.nodes.runtime import process

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="pods have addresses of their own on Linux alone")
Object = dict[str, Any]
TEAM = "research"
CLAIM: Object = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "runs", "namespace": TEAM},
    "spec": {"accessModes": ["ReadWriteMany"], "storageClassName": "standard-rwx", "resources": {"requests": {"storage": "1Gi"}}},
}
# Fails once; the second time it writes a file and runs until it is stopped.
PROGRAM = """
[ -e $DATA/seen ] || { touch $DATA/seen; echo first; exit 1; }
echo second; echo 0.5 > $DATA/loss
until [ -e $DATA/go ]; do sleep 0.1; done
echo done
"""
# Takes the place of TensorBoard: serves a folder on a port.
BOARD = """#!/bin/sh
for each in "$@"; do case $each in --logdir=*) folder=${each#*=};; --port=*) port=${each#*=};; esac; done
exec python3 -m http.server --directory "$folder" "$port"
"""


def with_board(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a program named tensorboard next to the twin's Python, where the user of the container finds both."""
    folder.mkdir()
    (folder / "tensorboard").write_text(BOARD)
    (folder / "tensorboard").chmod(0o755)
    (folder / "python3").symlink_to(os.path.realpath(sys.executable))
    monkeypatch.setattr(sys, "executable", str(folder / "python3"))
    monkeypatch.setattr(process, "_KEPT_FOLDERS", [*process._KEPT_FOLDERS, folder])


async def until(look: Callable[[], Any], what: str) -> Any:
    async with asyncio.timeout(90):
        while True:
            try:
                if result := await asyncio.to_thread(look):
                    return result
            except OSError:
                pass
            await clock.sleep(0.1)
    raise AssertionError(what)


def test_logs_continue_after_restart_and_tensorboard_serves_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with_board(tmp_path / "bin", monkeypatch)
    port = free_port()
    text = f"""slices: {{type: v4-8}}, script: run.sh, env: {{DATA: /runs}}, restarts: {{max: 1}}, cpu: '1', memory: 1Gi,
      volumes: [{{name: runs, mountPath: /runs, pvc: runs}}], tensorboard: {{logs: /runs, image: board, port: {port}}}"""

    async def main() -> str:
        async with Cluster(ca="the authority", processes=tmp_path / "twin") as twin:
            client = Client(twin.transport(), namespace=TEAM)
            await ready(client)
            await client.create(CLAIM)
            jobset = await client.create(build_jobset(job(text), namespace=TEAM, script=PROGRAM), resource=JOBSET)
            following = asyncio.create_task(
                LogFollower(client, jobset, PodSelection(), LogWindow(), LogPrinter(single_source=True)).run()
            )
            await until(lambda: list((tmp_path / "twin" / "volumes").glob("*/loss")), "the loss is written")
            claim = await client.get(PERSISTENT_VOLUME_CLAIM, "runs", TEAM)
            data = tmp_path / "twin" / "volumes" / claim["spec"]["volumeName"]
            seen = await fetch_from_board(client, port)
            shown = describe_job(
                JobDetails(await client.get(JOBSET, "train", TEAM), None, await list_pods(client, "train", TEAM), [])
            )
            (data / "go").touch()
            await asyncio.wait_for(following, 90)
            assert seen == "0.5\n"
            return shown

    shown = clock.run(main())
    assert f":{port}, or kubectl port-forward -n {TEAM} pod/train-tensorboard-0-0-" in shown
    output = capsys.readouterr()
    assert (output.out, output.err) == ("first\nsecond\ndone\n", "train restarted: attempt 1\n")


async def fetch_from_board(client: Client, port: int) -> str:
    """The loss from the pod of TensorBoard, once it answers; a restart of the job replaces the pod and its address."""
    async with asyncio.timeout(90):
        while True:
            for pod in await list_pods(client, "train", TEAM):
                if pod["metadata"]["name"].startswith("train-tensorboard-") and (address := pod["status"].get("podIP")):
                    with contextlib.suppress(OSError):
                        return await asyncio.to_thread(fetch, f"http://{address}:{port}/loss")
            await clock.sleep(0.1)


def fetch(url: str) -> str:
    with urllib.request.urlopen(url, timeout=5) as response:
        text: str = response.read().decode()
    return text


async def ready(client: Client) -> None:
    """Queues, a slice of one host, and a node for helpers."""
    pools = HEAD.replace("v4-16, count: 4", "v4-8, count: 1").replace(", cheap: {type: v4-16, count: 2, spot: true}", "")
    for item in build_queues(pools + "  teams:\n    research: {queue: queue}\n"):
        await client.create(item)
    shape = catalog.find("v4-8")
    left = shape.machine.allocatable()
    slice_ = NodeShape(
        "slice",
        shape.machine.name,
        cpu=left["cpu"],
        memory=left["memory"],
        resources={shape.resource: str(shape.chips_per_host)},
        labels=shape.node_labels(),
        taints=tuple(shape.node_taints()),
    )
    await create_nodes(client, NodeShape(pool="cpu", machine="n1-standard-4"), 1)
    await create_nodes(client, slice_, 1, first=10)
