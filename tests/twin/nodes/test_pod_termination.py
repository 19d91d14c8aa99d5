"""How pods that run as processes end: the order of their containers, grace periods, and deadlines."""

from __future__ import annotations

import asyncio
import shutil
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.process_pods import ended, pod, ready, running, until

from sliceworks.base import clock
from sliceworks.base.errors import NotFound
from sliceworks.kube.client import Client
from sliceworks.kube.resources import POD
from sliceworks.twin.apiserver.validation.error_list import ErrorList
from sliceworks.twin.apiserver.validation.pod_update import validate_pod_status_update
from sliceworks.twin.cluster import Cluster
from sliceworks.twin.nodes.node_shape import NodeShape, create_nodes
from sliceworks.twin.nodes.runtime import container_runner
from sliceworks.twin.nodes.runtime.image import Image, ImageMap
from sliceworks.twin.store.store import Store

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="pods have addresses of their own on Linux alone")
Object = dict[str, Any]
WAITS = "while true; do sleep 0.05; done"
HOST = {"name": "host", "hostPath": {"path": "/data"}}
MOUNTS = [{"name": "host", "mountPath": "/host"}]


def slow_to_end(name: str) -> str:
    """A script that takes longer to end than a container of a finished pod gets, and then leaves a file."""
    return f"trap 'sleep 1.5; echo {name} >> /host/ended; exit 0' TERM; touch /host/{name}; {WAITS}"


def init_container(name: str, script: str, **more: Any) -> Object:
    return {"name": name, "image": "example.com/app:1", "command": ["sh", "-c", script], "volumeMounts": MOUNTS, **more}


def with_init(body: Object, *containers: Object) -> Object:
    body["spec"]["initContainers"] = list(containers)
    return body


def main_pod(script: str, **more: Any) -> Object:
    return pod("p", "sh", "-c", script, volumes=[HOST], volumeMounts=MOUNTS, **more)


async def deleted(client: Client) -> None:
    await client.delete(POD, "p", "default")
    while True:
        try:
            await client.get(POD, "p", "default")
        except NotFound:
            return
        await clock.sleep(0.02)


async def exists(file: Path) -> None:
    while not file.exists():
        await clock.sleep(0.02)


def test_sidecars_end_after_the_main_containers_the_last_one_first(tmp_path: Path) -> None:
    data = tmp_path / "nodes" / "gke-pool-0" / "data"
    sidecars = [init_container(name, slow_to_end(name), restartPolicy="Always") for name in ("first", "second")]

    async def main(client: Client) -> None:
        await client.create(with_init(main_pod(slow_to_end("main"), grace=20), *sidecars))
        for name in ("first", "second", "main"):
            await exists(data / name)
        await deleted(client)

    running(main, tmp_path)
    assert (data / "ended").read_text().split() == ["main", "second", "first"]


def test_sidecars_have_ended_in_a_finished_pod(tmp_path: Path) -> None:
    data = tmp_path / "nodes" / "gke-pool-0" / "data"
    sidecar = init_container("side", slow_to_end("side"), restartPolicy="Always")

    async def main(client: Client) -> None:
        await client.create(with_init(main_pod("until test -e /host/side; do sleep 0.05; done", grace=20), sidecar))
        status = await until(client, "p", lambda obj: "terminated" in obj["initContainerStatuses"][0]["state"])
        assert status["initContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 0
        assert status["initContainerStatuses"][0]["restartCount"] == 0
        assert (data / "ended").read_text() == "side\n"

    running(main, tmp_path)


def test_init_container_ends_with_its_grace_period_and_no_other_starts(tmp_path: Path) -> None:
    data = tmp_path / "nodes" / "gke-pool-0" / "data"

    async def main(client: Client) -> None:
        init = init_container("init", slow_to_end("init"))
        await client.create(with_init(main_pod(f"touch /host/started; {WAITS}", grace=20), init))
        await exists(data / "init")
        await deleted(client)

    running(main, tmp_path)
    assert (data / "ended").read_text() == "init\n"
    assert not (data / "started").exists()


def test_sidecar_does_not_outlive_a_failed_init_container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container_runner, "crash_loop_backoff", lambda count: 3600.0)

    async def main(client: Client) -> None:
        sidecar = init_container("side", "echo run >> /host/runs; exit 1", restartPolicy="Always")
        init = init_container("init", "until test $(wc -l < /host/runs) -gt 1; do sleep 0.05; done; exit 1")
        await client.create(with_init(main_pod("true"), sidecar, init))
        await until(client, "p", ended)
        async with asyncio.timeout(60):
            while any(task.get_name() == "sidecar side" for task in asyncio.all_tasks()):
                await clock.sleep(0.02)

    running(main, tmp_path)


def test_files_are_not_deleted_by_the_event_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Volumes can have any number of files."""
    threads = set()
    delete = shutil.rmtree

    def rmtree(folder: Path, **options: Any) -> None:
        threads.add(threading.current_thread())
        delete(folder, **options)

    monkeypatch.setattr(shutil, "rmtree", rmtree)
    images = ImageMap([("*", Image())])

    async def main(client: Client) -> None:
        await client.create(main_pod("exit 0", policy="Always"))
        await until(client, "p", lambda status: status["containerStatuses"][0]["restartCount"] > 0)
        folder = tmp_path / (await client.get(POD, "p"))["metadata"]["uid"]
        await deleted(client)
        while folder.exists():
            await clock.sleep(0.02)

    running(main, tmp_path, images=images)
    assert threads
    assert threading.main_thread() not in threads


def test_deadline_counts_from_the_start_of_the_pod_after_a_restart(tmp_path: Path) -> None:
    async def whole() -> None:
        store = Store()
        async with Cluster(store, ca="the authority", processes=tmp_path) as cluster:
            client = Client(cluster.transport())
            await create_nodes(client, NodeShape(pool="pool"), 1)
            body = pod("p", "sh", "-c", WAITS, policy="Always")
            body["spec"]["activeDeadlineSeconds"] = 3600
            await client.create(body)
            await until(client, "p", ready)
            await client.patch(POD, "p", {"status": {"startTime": clock.timestamp_after(-7200)}}, "default", subresource="status")
        async with Cluster(store, ca="the authority", processes=tmp_path) as cluster:
            assert (await until(Client(cluster.transport()), "p", ended))["reason"] == "DeadlineExceeded"

    clock.run(whole())


@pytest.mark.parametrize(
    ("policy", "own", "exit_code", "restarts"),
    [("Never", "Always", 0, True), ("Never", None, 1, False), ("OnFailure", None, 1, True), ("OnFailure", "Never", 1, False)],
)
def test_terminated_container_restarts_by_its_own_policy(policy: str, own: str | None, exit_code: int, restarts: bool) -> None:
    def with_state(state: Object) -> Object:
        spec = {"restartPolicy": policy, "initContainers": [{"name": "side", **({"restartPolicy": own} if own else {})}]}
        return {"metadata": {"name": "p"}, "spec": spec, "status": {"initContainerStatuses": [{"name": "side", "state": state}]}}

    errors = ErrorList()
    validate_pod_status_update(errors, with_state({"running": {}}), with_state({"terminated": {"exitCode": exit_code}}))
    assert (not errors) is restarts
